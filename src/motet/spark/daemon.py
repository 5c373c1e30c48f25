"""The parent of Spark's Python workers, named by `spark.python.daemon.module`: forks workers that have motet loaded.

A worker that imports numba and loads the kernels itself takes most of a second; and Spark collects garbage after every
task, which walks all those modules unless they are frozen.
"""

from __future__ import annotations

import gc
import sys

import pyarrow as pa

from motet.engine.warm import load_kernels
from motet.kernels.compiler import on_each_compilation
from motet.spark.host_process import start_spawner


def preload() -> None:
    """Load the compiled kernels, and freeze all that is loaded. Others are compiled by the first task that needs them,
    and the log says so.
    """
    # A task has one core.
    pa.set_cpu_count(1)
    on_each_compilation(lambda name: sys.stderr.write(f"motet: compiled {name}, which no kernel cache had\n"))
    load_kernels()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    start_spawner()
    manager()
