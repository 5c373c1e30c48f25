"""Merge and order simultaneous events for a unit before it runs over them: see `motet.kernels.ties`."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from motet.engine.encode import EncodedEvents, make_unit_events, select_unit_events
from motet.kernels.tables import Events
from motet.kernels.ties import merge_tied_events
from motet.plans.machine import MergedAutomaton
from motet.plans.units import Strategy, Unit
from motet.template.symbols import Symbol

Ints = NDArray[np.int64]

# The share of events that have to be at the time of the one before for it to be worth the trouble.
MIN_TIE_SHARE = 0.25


def select_merged_events(encoded: EncodedEvents, unit: Unit) -> Events:
    """Return the events that matter to a unit; those of one key, time and class as one, if the unit allows it and there
    are many simultaneous events.
    """
    windows = [(compiled.span.ranked, compiled.span.is_continuous) for compiled in unit.queries]
    one_step = all(max(compiled.automaton.freshness) <= 1 for compiled in unit.queries)
    allowed = unit.strategy not in (Strategy.TRENDS, Strategy.STACKS) and set(windows) == {(False, False)}
    if not (allowed and one_step) or encoded.tied < MIN_TIE_SHARE * len(encoded.time):
        return select_unit_events(encoded, unit)[0]
    # Classes that have the same symbols of this unit are one to it.
    own = [found & unit.merged.symbols for found in encoded.classes]
    unit_class: dict[frozenset[Symbol], int] = {}
    merged_class = np.array(
        [unit_class.setdefault(found, at) if found else -1 for at, found in enumerate(own)], np.int32
    )
    rank, part = order_classes(unit.merged, own)
    adds = np.array([kind == "count" for _, kind in unit.merged.whole], np.bool_)
    events = make_unit_events(encoded, unit, merged_class[encoded.klass])
    return merge_tied_events(events, rank, part, adds)


def order_classes(merged: MergedAutomaton, classes: Sequence[frozenset[Symbol]]) -> tuple[Ints, Ints]:
    """Return an order of event classes in which none reads what an earlier one writes, and the component of each.

    Classes of one component read what others of it write, so they must be processed together.
    """
    from scipy.sparse import coo_array  # loaded when it is needed: that takes as long as a small run
    from scipy.sparse.csgraph import connected_components

    having: dict[Symbol, list[int]] = {}
    for at, symbols in enumerate(classes):
        for symbol in symbols:
            having.setdefault(symbol, []).append(at)
    readers: dict[int, set[int]] = {}
    writers: dict[int, set[int]] = {}
    for edge in merged.edges:
        readers.setdefault(edge.source, set()).update(having.get(edge.symbol, ()))
        writers.setdefault(merged.fold[edge.target], set()).update(having.get(edge.symbol, ()))
    for shift in merged.shifts:
        # What is moved away is what was there before the events of the same time, and no more.
        for node in {shift.source, shift.target} - {-1}:
            readers.setdefault(node, set()).update(having.get(shift.symbol, ()))
            writers.setdefault(node, set()).update(having.get(shift.symbol, ()))
    arcs = {(reader, writer) for node in readers for reader in readers[node] for writer in writers.get(node, ())}
    size = len(classes)
    first, second = np.array(sorted(arcs), np.int64).reshape(-1, 2).T
    _, part = connected_components(coo_array((np.ones(len(first)), (first, second)), (size, size)), connection="strong")
    before: dict[int, set[int]] = {int(each): set() for each in np.unique(part)}
    for one, other in zip(part[first].tolist(), part[second].tolist(), strict=True):
        if one != other:
            before[other].add(one)
    turn = {each: at for at, each in enumerate(TopologicalSorter(before).static_order())}
    part = np.array([turn[each] for each in part.tolist()], np.int64)
    rank = np.empty(size, np.int64)
    rank[np.argsort(part, kind="stable")] = np.arange(size)
    return rank, part
