"""Tasks give the same results however a key is cut by time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.compile import Program, compile_workload
from motet.language import parse
from motet.schema import EventSchema
from motet.spark.serialization import CachedPickle, table_to_ipc
from motet.spark.shuffle import ShufflePlan
from motet.spark.skew import Bounds, KeySlice, TaskLayout
from motet.spark.tasks import NOTE, make_branch_task, make_combine_task
from tests.comparison import assert_same_results

QUERIES = {
    "sliding": "QUERY q RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) WITHIN 8 s SLIDE 2 s GROUP BY k",
    "sliding with a trailing NOT": "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B, NOT C) WITHIN 6 s SLIDE 3 s GROUP BY k",
    "continuous": "QUERY q RETURN COUNT(*), MAX(B.x) PATTERN SEQ(A, B) WITHIN 5 s GROUP BY k",
    "continuous with a trailing NOT": "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B, NOT C) WITHIN 5 s GROUP BY k",
    "combined": "QUERY q RETURN COUNT(*), AVG(A.x) PATTERN SEQ(A, B) WHERE [k] WITHIN 8 s SLIDE 4 s",
    "combined and continuous": "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 5 s",
    "one partition": "QUERY q RETURN COUNT(*) PATTERN SEQ(A, NOT C, B) WITHIN 4 s",
}
COLUMNS = pa.schema([("time", pa.int64()), ("type", pa.string()), ("k", pa.string()), ("x", pa.int64())])
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "time": st.integers(0, 40),
            "type": st.sampled_from("ABC"),
            "k": st.sampled_from("pq"),
            "x": st.integers(0, 9),
        }
    ),
    max_size=40,
)


def results(program: Program, parts: Sequence[tuple[pa.Table, Bounds]]) -> pa.Table:
    """What the tasks of a run give for parts of the events."""
    (branch,) = program.branches
    columns = pa.schema([COLUMNS.field(name) for name in branch.columns])
    layout = TaskLayout(1, tuple(KeySlice(0, bounds, 1) for _, bounds in parts))
    plan = ShufflePlan(program.schema, columns, branch.partition, None, False, layout)
    places = [1 + number if bounds != (None, None) else 0 for number, (_, bounds) in enumerate(parts)]
    blobs = [table_to_ipc(part.select(branch.columns)) for part, _ in parts]
    tasks = pa.array([0] * len(parts), pa.int32())
    packed = pa.record_batch([tasks, pa.array(places, pa.int32()), blobs], names=["task", "place", "rows"])
    found = list(make_branch_task(CachedPickle(program), 0, plan)(iter([packed])))
    batches = (batch.filter(batch[NOTE].is_null()).drop_columns([NOTE]) for batch in found)
    if branch.needs_combine:
        batches = make_combine_task(CachedPickle(program), detects=False)(batches)
    return pa.Table.from_batches(batches, program.result_schema)


@pytest.mark.parametrize("name", QUERIES)
@given(rows=EVENTS, cuts=st.sets(st.integers(-5, 50), min_size=1, max_size=4))
def test_cut_anywhere_gives_the_same_results(name: str, rows: list[dict[str, object]], cuts: set[int]) -> None:
    program = compile_workload(parse(QUERIES[name]), EventSchema(COLUMNS))
    overlap = program.branches[0].overlap
    assert overlap is not None
    events = pa.Table.from_pylist(rows, COLUMNS)
    times = pc.multiply(events["time"], 1_000_000)
    parts = []
    for start, end in pairwise([None, *(cut * 1_000_000 for cut in sorted(cuts)), None]):
        after = pc.greater_equal(times, -(2**62) if start is None else start - overlap)
        before = pc.less(times, 2**62 if end is None else end)
        parts.append((events.filter(pc.and_(after, before)), (start, end)))
    assert_same_results(results(program, parts), results(program, [(events, (None, None))]))
