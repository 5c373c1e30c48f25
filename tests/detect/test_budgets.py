"""Limits: an error that names the query and says what to do, or results that are marked as cut short."""

from __future__ import annotations

import pyarrow as pa
import pytest

import motet
from motet.api import Settings, execute
from motet.engine import EventSchema, Options, compile_workload
from motet.engine.local import run_table
from motet.errors import MotetError, RunError

PAIRS = "QUERY pairs RETURN * PATTERN SEQ(A a, B b) WHERE a.x <= b.x WITHIN 1000 s"
TRIPLES = "QUERY triples RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x <= b.x AND a.x <= c.x WITHIN 10000 s"
SUBSETS = "QUERY subsets RETURN * PATTERN A+ a WITHIN 1000 s"


def letters(text: str) -> pa.Table:
    return pa.table({"time": list(range(len(text))), "type": list(text), "x": [1] * len(text)})


def test_too_many_matches_are_an_error_that_names_the_query() -> None:
    with pytest.raises(RunError, match=r"query pairs: more than 10 matches in one window .*raise the limit"):
        motet.run(letters("AAAABBBB"), PAIRS, match_limit=10)


def test_or_as_many_as_may_be_are_returned_and_the_query_is_marked() -> None:
    outcome = execute(letters("AAAABBBB"), PAIRS, Settings(match_limit=10, on_limit="truncate"))
    assert (len(outcome.table), outcome.truncated) == (10, ("pairs",))


def test_as_many_as_the_limit_are_fine() -> None:
    outcome = execute(letters("AAAABBBB"), PAIRS, Settings(match_limit=16))
    assert (len(outcome.table), outcome.truncated) == (16, ())


def test_the_limit_is_for_each_key() -> None:
    table = pa.table({"time": [1, 2, 1, 2], "type": list("ABAB"), "x": [1] * 4, "k": ["u", "u", "v", "v"]})
    query = PAIRS.replace("WHERE", "WHERE [k] AND")
    assert len(motet.run(table, query, match_limit=1)) == 2


def test_a_loop_without_end_stops_at_the_limit() -> None:
    # 2^60 matches: listing them all would never end.
    outcome = execute(letters("A" * 60), SUBSETS, Settings(match_limit=1000, on_limit="truncate"))
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


def test_results_come_batch_by_batch() -> None:
    reader = motet.batches(letters("A" * 14), SUBSETS)
    assert sum(len(batch) for batch in reader) == 2**14 - 1
    first = motet.batches(letters("A" * 60), SUBSETS).read_next_batch()  # of 2^60
    assert first.num_rows > 0
