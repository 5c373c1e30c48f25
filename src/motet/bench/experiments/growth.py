"""How cost grows: CPU time by events in a window, queries, pattern length, keys, event types and matches, with the
power of the size with which it grows; wall time on Spark by cores.

One stream of ours, everything but one size held: 10 queries of length 4 over 50 types, 100 keys, 10 minutes sliding by
one, 200 events of a key in a window (one key where the window varies, 10 events where keys do). `alone` runs every
query alone, `online` is what motet does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from motet.bench.engine import matches, programs, timed
from motet.bench.measure import Measured, exponent, in_turn, ratio
from motet.bench.registry import OURS, Axes, Experiment, Row, Seconds, Setting, Stated
from motet.bench.run import middle
from motet.bench.streams import keyed
from motet.engine import Options
from motet.language import parse
from motet.model.query import Workload

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
        """Events in time order, so many of a key in a window."""
        span = self.events * WINDOW // (self.keys * self.in_window)
        return keyed(self.events, self.keys, self.types, max(span, 60))

    def workload(self, returns: str = "COUNT(*)", seed: int = 1) -> Workload:
        """Sequences of types, each at most once in a pattern."""
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


def grown(setting: Setting, size: str, values: Sequence[int], held: Mapping[str, int]) -> list[Row]:
    """Nanoseconds of CPU for each event, and the powers with which the time of a run grows."""
    base = Shape(setting.pick(100_000, 1_000_000))
    rows: list[Row] = []
    for value in values:
        shape = replace(base, **held, **{size: value})
        shape = replace(shape, events=min(shape.events, MOST // shape.queries))
        table = shape.stream()
        plans = {"alone": Options(optimizer="none"), "online": Options()}
        taken = timed(programs(shape.workload(), table, plans), table, setting.repeats)
        rows.append(
            {size: value, **{name: Measured.of(times).scaled(1e9 / len(table)) for name, times in taken.items()}}
        )
    return rows


def by_matches(setting: Setting) -> list[Row]:
    """Matches themselves and their count, by ever more of them: windows that hold more events of each type."""
    rows: list[Row] = []
    for in_window in setting.pick((30, 60, 120), (30, 60, 120, 240)):
        shape = Shape(setting.pick(50_000, 200_000), queries=1, length=3, types=10, in_window=in_window)
        table = shape.stream()
        found = programs(shape.workload("*"), table, {"matches": Options()})
        compiled = {**found, **programs(shape.workload(), table, {"online": Options()})}
        taken = timed(compiled, table, setting.repeats)
        rows.append(
            {
                "matches": matches(found["matches"], table),
                "found": Measured.of(taken["matches"]),
                "counted": Measured.of(taken["online"]),
                "found over counted": ratio(taken["matches"], taken["online"]),
            }
        )
    return rows


def by_cores(setting: Setting) -> list[Row]:
    """The hundred queries of `spark-batch` on one core, on two, and on two executors of one core each."""
    from motet.bench import pipelines
    from motet.spark.session import local_session

    events = setting.pick(200_000, 5_000_000)
    workload = pipelines.sequences(100)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        source = pipelines.written(keyed(events, 10_000, pipelines.TYPES), Path(folder) / "events")
        first: list[float] = []
        for master in ("local[1]", "local[2]", "local-cluster[2,1,1024]"):
            # The same tasks everywhere, so that only who runs them differs.
            session = local_session(master, partitions=4)
            read = partial(session.read.parquet, source)
            cases = {
                "engine": lambda read=read: pipelines.consumed(pipelines.engine(read(), workload)),
                "identity": lambda read=read: pipelines.consumed(pipelines.identity(read())),
            }
            taken = in_turn(cases, setting.pick(min(setting.repeats, 2), setting.repeats))
            session.stop()
            first = first or taken["engine"]
            rows.append(
                {
                    "master": master,
                    **{name: Measured.of(times) for name, times in taken.items()},
                    "speed-up": Measured.of(taken["engine"]).rate(Measured.of(first).median),
                    "M events/s": Measured.of(taken["engine"]).rate(events / 1e6),
                }
            )
    return rows


def power(size: str, column: str, what: str) -> Stated:
    """The power with which a column grows, as fitted."""

    def fitted(rows: Sequence[Mapping[str, Any]]) -> str:
        return f"{exponent([row[size] for row in rows], [middle(row[column]) for row in rows]):.2f}"

    return Stated(what, "", fitted)


def experiment(
    name: str, size: str, about: str, values: Sequence[int], more: Sequence[int], most: int, **held: int
) -> Experiment:
    """One curve over sizes, quick and whole; the whole takes `most` seconds."""

    def run(setting: Setting) -> list[Row]:
        return grown(setting, size, setting.pick(values, more), held)

    fits = tuple(power(size, column, f"power of the growth, {column}") for column in ("alone", "online"))
    axes = Axes(size, ("alone", "online"), "CPU ns an event", log_x=True, log_y=True)
    return Experiment(f"growth-{name}", OURS, "", f"CPU time of an event by {about}", Seconds(4, most), run, axes, fits)


EXPERIMENTS = (
    experiment(
        "window", "in_window", "events of a key in a window", (50, 500, 5_000), (50, 500, 5_000, 50_000), 16, keys=1
    ),
    experiment("queries", "queries", "number of queries", (1, 10, 100), (1, 10, 100, 1_000), 60),
    experiment("length", "length", "length of patterns", (2, 4, 8, 16), (2, 4, 8, 16, 32), 25),
    experiment("keys", "keys", "number of keys", (1, 100, 10_000), (1, 100, 10_000, 100_000), 20, in_window=10),
    experiment("types", "types", "number of event types", (5, 50, 500), (5, 50, 500, 5_000), 20),
    Experiment(
        "growth-matches",
        OURS,
        "",
        "CPU seconds by number of matches: found, and counted online",
        Seconds(4, 16),
        by_matches,
        Axes("matches", ("found", "counted"), "CPU s", log_x=True, log_y=True),
        (
            power("matches", "found", "power of the growth, matches found"),
            power("matches", "counted", "power of the growth, matches counted"),
        ),
    ),
    Experiment(
        "growth-cores",
        OURS,
        "",
        "wall seconds of 100 queries on Spark by cores",
        Seconds(60, 190),
        by_cores,
        needs=("pyspark",),
    ),
)
