"""What motet and its peers are asked: the data and the question, written where each can read them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.registry import Seconds

MINUTE = 60_000_000
START = 1_577_836_800_000_000  # the beginning of 2020
MILLISECOND = 1_000  # the finest time that Flink knows


@dataclass(frozen=True)
class Scenario:
    """A stream and sequences to count in it, per key, in windows of some panes of a minute. `dense` is how many events
    a key has in a window, `seconds` how long all peers take."""

    name: str
    about: str
    seconds: Seconds
    quick: int
    events: int
    keys: int
    types: int
    dense: int
    minutes: int
    patterns: tuple[tuple[str, ...], ...]

    def table(self, events: int, keys: int | None = None, ties: bool = False, seed: int = 4) -> pa.Table:
        """Draw so many events, in time order; with `ties`, many of a key at one moment."""
        rng = np.random.default_rng(seed)
        keys = keys or self.keys
        span = max(events * self.minutes // (self.dense * keys), 1) * MINUTE
        tick = span // max(events // (4 * keys), 1) if ties else MILLISECOND
        time = np.sort(rng.integers(0, max(span // tick, 1), events)) * tick
        # To whole milliseconds again, whatever the tick.
        time = START + time // MILLISECOND * MILLISECOND
        names = pa.array([f"t{number}" for number in range(self.types)])
        return pa.table(
            {
                "time": pa.array(time, pa.int64()),
                "type": names.take(pa.array(rng.integers(0, self.types, events))),
                "key": pa.array(rng.integers(0, keys, events), pa.int64()),
            }
        )

    def write(self, folder: Path, table: pa.Table, limit: float, keep_rows: bool) -> None:
        """Write the events and the question, as `solutions/harness.py` reads them."""
        folder.mkdir(parents=True)
        pq.write_table(table, folder / "events.parquet")
        pa.csv.write_csv(table, folder / "events.csv", pa.csv.WriteOptions(include_header=False, quoting_style="none"))
        question = {
            "text": self.text(),
            "patterns": [list(pattern) for pattern in self.patterns],
            "within": self.minutes * MINUTE,
            "slide": MINUTE,
            "limit": limit,
            "keep_rows": keep_rows,
        }
        (folder / "question.json").write_text(json.dumps(question))

    def text(self) -> str:
        """Return the question as a workload."""
        return "\n\n".join(
            f"QUERY q{number}\nRETURN COUNT(*)\nPATTERN SEQ({', '.join(pattern)})\nGROUP BY key\n"
            f"WITHIN {self.minutes} min SLIDE 1 min"
            for number, pattern in enumerate(self.patterns)
        )


def make_sequence(length: int, skip: int = 0, types: int = 10) -> tuple[str, ...]:
    return tuple(f"t{(skip + at) % types}" for at in range(length))


def make_overlapping(count: int, types: int = 10, seed: int = 9) -> tuple[tuple[str, ...], ...]:
    """Return sequences of four or five, most of them along one of three popular runs."""
    rng = np.random.default_rng(seed)
    runs = [rng.permutation(types) for _ in range(3)]
    found = []
    for _ in range(count):
        run, length = runs[rng.integers(3)], int(rng.integers(4, 6))
        enters = int(rng.integers(0, types - length + 1))
        found.append(tuple(f"t{kind}" for kind in run[enters : enters + length]))
    return tuple(found)


SCENARIOS = (
    Scenario(
        "s1",
        "SEQ of 3, 60 events of a key in a window",
        Seconds(62, 480),
        50_000,
        200_000,
        1_000,
        10,
        60,
        10,
        (make_sequence(3),),
    ),
    Scenario(
        "s2",
        "SEQ of 4, 200 events of a key in a window",
        Seconds(65, 740),
        20_000,
        200_000,
        200,
        10,
        200,
        10,
        (make_sequence(4),),
    ),
    Scenario(
        "s3",
        "SEQ of 4 over Sharon's e-commerce stream: 20 keys, 50 types, 180,000 events of a key in 20 minutes",
        Seconds(77, 540),
        100_000,
        2_000_000,
        20,
        50,
        180_000,
        20,
        (make_sequence(4, types=50),),
    ),
    Scenario(
        "s4",
        "20 queries of length 4 and 5 that share parts, data of s1",
        Seconds(100, 660),
        10_000,
        200_000,
        1_000,
        10,
        60,
        10,
        make_overlapping(20),
    ),
)
