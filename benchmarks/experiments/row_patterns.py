"""SQL row patterns: the V shape in process, on Spark against an identity function, and beside Flink SQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

import motet
from benchmarks.experiments.peers import ENVIRONMENT, SCRIPTS
from benchmarks.measure import Measurement, Timings, compute_ratio, read_tree_cpu, run_interleaved
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting

PARTITIONS = 1_000
V_SHAPE = """
SELECT COUNT(*) AS how_many, SUM(bottom) AS total FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES STRT.ts AS first_ts, LAST(DOWN.ts) AS bottom_ts, LAST(UP.ts) AS last_ts, LAST(DOWN.price) AS bottom
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price))
"""
# Flink has no PREV, and no greedy loop at the end of a pattern.
V_OF_FLINK = """
SELECT COUNT(*) AS how_many, SUM(bottom) AS total FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES STRT.ts AS first_ts, LAST(DOWN.ts) AS bottom_ts, UP.ts AS last_ts, LAST(DOWN.price) AS bottom
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (STRT DOWN+ UP)
  DEFINE
    DOWN AS DOWN.price < LAST(DOWN.price, 1) OR (LAST(DOWN.price, 1) IS NULL AND DOWN.price < STRT.price),
    UP AS UP.price > LAST(DOWN.price))
"""


def make_ticks(rows: int, seed: int = 5) -> pa.Table:
    """Return prices of many symbols in order of time, all of them mixed."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "symbol": rng.integers(0, PARTITIONS, rows),
            "ts": np.arange(rows),
            "price": rng.integers(0, 1_000, rows).astype(np.float64),
        }
    )


def measure_in_process(setting: Setting) -> list[Row]:
    """Measure CPU seconds on one core, from a table in memory to the last row."""
    from motet.row_patterns.duckdb_engine import DuckdbEngine
    from motet.row_patterns.statement import run_statement

    rows = setting.pick(1_000_000, 10_000_000)
    ticks = make_ticks(rows)
    cores = pa.cpu_count()
    pa.set_cpu_count(1)

    def run(text: str) -> None:
        with DuckdbEngine({"ticks": ticks}, 10**9) as engine:
            engine.connection.execute("SET threads = 1")
            run_statement(text, "<text>", engine)

    # The same by a condition that speaks of the match so far, which no mask can hold.
    dependent = V_SHAPE.replace("UP.price > PREV(UP.price)", "UP.price > LAST(UP.price, 1) OR UP.price > DOWN.price")
    cases = {"V shape": partial(run, V_SHAPE), "V shape, conditions on the match so far": partial(run, dependent)}
    timings = run_interleaved(cases, setting.repeats, time.process_time)
    pa.set_cpu_count(cores)
    return [
        {
            "case": name,
            "rows": rows,
            "partitions": PARTITIONS,
            "CPU s": Measurement.of(times),
            "M rows/s": Measurement.of(times).rate(rows / 1e6),
        }
        for name, times in timings.items()
    ]


def compare_on_spark(setting: Setting) -> list[Row]:
    """Measure wall and CPU seconds from parquet to nowhere; CPU of the JVM and of Python's workers together."""
    from benchmarks import pipelines
    from motet.spark.session import local_session

    rows = setting.pick(1_000_000, 10_000_000)
    with tempfile.TemporaryDirectory() as folder:
        files = pipelines.write_parquet(make_ticks(rows), Path(folder) / "ticks")
        session = local_session("local[2]")
        tasks = int(session.conf.get("spark.sql.shuffle.partitions") or 4)
        frame = session.read.parquet(files)
        computed = frame.withColumn("price", frame.price + 0)
        matches = V_SHAPE.replace("COUNT(*) AS how_many, SUM(bottom) AS total", "*")
        cases: dict[str, Callable[[], Any]] = {
            "identity": lambda: frame.repartition(tasks, "symbol").mapInArrow(lambda batches: batches, frame.schema),
            "V shape": lambda: motet.sql(matches, {"ticks": frame}),
            "V shape, rows that Spark computes": lambda: motet.sql(matches, {"ticks": computed}),
        }
        spent: Timings = {name: [] for name in cases}

        def run(name: str) -> None:
            before = read_tree_cpu(os.getpid())
            pipelines.consume(cases[name]())
            spent[name].append(read_tree_cpu(os.getpid()) - before)

        timings = run_interleaved({name: partial(run, name) for name in cases}, setting.repeats)
        session.stop()
    cpu = {name: times[1:] for name, times in spent.items()}  # as `run_interleaved` does, without the first round
    return [
        {
            "pipeline": name,
            "rows": rows,
            "wall s": Measurement.of(times),
            "against identity": compute_ratio(times, timings["identity"]),
            "CPU s": Measurement.of(cpu[name]),
            "CPU against identity": compute_ratio(cpu[name], cpu["identity"]),
            "M rows/s": Measurement.of(times).rate(rows / 1e6),
        }
        for name, times in timings.items()
    ]


def compare_with_flink(setting: Setting) -> list[Row]:
    """Run a V shape from a csv file in motet and in Flink SQL, each in a process of its own on two cores."""
    rows = setting.pick(100_000, 10_000_000)
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ticks.csv"
        csv.write_csv(make_ticks(rows), file, csv.WriteOptions(include_header=False))
        for way, python in (("motet", Path(sys.executable)), ("flink", ENVIRONMENT)):
            row: Row = {"way": {"motet": "motet, in process", "flink": "Flink SQL"}[way], "rows": rows}
            found.append(row)
            if not python.exists():
                row["same"] = "not installed: make peers"
                continue
            done = subprocess.run(
                [str(python), str(SCRIPTS / "v_shape.py"), way, str(file), str(setting.repeats)],
                capture_output=True,
                text=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)) if way == "motet" else ""},
                input=V_OF_FLINK,
                check=False,
            )
            if done.returncode:
                row["same"] = f"fails: {find_error(done.stderr)}"
                continue
            answer = json.loads(done.stdout.strip().splitlines()[-1])
            wall, cpu = Measurement.of(answer["wall"]), Measurement.of(answer["cpu"])
            first = found[0].get("matches"), found[0].get("bottoms")
            row |= {
                "matches": answer["matches"],
                "bottoms": answer["bottoms"],
                "same": "yes" if way == "motet" or first == (answer["matches"], answer["bottoms"]) else "no",
                "wall s": wall,
                "CPU s": cpu,
                "k rows per CPU s": cpu.rate(rows / 1e3),
            }
    return found


def find_error(said: str) -> str:
    """Return the last error that a process printed."""
    lines = [line for line in said.splitlines() if "Exception" in line or "Error" in line]
    return (lines or ["no word"])[-1][:160]


EXPERIMENTS = (
    Experiment(
        "sql-v-shape",
        OURS,
        "",
        "SQL row patterns in process: the V shape over 1,000 partitions, one core, from a table in memory",
        Seconds(2, 40),
        measure_in_process,
        needs=("duckdb",),
    ),
    Experiment(
        "sql-spark",
        OURS,
        "",
        "SQL row patterns on Spark local[2]: the V shape against a bare repartition with an identity function",
        Seconds(40, 150),
        compare_on_spark,
        needs=("pyspark",),
        heavy=True,
    ),
    Experiment(
        "sql-flink",
        OURS,
        "",
        "a V shape in motet and in Flink SQL's MATCH_RECOGNIZE, from the same csv file",
        Seconds(30, 300),
        compare_with_flink,
        needs=("duckdb",),
        heavy=True,
        notes=("Flink has no PREV and no greedy loop at the end of a pattern: both run STRT DOWN+ UP without them.",),
    ),
)
