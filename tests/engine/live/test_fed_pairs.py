"""Units by pairs on a stream: the results of batch and oracle, at the cost of what arrives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.live import Stream
from motet.engine.live.aggregate import AggregateOperator
from motet.engine.live.pairs import PairUnit
from motet.engine.local import run_table
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import SECOND, endless, kindred, micro_batches
from tests.strategies import STREAM_SCHEMA, build_stream_table, streams, workloads

SCHEMA = EventSchema(STREAM_SCHEMA)
COLUMNS = pa.schema([("time", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])


def stream_of(workload: Workload, schema: EventSchema = SCHEMA) -> Stream:
    stream = Stream(compile_workload(workload, schema, Options(mode="append", windows="pairs")))
    stream.most_held = 0  # each feed reaches the unit
    return stream


@given(data=st.data())
def test_pairs_on_a_stream_give_the_results_of_batch_and_oracle(data: st.DataObject) -> None:
    workload = data.draw(kindred(data.draw(workloads(min_queries=1, max_queries=4))))
    workload = endless(workload)
    rows = data.draw(streams(latest=25))
    if not workload.queries:
        return
    note(to_text(workload))
    table = build_stream_table(rows)
    expected = enumerate_table(workload, table)
    assert_same_results(run_table(compile_workload(workload, SCHEMA, Options(windows="pairs")), table).table, expected)
    stream, found = stream_of(workload), []
    for batch, watermark in data.draw(micro_batches(rows)):
        if data.draw(st.sampled_from([False, False, True])):
            saved, stream = stream.save(), stream_of(workload)
            stream.restore(saved)
        found.append(stream.feed(build_stream_table(batch), watermark).results)
    assert_same_results(pa.concat_tables([*found, stream.finish().results]), expected)


TWO = """
QUERY one RETURN COUNT(*) PATTERN SEQ(A, B, C) GROUP BY k WITHIN {w} s SLIDE {s} s
QUERY other RETURN COUNT(*) PATTERN SEQ(C, B, C) GROUP BY k WITHIN {w} s SLIDE {s} s
"""


def test_counts_beyond_64_bits_begin_anew_with_larger_totals() -> None:
    query = "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 1000 s SLIDE 500 s"
    rows = [(at, "A" if at % 10 else "B", 1, at % 3) for at in range(300)]
    table = pa.table(list(zip(*rows, strict=True)), schema=COLUMNS)
    schema = EventSchema(COLUMNS)
    expected = run_table(compile_workload(parse(query), schema), table).table
    stream = stream_of(parse(query), schema)
    found = [stream.feed(table.slice(at, 20), at * SECOND).results for at in range(0, 300, 20)]
    (live,) = stream.branches
    assert isinstance(live, AggregateOperator)
    assert [type(unit) for unit in live.fed] == [PairUnit]
    assert_same_results(pa.concat_tables([*found, stream.finish().results]), expected)
    assert live.fed[0].level > 0  # type: ignore[union-attr]


def test_the_state_of_a_key_does_not_grow_with_the_events_of_a_window() -> None:
    sizes = {}
    for held in (4, 40):
        stream = stream_of(parse(TWO.format(w=10 * held, s=5 * held)), EventSchema(COLUMNS))
        rng = np.random.default_rng(1)
        for number in range(held - 1):
            first = 10 * number
            columns = [np.sort(rng.integers(first, first + 10, 50)), rng.choice(list("ABC"), 50), np.ones(50, int)]
            stream.feed(pa.table([*columns, np.zeros(50, int)], schema=COLUMNS), first * SECOND)
        (live,) = stream.branches
        assert isinstance(live, AggregateOperator)
        (unit,) = live.fed
        assert isinstance(unit, PairUnit)
        sizes[held] = unit.work
    assert 0 < sizes[40] < 2 * sizes[4]
