"""Columns computed by SQL: the same events, whatever computes them, wherever they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import motet
from motet.errors import DataError, MotetError, OptionError, UnreadableError
from motet.io import formats
from motet.io.events import open_events
from motet.io.sql import SelectedColumns
from motet.options import Options
from tests.command_line import Motet

RAW = pa.table({"ts": [1000, 2000, 3000, 4000], "code": [1, 2, 1, 2], "user": ["u", "u", "v", "v"], "x": [1, 2, 3, 4]})
SELECT = [
    "CAST(ts / 1000 AS BIGINT) AS time",
    "CASE code WHEN 1 THEN 'A' ELSE 'B' END AS type",
    "user AS k",
    "x * 2 AS x",
]
QUERY = "RETURN COUNT(*), SUM(b.x) AS total PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10 s SLIDE 10 s"


def write(folder: Path, form: str) -> Any:
    file = folder / f"raw.{form}"
    match form:
        case "table":
            return RAW
        case "dataset":
            return ds.dataset(RAW)
        case "csv":
            csv.write_csv(RAW, file)
        case "parquet":
            pq.write_table(RAW, file)
    return file


@pytest.mark.parametrize("form", ["table", "dataset", "csv", "parquet"])
@pytest.mark.parametrize("engine", ["local", "oracle", pytest.param("spark", marks=pytest.mark.spark)])
def test_every_engine_computes_the_same_columns(tmp_path: Path, form: str, engine: Any) -> None:
    found = motet.run(write(tmp_path, form), QUERY, engine=engine, select=SELECT)
    table = found.toArrow() if engine == "spark" else found
    assert table.select(["COUNT(*)", "total"]).to_pylist() == [{"COUNT(*)": 2, "total": 12}]


@pytest.mark.parametrize("form", ["table", "csv", "parquet"])
def test_plans_profiles_and_explanations_select_too(tmp_path: Path, form: str) -> None:
    events = write(tmp_path, form)
    assert motet.profile(events, QUERY, select=SELECT).counts == {"A": 2, "B": 2}
    assert "SEQ(A a, B b)" in str(motet.plan(events, QUERY, select=SELECT))
    assert motet.explain_match(events, QUERY, select=SELECT)
    assert motet.batches(events, QUERY, select=SELECT).read_all().column("total").to_pylist() == [12]


def test_large_files_are_selected_from_in_batches_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 300_000
    pq.write_table(pa.table({"ts": range(rows), "kind": ["A"] * rows, "x": range(rows)}), tmp_path / "e.parquet")
    monkeypatch.setattr(formats, "BLOCK_BYTES", 1 << 16)
    source = open_events(tmp_path / "e.parquet", Options(select=["ts AS time", "kind AS type", "x"]))
    assert isinstance(source.content, SelectedColumns)
    batches = list(source.batches(["x", "time"]))
    assert len(batches) > 1
    assert pa.Table.from_batches(batches)["time"].to_pylist() == list(range(rows))
    assert source.num_rows == rows
    assert motet.profile(source).counts == {"A": rows}


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_on_the_command_line(motet: Motet, tmp_path: Path, engine: str) -> None:
    (tmp_path / "q.motet").write_text(QUERY)
    write(tmp_path, "csv")
    select = [argument for expression in SELECT for argument in ("--select", expression)]
    events = ["--events", tmp_path / "raw.csv", *select]
    outcome = motet("run", tmp_path / "q.motet", *events, "--engine", engine, "--format", "csv")
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.splitlines()[-1].endswith(",2,12")
    assert motet("profile", *events, "--key", "k", "--engine", engine).stdout.startswith("4 events")
    if engine == "local":
        assert motet("plan", tmp_path / "q.motet", *events).status == 0
        assert motet("check", tmp_path / "q.motet", *events).status == 0
        assert motet("explain-match", tmp_path / "q.motet", *events).status == 0


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (
            ["tss AS time", "'A' AS type"],
            r'--select \(in Python select=\): Binder Error: Referenced column "tss" not fo',
        ),
        (["ts AS", "x"], "Parser Error: syntax error"),
        (["ts AS time", "user AS k", "x"], "has no column 'type'"),
        (["*", "ts AS x", "ts AS time", "user AS type"], "what --select makes has more than one column 'x'"),
    ],
)
@pytest.mark.parametrize("form", ["table", "csv", "parquet"])
def test_what_is_wrong_with_expressions_is_said(tmp_path: Path, form: str, select: list[str], message: str) -> None:
    if form == "table" and "type" in message:
        message = "no type column"
    with pytest.raises(MotetError, match=message):
        motet.run(write(tmp_path, form), QUERY, select=select)


@pytest.mark.spark
def test_what_is_wrong_with_expressions_is_said_on_spark() -> None:
    with pytest.raises(DataError, match=r"--select \(in Python select=\): .*tss"):
        motet.run(RAW, QUERY, engine="spark", select=["tss AS time"])


@pytest.mark.parametrize("form", ["table", "parquet"])
def test_a_value_that_cannot_be_computed(tmp_path: Path, form: str) -> None:
    with pytest.raises(UnreadableError, match="Conversion Error: Could not convert string 'u'"):
        motet.run(write(tmp_path, form), QUERY, select=["CAST(user AS INT) AS time", "user AS type", "user AS k", "x"])


def test_times_in_every_zone_are_instants(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("moment,type\n01/02/2024 14:00,A\n01/02/2024 14:05,B\n")
    select = ["strptime(moment, '%d/%m/%Y %H:%M') AT TIME ZONE 'Europe/Berlin' AS time", "type"]
    found = motet.run(tmp_path / "e.csv", "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 min", select=select)
    assert found.schema.field("time").type == pa.timestamp("us", "UTC")
    assert found.column("time")[0].as_py().isoformat() == "2024-02-01T13:05:00+00:00"


def test_select_does_not_apply_to_a_live_workload() -> None:
    with pytest.raises(OptionError, match="select does not apply to a live workload"):
        motet.live(RAW, QUERY, select=SELECT)
