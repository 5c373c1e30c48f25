"""Finding the matches themselves: many patterns over stock-like events, the order of joins, and the shared graph."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pyarrow as pa

from motet.bench.engine import matches
from motet.bench.measure import Measured, in_turn, ratio
from motet.bench.registry import OURS, Axes, Experiment, Row, Seconds, Setting
from motet.engine import EventSchema, Options, compile_workload
from motet.language import parse
from motet.model.query import Workload

SYMBOLS = ("AAPL", "AMZN", "GOOG", "MSFT")
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


def whole_run(workload: Workload, events: pa.Table, optimizer: str = "auto") -> int:
    """All of a run in process, compilation of the queries included: how many matches left, batch by batch."""
    return matches(compile_workload(workload, EventSchema(events.schema), Options(optimizer=optimizer)), events)


def many_patterns(setting: Setting) -> list[Row]:
    """Events and matches per CPU second, by number of patterns."""
    pa.set_cpu_count(1)
    table = stocks(setting.pick(3_000, 50_000))
    rows: list[Row] = []
    for count in setting.pick((1, 10, 50), (1, 10, 50, 500)):
        workload = patterns(count)
        found = whole_run(workload, table)
        taken = Measured.of(in_turn({"": partial(whole_run, workload, table)}, setting.repeats, time.process_time)[""])
        rows.append(
            {
                "patterns": count,
                "k events/s": taken.rate(len(table) / 1e3),
                "matches": found,
                "M matches/s": taken.rate(found / 1e6),
                "times OpenCEP": taken.rate(len(table)).scaled(1 / OPENCEP[count]) if count in OPENCEP else None,
            }
        )
    return rows


def reordering(setting: Setting) -> list[Row]:
    """SEQ(A, B, C) where C is a hundred times as rare: joined as written, and as planned."""
    pa.set_cpu_count(1)
    events = setting.pick(20_000, 100_000)
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
    cases = {
        "as written": partial(whole_run, workload, table, "none"),
        "planned": partial(whole_run, workload, table, "auto"),
    }
    found = {name: case() for name, case in cases.items()}
    taken = in_turn(cases, setting.repeats, time.process_time)
    return [
        {
            "joined": name,
            "seconds": Measured.of(times),
            "matches": found[name],
            "times faster": ratio(taken["as written"], times),
        }
        for name, times in taken.items()
    ]


def compact(setting: Setting) -> list[Row]:
    """SEQ(A, B+, C): countless partial matches in every window, and a C only where few of them complete."""
    pa.set_cpu_count(1)
    events = setting.pick(500_000, 1_000_000)
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
    windows = (1_000, 10_000, 100_000)
    workloads = {window: parse(f"RETURN * PATTERN SEQ(A a, B+ b, C c) WITHIN {window} us") for window in windows}
    cases = {str(window): partial(whole_run, workload, table) for window, workload in workloads.items()}
    taken = in_turn(cases, setting.repeats, time.process_time)
    return [
        {
            "events in the window": int(window),
            "ns an event": Measured.of(times).scaled(1e9 / events),
            "against the first": ratio(times, taken[str(windows[0])]),
        }
        for window, times in taken.items()
    ]


EXPERIMENTS = (
    Experiment(
        "detect",
        OURS,
        "",
        "matches found: SEQ of three with two conditions between events, by number of patterns",
        Seconds(6, 90),
        many_patterns,
        Axes("patterns", ("k events/s",), "k events / CPU s", log_x=True, log_y=True),
        notes=("OpenCEP (Python) on work of this kind: 9,000, 1,400 and 370 events per CPU second.",),
    ),
    Experiment(
        "detect-order", OURS, "", "joins as planned against as written, rarest type last", Seconds(4, 12), reordering
    ),
    Experiment(
        "detect-compact",
        OURS,
        "",
        "SEQ(A, B+, C) returning matches: an event that completes none, by window",
        Seconds(3, 8),
        compact,
    ),
)
