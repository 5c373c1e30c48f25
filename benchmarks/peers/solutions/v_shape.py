"""One row pattern of SQL in motet or in Flink: `v_shape.py motet|flink FILE REPEATS`, the query on stdin.

Prints a line of JSON: how many matches, what they add up to, and the wall and CPU seconds of each run from the file to
the answer, after one run that does not count. CPU is that of this process and all it has started.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

Answer = tuple[int, float]
PARALLEL = 2


def run_motet(file: str, text: str) -> Callable[[], Answer]:
    """Return what answers the query by motet."""
    import pyarrow.csv as csv

    import motet

    options = csv.ReadOptions(column_names=["symbol", "ts", "price"])
    pattern = text.replace("SUM(bottom)", "CAST(SUM(bottom) AS DOUBLE)")

    def run() -> Answer:
        row = motet.sql(pattern, {"ticks": csv.read_csv(file, options)}).to_pylist()[0]
        return row["how_many"], row["total"]

    return run


def run_flink(file: str, text: str) -> Callable[[], Answer]:
    """Return what answers the query by Flink, in batch mode; it orders by a time attribute."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("parallelism.default", str(PARALLEL))
    tables.execute_sql(
        "CREATE TABLE ticks (symbol BIGINT, ts BIGINT, price DOUBLE, `at` AS TO_TIMESTAMP_LTZ(ts, 3), "
        "WATERMARK FOR `at` AS `at`) WITH "
        f"('connector' = 'filesystem', 'path' = 'file://{file}', 'format' = 'csv')"
    )
    query = text.replace("ORDER BY ts", "ORDER BY `at`")

    def run() -> Answer:
        with tables.execute_sql(query).collect() as found:
            row = next(iter(found))
        return int(row[0]), float(row[1])

    return run


def read_cpu_seconds() -> float:
    """Return the CPU seconds of this process and its children, running or not."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            spent[int(folder.name)] = sum(map(int, fields[11:15])) / ticks
    own, total = os.getpid(), 0.0
    for process, seconds in spent.items():
        above = process
        while above not in (0, own):
            above = parents.get(above, 0)
        total += seconds if above == own else 0.0
    return total


def main() -> None:
    """Run one of the two."""
    way, file, repeats = sys.argv[1:]
    run = {"motet": run_motet, "flink": run_flink}[way](file, sys.stdin.read())
    answer = run()
    wall, cpu = [], []
    for _ in range(int(repeats)):
        began, before = time.perf_counter(), read_cpu_seconds()
        run()
        wall.append(time.perf_counter() - began)
        cpu.append(read_cpu_seconds() - before)
    print(json.dumps({"matches": answer[0], "bottoms": answer[1], "wall": wall, "cpu": cpu}))


if __name__ == "__main__":
    main()
