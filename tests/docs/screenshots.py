"""Make the screenshots of the documentation: pages as Chromium draws them now.

`python -m tests.docs.screenshots` makes all of them, `python -m tests.docs.screenshots plan live` some.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import motet
from motet import datasets
from tests.browser.chromium import start_browser
from tests.browser.conftest import look, opened
from tests.browser.geometry import set_window
from tests.browser.workloads import make_shop_events, write_shop_queries

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
EXAMPLE = ROOT / "examples" / "delays.motet"
WIDTH = 1280
MICRO_BATCHES = 12


def take_plan(browser: Any, folder: Path) -> None:
    """Show the plan of a few queries after a run: a query that is aggregated, and one whose matches are joined."""
    flights = datasets.load("nyc_flights")
    motet.run(flights, EXAMPLE)  # loads the kernels, which is no part of what the page tells
    page = motet.plan(flights, EXAMPLE, analyze=True).to_html()
    set_window(browser, WIDTH, 900)
    opened(browser, page, folder)
    choose_query(browser, "all_the_way_down")
    save(browser, "plan")
    choose_query(browser, "worse_cancelled")
    save(browser, "plan-joins")


def take_plan_of_many(browser: Any, folder: Path) -> None:
    """Show the plan of a hundred queries, with one of them chosen."""
    set_window(browser, WIDTH, 1000)
    events, queries = make_shop_events(3_000), write_shop_queries(100)
    motet.run(events, queries)
    opened(browser, motet.plan(events, queries, analyze=True).to_html(), folder)
    choose_query(browser, "search_to_")
    save(browser, "plan-many")


def save(browser: Any, name: str) -> None:
    """Keep what the browser shows once nothing moves."""
    time.sleep(0.5)
    browser.save_screenshot(str(IMAGES / f"{name}.png"))
    print(f"docs/images/{name}.png")


def choose_query(browser: Any, name: str) -> None:
    """Choose the first query in the list whose name begins so."""
    for button in browser.find_elements("css selector", "#list button"):
        if button.text.startswith(name):
            button.click()
            return
    raise LookupError(f"the page has no query {name}")


def take_live(browser: Any, folder: Path) -> None:
    """Show the page of a stream over the flights, some micro-batches after its start."""
    events, size = folder / "events", 2_000
    events.mkdir()
    flights = datasets.load("nyc_flights")
    for at in range(2 * MICRO_BATCHES):
        file = events / f"{at:03}.parquet"
        pq.write_table(flights.slice(at * size, size), file)
        os.utime(file, (at, at))  # Spark takes the oldest first
    command = [
        sys.executable, "-m", "motet", "stream", str(EXAMPLE), "--option", f"path={events}",
        "--option", "maxFilesPerTrigger=1", "--checkpoint", str(folder / "state"), "--sink", "parquet",
        "--output", str(folder / "results"), "--trigger", "2 s", "--page", "0", "--master", "local[2]",
    ]  # fmt: skip
    log = folder / "log"
    with log.open("w") as out:
        stream = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        address = wait_for(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()), stream, log)[0]
        wait_for(lambda: count_batches(address) >= MICRO_BATCHES, stream, log)
        set_window(browser, WIDTH, 900)
        browser.get(address)
        wait_for(lambda: browser.find_elements("css selector", "#results tbody tr"), stream, log)
        time.sleep(2)  # until its charts are drawn
        save(browser, "live")
    finally:
        stream.terminate()
        stream.wait()


def count_batches(address: str) -> int:
    """Return how many micro-batches a stream reports; none where it no longer answers."""
    try:
        with urllib.request.urlopen(f"{address}/status.json") as answer:
            return int(json.load(answer)["batches"])
    except OSError:
        return 0


def wait_for(find: Callable[[], Any], stream: subprocess.Popen[bytes], log: Path, seconds: float = 1800) -> Any:
    """Wait until something is there, as long as the stream runs, and return it."""
    end = time.monotonic() + seconds
    while not (found := find()):
        if stream.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the stream does not come to it:\n{log.read_text()[-2000:]}")
        time.sleep(0.5)
    return found


SHOTS: dict[str, Callable[[Any, Path], None]] = {"plan": take_plan, "plan-many": take_plan_of_many, "live": take_live}


def main(names: list[str]) -> None:
    """Make the screenshots of these names, or all."""
    unknown = sorted(set(names) - set(SHOTS))
    if unknown:
        raise SystemExit(f"no screenshot {', '.join(unknown)}; there are {', '.join(SHOTS)}")
    for name in names or SHOTS:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            browser = start_browser(Path(folder) / "profile", "--hide-scrollbars")
            try:
                look(browser, "light")
                SHOTS[name](browser, Path(folder))
            finally:
                browser.quit()


if __name__ == "__main__":
    main(sys.argv[1:])
