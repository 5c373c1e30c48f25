"""Rows of experiments say what was executed, and cases that executed the same stand together."""

from __future__ import annotations

import pyarrow as pa

from benchmarks.engine import READING, compare_whole_runs, compile_plans, describe_runs, list_executed, time_programs
from motet.language import parse
from motet.options import Options

TABLE = pa.table({"time": [1, 2, 3, 4], "type": ["A", "B", "C", "D"]})
WORKLOAD = parse(
    """
    QUERY q1 RETURN COUNT(*) PATTERN SEQ(A, B, C) WITHIN 10 s SLIDE 5 s

    QUERY q2 RETURN COUNT(*) PATTERN SEQ(A, B, D) WITHIN 10 s SLIDE 5 s
    """
)


def test_cases_that_executed_the_same_stand_together() -> None:
    plans = {
        "none": Options(optimizer="none"),
        "one": Options(optimizer="prefix"),
        "other": Options(optimizer="prefix", budget="3 s"),
    }
    compiled = compile_plans(WORKLOAD, TABLE, plans)
    executed = {name: list_executed(program, TABLE) for name, program in compiled.items()}
    assert describe_runs(executed) == "none: panes 2 alone; one = other: panes 2 (1 shared)"


def test_programs_and_other_cases_are_timed_together() -> None:
    runs: list[int] = []
    compiled = compile_plans(WORKLOAD, TABLE, {"none": Options(optimizer="none")})
    timings, ran = time_programs(compiled, TABLE, 2, {READING: lambda: runs.append(1)})
    assert {name: len(times) for name, times in timings.items()} == {"none": 2, READING: 2}
    assert len(runs) == 3, "once before it counts"
    assert ran == "none: panes 2 alone"


def test_what_a_published_executor_has_to_read_is_part_of_its_run() -> None:
    timings = {READING: [1.0, 2.0], "published": [3.0, 4.0], "ours": [2.0, 2.0]}
    found = compare_whole_runs(timings, "published", "ours")
    assert (found.low, found.high) == (2.0, 3.0)
