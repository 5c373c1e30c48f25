"""Put results into a page: whatever stands between `<!-- bench NAME -->` and `<!-- /bench -->` is replaced. Charts that
the page of conclusions shows are drawn from its tables into the folder `images` beside it.

python -m benchmarks.page FOLDER PAGE    # FOLDER: what `motet bench all --json FOLDER` wrote
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from benchmarks.figures import draw_conclusions
from benchmarks.run import Result
from benchmarks.show import to_markdown

PLACE = re.compile(r"(?P<open><!-- bench (?P<name>[\w-]+) -->\n)(?P<old>.*?)(?P<close><!-- /bench -->)", re.DOTALL)


def fill_page(page: str, results: dict[str, Result]) -> str:
    """Replace every placeholder of a page whose result is known; the others stay as they are."""

    def put(found: re.Match[str]) -> str:
        result = results.get(found["name"])
        return found[0] if result is None else f"{found['open']}{to_markdown(result)}\n{found['close']}"

    return PLACE.sub(put, page)


def read_results(folder: Path) -> dict[str, Result]:
    """Return all results of a folder by name."""
    read = (Result.from_json(json.loads(file.read_text())) for file in sorted(folder.glob("*.json")))
    return {result.name: result for result in read}


def main() -> None:
    """Fill the page, and draw the charts."""
    folder, page = map(Path, sys.argv[1:])
    results = read_results(folder)
    page.write_text(fill_page(page.read_text(), results))
    list(draw_conclusions(page.parent))


if __name__ == "__main__":
    main()
