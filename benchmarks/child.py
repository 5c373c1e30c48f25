"""The process of one experiment: `python -m benchmarks.child NAME SIZE REPEATS ANSWER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

from benchmarks.registry import Setting, Size
from benchmarks.run import run_in_child


def main() -> None:
    """Run, and write the answer where the parent looks for it."""
    name, size, repeats, answer = sys.argv[1:]
    found = run_in_child(name, Setting(cast(Size, size), int(repeats)))
    Path(answer).write_text(json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
