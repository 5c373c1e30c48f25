"""Spark and the oracle agree, exactly, on random queries of all kinds over random events of every shape, in batches and
on streams.

Few runs with many queries each: a run on Spark takes seconds, however little it has to do.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import motet
from motet.language.printer import to_text
from motet.model.query import Query, Workload
from motet.options import Options
from tests.comparison import assert_same_results
from tests.conftest import IN_CI
from tests.detect.test_against_oracle import select_supported
from tests.engine.live.micro_batches import select_streamed
from tests.event_files import add_event_file
from tests.reshaped import draw_shape, reshape_table, reshape_workload, simplify_results
from tests.strategies import (
    DEFINITIONS,
    FEATURES,
    STREAM_SCHEMA,
    Dice,
    build_stream_table,
    draw_all_kinds,
    draw_rows,
    list_features,
)

pytestmark = pytest.mark.spark

END = 10_000  # a time after which nothing is open


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return spark


def is_supported(query: Query) -> bool:
    return bool(select_supported(Workload((query,), DEFINITIONS)).queries)


def is_streamed(query: Query) -> bool:
    return bool(select_streamed(Workload((query,), DEFINITIONS)).queries)


@pytest.mark.parametrize("run", range(3))
def test_queries_of_all_kinds_give_the_results_of_plain_enumeration(session: SparkSession, run: int) -> None:
    seed = run if IN_CI else Random().random()
    dice = Dice(Random(seed))
    workload, shape = draw_all_kinds(dice, is_supported, times=2), draw_shape(dice)
    assert {feature for query in workload.queries for feature in list_features(query)} >= FEATURES
    asked = reshape_workload(workload, shape)
    table = reshape_table(build_stream_table(draw_rows(dice, 20)), shape)
    frame = session.createDataFrame(simplify_results(table))  # which has no view of texts
    options = Options(time_unit=shape.clock.unit)
    try:
        found = motet.run(frame, asked, options).toArrow()
        expected = motet.run(frame.toArrow(), asked, options, engine="oracle")
        assert_same_results(found, simplify_results(expected))
    except Exception as error:
        error.add_note(f"seed {seed!r}, {shape}\n{to_text(asked)}\n{table.to_pylist()}")
        raise


@pytest.mark.parametrize("run", range(2))
def test_streams_of_all_kinds_give_the_results_of_plain_enumeration(
    session: SparkSession, tmp_path: Path, run: int
) -> None:
    seed = run if IN_CI else Random().random()
    dice = Dice(Random(seed))
    kinds = FEATURES - {"whole"}  # without a window a stream has no results
    workload, shape = draw_all_kinds(dice, is_streamed, features=kinds), draw_shape(dice)
    assert {feature for query in workload.queries for feature in list_features(query)} >= kinds
    asked = reshape_workload(workload, shape)
    delay = 3
    arrival = sorted(draw_rows(dice, 20), key=lambda row: (row["time"] or 0) + dice.up_to(delay))
    folder = tmp_path / "events"
    folder.mkdir()
    end = dict.fromkeys(STREAM_SCHEMA.names) | {"time": END, "type": "D"}  # which is no D, without a y
    batches = [arrival[at : at + 5] for at in range(0, 20, 5)]
    for number, rows in enumerate(batches):
        add_event_file(folder, number, simplify_results(reshape_table(build_stream_table(rows), shape)))
    events = session.read.parquet(str(folder)).toArrow()
    add_event_file(folder, len(batches), simplify_results(reshape_table(build_stream_table([end]), shape)))
    options = Options(time_unit=shape.clock.unit, watermark=dt.timedelta(microseconds=delay * shape.clock.second))
    schema = session.read.parquet(str(folder)).schema
    stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    try:
        results = motet.stream(stream, asked, options).results
        writer = results.writeStream.format("parquet").option("path", str(tmp_path / "results"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        found = session.read.schema(results.schema).parquet(str(tmp_path / "results")).toArrow()
        expected = motet.run(events, asked, engine="oracle", time_unit=shape.clock.unit)
        assert_same_results(found, simplify_results(expected))
    except Exception as error:
        error.add_note(f"seed {seed!r}, {shape}\n{to_text(asked)}\n{arrival}")
        raise
