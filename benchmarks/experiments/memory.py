"""Peak memory of `motet run --engine local` over a parquet file of many events, by windows of different length."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.engine import describe_units
from benchmarks.measure import ChildError, Measurement, MemoryMonitor
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting
from benchmarks.streams import make_keyed_stream

QUERIES = """
QUERY counted
RETURN COUNT(*), SUM(b.value)
PATTERN SEQ(t0 a, t1 b, t2 c)
WHERE [key] WITHIN {window} SLIDE 1 min

QUERY trends
RETURN key, COUNT(*)
PATTERN SEQ(t3, t4+, t5)
GROUP BY key WITHIN {window}
"""


def vary_window(setting: Setting) -> list[Row]:
    """Measure the command as a user runs it, start and all."""
    events = setting.pick(500_000, 20_000_000)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "events.parquet"
        pq.write_table(make_keyed_stream(events, 10_000, span=24 * 3600), file)
        for window in ("1 min", "10 min"):
            queries = Path(folder) / "queries.motet"
            queries.write_text(QUERIES.format(window=window))
            runs = [run_command(queries, file, Path(folder) / "results.parquet") for _ in range(setting.repeats)]
            seconds = Measurement.of([seconds for seconds, _ in runs])
            rows.append(
                {
                    "events": events,
                    "window": window,
                    "peak GiB": max(peak for _, peak in runs) / 2**30,
                    "wall s": seconds,
                    "M events/s": seconds.rate(events / 1e6),
                    "ran": describe_command(queries, file),
                }
            )
    return rows


def run_command(queries: Path, events: Path, output: Path) -> tuple[float, int]:
    """Return the seconds and peak bytes of one run."""
    command = [sys.executable, "-m", "motet", "run", str(queries), "--events", str(events), "--output", str(output)]
    began = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        watch = MemoryMonitor(process.pid)
        _, said = process.communicate()
        peak = watch.stop()
    if process.returncode != 0:
        raise ChildError(said)
    return time.perf_counter() - began, peak


def describe_command(queries: Path, events: Path) -> str:
    """Run the queries once more, for what is executed."""
    command = [sys.executable, "-m", "motet", "plan", str(queries), "--events", str(events), "--analyze"]
    said = subprocess.run([*command, "--format", "json"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return describe_units(json.loads(said)["executed"])


EXPERIMENTS = (
    Experiment(
        "memory",
        OURS,
        "",
        "peak memory and time of `motet run --engine local` from parquet, two queries",
        Seconds(18, 70),
        vary_window,
    ),
)
