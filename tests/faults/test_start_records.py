"""What may change between two starts of a stream, and what is refused with what to do: no Spark is needed to tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import motet
from motet.compile import Program, compile_workload
from motet.errors import RunError
from motet.options import Options
from motet.schema import EventSchema
from motet.spark.buckets import Buckets
from motet.spark.checkpoint import StartRecord, check_start, describe_start

COUNTS = "QUERY counts RETURN COUNT(*), SUM(A.n) PATTERN SEQ(A, B) GROUP BY k WITHIN 60 s SLIDE 20 s\n"
MATCHES = "QUERY matches RETURN * PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10 s\n"
COLUMNS = {"time": pa.int64(), "type": pa.string(), "k": pa.int64(), "n": pa.int64(), "other": pa.string()}


def compiled(queries: str, columns: dict[str, pa.DataType | None] | None = None, **options: Any) -> Program:
    """Compile queries for a stream; a column of None is not there."""
    fields = {name: kind for name, kind in {**COLUMNS, **(columns or {})}.items() if kind is not None}
    settings = Options(**{"watermark": "5 seconds", "mode": "append", **options})
    schema = EventSchema(pa.schema(fields), settings.time, settings.type, settings.time_unit)
    return compile_workload(motet.parse(queries), schema, settings)


def record(program: Program, **changes: Any) -> StartRecord:
    queries = dict.fromkeys(program.fingerprints.values())
    return replace(describe_start(program, Buckets(4)), queries=queries, **changes)


def check(before: Program, after: Program, **changes: Any) -> None:
    check_start(after, record(before, **changes), describe_start(after, Buckets(4)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"k": pa.int32()}, {}),
        ({"n": pa.int8()}, {"n": pa.int32()}),
        ({"time": pa.int32()}, {}),
        ({}, {"new": pa.float64()}),
        ({"other": pa.int64()}, {}),  # which no query reads
    ],
    ids=str,
)
def test_columns_may_come_and_integers_become_wider(before: dict[str, Any], after: dict[str, Any]) -> None:
    check(compiled(COUNTS, before), compiled(COUNTS, after))


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("n", pa.int64(), pa.float64()),
        ("n", pa.int64(), pa.int32()),
        ("n", pa.float32(), pa.float64()),
        ("k", pa.int64(), pa.string()),
        ("k", pa.string(), pa.int64()),
        ("k", pa.float32(), pa.float64()),
        ("k", pa.date32(), pa.timestamp("us")),
        ("time", pa.int64(), pa.timestamp("us")),
    ],
    ids=str,
)
def test_other_changes_of_types_are_refused(name: str, before: pa.DataType, after: pa.DataType) -> None:
    with pytest.raises(RunError) as refused:
        check(compiled(COUNTS, {name: before}), compiled(COUNTS, {name: after}))
    said = str(refused.value)
    assert "new --checkpoint" in said
    assert f"the column {name!r} was {before} when the checkpoint was made and is {after} now" in said


def test_keys_that_were_hashed_by_their_type_keep_it() -> None:
    before, after = compiled(COUNTS, {"k": pa.int32(), "n": pa.int32()}), compiled(COUNTS, {"n": pa.int64()})
    with pytest.raises(RunError, match="the column 'k' was int32"):
        check(before, after, wide=False)
    check(before, compiled(COUNTS, {"k": pa.int32()}), wide=False)


def test_a_column_that_matches_return_stays() -> None:
    before = compiled(COUNTS + MATCHES)
    with pytest.raises(RunError, match="had a column 'other' when the checkpoint was made, which matches returns"):
        check(before, compiled(COUNTS + MATCHES, {"other": None}))
    check(before, compiled(COUNTS, {"other": None}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "update"}, "made with --mode append, which cannot change to update"),
        ({"counts": "double"}, "made with --counts exact, which cannot change to double"),
        ({"windows": "pairs"}, "made with windows auto, which cannot change to pairs"),
        ({"time_unit": "ms"}, "made with --time-unit s, which cannot change to ms"),
        ({"time": "n"}, "made with --time time, which cannot change to n"),
        ({"type": "other"}, "made with --type type, which cannot change to other"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)
def test_options_that_state_depends_on_cannot_change(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=f"{message}: start with the old .* or start with a new --checkpoint"):
        check(compiled(COUNTS), compiled(COUNTS, **options))


def sink(path: str | None, kind: str = "parquet", by_batch: bool = False) -> dict[str, Any]:
    return {"format": kind, "path": path, "by_batch": by_batch}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (sink("out"), sink("out", by_batch=True), "out were written without --late"),
        (sink("out", by_batch=True), sink("out"), "out were written with --late"),
        (sink("out"), sink("out", "json"), "results in out are parquet, not json"),
        (sink("out"), sink("beside", by_batch=True), None),
        (sink(None, "lines", True), sink("out"), None),
        (None, sink("out", by_batch=True), None),
    ],
    ids=lambda value: "",
)
def test_results_go_to_a_folder_in_one_way(before: Any, after: Any, message: str | None) -> None:
    program = compiled(COUNTS)
    own = describe_start(program, Buckets(4), after)
    if message is None:
        check_start(program, record(program, sink=before), own)
    else:
        with pytest.raises(RunError, match=f"{message}.*name another --output"):
            check_start(program, record(program, sink=before), own)


def test_records_of_earlier_versions_are_gone_on_with() -> None:
    program = compiled(COUNTS)
    earlier = StartRecord(start=0, buckets=4, queries=dict.fromkeys(program.fingerprints.values()))
    check_start(program, earlier, describe_start(program, Buckets(4)))
