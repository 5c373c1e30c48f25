"""Runs and plans take the same small sample, and compile the same program by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject

import motet
from motet import pipeline
from motet.compile import Program
from motet.engine.local import LocalRun
from motet.errors import QueryError
from motet.io.events import EventSource
from motet.model.query import Workload
from motet.statistics.model import Statistics
from motet.statistics.sample import choose_size
from tests.strategies import build_stream_table, streams, workloads

EVENTS = 300_000
SPAN = 300_000_000
QUERIES = """
QUERY one RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 10 s SLIDE 5 s
QUERY two RETURN COUNT(*) PATTERN SEQ(A a, C) WHERE a.x > 0.9 GROUP BY k WITHIN 10 s SLIDE 5 s
"""
MATCHES = "QUERY found RETURN * PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x AND b.x < c.x WITHIN 5 s"
MORE = "\n".join(f"RETURN COUNT(*) PATTERN SEQ(A, B, C{at}) GROUP BY k WITHIN 10 s SLIDE 5 s" for at in range(40))
WIDTHS = (50_000, 1_000_000, 20_000_000)


@pytest.fixture(scope="module")
def events() -> pa.Table:
    dice = np.random.default_rng(2)
    types = np.array(["A", "B", "C", "D"])[dice.choice(4, EVENTS, p=[0.5, 0.3, 0.15, 0.05])]
    times = pa.array(np.sort(dice.integers(0, SPAN, EVENTS))).cast(pa.timestamp("us"))
    return pa.table({"time": times, "type": types, "k": dice.integers(0, 500, EVENTS), "x": dice.random(EVENTS)})


def write(events: pa.Table, path: Path) -> Path:
    match path.suffix:
        case ".parquet":
            pq.write_table(events, path, row_group_size=20_000)
        case ".csv":
            csv.write_csv(events, path)
        case _:
            rows = events.set_column(0, "time", events["time"].cast(pa.string())).to_pylist()
            path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("name", ["events.parquet", "events.csv", "events.jsonl"])
def test_a_sample_of_a_file_tells_rates_and_cells(events: pa.Table, tmp_path: Path, name: str) -> None:
    path = write(events, tmp_path / name)
    found = motet.plan(path, QUERIES + MORE).program.options.statistics
    exact = motet.profile(events, QUERIES)
    assert found is not None
    assert 10_000 < found.sampled <= 20_000
    for symbol in ("A", "B", "C", "A[x > 0.9]"):
        assert found.rates[symbol] == pytest.approx(exact.rates[symbol], rel=0.1), symbol
    for width in WIDTHS:
        assert found.cells_per_second(["k"], width) == pytest.approx(exact.cells_per_second(["k"], width), rel=0.1)
    assert found.count_partitions(["k"]) == pytest.approx(500, rel=0.1)


def test_a_short_run_is_planned_by_fewer_rows(events: pa.Table, tmp_path: Path) -> None:
    path = write(events, tmp_path / "events.parquet")
    exact = motet.profile(events, QUERIES)
    for source in (events, path):
        found = motet.plan(source, QUERIES).program.options.statistics
        assert found is not None
        assert 4_000 <= found.sampled <= 4_096
        for symbol in ("A", "B", "C"):
            assert found.rates[symbol] == pytest.approx(exact.rates[symbol], rel=0.1), symbol
        assert found.count_partitions(["k"]) == pytest.approx(500, rel=0.2)


def test_the_sample_grows_with_what_the_run_takes() -> None:
    sizes = [choose_size(rows, queries) for rows, queries in ((30_000, 1), (300_000, 20), (3_000_000, 20))]
    assert sizes[0] == 4_096 < sizes[1] < sizes[2] == choose_size(3_000_000, None) == 30_000
    assert choose_size(30_000, None) == 16_384


def test_a_small_file_is_read_once(events: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(events, tmp_path / "events.parquet")
    read: list[list[str]] = []
    take = EventSource._read
    monkeypatch.setattr(EventSource, "_read", lambda source, names: read.append(names) or take(source, names))
    found = motet.run(path, QUERIES)
    assert [sorted(names) for names in read] == [["k", "time", "type", "x"]]
    assert found.equals(motet.run(events, QUERIES))


def test_columns_named_by_folders_are_sampled(events: pa.Table, tmp_path: Path) -> None:
    for at, part in enumerate((events.slice(0, 200_000), events.slice(200_000))):
        (tmp_path / f"k={at}").mkdir()
        write(part.drop_columns("k"), tmp_path / f"k={at}" / "part.parquet")
    found = motet.plan(tmp_path, QUERIES).program.options.statistics
    assert found is not None
    assert found.sampled < 20_000
    assert found.count_partitions(["k"]) == 2


def test_given_statistics_are_kept(events: pa.Table) -> None:
    stated = Statistics.from_json('{"rates": {"A": 2.5}}')
    assert motet.plan(events, QUERIES, statistics=stated).program.options.statistics is stated


def test_no_events_give_no_statistics(events: pa.Table) -> None:
    assert motet.plan(events.slice(0, 0), QUERIES).program.options.statistics is None
    assert len(motet.run(events.slice(0, 0), QUERIES)) == 0


def test_joins_are_planned_by_the_sample_and_run_so(events: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = motet.plan(events, MATCHES).program
    assert planned.detect[0].trees is not None
    assert planned.options.statistics is not None
    assert planned.options.statistics.selectivities["A e1, B e2: e1.x < e2.x"] == pytest.approx(0.5, abs=0.15)
    assert run_and_record(events.slice(0, 30_000), MATCHES, monkeypatch).detect[0].trees is not None


@given(streams(), workloads(max_queries=6, detection=True))
def test_plan_and_run_compile_the_same_program(rows: list[Any], workload: Workload) -> None:
    events = build_stream_table(rows)
    try:
        planned = motet.plan(events, workload).program
    except QueryError:
        reject()
    with pytest.MonkeyPatch.context() as patch:
        ran = run_and_record(events, workload, patch)
    assert ran.options.statistics == planned.options.statistics
    assert describe(ran) == describe(planned)


def run_and_record(events: pa.Table, workload: Any, patch: pytest.MonkeyPatch) -> Program:
    """Return the program by which a workload ran."""
    programs: list[Program] = []

    def record(program: Program) -> LocalRun:
        programs.append(program)
        return LocalRun(program)

    patch.setattr(pipeline, "LocalRun", record)
    motet.run(events, workload)
    (program,) = programs
    return program


def describe(program: Program) -> list[Any]:
    """Return what decides how a program runs."""
    units = [
        (
            branch.partition,
            branch.chosen,
            unit.strategy,
            unit.width,
            unit.slots,
            [query.number for query in unit.queries],
        )
        for branch in program.branches
        for unit in branch.units
    ]
    return [*units, *((branch.name, branch.trees and branch.trees.trees) for branch in program.detect)]
