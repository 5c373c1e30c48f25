"""Runs by SKIP TILL NEXT and CONTIGUOUS: what they find among many events, and that no window makes them slower."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import motet
from motet.compile import compile_workload
from motet.explain.text import render_plan_text
from motet.schema import EventSchema
from tests.growth import measure_cpu_times

MINUTE = 60_000_000
COLUMNS = pa.schema([("time", pa.int64()), ("type", pa.string()), ("symbol", pa.string()), ("x", pa.float64())])


def random_events(count: int, types: str = "ABCDEFGH", duration: int = 40) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(0, duration * 1_000_000, count)), pa.timestamp("us")),
            "type": rng.choice(list(types), count),
            "x": rng.normal(size=count),
        }
    )


@pytest.mark.parametrize("policy", ["SKIP TILL NEXT", "CONTIGUOUS"])
@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, B b, C c, D d)",
        "SEQ(A a, B b, C c, D d) WHERE a.x < b.x AND a.x < d.x",
        "SEQ(A a, NOT E, B b, C c, D d)",
        "SEQ(AND(A a, B b), C c, D d) WHERE a.x < b.x",
    ],
)
def test_a_longer_window_costs_nothing(pattern: str, policy: str) -> None:
    # Listing what skip-till-any finds would cost 64 times as much in a window of 4 times the length.
    table = random_events(16_000, duration=160)
    queries = [f"RETURN COUNT(*) PATTERN {pattern} WITHIN {seconds} s {policy}" for seconds in (4, 8, 16)]
    short, middle, long = measure_cpu_times(*(partial(motet.run, table, query) for query in queries), rounds=6)
    assert long < 1.5 * short
    assert middle < 1.5 * short


def test_a_run_stops_where_a_condition_on_its_first_event_fails() -> None:
    # Each A is followed by thousands of B, of which the first is already too small.
    def run(count: int) -> None:
        table = pa.table(
            {"time": np.arange(count), "type": ["A", "B"] * (count // 2), "x": np.tile([1.0, 0.0], count // 2)}
        )
        query = "RETURN COUNT(*) PATTERN SEQ(A a, B+ b) WHERE a.x < b.x SKIP TILL NEXT"
        assert motet.run(table, query).num_rows == 0

    few, many = measure_cpu_times(partial(run, 16_000), partial(run, 64_000))
    assert many < 8 * few  # 16 times and more, were all B looked at


def bars(symbols: int, count: int) -> pa.Table:
    """Minute bars of some instruments."""
    rng = np.random.default_rng(2)
    close = np.round(100 + np.cumsum(rng.normal(size=(count, symbols)), axis=0), 1)
    return pa.table(
        {
            "time": pa.array(np.repeat(np.arange(count) * MINUTE, symbols), pa.timestamp("us")),
            "type": pa.array(["bar"] * (count * symbols)),
            "symbol": np.tile([f"s{number}" for number in range(symbols)], count),
            "x": close.ravel(),
        }
    )


def find_valleys(closes: list[float], least: int, most: int) -> Iterator[tuple[int, int]]:
    """First and last of all stretches, of `most` bars at most, that fall for `least` bars or more and then rise so."""
    for first in range(len(closes)):
        last = first
        while last + 1 < len(closes) and closes[last + 1] < closes[last]:
            last += 1
        bottom = last
        if bottom - first + 1 < least:
            continue
        while last + 1 < len(closes) and closes[last + 1] > closes[last]:
            last += 1
            if last - bottom >= least and last - first < most:
                yield first, last


def test_valleys_of_prices_are_those_of_a_plain_loop() -> None:
    table = bars(5, 2_000)
    query = """
        RETURN FIRST(down).x AS top, LAST(up).x AS recovered PATTERN SEQ(bar{3,} down, bar{3,} up)
        WHERE [symbol] AND down.x > NEXT(down).x AND up.x < NEXT(up).x AND LAST(down).x < FIRST(up).x
        WITHIN 10 min CONTIGUOUS
    """
    found = motet.run(table, query)
    wanted = []
    for symbol in range(5):
        closes = table.column("x").to_numpy()[symbol::5].tolist()
        wanted += [(first, last, closes[first], closes[last]) for first, last in find_valleys(closes, 3, 10)]
    rows = zip(
        *(found.column(name).cast(pa.int64()).to_numpy() // MINUTE for name in ("start", "end")),
        *(found.column(name).to_pylist() for name in ("top", "recovered")),
        strict=True,
    )
    assert sorted(rows) == sorted(wanted)
    assert len(wanted) > 100


def test_the_plan_says_what_is_run() -> None:
    query = "RETURN * PATTERN SEQ(A a, B+ b) WHERE a.x < b.x WITHIN 9 s SKIP TILL NEXT"
    shown = render_plan_text(compile_workload(motet.read(query), EventSchema(COLUMNS)))
    assert "by runs" in shown
    assert "SKIP TILL NEXT runs over A, B" in shown


def test_only_contiguous_runs_read_events_of_other_types() -> None:
    query = "RETURN * PATTERN SEQ(A a, NOT N, B+ b) WHERE a.x < b.x WITHIN 9 s {}"
    read = {
        policy: compile_workload(motet.read(query.format(policy)), EventSchema(COLUMNS)).detect[0].types
        for policy in ("SKIP TILL NEXT", "CONTIGUOUS")
    }
    assert read == {"SKIP TILL NEXT": frozenset("ABN"), "CONTIGUOUS": None}
