"""Migrate saved totals to units that group queries differently.

A new plan may run queries together that ran apart, or the other way round. The totals of an automaton node do not
depend on that, so each node continues from the unit that had it; where several had it, from the one that has seen more
of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.engine.encode import as_contiguous
from motet.engine.live.key_states import KeyStates, pack_states
from motet.kernels.resume import extend_states, renumber_states
from motet.kernels.slots import STARTS
from motet.kernels.state_migration import IN_ONE, IN_OTHER, NodeSources, merge_states
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.kernels.totals import Layout

Ints = NDArray[np.int64]
COMPATIBLE_FIELDS = ("strategy", "width", "shape")  # on which units must agree for their totals to be of one kind


@dataclass(frozen=True)
class SavedUnit:
    """A saved unit: what the numbers in its states mean, and its states by layout."""

    description: Mapping[str, Any]
    states: Sequence[KeyStates]


@dataclass(frozen=True)
class _Part:
    """What a saved unit contributes: states in the new unit's numbering, and since when each node has been fed
    (`MAX_TIME`: never).
    """

    levels: list[KeyStates]
    since: Ints


def migrate_states(
    own: Mapping[str, Any],
    units: Sequence[SavedUnit],
    start_times: Mapping[str, int | None],
    layouts: Sequence[Layout],
    mode: int,
    starts: frozenset[int],
) -> list[KeyStates]:
    """Return the states of a unit, by layout, from the saved units that had its queries.

    `start_times` tells since when each saved query has seen the stream. The state of removed queries is dropped.
    """
    for unit in units:
        if own == unit.description:
            return list(unit.states)
    sources = _sources(own, [unit.description for unit in units])
    parts = [_extract_part(own, units[place], queries, start_times, layouts, mode) for place, queries in sources]
    if not parts:
        return [KeyStates.empty() for _ in layouts]
    first, *others = parts
    numbers = np.array(sorted(starts), np.int32)
    for other in others:
        first = _join_parts(own, first, other, layouts, mode, numbers)
    return first.levels


def _sources(own: Mapping[str, Any], units: Sequence[Mapping[str, Any]]) -> list[tuple[int, list[int]]]:
    """Return the saved units that have queries of this one, with the position of each query in this one (-1: none).

    A unit occurs more than once if more queries ask the same now than did.
    """
    positions: dict[str, list[int]] = {}
    for place, name in enumerate(own["queries"]):
        positions.setdefault(name, []).append(place)
    found: list[tuple[int, list[int]]] = []
    compatible = [at for at, unit in enumerate(units) if all(own[what] == unit[what] for what in COMPATIBLE_FIELDS)]
    while True:
        sources = [
            (at, [positions[n].pop(0) if positions.get(n) else -1 for n in units[at]["queries"]]) for at in compatible
        ]
        sources = [(at, queries) for at, queries in sources if max(queries) >= 0]
        if not sources:
            return found
        found += sources


def _extract_part(
    own: Mapping[str, Any],
    unit: SavedUnit,
    queries: Sequence[int],
    start_times: Mapping[str, int | None],
    layouts: Sequence[Layout],
    mode: int,
) -> _Part:
    """Renumber what a saved unit has of this one: nodes, queries and NEGs."""
    old = unit.description
    negs = [own["negs"].index(name) if name in own["negs"] else -1 for name in old["negs"]]
    nodes = np.full(1 + max(node for nodes in old["nodes"] for node in nodes), -1, np.int32)
    fed = np.full(len(nodes), MAX_TIME, np.int64)
    for place, query in enumerate(queries):
        birth = start_times.get(old["queries"][place])
        fed[old["nodes"][place]] = np.minimum(fed[old["nodes"][place]], MIN_TIME if birth is None else birth)
        if query >= 0:
            nodes[old["nodes"][place]] = own["nodes"][query]
    since = np.full(1 + max(node for own_nodes in own["nodes"] for node in own_nodes), MAX_TIME, np.int64)
    since[nodes[nodes >= 0]] = fed[nodes >= 0]
    tables = (nodes, np.array(queries, np.int32), np.array([*negs, -1], np.int32))
    levels = []
    for level, layout in enumerate(layouts):
        states = unit.states[level]
        saved = (as_contiguous(states.offsets, np.int64), as_contiguous(states.words, np.int64))
        offsets, words = renumber_states(*saved, layout, mode == STARTS, *tables)
        levels.append(KeyStates(states.ids, offsets, words, states.wake))
    return _Part(levels, since)


def _join_parts(
    own: Mapping[str, Any], one: _Part, other: _Part, layouts: Sequence[Layout], mode: int, starts: NDArray[np.int32]
) -> _Part:
    """Merge two parts, each key with the larger of its layouts."""
    mine = _raise_layouts(one.levels, other.levels, layouts, mode)
    theirs = _raise_layouts(other.levels, one.levels, layouts, mode)
    sources = np.where(one.since < MAX_TIME, IN_ONE, 0) + np.where(other.since < MAX_TIME, IN_OTHER, 0)
    levels = []
    for level, layout in enumerate(layouts):
        ids = np.union1d(mine[level].ids, theirs[level].ids)
        known = 1 + int(ids.max(initial=-1))
        sides = [(states, states.find(ids, known)) for states in (mine[level], theirs[level])]
        saved = [states.take(places) for states, places in sides]
        joined = merge_states(
            *saved[0], *saved[1], layout, mode, NodeSources(sources.astype(np.int32), other.since < one.since), starts,
            len(own["queries"]), len(own["negs"]),
        )  # fmt: skip
        # An index of -1 reads the wake time that is appended: never.
        wakes = [np.append(states.wake, MAX_TIME)[places] for states, places in sides]
        levels.append(KeyStates(ids, *joined, np.minimum(*wakes)))
    return _Part(levels, np.minimum(one.since, other.since))


def _raise_layouts(
    levels: Sequence[KeyStates], others: Sequence[KeyStates], layouts: Sequence[Layout], mode: int
) -> list[KeyStates]:
    """Extend the states of keys that have a larger layout in the other part."""
    found = list(levels)
    for level in range(len(layouts) - 1):
        larger = np.concatenate([states.ids for states in others[level + 1 :]])
        low = np.isin(found[level].ids, larger)
        if low.any():
            part = found[level].filter(low)
            words = extend_states(part.offsets, part.words, layouts[level], layouts[level + 1], mode == STARTS)
            found[level + 1] = found[level + 1].concat(pack_states(part.ids, *words, part.wake))
            found[level] = found[level].filter(~low)
    return found
