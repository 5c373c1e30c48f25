"""The parent of Spark's Python workers, named by `spark.python.daemon.module`: forks workers that have motet loaded.

A worker that imports numba and loads the kernels itself takes most of a second; and Spark collects garbage after every
task, which walks all those modules unless they are frozen.
"""

from __future__ import annotations

import gc

import pyarrow as pa

from motet.engine import EventSchema, compile_workload, finish, merge, run_branch
from motet.model.expression import At, Attribute, Comparison
from motet.model.pattern import Event, Repeat, Seq
from motet.model.query import Aggregate, Query, Workload
from motet.model.window import TimeWindow

_EVENTS = pa.table({"time": [1, 2, 3, 4], "type": ["A", "A", "B", "B"], "k": ["p"] * 4, "x": [1.0, 2.0, 3.0, 4.0]})


def preload() -> None:
    """Load the compiled kernels by running each kind of query once, and freeze all that is loaded."""
    # A task has one core.
    pa.set_cpu_count(1)
    program = compile_workload(_every_kind_of_query(), EventSchema(_EVENTS.schema))
    for index in range(len(program.branches)):
        finish(program, merge(program, run_branch(program, index, _EVENTS)))
    gc.collect()
    gc.freeze()


def _every_kind_of_query() -> Workload:
    """Sliding and continuous windows, partitions combined or not, and a condition on neighbours."""
    pattern = Seq((Repeat(Event("A"), 1, None), Event("B")))
    returns = (Aggregate("COUNT"), Aggregate("SUM", "A", "x"), Aggregate("MIN", "A", "x"))
    rising = Comparison("<", Attribute("A", "x"), Attribute("A", "x", At.NEXT))
    sliding, continuous = TimeWindow(4_000_000, 2_000_000), TimeWindow(4_000_000)
    return Workload(
        (
            Query("sliding", pattern, returns, group_by=("k",), window=sliding),
            Query("combined", pattern, returns, equivalence=("k",), window=sliding),
            Query("continuous", pattern, returns, equivalence=("k",), window=continuous),
            Query("rising", pattern, returns, (rising,), group_by=("k",), window=continuous),
        )
    )


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    manager()
