"""What a stream keeps: as much as is live, in pieces as large as what changed."""

from __future__ import annotations

import pyarrow as pa

from motet.compile import compile_workload
from motet.engine.context import RunContext
from motet.engine.live import BranchOperator, SavedState, create_operator, restore, save, save_feed
from motet.kernels.tables import MIN_TIME
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema

SECOND = 1_000_000
COLUMNS = pa.schema([("time", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])
PAIRS = "QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 20 s SLIDE 10 s"
MOVING = "QUERY moving RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 20 s"


def branch(text: str) -> BranchOperator:
    program = compile_workload(parse(text), EventSchema(COLUMNS), Options(mode="append"))
    assert len(program.all_branches) == 1
    return create_operator(RunContext(program), 0)


def events(rows: list[tuple[int, str, int]], x: int = 1) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    return pa.table([*columns, [x] * len(rows)], schema=COLUMNS)


def test_idle_keys_are_evicted() -> None:
    for text in (PAIRS, MOVING, "QUERY gone RETURN COUNT(*) PATTERN SEQ(A, NOT B) GROUP BY k WITHIN 20 s"):
        live = branch(text)
        live.feed(events([(1, "A", key) for key in range(1000)]), int(MIN_TIME))
        live.feed(events([]), 5 * SECOND)
        full = len(save(live).to_bytes())
        live.feed(events([]), 100 * SECOND)
        assert live.keys.count == 0
        assert len(live.rows) == 0
        assert live.wake is None
        assert len(save(live).to_bytes()) < full / 10


def test_rows_of_types_that_nobody_asks_for_are_not_kept() -> None:
    live = branch(PAIRS)
    live.feed(events([(1, "Z", 1), (2, "A", 1)]), int(MIN_TIME))
    assert live.num_buffered_rows == 1


def test_what_is_written_follows_the_active_keys() -> None:
    live = branch(PAIRS)
    live.feed(events([(1, "A", key) for key in range(10_000)]), int(MIN_TIME))
    live.feed(events([]), 5 * SECOND)
    whole = save(live).to_bytes()
    resumed = branch(PAIRS)
    restore(resumed, SavedState.from_bytes(whole))
    resumed.feed(events([(6, "B", key) for key in range(5)]), 5 * SECOND)
    assert len(save_feed(resumed).to_bytes()) < len(whole) / 50


def test_the_next_report_wakes_it() -> None:
    live = branch(PAIRS)
    live.feed(events([(1, "A", 1), (3, "B", 1)]), int(MIN_TIME))
    assert live.wake == SECOND + 1  # the first row waits
    live.feed(events([]), 5 * SECOND)
    assert live.wake == 10 * SECOND  # the window from -10 s on
    assert len(live.feed(events([]), 10 * SECOND).results) == 1
    assert live.wake == 20 * SECOND
    assert len(live.feed(events([]), 20 * SECOND).results) == 1
    assert live.wake is None


def test_rows_of_an_idle_branch_are_forgotten_in_time() -> None:
    live = branch(MOVING)
    live.feed(events([(1, "A", 1), (3, "A", 1)]), int(MIN_TIME))
    live.feed(events([]), 5 * SECOND)
    assert live.wake == 23 * SECOND + 1
    live.feed(events([]), 24 * SECOND)
    assert len(live.rows) == 0


def test_a_row_that_cannot_be_computed_with_is_set_aside() -> None:
    rising = "QUERY rising RETURN COUNT(*) PATTERN A a+ WHERE a.x * a.x < NEXT(a).x GROUP BY k WITHIN 20 s SLIDE 20 s"
    live = branch(rising)
    too_large = events([(2, "A", 1)], x=2**40)
    live.feed(pa.concat_tables([events([(1, "A", 1)]), too_large, events([(3, "A", 1)], x=9)]), int(MIN_TIME))
    fed = live.feed(events([]), 30 * SECOND)
    assert fed.invalid_rows == 1
    assert fed.results["COUNT(*)"].to_pylist() == [3]


def test_late_rows_take_no_part() -> None:
    live = branch(PAIRS)
    live.feed(events([(1, "A", 1)]), 0)
    fed = live.feed(events([(2, "B", 1), (8, "B", 1)]), 5 * SECOND)
    assert fed.late["time"].to_pylist() == [2]
    assert [row["COUNT(*)"] for row in live.feed(events([]), 50 * SECOND).results.to_pylist()] == [1, 1]
