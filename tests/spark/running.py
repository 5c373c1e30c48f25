"""Compile and run a workload on Spark in one call."""

from __future__ import annotations

from typing import Any, Literal

from pyspark.sql import DataFrame

from motet.compile import compile_workload
from motet.model.query import Workload
from motet.options import Options
from motet.spark import batch
from motet.spark.dataframes import get_event_schema


def run(
    events: DataFrame,
    workload: Workload,
    *,
    partitions: int | None = None,
    skew: Literal["auto", "off"] = "auto",
    **options: Any,
) -> batch.SparkRun:
    """Run a workload with options given by name."""
    given = Options(**options)
    program = compile_workload(workload, get_event_schema(events, given), given)
    return batch.run(events, program, partitions=partitions, skew=skew)
