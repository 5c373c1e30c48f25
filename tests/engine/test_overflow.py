"""Counts beyond 64 bits: NULL and counted, or a double; every other aggregate stays right."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import motet
from motet.engine.local import Outcome
from motet.options import Options
from tests.outcomes import run_for_outcome

WINDOWS = {"whole": "", "sliding": "WITHIN 100000 s SLIDE 100000 s", "continuous": "WITHIN 100000 s"}


def rising(events: int) -> pa.Table:
    return pa.table({"time": list(range(events)), "type": ["A"] * events, "x": [float(at) for at in range(events)]})


def last_row(outcome: Outcome) -> dict[str, object]:
    return outcome.table.to_pylist()[-1]


@pytest.mark.parametrize("windows", ["panes", "pairs", "stacks"])
@pytest.mark.parametrize("window", WINDOWS)
def test_the_largest_count_fits_and_the_next_does_not(window: str, windows: str) -> None:
    # A+ over n events has 2**n - 1 matches.
    query = f"RETURN COUNT(*) PATTERN A+ {WINDOWS[window]}"
    settings = Options(windows=windows)
    fits = run_for_outcome(rising(63), query, settings)
    assert last_row(fits)["COUNT(*)"] == 2**63 - 1
    assert fits.overflows == 0
    over = run_for_outcome(rising(64), query, settings)
    assert last_row(over)["COUNT(*)"] is None
    assert over.overflows == 1


@pytest.mark.parametrize("events", [64, 65, 130, 1200, 3000])
@pytest.mark.parametrize("window", WINDOWS)
def test_other_aggregates_stay_right_whatever_the_count(window: str, events: int) -> None:
    query = f"RETURN COUNT(*), AVG(A.x), MIN(A.x), MAX(A.x), STDDEV(A.x), COUNT(A) PATTERN A+ {WINDOWS[window]}"
    row = last_row(run_for_outcome(rising(events), query))
    assert row["COUNT(*)"] is None
    assert row["COUNT(A)"] is None
    # Every event is in half of the matches, so the values are those of the events themselves.
    assert row["AVG(A.x)"] == pytest.approx((events - 1) / 2, rel=1e-9)
    assert (row["MIN(A.x)"], row["MAX(A.x)"]) == (0.0, events - 1.0)
    assert row["STDDEV(A.x)"] == pytest.approx(math.sqrt((events**2 - 1) / 12), rel=1e-6)


def test_a_sum_within_doubles_is_right_though_its_count_is_not_a_bigint() -> None:
    row = last_row(run_for_outcome(rising(100), "RETURN SUM(A.x) PATTERN A+"))
    assert row["SUM(A.x)"] == pytest.approx(sum(range(100)) * 2**99, rel=1e-12)


@pytest.mark.parametrize("windows", ["panes", "pairs", "stacks"])
@pytest.mark.parametrize("events", [70, 300, 478, 479, 480, 481, 482, 500, 965, 1200])
@pytest.mark.parametrize("scale", [1.0, -1e140, 1e150])
def test_sums_are_right_where_totals_need_exponents_and_where_they_do_not(
    windows: str, events: int, scale: float
) -> None:
    """A mantissa gets an exponent from 2^480 on, after as many events or after fewer of larger values."""
    table = rising(events).set_column(2, "x", pa.array([scale * (at - 10) for at in range(events)]))
    query = f"RETURN COUNT(*), SUM(A.x), AVG(A.x), COUNT(A) PATTERN A+ {WINDOWS['sliding']}"
    row = last_row(run_for_outcome(table, query, Options(windows=windows, counts="double")))
    mean = scale * ((events - 1) / 2 - 10)
    assert row["AVG(A.x)"] == pytest.approx(mean, rel=1e-9)
    if events < 1000:
        assert row["COUNT(*)"] == pytest.approx(2.0**events, rel=1e-9)
        assert row["COUNT(A)"] == pytest.approx(events * 2.0 ** (events - 1), rel=1e-9)
    total = mean * events * 2.0 ** min(events - 1, 1023)
    assert row["SUM(A.x)"] == (total if math.isinf(total) else pytest.approx(total, rel=1e-9))


def test_counts_may_be_doubles() -> None:
    outcome = run_for_outcome(rising(100), "RETURN COUNT(*), COUNT(A) PATTERN A+", Options(counts="double"))
    row = last_row(outcome)
    assert row["COUNT(*)"] == pytest.approx(2.0**100, rel=1e-12)
    assert row["COUNT(A)"] == pytest.approx(100 * 2.0**99, rel=1e-12)
    assert outcome.overflows == 0


def test_one_overflowing_key_leaves_the_others_exact() -> None:
    table = pa.concat_tables(
        [rising(70).append_column("k", pa.array(["many"] * 70)), rising(3).append_column("k", pa.array(["few"] * 3))]
    )
    rows = motet.run(table, "RETURN COUNT(*) PATTERN A+ GROUP BY k").to_pylist()
    assert {row["k"]: row["COUNT(*)"] for row in rows} == {"many": None, "few": 7}


def test_partitions_that_fit_may_overflow_together() -> None:
    table = pa.concat_tables([rising(63).append_column("k", pa.array([key] * 63)) for key in (1, 2)])
    outcome = run_for_outcome(table, "RETURN COUNT(*) PATTERN A+ WHERE [k]")
    assert last_row(outcome)["COUNT(*)"] is None
    assert outcome.overflows == 1


def test_a_pattern_beside_an_overflowing_one_keeps_its_own_size() -> None:
    # The Bs are few whatever the As come to.
    table = pa.table({"time": list(range(2100)), "type": ["A"] * 2098 + ["B", "C"], "x": [1.0] * 2098 + [5.0, 7.0]})
    row = last_row(run_for_outcome(table, "RETURN COUNT(b), SUM(b.x), COUNT(*) PATTERN OR(A+, SEQ(B b, C))"))
    assert (row["COUNT(b)"], row["SUM(b.x)"], row["COUNT(*)"]) == (1, 5.0, None)


@pytest.mark.parametrize("optimizer", ["auto", "gloria"])
def test_a_hundred_thousand_events_in_one_repetition(optimizer: str) -> None:
    # Every event is in half of all matches, so their mean is that of the events.
    events = 100_000
    query = "RETURN COUNT(*), AVG(a.x), MIN(a.x) PATTERN A a+ WITHIN 100000 s SLIDE 100000 s"
    row = last_row(run_for_outcome(rising(events), query, Options(optimizer=optimizer)))
    assert row["COUNT(*)"] is None
    assert row["AVG(a.x)"] == pytest.approx((events - 1) / 2)
    assert row["MIN(a.x)"] == 0.0
