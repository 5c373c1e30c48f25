"""A row on which something cannot be computed never ends a stream, whatever the strategy; sums are exact or null."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import motet
from motet.engine.live.workload import LiveWorkload
from motet.options import Options
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.outcomes import run_for_outcome

# A query for each way in which totals or matches are kept, with the options that make it run in this way.
STRATEGIES: dict[str, tuple[str, dict[str, Any]]] = {
    "panes": ("PATTERN SEQ(A a+, B b) {} GROUP BY k WITHIN 20 s SLIDE 10 s", {"windows": "panes"}),
    "pairs": ("PATTERN SEQ(A a+, B b) {} GROUP BY k WITHIN 20 s SLIDE 10 s", {"windows": "pairs"}),
    "stacks": ("PATTERN SEQ(A a+, B b) {} GROUP BY k WITHIN 20 s SLIDE 10 s", {"windows": "stacks"}),
    "combined": ("PATTERN SEQ(A a, B b) {} WHERE_ [k] WITHIN 20 s SLIDE 10 s", {}),
    "continuous": ("PATTERN SEQ(A a, B b) {} GROUP BY k WITHIN 20 s", {}),
    "swept": ("PATTERN SEQ(A a, B b) {} WHERE_ [k] WITHIN 20 s", {}),
    "counted": ("PATTERN SEQ(A a, B b) {} GROUP BY k WITHIN 5 EVENTS", {}),
    "trends": ("PATTERN SEQ(A a+, B b) {} WHERE_ a.n < NEXT(a).n GROUP BY k WITHIN 20 s SLIDE 10 s", {}),
    "detected": ("PATTERN SEQ(A a+, B b) {} WHERE_ COUNT(a) > 0 GROUP BY k WITHIN 20 s SLIDE 10 s", {}),
}
LARGE = {"2^53": 2**53, "2^53 + 1": 2**53 + 1, "-2^53": -(2**53), "2^63 - 1": 2**63 - 1, "-2^63": -(2**63)}


def write_query(returns: str, strategy: str, condition: str = "") -> tuple[str, dict[str, Any]]:
    form, options = STRATEGIES[strategy]
    where = f"WHERE {condition}" if condition else ""
    form = form.replace("{} WHERE_", f"{where} AND" if condition else "WHERE").replace("{}", where)
    return f"QUERY q RETURN {returns} {form}", options


def make_events(values: list[int], first: int = 0, kind: pa.DataType | None = None) -> pa.Table:
    """A, A and B in turn, three seconds apart, with these values of x; n rises."""
    count = len(values)
    return pa.table(
        {
            "time": [3 * at for at in range(first, first + count)],
            "type": ["AAB"[at % 3] for at in range(first, first + count)],
            "k": pa.array([1] * count),
            "n": pa.array(range(first, first + count), pa.int64()),
            "x": pa.array(values, kind or pa.int64()),
        }
    )


def start_live(events: pa.Table, query: str, options: dict[str, Any]) -> LiveWorkload:
    return LiveWorkload(motet.parse(query), EventSchema(events.schema, "time", "type", "s"), Options(**options))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_sums_of_whole_numbers_are_exact_or_null_and_counted(strategy: str, large: int) -> None:
    query, options = write_query("COUNT(*), SUM(a.x), AVG(a.x)", strategy)
    table = make_events([1, large, 2, 3, 4, 5])
    outcome = run_for_outcome(table, query, Options(**options))
    expected = motet.run(table, query, engine="oracle")
    assert_same_results(outcome.table, expected)
    nulls = expected.column("SUM(a.x)").null_count
    assert 0 < nulls == outcome.overflows
    rough, exact = (
        sorted(motet.run(table, query, counts="double", **each).column("SUM(a.x)").to_pylist())
        for each in (options, {"engine": "oracle"})
    )
    assert rough == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_stream_goes_on_after_a_sum_that_is_too_large(strategy: str) -> None:
    query, options = write_query("COUNT(*), SUM(a.x), AVG(a.x)", strategy)
    events = make_events([1, 2**53 + 1, 2] + [3] * 60)
    live = start_live(events, query, options)
    parts = [live.feed(events.slice(at, 3), watermark=3 * at) for at in range(0, len(events), 3)]
    found = pa.concat_tables([*parts, live.finish()])
    assert_same_results(found, motet.run(events, query, engine="oracle"))
    assert 0 < found.column("SUM(a.x)").null_count < len(found)
    assert live.overflows == found.column("SUM(a.x)").null_count


BAD = {
    "a condition": ("COUNT(*)", "a.x + 1 > 0", pa.int64(), 2**63 - 1),
    "a product": ("COUNT(*)", "a.x * a.x > 0", pa.int64(), 2**40),
    "a maximum": ("MAX(a.x), SUM(a.n)", "", pa.int64(), -(2**63)),
    "a minimum": ("MIN(a.x), SUM(a.n)", "", pa.uint64(), 2**64 - 1),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("bad", BAD)
def test_a_row_that_cannot_be_computed_with_is_set_aside_and_counted(strategy: str, bad: str) -> None:
    returns, condition, kind, value = BAD[bad]
    if strategy == "detected" and not condition:
        pytest.skip("matches compare whole numbers of any sign")
    query, options = write_query(returns, strategy, condition)
    if strategy not in ("combined", "swept", "detected"):  # beside it a query that runs with it, and sees no row twice
        query += "\nQUERY beside RETURN COUNT(*), SUM(b.n) PATTERN SEQ(A, B b) GROUP BY k WITHIN 30 s SLIDE 15 s"
    events = make_events([5, 6, 7, value, 9] + [3] * 40, kind=kind)
    good = pa.concat_tables([events.slice(0, 3), events.slice(4)])
    live = start_live(events, query, options)
    parts = [live.feed(events.slice(at, 5), watermark=3 * at) for at in range(0, len(events), 5)]
    assert_same_results(pa.concat_tables([*parts, live.finish()]), motet.run(good, query, engine="oracle"))
    assert live.invalid_rows == 1


HAVING = "QUERY q RETURN COUNT(*) AS n PATTERN SEQ(A, B) GROUP BY k WITHIN 20 s SLIDE 10 s HAVING n + {} > {}"


def test_a_having_that_leaves_64_bits_does_not_end_a_stream() -> None:
    """In a batch it is an error; the results of a stream are compared as doubles, where whole numbers do not do."""
    events = make_events([1] * 30)
    query = HAVING.format(2**63 - 3, 5)
    with pytest.raises(motet.errors.DataError, match="does not fit in a whole number of 64 bits"):
        motet.run(events, query)
    live = start_live(events, query, {"mode": "append"})
    parts = [live.feed(events.slice(at, 3), watermark=3 * at) for at in range(0, len(events), 3)]
    found = pa.concat_tables([*parts, live.finish()])
    assert_same_results(found, motet.run(events, HAVING.format(1, 1), engine="oracle"))
    assert len(found) > 5


LARGE_DECIMAL = Decimal(2**60 + 1)
COMPUTED = {
    "a sum": "RETURN SUM(a.d) PATTERN SEQ(A a, B) WITHIN 20 s SLIDE 10 s",
    "a maximum": "RETURN MAX(a.d) PATTERN SEQ(A a, B) WITHIN 20 s SLIDE 10 s",
    "a group": "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY d WITHIN 20 s SLIDE 10 s",
    "a key of matches": "RETURN * PATTERN SEQ(A a, B b) WHERE [d] WITHIN 20 s",
    "a condition": "RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE a.d > 1 WITHIN 20 s SLIDE 10 s",
    "a condition between events": "RETURN * PATTERN SEQ(A a, B b) WHERE a.d >= b.d WITHIN 20 s",
    "a computed value": "RETURN a.d + 1 AS value PATTERN SEQ(A a, B) WITHIN 20 s",
    "a field": "RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE a.nested.d > 1 WITHIN 20 s SLIDE 10 s",
}


def make_decimals(count: int, large_at: int) -> pa.Table:
    """Events whose decimal is 2, but for one that doubles do not hold."""
    values = [LARGE_DECIMAL if at == large_at else Decimal(2) for at in range(count)]
    events = make_events([1] * count).append_column("d", pa.array(values, pa.decimal128(38, 2)))
    nested = pa.StructArray.from_arrays([events["d"].combine_chunks()], ["d"])
    return events.append_column("nested", nested)


@pytest.mark.parametrize("use", COMPUTED)
def test_a_decimal_that_doubles_do_not_hold_is_refused_and_set_aside_in_a_stream(use: str) -> None:
    events, query = make_decimals(24, 7), f"QUERY q {COMPUTED[use]}"
    for engine in ("local", "oracle"):
        with pytest.raises(motet.errors.DataError, match="beyond 2\\^53"):
            motet.run(events, query, engine=engine)  # type: ignore[call-overload]
    live = motet.live(events, query, watermark="5 s")
    found = pa.concat_tables([*(live.feed(events.slice(at, 4)) for at in range(0, len(events), 4)), live.finish()])
    good = pa.concat_tables([events.slice(0, 7), events.slice(8)])
    assert_same_results(found, motet.run(good, query))
    assert live.invalid_rows == 1


@pytest.mark.parametrize("returns", ["a.d AS value", "a.d AS value, a.x + 1 AS more", "a"])
def test_a_decimal_that_is_returned_as_it_is_keeps_its_digits(returns: str) -> None:
    events = make_decimals(6, 1)
    query = f"QUERY q RETURN {returns} PATTERN SEQ(A a, B) WITHIN 20 s"
    found = motet.run(events, query)
    values = [row["value"] if "value" in row else row["a"]["d"] for row in found.to_pylist()]
    assert LARGE_DECIMAL in values
    assert_same_results(found, motet.run(events, query, engine="oracle"))
    live = motet.live(events, query)
    assert_same_results(pa.concat_tables([live.feed(events), live.finish()]), found)
    assert live.invalid_rows == 0
