"""How cost grows: CPU time by events in a window, queries, pattern length, keys, event types and matches, with the
power of the size with which it grows.

One stream of ours, everything but one size held: 10 queries of length 4 over 50 types, 100 keys, 10 minutes sliding by
one, 200 events of a key in a window (one key where the window varies, 10 events where keys do). `alone` runs every
query alone, `online` is what motet does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.engine import compile_plans, count_matches, time_programs
from benchmarks.measure import Measurement, compute_ratio, fit_exponent
from benchmarks.registry import OURS, Axes, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from benchmarks.streams import make_keyed_stream
from motet.language import parse
from motet.model.query import Workload
from motet.options import Options

MINUTES = 10
WINDOW = MINUTES * 60
MOST = 100_000_000  # events times queries: a thousand queries give more results than a million events are


@dataclass(frozen=True, slots=True)
class Shape:
    """What is held, and what varies."""

    events: int
    queries: int = 10
    length: int = 4
    types: int = 50
    keys: int = 100
    in_window: int = 200

    def stream(self) -> pa.Table:
        """Return events in time order, so many of a key in a window."""
        span = self.events * WINDOW // (self.keys * self.in_window)
        return make_keyed_stream(self.events, self.keys, self.types, max(span, 60))

    def workload(self, returns: str = "COUNT(*)", seed: int = 1) -> Workload:
        """Return sequences of types, each at most once in a pattern."""
        rng = np.random.default_rng(seed)
        texts = []
        for number in range(self.queries):
            kinds = rng.choice(self.types, self.length, replace=False)
            pattern = ", ".join(f"t{kind}" for kind in kinds)
            texts.append(
                f"QUERY q{number}\nRETURN {returns}\nPATTERN SEQ({pattern})\nGROUP BY key\n"
                f"WITHIN {MINUTES} min SLIDE 1 min"
            )
        return parse("\n\n".join(texts))


def measure_growth(setting: Setting, size: str, values: Sequence[int], held: Mapping[str, int]) -> list[Row]:
    """Measure the CPU nanoseconds of an event, and the powers with which the time of a run grows."""
    base = Shape(setting.pick(100_000, 1_000_000))
    rows: list[Row] = []
    for value in values:
        shape = replace(base, **held, **{size: value})
        shape = replace(shape, events=min(shape.events, MOST // shape.queries))
        table = shape.stream()
        plans = {"alone": Options(optimizer="none"), "online": Options()}
        timings, ran = time_programs(compile_plans(shape.workload(), table, plans), table, setting.repeats)
        costs = {name: Measurement.of(times).scale(1e9 / len(table)) for name, times in timings.items()}
        rows.append({size: value, **costs, "ran": ran})
    return rows


def vary_matches(setting: Setting) -> list[Row]:
    """Measure finding and counting ever more matches: windows that hold more events of each type."""
    rows: list[Row] = []
    for in_window in setting.pick((30, 60, 120), (30, 60, 120, 240)):
        shape = Shape(setting.pick(50_000, 200_000), queries=1, length=3, types=10, in_window=in_window)
        table = shape.stream()
        found = compile_plans(shape.workload("*"), table, {"matches": Options()})
        compiled = {**found, **compile_plans(shape.workload(), table, {"online": Options()})}
        timings, ran = time_programs(compiled, table, setting.repeats)
        rows.append(
            {
                "matches": count_matches(found["matches"], table),
                "found": Measurement.of(timings["matches"]),
                "counted": Measurement.of(timings["online"]),
                "found over counted": compute_ratio(timings["matches"], timings["online"]),
                "ran": ran,
            }
        )
    return rows


def claim_power(size: str, column: str, what: str) -> Claim:
    """State the power with which a column grows, as fitted."""

    def fit(rows: Sequence[Mapping[str, Any]]) -> str:
        return f"{fit_exponent([row[size] for row in rows], [get_median(row[column]) for row in rows]):.2f}"

    return Claim(what, "", fit)


def make_experiment(
    name: str, size: str, about: str, values: Sequence[int], more: Sequence[int], most: int, **held: int
) -> Experiment:
    """Return one curve over sizes, quick and whole; the whole takes `most` seconds."""

    def run(setting: Setting) -> list[Row]:
        return measure_growth(setting, size, setting.pick(values, more), held)

    fits = tuple(claim_power(size, column, f"power of the growth, {column}") for column in ("alone", "online"))
    axes = Axes(size, ("alone", "online"), "CPU ns an event", log_x=True, log_y=True)
    return Experiment(f"growth-{name}", OURS, "", f"CPU time of an event by {about}", Seconds(4, most), run, axes, fits)


EXPERIMENTS = (
    make_experiment(
        "window", "in_window", "events of a key in a window", (50, 500, 5_000), (50, 500, 5_000, 50_000), 16, keys=1
    ),
    make_experiment("queries", "queries", "number of queries", (1, 10, 100), (1, 10, 100, 1_000), 60),
    make_experiment("length", "length", "length of patterns", (2, 4, 8, 16), (2, 4, 8, 16, 32), 25),
    make_experiment("keys", "keys", "number of keys", (1, 100, 10_000), (1, 100, 10_000, 100_000), 20, in_window=10),
    make_experiment("types", "types", "number of event types", (5, 50, 500), (5, 50, 500, 5_000), 20),
    Experiment(
        "growth-matches",
        OURS,
        "",
        "CPU seconds by number of matches: found, and counted online",
        Seconds(4, 16),
        vary_matches,
        Axes("matches", ("found", "counted"), "CPU s", log_x=True, log_y=True),
        (
            claim_power("matches", "found", "power of the growth, matches found"),
            claim_power("matches", "counted", "power of the growth, matches counted"),
        ),
    ),
)
