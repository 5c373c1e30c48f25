"""Limits: an error that names the query and says what to do, or results that are marked as cut short."""

from __future__ import annotations

import pyarrow as pa
import pytest

import motet
from motet.compile import Program, compile_workload
from motet.engine.detect.run import DetectRun
from motet.engine.local import run_table
from motet.errors import MotetError, RunError
from motet.optimizer.joins import JoinPlan
from motet.options import Options
from motet.plans.detect.build import FilterFrom, join_specs
from motet.schema import EventSchema
from tests.outcomes import run_for_outcome

PAIRS = "QUERY pairs RETURN * PATTERN SEQ(A a, B b) WHERE a.x <= b.x WITHIN 1000 s"
TRIPLES = "QUERY triples RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x <= b.x AND a.x <= c.x WITHIN 10000 s"
SUBSETS = "QUERY subsets RETURN * PATTERN A+ a WITHIN 1000 s"


def letters(text: str) -> pa.Table:
    return pa.table({"time": list(range(len(text))), "type": list(text), "x": [1] * len(text)})


def test_too_many_matches_are_an_error_that_names_the_query() -> None:
    with pytest.raises(RunError, match=r"query pairs: more than 10 matches in one window .*raise --memory-limit"):
        motet.run(letters("AAAABBBB"), PAIRS, match_limit=10)


def test_or_as_many_as_may_be_are_returned_and_the_query_is_marked() -> None:
    outcome = run_for_outcome(letters("AAAABBBB"), PAIRS, Options(match_limit=10, on_limit="truncate"))
    assert (len(outcome.table), outcome.truncated) == (10, ("pairs",))


def test_as_many_as_the_limit_are_fine() -> None:
    outcome = run_for_outcome(letters("AAAABBBB"), PAIRS, Options(match_limit=16))
    assert (len(outcome.table), outcome.truncated) == (16, ())


def test_the_limit_is_for_each_key() -> None:
    table = pa.table({"time": [1, 2, 1, 2], "type": list("ABAB"), "x": [1] * 4, "k": ["u", "u", "v", "v"]})
    query = PAIRS.replace("WHERE", "WHERE [k] AND")
    assert len(motet.run(table, query, match_limit=1)) == 2


def test_a_loop_without_end_stops_at_the_limit() -> None:
    # 2^60 matches: listing them all would never end.
    outcome = run_for_outcome(letters("A" * 60), SUBSETS, Options(match_limit=1000, on_limit="truncate"))
    assert (len(outcome.table), outcome.truncated) == (1000, ("subsets",))
    with pytest.raises(MotetError, match="query subsets"):
        motet.run(letters("A" * 60), SUBSETS, match_limit=1000)


def test_parts_of_matches_are_bounded_by_memory() -> None:
    table = letters("AB" * 2000 + "C")
    with pytest.raises(RunError, match=r"query triples: parts of matches need more than 1 MiB"):
        motet.run(table, TRIPLES, memory_limit=1 << 20, optimizer="none")
    program = compile_workload(
        motet.parse(TRIPLES),
        EventSchema(table.schema),
        Options(optimizer="none", memory_limit=1 << 20, on_limit="truncate"),
    )
    outcome = run_table(program, table)
    assert outcome.truncated == ("triples",)
    assert 0 < len(outcome.table) < 2_001_000


def test_a_filter_keeps_what_there_is_room_for() -> None:
    # By MOTTO's operator transformation the sequence is filtered out of the conjunction, whose instances fill the room.
    table = letters("AB" * 2000)
    (wanted,) = join_specs(compiled(PAIRS, table).detect[0].queries)
    loose = FilterFrom((0, 1), frozenset(), wanted.tests, wanted.gaps)
    program = compiled(PAIRS, table, Options(memory_limit=1 << 20, on_limit="truncate"))
    (branch,) = program.detect
    run = DetectRun(program, branch)
    run.plans.adopt(JoinPlan({wanted: loose}, "motto", {"motto": 0.0}), None)
    found = sum(len(piece) for piece in run.process(table))
    assert run.truncated == {"pairs"}
    assert 0 < found < 2000 * 999


def compiled(text: str, table: pa.Table, options: Options = Options()) -> Program:  # noqa: B008
    return compile_workload(motet.parse(text), EventSchema(table.schema), options)


def test_results_that_do_not_fit_together_are_an_error_that_tells_the_way_out() -> None:
    with pytest.raises(RunError, match=r"query subsets: all results together need more than 1 MiB: .*batch by batch"):
        motet.run(letters("A" * 60), SUBSETS, memory_limit=1 << 20)
    outcome = run_for_outcome(letters("A" * 60), SUBSETS, Options(memory_limit=1 << 20, on_limit="truncate"))
    assert outcome.truncated == ("subsets",)


def test_a_full_window_does_not_cost_those_after_it_their_matches() -> None:
    table = pa.table({"time": [*range(30), *range(100_000, 100_003)], "type": ["A"] * 33, "x": [1] * 33})
    for condition in ("", "WHERE SUM(a.x) > 0 "):
        query = SUBSETS.replace("WITHIN 1000 s", f"{condition}WITHIN 1000 s")
        outcome = run_for_outcome(table, query, Options(match_limit=50, on_limit="truncate"))
        late = [start for start in outcome.table.column("start").to_pylist() if start >= 100_000]
        assert (len(outcome.table), len(late), outcome.truncated) == (57, 7, ("subsets",))


def test_a_full_window_is_not_searched_further() -> None:
    # Of 2^60 paths to each of the last events none is judged once enough are found.
    query = "QUERY sums RETURN * PATTERN SEQ(A+ a, B b) WHERE SUM(a.x) >= b.x WITHIN 1000 s"
    outcome = run_for_outcome(letters("A" * 60 + "BBB"), query, Options(match_limit=100, on_limit="truncate"))
    assert (len(outcome.table), outcome.truncated) == (100, ("sums",))


def test_aggregates_after_detection_do_not_keep_every_match(monkeypatch: pytest.MonkeyPatch) -> None:
    query = (
        "QUERY n RETURN COUNT(*), SUM(a.x), MIN(b.x) PATTERN SEQ(A a, B b) WHERE a.x <= b.x WITHIN 1000 s SLIDE 10 s"
    )
    table = letters("AB" * 40)
    expected = motet.run(table, query)
    monkeypatch.setattr("motet.engine.detect.query_run.MERGE_ROWS", 16)
    monkeypatch.setattr("motet.engine.detect.instances.BLOCK_ROWS", 32)
    assert motet.run(table, query).equals(expected)


def test_results_come_batch_by_batch() -> None:
    reader = motet.batches(letters("A" * 14), SUBSETS)
    assert sum(len(batch) for batch in reader) == 2**14 - 1
    first = motet.batches(letters("A" * 60), SUBSETS).read_next_batch()  # of 2^60
    assert first.num_rows > 0
