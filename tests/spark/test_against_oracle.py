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
from motet.reference.tables import run_table as enumerate_table
from tests.comparison import assert_same_results
from tests.conftest import IN_CI
from tests.detect.test_against_oracle import select_supported
from tests.reshaped import SHAPES, reshape_table, reshape_workload
from tests.strategies import DEFINITIONS, FEATURES, Dice, build_stream_table, draw_all_kinds, draw_rows, list_features

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return spark


def is_supported(query: Query) -> bool:
    return bool(select_supported(Workload((query,), DEFINITIONS)).queries)


@pytest.mark.parametrize("shape", ["plain", *SHAPES])
def test_queries_of_all_kinds_give_the_results_of_plain_enumeration(session: SparkSession, shape: str) -> None:
    seed = shape if IN_CI else Random().random()
    dice = Dice(Random(seed))
    workload = draw_all_kinds(dice, is_supported, times=2)
    assert {feature for query in workload.queries for feature in list_features(query)} >= FEATURES
    asked = reshape_workload(workload, shape)
    table = reshape_table(build_stream_table(draw_rows(dice, 20)), shape)
    try:
        found = motet.run(session.createDataFrame(table), asked)
        assert_same_results(found.toArrow(), enumerate_table(asked, table))
    except Exception as error:
        error.add_note(f"seed {seed!r}\n{to_text(asked)}\n{table.to_pylist()}")
        raise
