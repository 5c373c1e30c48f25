"""A workload that runs on in process: its plan follows the rates, and moves only where that pays."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import motet
from motet.compile import compile_workload
from motet.engine.live import LiveWorkload
from motet.engine.replan import query_groups
from motet.errors import DataError, MotetError, QueryError
from motet.plans.sharing import Grouping
from motet.statistics.model import Statistics
from tests.comparison import assert_same_results

SCHEMA = pa.schema({"time": pa.int64(), "type": pa.string()})
SHORT = "\n".join(f"QUERY short{i} RETURN COUNT(*) PATTERN SEQ(A, B{i}) WITHIN 4 s SLIDE 1 s" for i in range(3))
LONG = "\n".join(f"QUERY long{i} RETURN COUNT(*) PATTERN SEQ(A, C{i}) WITHIN 20 s SLIDE 1 s" for i in range(3))
# Beginnings are shared, which all pay for at the widest window: best if what they have in common is frequent.
COMMON = {"A": 100.0, "B0": 1.0, "B1": 1.0, "B2": 1.0, "C0": 1.0, "C1": 1.0, "C2": 1.0}
APART = {"A": 1.0, "B0": 100.0, "B1": 100.0, "B2": 100.0, "C0": 1.0, "C1": 1.0, "C2": 1.0}
STEP = 10


def events(begin: int, rates: Mapping[str, float]) -> pa.Table:
    """Ten seconds of a stream, to the millisecond."""
    rng = np.random.default_rng(begin)
    sizes = {name: int(rng.poisson(rate * STEP)) for name, rate in rates.items()}
    times = [
        (int(rng.integers(0, STEP * 1000)) + begin * 1000, name) for name, size in sizes.items() for _ in range(size)
    ]
    return pa.table(list(zip(*sorted(times), strict=True)), schema=SCHEMA)


def running(
    optimizer: str = "auto", horizon: timedelta = timedelta(days=1), threshold: float | None = 0.5
) -> LiveWorkload:
    return motet.live(
        SCHEMA,
        f"{SHORT}\n{LONG}",
        time_unit="ms",
        optimizer=optimizer,
        watermark="1 s",
        horizon=horizon,
        replan=threshold,
    )


def reversed_in_mid_stream() -> list[pa.Table]:
    return [events(begin, APART if begin < 100 else COMMON) for begin in range(0, 200, STEP)]


def executed_as_planned(live: LiveWorkload) -> set[str]:
    """The signatures of what was executed, which are those of the units that were planned."""
    executed = {each.signature for each in live.executed}
    assert executed == {unit.planned.signature for branch in live.program.branches for unit in branch.units}
    return executed


def test_a_stream_says_what_it_executed() -> None:
    rows = pa.table({"time": [1, 2, 3], "type": ["A", "B", "C"], "k": [1, 1, 1], "x": [1, 2, 3]})
    live = motet.live(
        rows.schema,
        """
        QUERY one RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 4 s SLIDE 2 s
        QUERY two RETURN COUNT(*) PATTERN SEQ(A, B, C) GROUP BY k WITHIN 4 s SLIDE 2 s
        QUERY now RETURN COUNT(*) PATTERN SEQ(A, C) GROUP BY k WITHIN 4 s
        QUERY rising RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE a.x < b.x GROUP BY k WITHIN 4 s SLIDE 4 s
        QUERY fed RETURN * PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 4 s
        QUERY again RETURN * PATTERN SEQ(A a, B b) WHERE [k] WITHIN 4 s SLIDE 4 s AFTER MATCH SKIP PAST LAST EVENT
        QUERY idle RETURN COUNT(*) PATTERN SEQ(D, E) GROUP BY k WITHIN 3 s  -- has no events
        """,
    )
    assert live.executed == []
    live.feed(rows)
    live.finish()
    ran = {each.queries: each for each in live.executed}
    assert {queries: each.strategy for queries, each in ran.items()} == {
        ("one", "two"): "panes",
        ("now",): "stacks",
        ("rising",): "trends",
        ("fed",): "joins",
        ("again",): "joins",  # its windows are searched
    }
    assert [each.part for each in ran["one", "two"].shared] == ["A, B"]


@pytest.mark.parametrize("optimizer", ["auto", "gloria"])
def test_rates_that_turn_round_in_mid_stream_lead_to_another_plan(optimizer: str) -> None:
    live = running(optimizer)
    tables = reversed_in_mid_stream()
    found = [live.feed(table) for table in tables[:10]]
    apart = query_groups(live.program)
    ran_apart = executed_as_planned(live)
    assert [change.adopted for change in live.changes] == [True]
    assert frozenset({"short0", "long0"}) not in {frozenset(names) for names in apart if len(names) > 1}
    found += [live.feed(table) for table in tables[10:]]
    drifted = [change for change in live.changes if change.reason.startswith("rates have drifted")]
    assert any(change.adopted for change in drifted)
    assert all(change.adopted == (change.saved > change.cost) for change in drifted)
    assert query_groups(live.program) == {frozenset(query.name for query in live.queries)}
    assert executed_as_planned(live) != ran_apart
    found.append(live.finish())
    whole = motet.run(pa.concat_tables(tables), f"{SHORT}\n{LONG}", time_unit="ms")
    assert_same_results(pa.concat_tables(found), whole)
    assert live.late == 0


def test_a_plan_stays_where_moving_costs_more_than_it_saves() -> None:
    live = running(horizon=timedelta(seconds=1))
    before = query_groups(live.program)
    for table in reversed_in_mid_stream():
        live.feed(table)
    assert len(live.changes) > 1
    assert not any(change.adopted for change in live.changes)
    assert any(change.saved > 0 for change in live.changes)
    assert query_groups(live.program) == before
    assert "the plan stays" in str(live.changes[-1])


def test_nothing_is_looked_at_where_nobody_asked_for_it() -> None:
    live = running(threshold=None)
    for table in reversed_in_mid_stream():
        live.feed(table)
    assert live.changes == []


def test_steady_rates_leave_the_plan_alone() -> None:
    live = running()
    for begin in range(0, 200, STEP):
        live.feed(events(begin, COMMON))
    assert [change.reason for change in live.changes] == ["rates are known now"]
    assert live.statistics.rates["A"] == pytest.approx(100.0, rel=0.1)


@pytest.mark.parametrize(
    ("windows", "ran"), [("auto", "panes"), ("panes", "panes"), ("pairs", "pairs"), ("stacks", "stacks")]
)
def test_queries_come_and_go(windows: str, ran: str) -> None:
    live = motet.live(SCHEMA, SHORT, time_unit="ms", windows=windows)
    tables = [events(begin, COMMON) for begin in range(0, 60, STEP)]
    found = [live.feed(table) for table in tables[:3]]
    live.add(motet.parse(LONG))
    found += [live.feed(table) for table in tables[3:5]]
    live.remove(["short1"])
    found += [live.feed(table) for table in tables[5:]]
    assert [query.name for query in live.queries] == ["short0", "short2", "long0", "long1", "long2"]
    assert [change.reason for change in live.changes][-2:] == ["3 added", "1 removed"]
    assert {each.strategy for each in live.executed} == {ran}
    rows = [*(row for table in found for row in table.to_pylist()), *live.finish().to_pylist()]
    expected = motet.run(pa.concat_tables(tables), f"{SHORT}\n{LONG}", time_unit="ms").to_pylist()
    assert all(row in expected for row in rows)
    for name, begins, ends in (("short0", -9, 99), ("short1", -9, 50), ("long0", 30, 99)):
        reported = {row["window_start"] for row in rows if row["query"] == name}
        wanted = [row for row in expected if row["query"] == name]
        assert reported == {
            row["window_start"]
            for row in wanted
            if row["window_start"] >= begins * 1000 and row["window_end"] < ends * 1000
        }


@pytest.mark.parametrize("optimizer", ["auto", "sharon", "none"])
def test_pairs_share_parts_in_the_middle_on_streams_too(optimizer: str) -> None:
    text = "".join(
        f"QUERY {name} RETURN COUNT(*) PATTERN SEQ({first}, A, B2, {last}) WITHIN 4 s SLIDE 1 s\n"
        for name, first, last in (("one", "B0", "C0"), ("other", "B1", "C1"))
    )
    tables, known = [events(begin, COMMON) for begin in range(0, 60, STEP)], Statistics(given=COMMON)
    live = motet.live(SCHEMA, text, time_unit="ms", windows="pairs", optimizer=optimizer, statistics=known)
    found = [live.feed(table) for table in tables]
    shared = {part.part for each in live.executed for part in each.shared}
    assert shared == (set() if optimizer == "none" else {"A, B2"})
    found.append(live.finish())
    assert_same_results(pa.concat_tables(found), motet.run(pa.concat_tables(tables), text, time_unit="ms"))


@pytest.mark.parametrize("windows", ["auto", "panes", "pairs", "stacks"])
def test_windows_of_events_go_on_from_feed_to_feed(windows: str) -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 3 EVENTS"
    rows = pa.table({"time": list(range(24)), "type": list("ABCAABCB") * 3, "k": [0, 1, 1] * 8})
    live = motet.live(rows.schema, text, windows=windows)
    found = [*(live.feed(rows.slice(at, 5)) for at in range(0, 24, 5)), live.finish()]
    assert_same_results(pa.concat_tables(found), motet.run(rows, text))


def test_keys_are_counted_however_their_totals_are_kept() -> None:
    rows = pa.table({"time": [1, 2, 3], "type": ["A", "A", "B"], "k": [1, 2, 2]})
    for window in ("4 s SLIDE 4 s", "4 s", "4 EVENTS"):
        live = motet.live(rows.schema, f"RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN {window}", replan=None)
        live.feed(rows)
        assert live.statistics.partitionings == {"k": 2}, window


def test_what_is_wrong_is_said() -> None:
    live = motet.live(SCHEMA, SHORT, time_unit="ms")
    with pytest.raises(MotetError, match="a query 'short0' already"):
        live.add(motet.parse(SHORT))
    with pytest.raises(QueryError, match="nowhere"):
        live.add(motet.parse("QUERY odd RETURN COUNT(*) PATTERN A WHERE A.nowhere > 1 WITHIN 1 s"))
    with pytest.raises(MotetError, match="no query 'shorts'; did you mean"):
        live.remove(["shorts"])
    with pytest.raises(MotetError, match="last queries"):
        live.remove(query.name for query in live.queries)
    with pytest.raises(DataError, match="a whole number"):
        live.feed(SCHEMA.empty_table(), datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(MotetError, match="replan is 2"):
        motet.live(SCHEMA, SHORT, replan=2)
    assert len(live.queries) == 3


def test_a_plan_that_is_given_is_run_whatever_the_optimizer() -> None:
    for optimizer in ("auto", "gloria", "prefix"):
        program = running(optimizer).program
        apart = Grouping(tuple(enumerate(range(6))))
        given = compile_workload(program.workload, program.schema, program.options, sharing=apart)
        assert len(query_groups(given)) == 6
    assert query_groups(running("prefix").program) == {frozenset(query.name for query in program.workload.queries)}


def test_watermarks_are_moments_of_the_time_column() -> None:
    at = [datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC) for second in (1, 2, 12)]
    table = pa.table({"time": pa.array(at, pa.timestamp("us", tz="UTC")), "type": ["A", "B", "A"]})
    live = motet.live(table, "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s")
    assert len(live.feed(table, at[0])) == 0
    assert len(live.feed(table.slice(0, 0), datetime(2026, 1, 1, 12, 0, 9, 999_999))) == 0
    assert live.feed(table.slice(0, 0), datetime(2026, 1, 1, 12, 0, 10))["COUNT(*)"].to_pylist() == [1]


def test_whatever_arrow_makes_a_table_of_is_fed() -> None:
    table = events(0, COMMON)
    live, other = (motet.live(SCHEMA, SHORT, time_unit="ms") for _ in range(2))
    found = pa.concat_tables([live.feed(table.to_batches()[0]), live.finish()])
    assert found.equals(pa.concat_tables([other.feed(table), other.finish()]))
