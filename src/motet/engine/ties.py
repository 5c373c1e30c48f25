"""Merge and order simultaneous events for a unit before it runs over them: see `motet.kernels.ties`."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from motet.engine.encode import EncodedEvents, make_unit_events, select_unit_events
from motet.kernels.tables import Events
from motet.kernels.ties import ClassOrder, merge_tied_events
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
    adds = np.array([kind == "count" for _, kind in unit.merged.whole], np.bool_)
    events = make_unit_events(encoded, unit, encoded.klass)
    return merge_tied_events(events, order_classes(unit.merged, encoded.classes), adds)


def order_classes(merged: MergedAutomaton, classes: Sequence[frozenset[Symbol]]) -> ClassOrder:
    """Return an order of event classes in which none reads what an earlier one writes.

    Classes that have the same symbols of the machine are one to it. Classes of one part read what others of it write,
    so they must be processed together.
    """
    first_having: dict[frozenset[Symbol], int] = {}
    own = [symbols & merged.symbols for symbols in classes]
    same = np.array([first_having.setdefault(found, at) if found else -1 for at, found in enumerate(own)], np.int32)
    distinct = np.array([at for found, at in first_having.items() if found], np.int64)
    found = _order_distinct(merged, [own[at] for at in distinct])
    part, rank = np.full((2, len(classes)), -1, np.int64)
    part[distinct] = found
    order = distinct[np.argsort(found, kind="stable")]
    rank[order] = np.arange(len(order))
    return ClassOrder(same, rank, part, order)


def _order_distinct(merged: MergedAutomaton, classes: Sequence[frozenset[Symbol]]) -> Ints:
    """Return the part of each class, numbered so that none reads what one of an earlier part writes."""
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
    return np.array([turn[each] for each in part.tolist()], np.int64)
