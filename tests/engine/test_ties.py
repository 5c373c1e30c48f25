"""Many events of one time: they count as many times as they are, and none follows another."""

from __future__ import annotations

from math import prod

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import motet
from motet.compile import compile_workload
from motet.engine.live import Stream
from motet.engine.local import run_table
from motet.engine.ties import order_classes
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from motet.template.symbols import Symbol
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import Rows, endless
from tests.strategies import build_stream_table, streams, workloads

FEW_TIMES = streams(max_rows=20, keys=1, earliest=0, latest=3)


@pytest.mark.parametrize("windows", ["auto", "pairs"])
@given(workload=workloads(min_queries=1, max_queries=5), rows=FEW_TIMES)
def test_events_of_one_time_are_as_many_as_they_are(windows: str, workload: Workload, rows: Rows) -> None:
    note(to_text(workload))
    table = build_stream_table(rows)
    program = compile_workload(workload, EventSchema(table.schema), Options(windows=windows))
    assert_same_results(run_table(program, table).table, enumerate_table(workload, table))


@given(workload=workloads(min_queries=1, max_queries=5), rows=FEW_TIMES, cut=st.integers(0, 4))
def test_also_in_a_stream(workload: Workload, rows: Rows, cut: int) -> None:
    workload = endless(workload)
    if not workload.queries:
        return
    table = build_stream_table(rows)
    stream = Stream(compile_workload(workload, EventSchema(table.schema), Options(mode="append")))
    found = [stream.feed(table, -1_000_000).results, stream.feed(table.slice(0, 0), cut * 1_000_000).results]
    assert_same_results(pa.concat_tables([*found, stream.finish().results]), enumerate_table(workload, table))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # counts wrap, and numpy says so
@pytest.mark.parametrize("numbers", [[3, 1, 4], [500] * 7, [500] * 8, [50] * 200])
def test_counts_beyond_64_bits_stay_known(numbers: list[int]) -> None:
    times = np.repeat(np.arange(len(numbers)), numbers)
    price = np.random.default_rng(1).integers(1, 9, len(times)).astype(np.float64)
    table = pa.table({"time": times, "type": ["A"] * len(times), "x": price})
    text = "QUERY q RETURN COUNT(*), COUNT(A), SUM(A.x), AVG(A.x), MIN(A.x) PATTERN A+ WITHIN 300 s SLIDE 300 s"
    (row,) = motet.run(table, text).to_pylist()
    trends = prod(1 + number for number in numbers) - 1
    # Each event of a time is in as many trends as there are of the other times, and without them.
    through = [(trends + 1) // (1 + number) for number in numbers]
    bound = sum(number * share for number, share in zip(numbers, through, strict=True))
    total = sum(int(price[times == at].sum()) * share for at, share in enumerate(through))
    assert row["COUNT(*)"] == (trends if trends < 2**63 else None)
    assert row["COUNT(A)"] == (bound if bound < 2**63 else None)
    assert row["MIN(A.x)"] == price.min()
    assert row["AVG(A.x)"] == pytest.approx(float(total / bound) if bound < 2**900 else price.mean(), rel=1e-2)
    if total < 2**900:
        assert row["SUM(A.x)"] == pytest.approx(float(total))


def test_classes_take_turns_so_that_none_reads_what_an_earlier_one_wrote() -> None:
    text = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, NOT N, D, SEQ(B, C)+) WITHIN 4 s SLIDE 2 s"
    schema = pa.schema({"time": pa.int64(), "type": pa.string()})
    (unit,) = compile_workload(motet.parse(text), EventSchema(schema)).branches[0].units
    names = "ABCDN"
    found = order_classes(unit.merged, [frozenset({Symbol(name, ())}) for name in names])
    turns = dict(zip(names, found.rank.tolist(), strict=True))
    assert turns["C"] < turns["D"] < turns["N"] < turns["A"]
    parts = dict(zip(names, found.part.tolist(), strict=True))
    assert parts["B"] == parts["C"]  # each follows the other
    assert len(set(parts.values())) == 4
