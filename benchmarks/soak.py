"""A soak: a stream at a steady rate for twenty minutes; time of each micro-batch, memory and state, and a plot of them.

python -m benchmarks.soak --minutes 20 --plot docs/images/soak.svg
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import median
from benchmarks.spark_batch import TYPES, sequences
from motet.spark import stream
from motet.spark.session import stream_session

STARTING = 3  # micro-batches in which workers start and kernels are loaded
Sample = dict[str, float]


def main() -> None:
    """Run, show, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    samples = soak(options)
    half = len(samples) // 2
    for name in ("batch seconds", "memory MB", "state MB"):
        early, late = (
            median([sample[name] for sample in part]) for part in (samples[half // 2 : half], samples[half:])
        )
        print(f"{name}: {early:,.2f} in the second quarter, {late:,.2f} in the second half")
    print(f"{len(samples)} micro-batches, {samples[-1]['rows']:,.0f} rows")
    if options.json:
        options.json.write_text(json.dumps(samples))
    if options.plot:
        options.plot.parent.mkdir(exist_ok=True)
        options.plot.write_text(
            drawn(samples, f"{options.rate:,} rows/s, {options.keys:,} keys, {options.queries} queries")
        )


def soak(options: argparse.Namespace) -> list[Sample]:
    """What each micro-batch took and held."""
    session = stream_session("local[2]")
    rate = session.readStream.format("rate").option("rowsPerSecond", options.rate).option("numPartitions", 2).load()
    events = rate.selectExpr(
        "timestamp AS time",
        f"concat('t', pmod(xxhash64(value), {TYPES})) AS type",
        f"pmod(xxhash64(value, 7), {options.keys}) AS key",
    )
    samples: list[Sample] = []
    rows = state = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as checkpoint:
        results = stream.run(events, sequences(options.queries), watermark="5 seconds")
        writer = results.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="5 seconds").start()
        seen = -1
        while time.monotonic() - began < options.minutes * 60:
            time.sleep(1)
            last = query.lastProgress
            if last is None or last.batchId == seen:
                continue
            seen = last.batchId
            progress: dict[str, Any] = json.loads(last.json)
            rows += progress["numInputRows"]
            state += (progress.get("observedMetrics", {}).get(stream.METRICS) or {}).get("state_bytes") or 0
            samples.append(
                {
                    "minute": (time.monotonic() - began) / 60,
                    "batch seconds": progress["durationMs"]["triggerExecution"] / 1000,
                    "memory MB": memory() / 1e6,
                    "state MB": state / 1e6,
                    "rows": rows,
                }
            )
        query.stop()
    session.stop()
    return samples[STARTING:]


def memory() -> int:
    """Resident bytes of this process and all that it started; what they share counts in each."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)], sizes[int(folder.name)] = int(fields[1]), int(fields[21])
    family = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(sizes[process] for process in family if process in sizes) * os.sysconf("SC_PAGE_SIZE")


def drawn(samples: list[Sample], title: str) -> str:
    """Three curves over time, each from zero, as SVG."""
    width, height, left = 720, 110, 60
    end = samples[-1]["minute"]
    parts = [f'<text x="{left}" y="18" font-weight="bold">{title}</text>']
    for at, name in enumerate(("batch seconds", "memory MB", "state MB")):
        top = 40 + at * (height + 45)
        most = max(sample[name] for sample in samples) or 1.0
        points = " ".join(
            f"{left + width * sample['minute'] / end:.1f},{top + height * (1 - sample[name] / most):.1f}"
            for sample in samples
        )
        parts += [
            f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#bbb"/>',
            f'<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-width="1.2"/>',
            f'<text x="{left - 6}" y="{top + 10}" text-anchor="end">{most:,.{0 if most >= 100 else 1}f}</text>',
            f'<text x="{left - 6}" y="{top + height}" text-anchor="end">0</text>',
            f'<text x="{left + 4}" y="{top + height - 6}" fill="#1f5fa8">{name}</text>',
        ]
    bottom = 40 + 3 * (height + 45)
    parts.append(f'<text x="{left + width}" y="{bottom - 28}" text-anchor="end">{end:.0f} minutes</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}" height="{bottom - 15}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    main()
