"""Workloads that share as those of the Sharon paper do (figures 1 and 2, section VIII), made from a seed.

A few *runs* of types are popular: streets that many trips follow one after another, items that are bought one after
another. A query follows a popular run, may enter it late, leave it early or change to another, and has up to two types
of its own before and after: `Monitor, Laptop, Case, Adapter` and `Laptop, Case, Phone, ScreenProtector`. So queries
have many runs in common, and most of these overlap others. Up to four fifths of all positions can be shared, so that no
plan can be more than five times faster than none.

With `legs=True` patterns are made of nothing but *legs*, five types that always follow each other, in any order of
legs. All positions can be shared, each leg by more queries the more there are: the kind of workload in which the
paper's factors, 5 at 20 queries and 18 at 120, are possible at all.

    ecommerce(queries=20, length=10)  # 50 items, [customer], 20 minutes sliding by one
    taxi(queries=20, length=10)       # 100 streets, [vehicle], 10 minutes sliding by one
    traffic(queries=20, length=10)    # 100 segments of a road, [car], 10 minutes sliding by one

Streams for them are in `benchmarks.streams`, under the same names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motet.language import parse
from motet.model.query import Workload

LONGEST = 40  # more than any pattern of the paper
LEG = 5
RUN_SEED = 2018


@dataclass(frozen=True, slots=True)
class Scene:
    """What a data set speaks of: its event types, how many runs of them are popular, and the key of a sequence."""

    prefix: str
    kinds: int
    runs: int
    key: str
    within: str
    slide: str

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{kind}" for kind in range(self.kinds))

    def legs(self) -> np.ndarray:
        """Return all types in legs, one in a row: each type is in one leg."""
        rng = np.random.default_rng(RUN_SEED)
        return rng.permutation(self.kinds)[: self.kinds // LEG * LEG].reshape(-1, LEG)

    def popular(self) -> np.ndarray:
        """Return the popular runs, one in a row, each without repetition: the same for every workload and stream."""
        rng = np.random.default_rng(RUN_SEED)
        return np.stack([rng.permutation(self.kinds)[:LONGEST] for _ in range(self.runs)])


ECOMMERCE = Scene("item", kinds=50, runs=5, key="customer", within="20 min", slide="1 min")
TAXI = Scene("street", kinds=100, runs=8, key="vehicle", within="10 min", slide="1 min")
TRAFFIC = Scene("segment", kinds=100, runs=6, key="car", within="10 min", slide="1 min")


def ecommerce(
    queries: int = 20, length: int = 10, seed: int = 1, within: str = "", slide: str = "", legs: bool = False
) -> Workload:
    """Return purchase sequences like q8-q11."""
    return make_workload(ECOMMERCE, queries, length, seed, within, slide, legs)


def taxi(
    queries: int = 20, length: int = 10, seed: int = 1, within: str = "", slide: str = "", legs: bool = False
) -> Workload:
    """Return trips over streets like q1-q7."""
    return make_workload(TAXI, queries, length, seed, within, slide, legs)


def traffic(
    queries: int = 20, length: int = 10, seed: int = 1, within: str = "", slide: str = "", legs: bool = False
) -> Workload:
    """Return cars on the segments of an expressway, as Linear Road has them, in queries like q1-q7."""
    return make_workload(TRAFFIC, queries, length, seed, within, slide, legs)


def make_workload(
    scene: Scene, queries: int, length: int, seed: int, within: str = "", slide: str = "", legs: bool = False
) -> Workload:
    """Return sequences of one length over a scene; a window other than the paper's where given, such as '70 s'."""
    rng = np.random.default_rng(seed)
    runs = scene.popular()
    window = f"WITHIN {within or scene.within} SLIDE {slide or scene.slide}"
    texts = []
    for number in range(queries):
        kinds = join_legs(scene, length, rng) if legs else draw_sequence(scene, runs, length, rng)
        pattern = ", ".join(scene.types[kind] for kind in kinds)
        texts.append(f"QUERY q{number}\nRETURN COUNT(*)\nPATTERN SEQ({pattern})\nWHERE [{scene.key}]\n{window}")
    return parse("\n\n".join(texts))


def draw_sequence(scene: Scene, runs: np.ndarray, length: int, rng: np.random.Generator) -> list[int]:
    """Draw one pattern: own types, a stretch of a popular run (or the heads of two), own types; no type twice."""
    lead, tail = (int(own) for own in rng.choice(3, 2, p=[0.4, 0.4, 0.2]))
    lead = min(lead, max(length - 2, 0))
    body = max(length - lead - tail, 2)
    run = runs[rng.integers(len(runs))]
    enters = 0 if rng.random() < 0.6 else int(rng.integers(0, 3))
    follows = [int(kind) for kind in run[enters : enters + body]]
    if body >= 4 and rng.random() < 0.3:
        follows = follows[: int(rng.integers(2, body - 1))]
        other = runs[rng.integers(len(runs))]
        follows += [int(kind) for kind in other if kind not in follows][: body - len(follows)]
    own = [int(kind) for kind in rng.permutation(scene.kinds) if kind not in follows]
    return [*own[:lead], *follows, *own[lead : length - body]][:length]


def join_legs(scene: Scene, length: int, rng: np.random.Generator) -> list[int]:
    """Draw one pattern made of legs in any order, the last one cut short where it is too long."""
    order = scene.legs()[rng.permutation(scene.kinds // LEG)]
    return [int(kind) for kind in order.reshape(-1)[:length]]
