"""Keys shared out among threads: the results are the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import motet
from motet.compile import compile_workload
from motet.engine import run
from motet.engine.local import run_table
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import Rows
from tests.strategies import build_stream_table, streams, workloads


@pytest.fixture(autouse=True, scope="module")
def _three_threads_for_any_event() -> Iterator[None]:
    before, most = run.MIN_EVENTS_PER_THREAD, pa.cpu_count()
    run.MIN_EVENTS_PER_THREAD = 1
    pa.set_cpu_count(3)
    yield
    run.MIN_EVENTS_PER_THREAD = before
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
