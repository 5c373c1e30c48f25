"""Peak memory of `motet run --engine local` over a parquet file of many events, by windows of different length."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from motet.bench.measure import ChildError, Measured, Watch
from motet.bench.registry import OURS, Experiment, Row, Seconds, Setting
from motet.bench.streams import keyed

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


def by_window(setting: Setting) -> list[Row]:
    """The command as a user runs it, start and all."""
    events = setting.pick(500_000, 20_000_000)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "events.parquet"
        pq.write_table(keyed(events, 10_000, span=24 * 3600), file)
        for window in ("1 min", "10 min"):
            queries = Path(folder) / "queries.motet"
            queries.write_text(QUERIES.format(window=window))
            runs = [measured(queries, file, Path(folder) / "results.parquet") for _ in range(setting.repeats)]
            seconds = Measured.of([seconds for seconds, _ in runs])
            rows.append(
                {
                    "events": events,
                    "window": window,
                    "peak GiB": max(peak for _, peak in runs) / 2**30,
                    "wall s": seconds,
                    "M events/s": seconds.rate(events / 1e6),
                }
            )
    return rows


def measured(queries: Path, events: Path, output: Path) -> tuple[float, int]:
    """Seconds and peak bytes of one run."""
    command = [sys.executable, "-m", "motet", "run", str(queries), "--events", str(events), "--output", str(output)]
    began = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        watch = Watch(process.pid)
        _, said = process.communicate()
        peak = watch.stop()
    if process.returncode != 0:
        raise ChildError(said)
    return time.perf_counter() - began, peak


EXPERIMENTS = (
    Experiment(
        "memory",
        OURS,
        "",
        "peak memory and time of `motet run --engine local` from parquet, two queries",
        Seconds(18, 70),
        by_window,
    ),
)
