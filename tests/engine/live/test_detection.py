"""Queries whose matches are found, over a stream: what is kept, what wakes it, what is set aside, who begins when."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from motet.compile import compile_workload
from motet.engine.context import RunContext
from motet.engine.live import (
    BranchOperator,
    SavedState,
    Stream,
    create_operator,
    restore,
    restore_log,
    save,
    save_feed,
)
from motet.errors import QueryError, RunError
from motet.kernels.tables import MIN_TIME
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema

SECOND = 1_000_000
COLUMNS = pa.schema([("time", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])
RISING = "QUERY rising RETURN a, b PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 10 s"
UNANSWERED = "QUERY unanswered RETURN a PATTERN SEQ(A a, NOT B b) WHERE [k] AND a.x < b.x WITHIN 10 s"


def stream(text: str, **options: Any) -> Stream:
    return Stream(compile_workload(parse(text), EventSchema(COLUMNS), Options(**{"mode": "append", **options})))


def branch(text: str) -> BranchOperator:
    program = compile_workload(parse(text), EventSchema(COLUMNS), Options(mode="append"))
    assert len(program.all_branches) == len(program.detect) == 1
    return create_operator(RunContext(program), 0)


def events(*rows: tuple[int, str, int, int]) -> pa.Table:
    return pa.table(list(zip(*rows, strict=True)) if rows else [[], [], [], []], schema=COLUMNS)


def pairs(results: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(results["start"].to_pylist(), results["end"].to_pylist(), strict=True))


def test_a_match_leaves_once_the_watermark_has_passed_it() -> None:
    live = stream(RISING)
    assert pairs(live.feed(events((5, "B", 1, 7), (1, "A", 1, 3), (2, "A", 2, 3)), int(MIN_TIME)).results) == []
    assert pairs(live.feed(events((4, "A", 1, 9)), 3 * SECOND).results) == []
    assert pairs(live.feed(events(), 5 * SECOND).results) == []  # more may come at this time
    assert pairs(live.feed(events(), 6 * SECOND).results) == [(1, 5)]
    assert pairs(live.finish().results) == []


def test_an_absence_is_answered_when_its_window_ends_with_no_further_event() -> None:
    live = branch(UNANSWERED)
    live.feed(events((1, "A", 1, 3), (2, "A", 2, 3), (4, "B", 2, 9), (4, "B", 1, 1)), int(MIN_TIME))
    live.feed(events(), 5 * SECOND)
    assert live.wake == 11 * SECOND
    assert pairs(live.feed(events(), 11 * SECOND).results) == [(1, 1)]
    assert pairs(live.feed(events(), 30 * SECOND).results) == []


def test_events_are_kept_for_two_windows_and_keys_that_are_idle_are_forgotten() -> None:
    live = branch(RISING)
    live.feed(events(*((1, "A", key, 1) for key in range(1000))), int(MIN_TIME))
    live.feed(events(), 5 * SECOND)
    full = len(save(live).to_bytes())
    assert (len(live.rows), live.wake) == (1000, 21 * SECOND + 1)
    live.feed(events(), 22 * SECOND)
    assert (len(live.rows), live.wake) == (0, None)
    assert len(save(live).to_bytes()) < full / 10


def test_what_is_written_are_the_rows_that_came() -> None:
    live = branch(RISING)
    live.feed(events(*((second, "A", 1, second) for second in range(1, 9))), int(MIN_TIME))
    log = [save(live)]
    for second in range(10, 60, 10):
        resumed = branch(RISING)
        restore_log(resumed, log)
        resumed.feed(events((second, "B", 1, second)), (second - 5) * SECOND)
        change = save_feed(resumed)
        assert change.table("rows")["time"].to_pylist() == [second]
        log.append(change)
    restored = branch(RISING)
    restore_log(restored, log)
    assert restored.rows["time"].to_pylist() == [30, 40, 50]


@pytest.mark.parametrize(
    ("condition", "third", "expected"),
    [
        pytest.param("a.x * b.x > 0", 2**40, [(1, 4), (2, 4)], id="pair"),
        pytest.param("a.x * a.x > 0 AND a.x != b.x", 7, [(1, 3), (1, 4)], id="alone"),
    ],
)
def test_a_row_that_cannot_be_computed_with_is_set_aside_and_the_rest_goes_on(
    condition: str, third: int, expected: list[tuple[int, int]]
) -> None:
    live = stream(f"QUERY q RETURN * PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 10 s")
    live.feed(events((1, "A", 1, 3), (2, "A", 1, 2**40), (3, "B", 1, third), (4, "B", 1, 5)), int(MIN_TIME))
    answer = live.finish()
    assert answer.invalid_rows == 1
    assert pairs(answer.results) == expected


def test_late_rows_take_no_part() -> None:
    live = stream(RISING)
    live.feed(events((1, "A", 1, 1)), 0)
    answer = live.feed(events((2, "B", 1, 5), (8, "B", 1, 5)), 5 * SECOND)
    assert answer.late == 1
    assert pairs(live.finish().results) == [(1, 8)]


def test_a_new_query_reports_from_its_first_whole_window_on() -> None:
    before = stream(RISING)
    before.feed(events((1, "A", 1, 1), (3, "A", 1, 2)), int(MIN_TIME))
    sliding = "QUERY sliding RETURN a, b PATTERN SEQ(A a, B b) WHERE [k] AND a.x <= b.x WITHIN 10 s SLIDE 5 s"
    absent = UNANSWERED.replace("NOT B", "NOT C")
    after = stream(f"{sliding}\n{RISING}\n{absent}")
    after.restore(before.save())
    rows = [(4, "A", 1, 3), (6, "A", 1, 4), (8, "B", 1, 9), (14, "B", 1, 9)]
    after.feed(events(*rows), int(MIN_TIME))
    results = after.finish().results.to_pylist()
    found = {
        name: sorted((r["start"], r["end"]) for r in results if r["query"] == name)
        for name in ("sliding", "rising", "unanswered")
    }
    assert found == {
        "sliding": [(6, 8), (6, 14)],  # the first window that is seen whole begins at 5 s
        "rising": [(1, 8), (3, 8), (4, 8), (6, 8), (6, 14)],  # nothing is lost
        "unanswered": [(4, 4), (6, 6)],
    }


def test_values_of_open_windows_come_early_in_update_mode_and_matches_never() -> None:
    text = "QUERY n RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 20 s SLIDE 20 s\n" + RISING
    live = stream(text, mode="update")
    shown = []
    live.feed(events((1, "A", 1, 1), (2, "B", 1, 2), (3, "A", 2, 1), (8, "B", 2, 2)), int(MIN_TIME))
    for watermark in (5, 10, 20):
        rows = live.feed(events(), watermark * SECOND).results.to_pylist()
        shown.append([(r["query"], r["COUNT(*)"] or (r["start"], r["end"])) for r in rows])
    assert list(map(sorted, shown)) == [
        [("n", 1), ("rising", (1, 2))],
        [("n", 2), ("rising", (3, 8))],
        [("n", 2)],
    ]


def test_a_limit_stops_the_stream_or_cuts_matches_off_and_says_so() -> None:
    rows = events(*((second, "A", 1, 1) for second in range(5)), (6, "B", 1, 9))
    with pytest.raises(RunError, match="query rising: more than 3 matches"):
        feed_all(stream(RISING, match_limit=3), rows)
    live = stream(RISING, match_limit=3, on_limit="truncate")
    answer = feed_all(live, rows)
    assert (len(answer.results), answer.truncated) == (3, {"rising"})


def feed_all(live: Stream, rows: pa.Table) -> Any:
    live.feed(rows, int(MIN_TIME))
    return live.finish()


def test_matches_need_a_window_too() -> None:
    with pytest.raises(QueryError, match="a stream never ends"):
        stream("QUERY q RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x")


def test_other_plans_take_over_the_same_state() -> None:
    first = branch(RISING)
    first.feed(events((1, "A", 1, 1)), int(MIN_TIME))
    program = compile_workload(parse(RISING), EventSchema(COLUMNS), Options(mode="append", optimizer="none"))
    second = create_operator(RunContext(program), 0)
    restore(second, SavedState.from_bytes(save(first).to_bytes()))
    second.feed(events((2, "B", 1, 2)), SECOND)
    assert pairs(second.feed(events(), 3 * SECOND).results) == [(1, 2)]
