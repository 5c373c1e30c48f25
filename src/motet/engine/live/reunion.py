"""Saved totals for units that are put together otherwise than those that were saved.

A plan that changes lets queries run together that ran apart, or apart that ran together. What a node of an automaton
holds does not depend on that, so each node goes on from whichever unit knew it; where several did, from the one that
has seen more of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.engine.live.runs import Runs, runs_of, writable
from motet.kernels.resume import extend_runs, renumber_runs
from motet.kernels.reunite import IN_ONE, IN_OTHER, join_runs
from motet.kernels.slots import STARTS
from motet.kernels.tables import FOREVER, LONG_AGO
from motet.kernels.totals import Layout

Ints = NDArray[np.int64]
WAY = ("strategy", "width", "shape")  # on which units must agree for their totals to be of one kind


@dataclass(frozen=True)
class SavedUnit:
    """What the numbers in a unit's runs mean, and its runs by layout of the totals."""

    description: Mapping[str, Any]
    runs: Callable[[int], Runs]


@dataclass(frozen=True)
class _Part:
    """What a unit has of another: runs in the numbers of that one, and since when each of its nodes has been fed
    (`FOREVER`: it was not).
    """

    levels: list[Runs]
    since: Ints


def restored(
    own: Mapping[str, Any],
    units: Sequence[SavedUnit],
    births: Mapping[str, int | None],
    layouts: Sequence[Layout],
    mode: int,
    starts: frozenset[int],
) -> list[Runs]:
    """The runs of a unit, by layout, from those of the units that had its queries; `births` tells since when each saved
    query has seen the stream. What only queries that are gone had is dropped.
    """
    for unit in units:
        if own == unit.description:
            return [unit.runs(level) for level in range(len(layouts))]
    sources = _sources(own, [unit.description for unit in units])
    parts = [_part(own, units[place], queries, births, layouts, mode) for place, queries in sources]
    if not parts:
        return [Runs.none() for _ in layouts]
    first, *others = parts
    numbers = np.array(sorted(starts), np.int32)
    for other in others:
        first = _joined(own, first, other, layouts, mode, numbers)
    return first.levels


def _sources(own: Mapping[str, Any], units: Sequence[Mapping[str, Any]]) -> list[tuple[int, list[int]]]:
    """The saved units that have queries of this one, each with the places of its queries in this one (-1: none). A unit
    comes more than once where more queries ask the same now than did.
    """
    wanted: dict[str, list[int]] = {}
    for place, name in enumerate(own["queries"]):
        wanted.setdefault(name, []).append(place)
    found: list[tuple[int, list[int]]] = []
    alike = [at for at, unit in enumerate(units) if all(own[what] == unit[what] for what in WAY)]
    while True:
        taken = [(at, [wanted[n].pop(0) if wanted.get(n) else -1 for n in units[at]["queries"]]) for at in alike]
        taken = [(at, queries) for at, queries in taken if max(queries) >= 0]
        if not taken:
            return found
        found += taken


def _part(
    own: Mapping[str, Any],
    unit: SavedUnit,
    queries: Sequence[int],
    births: Mapping[str, int | None],
    layouts: Sequence[Layout],
    mode: int,
) -> _Part:
    """What a saved unit has of this one, in its numbers of nodes, queries and NEGs."""
    old = unit.description
    negs = [own["negs"].index(name) if name in own["negs"] else -1 for name in old["negs"]]
    nodes = np.full(1 + max(node for nodes in old["nodes"] for node in nodes), -1, np.int32)
    fed = np.full(len(nodes), FOREVER, np.int64)
    for place, query in enumerate(queries):
        birth = births.get(old["queries"][place])
        fed[old["nodes"][place]] = np.minimum(fed[old["nodes"][place]], LONG_AGO if birth is None else birth)
        if query >= 0:
            nodes[old["nodes"][place]] = own["nodes"][query]
    since = np.full(1 + max(node for own_nodes in own["nodes"] for node in own_nodes), FOREVER, np.int64)
    since[nodes[nodes >= 0]] = fed[nodes >= 0]
    tables = (nodes, np.array(queries, np.int32), np.array([*negs, -1], np.int32))
    levels = []
    for level, layout in enumerate(layouts):
        runs = unit.runs(level)
        offsets, words = renumber_runs(writable(runs.offsets), writable(runs.words), layout, mode == STARTS, *tables)
        levels.append(Runs(runs.ids, offsets, words, runs.wake))
    return _Part(levels, since)


def _joined(
    own: Mapping[str, Any], one: _Part, other: _Part, layouts: Sequence[Layout], mode: int, starts: NDArray[np.int32]
) -> _Part:
    """Two parts as one, each key with the larger of its layouts."""
    mine, theirs = (
        _levelled(one.levels, other.levels, layouts, mode),
        _levelled(other.levels, one.levels, layouts, mode),
    )
    sources = np.where(one.since < FOREVER, IN_ONE, 0) + np.where(other.since < FOREVER, IN_OTHER, 0)
    levels = []
    for level, layout in enumerate(layouts):
        ids = np.union1d(mine[level].ids, theirs[level].ids)
        known = 1 + int(ids.max(initial=-1))
        places = [runs.places(ids, known) for runs in (mine[level], theirs[level])]
        saved = [runs.take(at) for runs, at in zip((mine[level], theirs[level]), places, strict=True)]
        joined = join_runs(
            *saved[0], *saved[1], layout, mode, sources.astype(np.int32), other.since < one.since, starts,
            len(own["queries"]), len(own["negs"]),
        )  # fmt: skip
        wakes = [_wakes(runs, at) for runs, at in zip((mine[level], theirs[level]), places, strict=True)]
        levels.append(Runs(ids, *joined, np.minimum(*wakes)))
    return _Part(levels, np.minimum(one.since, other.since))


def _wakes(runs: Runs, places: Ints) -> Ints:
    return np.where(places >= 0, runs.wake[places] if len(runs.wake) else FOREVER, FOREVER)


def _levelled(levels: Sequence[Runs], others: Sequence[Runs], layouts: Sequence[Layout], mode: int) -> list[Runs]:
    """Runs by layout, those of keys that have a larger one among the others extended to it."""
    found = list(levels)
    for level in range(len(layouts) - 1):
        larger = np.concatenate([runs.ids for runs in others[level + 1 :]])
        low = np.isin(found[level].ids, larger)
        if low.any():
            part = found[level].where(low)
            words = extend_runs(part.offsets, part.words, layouts[level], layouts[level + 1], mode == STARTS)
            found[level + 1] = found[level + 1].plus(runs_of(part.ids, *words, part.wake))
            found[level] = found[level].where(~low)
    return found
