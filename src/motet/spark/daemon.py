"""The parent of Spark's Python workers, named by `spark.python.daemon.module`: forks workers that have motet loaded.

A worker that imports numba and loads the kernels itself takes most of a second; and Spark collects garbage after every
task, which walks all those modules unless they are frozen.
"""

from __future__ import annotations

import gc

import pyarrow as pa

from motet.engine.warm import warm
from motet.spark.host_process import start_spawner


def preload() -> None:
    """Load the compiled kernels, and freeze all that is loaded."""
    # A task has one core.
    pa.set_cpu_count(1)
    warm()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    start_spawner()
    manager()
