"""Spark and the oracle agree, exactly, on random queries of all kinds over random events of every shape.

Few runs with many queries each: a run on Spark takes seconds, however little it has to do.
"""

from __future__ import annotations

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
from tests.reshaped import draw_shape, reshape_table, reshape_workload, simplify_results
from tests.strategies import DEFINITIONS, FEATURES, Dice, build_stream_table, draw_all_kinds, draw_rows, list_features

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return spark


def is_supported(query: Query) -> bool:
    return bool(select_supported(Workload((query,), DEFINITIONS)).queries)


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
