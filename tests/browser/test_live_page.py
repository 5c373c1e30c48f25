"""The live page of a stream in a browser."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from motet.compile import Program, compile_workload
from motet.errors import DataError
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema
from tests.browser.geometry import find_faults, set_window

pytest.importorskip("pyspark")
By = pytest.importorskip("selenium.webdriver.common.by").By

from motet.spark.monitor import StreamMonitor  # noqa: E402
from motet.spark.status_server import StatusPages, start_server  # noqa: E402

QUERIES = """
QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 min SLIDE 1 min
QUERY more RETURN COUNT(*) PATTERN SEQ(A, B, A) WITHIN 1 min SLIDE 1 min
"""


def progress(minute: int, rows: int, results: int, late: int = 0, long_unit: str = "all") -> dict[str, Any]:
    units = {"pairs": [0.3, 1_500_000], long_unit: [0.1, 500_000]}
    costs = {"bucket": "0", "branch": "all", "keys": 1, "units": units}
    inside = {"late": late, "set_aside": 0, "waiting": 5, "state_bytes": 2000, "units": json.dumps(costs)}
    return {
        "numInputRows": rows,
        "processedRowsPerSecond": rows / 2,
        "durationMs": {"triggerExecution": 700},
        "eventTime": {"watermark": f"2024-01-01T00:{minute:02}:00.000Z"},
        "observedMetrics": {
            "motet": inside,
            "motet_results": {"#counts": json.dumps({"pairs": results})},
            "motet_rows": {"set_aside": 0, "newest": f"2024-01-01T00:{minute + 2:02}:00.000Z"},
        },
    }


def plan() -> Program:
    columns = pa.schema([("time", pa.timestamp("us")), ("type", pa.string())])
    return compile_workload(parse(QUERIES), EventSchema(columns), Options(mode="append"))


@pytest.fixture
def stream() -> Iterator[tuple[StreamMonitor, str]]:
    monitor = StreamMonitor(("pairs", '<i>"odd"</i>'))
    monitor.follow_run(("pairs", '<i>"odd"</i>'), "")
    server = start_server(StatusPages(monitor, "clicks", plan), 0, page=True)
    yield monitor, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.1)


def test_a_stream_is_drawn_as_it_goes(browser: Any, stream: tuple[StreamMonitor, str]) -> None:
    monitor, address = stream
    monitor.run_id = None
    monitor.add(progress(1, 1000, 3))
    browser.get(address)

    def to_json(words: str) -> bool:
        return words in str(browser.find_element(By.TAG_NAME, "body").text)

    until(lambda: to_json("2 queries running"))
    assert to_json("500 /s")
    assert to_json("started with 2 queries")
    assert to_json('<i>"odd"</i>')
    assert not to_json("needs a look")
    monitor.add(progress(2, 4000, 40, late=2))
    until(lambda: to_json("2,000 /s"))
    assert to_json("needs a look")  # late rows are told by words too
    cells = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#results tbody tr:first-child td")]
    assert cells[:2] == ["43", "40"]
    assert cells[3:] == ["75 %", "1.5 MB", "1 query"]  # of its unit, which has another query
    monitor.follow_run(("pairs", "more"), "")
    until(lambda: to_json("added more; removed"))
    assert to_json("(no longer runs)")
    browser.find_element(By.ID, "search").send_keys("pai")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#results tbody tr")) == 1
    browser.find_element(By.ID, "plan").click()
    until(lambda: browser.title == "Plan: clicks")
    assert browser.find_elements(By.CSS_SELECTOR, ".node")


@pytest.mark.parametrize("queries", [1, 13, 100, 500])
def test_many_queries_fit(browser: Any, queries: int) -> None:
    names = tuple(f"a_query_of_some_length_from_{at}_to_{at + 1}" for at in range(queries))
    monitor = StreamMonitor(names)
    monitor.follow_run(names, "")
    monitor.run_id = None
    monitor.add(progress(1, 123_456_789, 3, long_unit="aircraft+origin+destination/aircraft+origin+destination"))
    server = start_server(StatusPages(monitor, "clicks", plan), 0, page=True)
    for width in (1280, 1920):
        set_window(browser, width)
        browser.get(f"http://127.0.0.1:{server.server_port}")
        until(lambda: len(browser.find_elements(By.CSS_SELECTOR, "#results tbody tr")) >= queries)
        assert not find_faults(browser), f"at {width}"
    server.shutdown()
    server.server_close()


def respond(address: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_what_is_answered(stream: tuple[StreamMonitor, str]) -> None:
    monitor, address = stream
    monitor.run_id = None
    monitor.add(progress(1, 10, 3))
    monitor.add(progress(2, 20, 0))
    status, text = respond(f"{address}/status.json?since=1")
    assert status == 200
    assert '"number": 2' in text
    assert '"number": 1,' not in text
    assert respond(f"{address}/status.json?since=x")[0] == 200
    assert "motet_rows_total 30" in respond(f"{address}/metrics")[1]
    assert respond(f"{address}/etc/passwd")[0] == 404
    assert respond(f"{address}/", Host="rebound.example")[0] == 403
    port = int(address.rpartition(":")[2])
    with pytest.raises(DataError, match=f"cannot serve on 127.0.0.1:{port}"):
        start_server(StatusPages(monitor), port)
