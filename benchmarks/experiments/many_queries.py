"""Many queries at once: a thousand of them over two million events, from their text to the last result."""

from __future__ import annotations

import random
import time

import numpy as np
import pyarrow as pa

import motet
from benchmarks.engine import describe_units
from benchmarks.measure import Measurement
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting

TYPES, KEYS = 20, 100
RATE = 500  # events a second of their own time
WINDOWS = ("WITHIN 10 min SLIDE 1 min", "WITHIN 20 min SLIDE 5 min", "WITHIN 5 min SLIDE 5 min")
# What random queries of a case begin with, and how keys come into them.
CASES = {
    "sequences by key": ("", "GROUP BY key"),
    "half of them repeat their first event": ("+", "GROUP BY key"),
    "sequences of one key, counted over all": ("", "WHERE [key]"),
}


def make_queries(count: int, repeat: str, keys: str) -> str:
    """Return sequences of two to four types, with or without a sum, in three kinds of window."""
    rng = random.Random(3)
    texts = []
    for number in range(count):
        types = [f"t{kind}" for kind in rng.sample(range(TYPES), rng.randint(2, 4))]
        pattern = ", ".join([types[0] + rng.choice(["", repeat]), *types[1:]])
        returns = rng.choice(["COUNT(*)", f"COUNT(*), SUM({types[0]}.x)"])
        texts.append(f"QUERY q{number} RETURN {returns} PATTERN SEQ({pattern}) {keys} {rng.choice(WINDOWS)}")
    return "\n".join(texts)


def make_events(count: int) -> pa.Table:
    """Return events at a steady rate, with random types, keys and whole numbers."""
    rng = np.random.default_rng(1)
    names = pa.array([f"t{kind}" for kind in range(TYPES)])
    return pa.table(
        {
            "time": pa.array(np.arange(count) * 1_000_000 // RATE, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, TYPES, count), pa.int8()), names),
            "key": rng.integers(0, KEYS, count),
            "x": rng.integers(0, 100, count),
        }
    )


def run_many(setting: Setting) -> list[Row]:
    """Measure the seconds from the text of the queries to a plan, and to all results."""
    queries = setting.pick(200, 1_000)
    events = make_events(setting.pick(200_000, 2_000_000))
    rows: list[Row] = []
    for case, kind in CASES.items():
        text = make_queries(queries, *kind)
        plans, runs = [], []
        answer = motet.ask(events.slice(0, 1_000), text)  # kernels are loaded
        for _ in range(setting.repeats):
            began = time.perf_counter()
            motet.plan(events, text)
            planned = time.perf_counter()
            answer = motet.ask(events, text)
            plans.append(planned - began)
            runs.append(time.perf_counter() - planned)
        rows.append(
            {
                "case": case,
                "queries": queries,
                "M events": len(events) / 1e6,
                "M results": len(answer) / 1e6,
                "plan s": Measurement.of(plans),
                "run s": Measurement.of(runs),
                "ran": describe_units([each.describe() for each in answer.executed]),
            }
        )
    return rows


EXPERIMENTS = (
    Experiment(
        name="many-queries",
        paper=OURS,
        figure="",
        measures="seconds to plan random queries, and to plan and run them",
        seconds=Seconds(30, 300),
        run=run_many,
        heavy=True,
        notes=(
            "The events are in memory. A run parses and plans the queries too.",
            "Repeated events have more matches than 64 bits count: such counts are null, and their keys run again.",
        ),
    ),
)
