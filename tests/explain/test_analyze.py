"""What a run found is what there was: events by symbol, instances by node, results by query."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import motet
from motet.compile import compile_workload
from motet.engine.local import LocalRun
from motet.engine.metrics import BranchMetrics
from motet.language import parse
from motet.schema import EventSchema
from motet.statistics.model import format_symbol
from tests.chunks import Batches

ROWS = 600
EVENTS = pa.table(
    {
        "time": pa.array([1_000_000 * at for at in range(ROWS)], pa.timestamp("us")),
        "type": [("A", "B", "C", "D")[at * 7 % 4] for at in range(ROWS)],
        "key": [("u", "v", "w")[at % 3] for at in range(ROWS)],
        "x": [float(at * 5 % 11) for at in range(ROWS)],
    }
)
WORKLOAD = """
QUERY sliding RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE [key] AND a.x > 3 WITHIN 20 s SLIDE 10 s
QUERY continuous RETURN COUNT(*) PATTERN SEQ(A, C) WHERE [key] WITHIN 20 s
QUERY pairs RETURN * PATTERN SEQ(A a, B b) WHERE [key] AND a.x < b.x WITHIN 15 s
QUERY triples RETURN * PATTERN SEQ(A a, B b, C c) WHERE [key] AND a.x < b.x WITHIN 15 s
QUERY loops RETURN * PATTERN SEQ(D+ d, A) WHERE [key] WITHIN 15 s
"""


def test_what_was_found_is_what_is_there() -> None:
    plan = motet.plan(EVENTS, WORKLOAD, analyze=True)
    assert plan.analysis is not None
    answer = motet.ask(EVENTS, WORKLOAD)
    assert plan.analysis.rows == ROWS
    assert plan.analysis.results == {name: len(answer[name]) for name in answer.queries}
    rows = EVENTS.to_pylist()
    true = Counter(row["type"] for row in rows)
    true["A[x > 3]"] = sum(row["type"] == "A" and row["x"] > 3 for row in rows)
    for seen in plan.analysis.observed:
        assert {format_symbol(symbol): count for symbol, count in seen.events.items()}.items() <= true.items()
    detected = plan.analysis.observed[-1]
    roots = {each.query.query.name: each.roots[0] for each in detected.planned}
    for name in ("pairs", "triples", "loops"):
        assert detected.instance_counts[roots[name]] >= len(answer[name]) > 0
    assert all(seconds >= 0 for seen in plan.analysis.observed for seconds in seen.seconds.values())


@pytest.mark.parametrize("chunk", [50, 170, ROWS])
def test_chunks_are_counted_once(chunk: int) -> None:
    program = compile_workload(parse(WORKLOAD), EventSchema(EVENTS.schema))
    observed = tuple(BranchMetrics() for _ in program.all_branches)
    run = LocalRun(program, observed=observed)
    for _ in run.run(Batches(EVENTS.to_batches(max_chunksize=25)), chunk_rows=chunk):
        pass
    whole = tuple(BranchMetrics() for _ in program.all_branches)
    for _ in LocalRun(program, observed=whole).run(EVENTS):
        pass
    assert [seen.events for seen in observed] == [seen.events for seen in whole]
    assert [seen.rows for seen in observed] == [seen.rows for seen in whole]
