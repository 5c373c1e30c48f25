"""Peak memory of `motet run --engine local` over a parquet file of many events, by windows of different length.

python -m benchmarks.memory
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.report import arguments, finish
from benchmarks.streams import keyed

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


def main() -> None:
    """Run and show."""
    options = arguments(__doc__ or "", repeats=1, events=20_000_000)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.parquet"
        write(events, options.events)
        for window in ("1 min", "10 min"):
            queries = Path(folder) / "queries.motet"
            queries.write_text(QUERIES.format(window=window))
            seconds, peak = measured(queries, events, Path(folder) / "results.parquet")
            rows.append(
                {"window": window, "peak GiB": peak, "wall s": seconds, "M events/s": options.events / seconds / 1e6}
            )
    finish(f"{options.events:,} events of 10,000 keys from parquet, two queries, in process", rows, options)


def write(path: Path, events: int) -> None:
    """Write in a process of its own, so that its memory is not counted here."""
    worker = multiprocessing.get_context("spawn").Process(target=_write, args=(path, events))
    worker.start()
    worker.join()
    if worker.exitcode != 0:
        raise SystemExit("the events could not be written")


def _write(path: Path, events: int) -> None:
    pq.write_table(keyed(events, 10_000, span=24 * 3600), path)


def measured(queries: Path, events: Path, output: Path) -> tuple[float, float]:
    """Seconds and peak GiB of one run, told by a process that runs nothing else."""
    script = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:])\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        "sys.exit(done.returncode)\n"
    )
    command = [sys.executable, "-m", "motet", "run", str(queries), "--events", str(events), "--output", str(output)]
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return time.perf_counter() - began, int(done.stdout.split()[-1]) / 2**20


if __name__ == "__main__":
    main()
