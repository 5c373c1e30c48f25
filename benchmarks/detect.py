"""Finding the matches themselves: many patterns over stock-like events, the order of joins, and the shared graph.

python -m benchmarks.detect
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.report import arguments, median, show
from motet.engine import EventSchema, Options, compile_workload
from motet.engine.local import LocalRun
from motet.language import parse
from motet.model.query import Workload

SYMBOLS = ("AAPL", "AMZN", "GOOG", "MSFT")
MINUTE = 60_000_000
PATTERNS = (1, 10, 50, 500)
# OpenCEP on 1,652 events of 4 symbols, SEQ of 3 with two pairwise conditions in 5 minutes: events per CPU second with
# sharing of subtrees, by number of patterns.
OPENCEP = {1: 9_000, 10: 1_400, 50: 370}


def stocks(events: int, seed: int = 2) -> pa.Table:
    """Prices of four symbols, a random walk with noise; matches are as many per event as in OpenCEP's run."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, events * 9, events)) * 1_000_000
    symbol = rng.integers(0, len(SYMBOLS), events)
    price = 100 + np.cumsum(rng.normal(0, 0.2, events))
    return pa.table(
        {
            "time": pa.array(at, pa.timestamp("us")),
            "type": pa.array(SYMBOLS).take(pa.array(symbol)),
            "price": pa.array(price + rng.normal(0, 1, events)),
            "volume": pa.array(rng.integers(100, 1000, events)),
        }
    )


def patterns(count: int, seed: int = 4) -> Workload:
    """Sequences of three symbols with two conditions between them, all different, in windows of 3 to 5 minutes."""
    rng = np.random.default_rng(seed)
    texts = []
    for number in range(count):
        a, b, c = (SYMBOLS[at] for at in rng.choice(len(SYMBOLS), 3, replace=False))
        one, other = rng.choice(["<", ">"], 2)
        left, right = rng.choice(["price", "volume"], 2)
        factor = 1 + number % 25 / 100
        texts.append(
            f"QUERY q{number}\nRETURN *\nPATTERN SEQ({a} a, {b} b, {c} c)\n"
            f"WHERE a.{left} {one} b.{left} AND b.{right} * {factor} {other} c.{right}\nWITHIN {3 + number % 3} min"
        )
    return parse("\n\n".join(texts))


def timed(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The median of CPU seconds, and the last result."""
    result = run()
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        result = run()
        seconds.append(time.process_time() - began)
    return median(seconds), result


def run_workload(workload: Workload, events: pa.Table, optimizer: str = "auto") -> int:
    """All of a run in process, compilation of the queries included: how many matches left, batch by batch."""
    program = compile_workload(workload, EventSchema(events.schema), Options(optimizer=optimizer))
    return sum(len(table) for table in LocalRun(program).over_table(events))


def many_patterns(events: int, repeats: int) -> list[dict[str, Any]]:
    """Events and matches per second and peak memory, by number of patterns; each in a process of its own."""
    rows = []
    for count in PATTERNS:
        alone = [sys.executable, "-m", "benchmarks.detect", "--patterns", str(count), "--events", str(events)]
        found = json.loads(
            subprocess.run([*alone, "--repeats", str(repeats)], capture_output=True, text=True, check=True).stdout
        )
        rate = events / found["seconds"]
        against = f"{rate / OPENCEP[count]:,.0f} times" if count in OPENCEP else "(not run)"
        rows.append(
            {
                "patterns": str(count),
                "events/s": rate,
                "matches": found["matches"],
                "matches/s": found["matches"] / found["seconds"],
                "peak MiB": found["peak"] / 2**20,
                "against OpenCEP": against,
            }
        )
    return rows


def one_process(count: int, events: int, repeats: int) -> None:
    """One number of patterns; prints what was measured."""
    table, workload = stocks(events), patterns(count)
    seconds, result = timed(lambda: run_workload(workload, table), repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "matches": result, "peak": peak}))


def reordering(events: int, repeats: int) -> list[dict[str, Any]]:
    """SEQ(A, B, C) where C is a hundred times as rare: joined as written, and as planned."""
    rng = np.random.default_rng(6)
    kind = rng.choice(3, events, p=[0.4975, 0.4975, 0.005])
    table = pa.table(
        {
            "time": pa.array(np.arange(events) * 1_000_000, pa.timestamp("us")),
            "type": pa.array(["A", "B", "C"]).take(pa.array(kind)),
            "x": pa.array(rng.random(events)),
        }
    )
    text = "RETURN a.x AS ax, c.x AS cx PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x * 0.1 WITHIN 10 min"
    workload = parse(text)
    rows = []
    for name, optimizer in (("as written", "none"), ("planned", "auto")):
        seconds, result = timed(lambda optimizer=optimizer: run_workload(workload, table, optimizer), repeats)
        rows.append({"joined": name, "seconds": seconds, "matches": result, "events/s": events / seconds})
    rows[0]["times faster"] = 1.0
    rows[1]["times faster"] = rows[0]["seconds"] / rows[1]["seconds"]
    return rows


def compact(events: int, repeats: int) -> list[dict[str, Any]]:
    """SEQ(A, B+, C): countless partial matches in every window, and a C only where few of them complete."""
    rng = np.random.default_rng(8)
    kind = rng.choice(2, events)
    # A stretch at the end longer than the largest window without A, then one match.
    kind[-200_000:] = 3
    kind[-4:] = (0, 1, 1, 2)
    table = pa.table(
        {
            "time": pa.array(np.arange(events), pa.timestamp("us")),
            "type": pa.array(["A", "B", "C", "Z"]).take(pa.array(kind)),
        }
    )
    rows = []
    for window in (1_000, 10_000, 100_000):
        text = f"RETURN * PATTERN SEQ(A a, B+ b, C c) WITHIN {window} us"
        workload = parse(text)
        seconds, result = timed(lambda workload=workload: run_workload(workload, table), repeats)
        rows.append({"events in the window": f"{window:,}", "ns/event": seconds / events * 1e9, "matches": result})
    for row in rows:
        row["against the first"] = row["ns/event"] / rows[0]["ns/event"]
    return rows


def main() -> None:
    """Run and show."""
    options = arguments(__doc__ or "", repeats=3, events=50_000, patterns=0)
    pa.set_cpu_count(1)
    if options.patterns:
        one_process(options.patterns, options.events, options.repeats)
        return
    results = {
        "SEQ of 3 with two pairwise conditions": many_patterns(options.events, options.repeats),
        "rare type last, 100 times rarer": reordering(2 * options.events, options.repeats),
        "compact: cost of an event that completes nothing": compact(20 * options.events, options.repeats),
    }
    for title, rows in results.items():
        show(title, rows)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
