"""Keys shared out among threads: the results are the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import motet
from motet.compile import compile_workload
from motet.engine import key_shares
from motet.engine.detect import run as detect_run
from motet.engine.local import run_table
from motet.errors import RunError
from motet.language.printer import to_text
from motet.model.query import Query, Workload
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.detect.test_against_oracle import select_supported
from tests.engine.live.micro_batches import Rows
from tests.strategies import build_stream_table, detection_queries, streams, workloads


@pytest.fixture(autouse=True, scope="module")
def _three_threads_for_any_event() -> Iterator[None]:
    before, most = key_shares.MIN_EVENTS_PER_THREAD, pa.cpu_count()
    key_shares.MIN_EVENTS_PER_THREAD = 1
    pa.set_cpu_count(3)
    yield
    key_shares.MIN_EVENTS_PER_THREAD = before
    pa.set_cpu_count(most)


@settings(max_examples=40)
@given(
    windows=st.sampled_from(["auto", "pairs", "stacks"]),
    workload=workloads(min_queries=1, max_queries=3),
    rows=streams(max_rows=20, keys=5, earliest=0, latest=8),
)
def test_threads_find_what_there_is(windows: str, workload: Workload, rows: Rows) -> None:
    note(to_text(workload))
    table = build_stream_table(rows)
    program = compile_workload(workload, EventSchema(table.schema), Options(windows=windows))
    assert_same_results(run_table(program, table).table, enumerate_table(workload, table))


def test_keys_that_overflow_run_again_wherever_they_are() -> None:
    """Counts of some keys exceed 64 bits: those alone get extended totals, in the share of any thread."""
    sizes = [3, 80, 2, 70, 75, 1]
    key = np.repeat(np.arange(len(sizes)), sizes)
    table = pa.table({"time": np.arange(len(key)), "type": ["A"] * len(key), "key": key})
    text = "QUERY q RETURN COUNT(*) PATTERN A+ GROUP BY key WITHIN 1 day SLIDE 1 day"
    answer = motet.run(table, text, counts="double")
    found = dict(zip(answer["key"].to_pylist(), answer["COUNT(*)"].to_pylist(), strict=True))
    assert found == {at: pytest.approx(2.0**size - 1) for at, size in enumerate(sizes)}


@settings(max_examples=60)
@given(query=detection_queries(), rows=streams(max_rows=20, keys=5, earliest=0, latest=8))
def test_threads_find_the_matches_that_there_are(query: Query, rows: Rows) -> None:
    workload = select_supported(Workload((replace(query, equivalence=("k",)),)))
    note(to_text(workload))
    table = build_stream_table(rows)
    program = compile_workload(workload, EventSchema(table.schema), Options())
    assert_same_results(run_table(program, table).table, enumerate_table(workload, table))


def test_a_share_that_needs_more_than_its_part_of_the_memory_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key has 80,200 pairs of A and B, 3.2 MB: less than the limit, and more than a third of it."""
    sliced = list[tuple[int, int]]()
    slice_batch = detect_run.DetectBatch.slice

    def note_slice(batch: detect_run.DetectBatch, first: int, last: int) -> detect_run.DetectBatch:
        sliced.append((first, last))
        return slice_batch(batch, first, last)

    monkeypatch.setattr(detect_run.DetectBatch, "slice", note_slice)
    types = ["A", "B"] * 400 + ["C"]
    size = len(types)
    table = pa.table(
        {
            "time": np.tile(np.arange(size), 3),
            "type": types * 3,
            "key": np.repeat(np.arange(3), size),
            "last": np.tile(np.arange(size) >= size - 2, 3).astype(np.int64),
        }
    )
    text = (
        "QUERY q RETURN a.time AS a, b.time AS b PATTERN SEQ(A a, B b, C c) "
        "WHERE [key] AND a.last <= b.last AND b.last = c.last WITHIN 1 hour"
    )
    found = motet.run(table, text, memory_limit=6_000_000, optimizer="none")
    assert len(found) == 3 * 400
    assert sorted(set(sliced)) == [(0, 1), (1, 2), (2, 3)]
    assert len(sliced) == 6  # each in a thread, and alone
    with pytest.raises(RunError, match="parts of matches need more than 2 MiB"):
        motet.run(table, text, memory_limit=2 << 20, optimizer="none")
