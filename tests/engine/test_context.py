"""Programs never change: what runs cache is in their context, and stays in the process."""

from __future__ import annotations

import pickle

import pyarrow as pa

from motet.compile import compile_workload
from motet.engine.context import RunContext
from motet.engine.live import Stream
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema

EVENTS = pa.table({"time": [1, 2, 3], "type": ["A", "B", "B"], "k": ["p", "p", "q"], "x": [1.0, 2.0, 3.0]})
PROGRAM = compile_workload(
    parse(
        """
        QUERY totals RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 4 s SLIDE 2 s
        QUERY matches RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 4 s
        """
    ),
    EventSchema(EVENTS.schema),
    Options(mode="append"),
)


def test_a_context_is_pickled_without_its_caches() -> None:
    stream = Stream(PROGRAM)
    stream.feed(EVENTS, 0)
    stream.finish()
    unpickled = pickle.loads(pickle.dumps(stream.context))
    assert unpickled == RunContext(unpickled.program)
    assert unpickled.program.workload == PROGRAM.workload
    assert stream.context != RunContext(PROGRAM), "the run has filled its caches"


def test_runs_of_one_program_leave_each_other_alone() -> None:
    first, second = Stream(PROGRAM), Stream(PROGRAM)
    first.feed(EVENTS, 0)
    expected = first.finish().results
    assert second.context == Stream(PROGRAM).context
    second.feed(EVENTS, 0)
    assert len(expected) > 0
    assert second.finish().results == expected
