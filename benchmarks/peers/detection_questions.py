"""Questions of detection that motet and other engines are asked: in motet's language, and as lines that peers read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TYPES = 15
KEYS = 1_000
Condition = tuple[int, str, float, str, int, str]  # left event, its attribute, offset, < or >, right event, attribute
RISING: tuple[Condition, ...] = ((0, "x", 0.0, "<", 1, "x"), (1, "y", 0.0, "<", 2, "y"))


@dataclass(frozen=True)
class Sequence3:
    """A sequence of three types, of one key or of any; with an absence, or with the second repeated."""

    types: tuple[int, int, int]
    within: int  # milliseconds
    conditions: tuple[Condition, ...] = RISING
    kind: Literal["seq", "not", "kleene", "kleene-any"] = "seq"
    keyed: bool = False
    absent: int = 3

    def text(self, name: str) -> str:
        """Write it in motet's language."""
        first, second, third = (f"T{each}" for each in self.types)
        absent = f"NOT T{self.absent}, " if self.kind == "not" else ""
        loop = "+" if self.kind.startswith("kleene") else ""
        where = ["[k]"] if self.keyed else []
        where += [f"e{a}.{one} + {by} {sign} e{b}.{other}" for a, one, by, sign, b, other in self.conditions]
        second_id = "FIRST(e1).id" if loop else "e1.id"
        return (
            f"QUERY {name} RETURN e0.id AS a, {second_id} AS b, e2.id AS c "
            f"PATTERN SEQ({first} e0, {absent}{second}{loop} e1, {third} e2) "
            f"{'WHERE ' + ' AND '.join(where) if where else ''} WITHIN {self.within} ms "
            f"{'SKIP TILL NEXT' if self.kind == 'kleene' else ''}"
        )

    def line(self) -> str:
        """Write it as a line that peers read."""
        conditions = [f"{a} {one} {by} {sign} {b} {other}" for a, one, by, sign, b, other in self.conditions]
        types = ",".join(f"T{each}" for each in self.types)
        keyed = str(self.keyed).lower()
        return "\t".join([self.kind, types, f"T{self.absent}", str(self.within), keyed, *conditions])


@dataclass(frozen=True)
class DetectionQuestion:
    """Queries that are asked together, and over how many events, quickly and at full size."""

    name: str
    queries: tuple[Sequence3, ...]
    quick: int
    events: int

    def text(self) -> str:
        """Write all queries in motet's language."""
        return "\n".join(query.text(f"q{number}") for number, query in enumerate(self.queries))


def make_random_queries(count: int, seed: int = 3) -> tuple[Sequence3, ...]:
    """Return sequences of random types, with two random conditions each; about one match for 30 events and query."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        first, second, third = (int(each) for each in rng.choice(TYPES, 3, replace=False))
        conditions = tuple(
            (
                at,
                str(rng.choice(["x", "y"])),
                float(rng.integers(0, 50)) / 100,
                "<",
                at + 1,
                str(rng.choice(["x", "y"])),
            )
            for at in (0, 1)
        )
        found.append(Sequence3((first, second, third), int(rng.integers(40, 80)), conditions))
    return tuple(found)


def list_questions() -> tuple[DetectionQuestion, ...]:
    """Return the questions: windows such that there are about 1 and 0.01 matches for an event."""
    some = (0, 1, 2)
    million = (100_000, 1_000_000)
    return (
        DetectionQuestion("one, 1 match per event", (Sequence3(some, 164),), *million),
        DetectionQuestion("one, 0.01 matches", (Sequence3(some, 16),), *million),
        DetectionQuestion("per key, 1 match", (Sequence3(some, 164_000, keyed=True),), *million),
        DetectionQuestion("per key, 0.01 matches", (Sequence3(some, 16_400, keyed=True),), *million),
        DetectionQuestion("10 patterns", make_random_queries(10), 50_000, 200_000),
        DetectionQuestion("50 patterns", make_random_queries(50), 20_000, 200_000),
        DetectionQuestion("200 patterns", make_random_queries(200), 10_000, 200_000),
        DetectionQuestion("NOT, per key", (Sequence3(some, 60_000, kind="not", keyed=True),), *million),
        DetectionQuestion(
            "Kleene, per key, till next",
            (Sequence3(some, 60_000, RISING[:1], kind="kleene", keyed=True),),
            *million,
        ),
        DetectionQuestion(
            "Kleene, per key, any", (Sequence3(some, 60_000, (), kind="kleene-any", keyed=True),), *million
        ),
    )


def make_events(count: int, seed: int = 1) -> pa.Table:
    """Return events of some types and keys, one in a millisecond. Types are words of a dictionary, as from files."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count),
            "time": pa.array(np.arange(count) * 1_000, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(
                rng.integers(0, TYPES, count).astype(np.int32), [f"T{at}" for at in range(TYPES)]
            ),
            "k": rng.integers(0, KEYS, count),
            "x": rng.random(count),
            "y": rng.random(count),
        }
    )


def compute_checksum(query: npt.NDArray[np.int64], bound: Sequence[npt.NDArray[np.int64]]) -> int:
    """Return the checksum of matches, whatever their order: as `Peer.add` does, in 64 bits."""
    first, second, third = ((each + 1).astype(np.uint64) for each in bound)
    with np.errstate(over="ignore"):
        mixed = (query + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ first * np.uint64(0xC2B2AE3D27D4EB4F)
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9) ^ second * np.uint64(
            0x165667B19E3779F9
        )
        mixed = (mixed ^ mixed >> np.uint64(32)) * np.uint64(0x94D049BB133111EB) ^ third * np.uint64(0xD6E8FEB86659FD93)
        return int((mixed ^ mixed >> np.uint64(31)).sum().astype(np.int64))
