"""Nodes of an automaton that always hold equal totals: partition refinement."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class ArcGraph(NamedTuple):
    """Nodes, or pairs of them, numbered from 0, and the arcs by which events and absences take totals from one to
    another. Totals of nodes that differ in `label` may differ whatever comes into them.
    """

    label: Ints
    action: Ints  # of each arc: what it does, by number
    source: Ints
    target: Ints

    @property
    def size(self) -> int:
        return len(self.label)


def number_labels(labels: Sequence[Hashable]) -> Ints:
    """Assign numbers to labels by first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)


def find_equal_nodes(graph: ArcGraph) -> Ints:
    """Return the block of each node: the coarsest partition in which equal arcs come into equal nodes (backward
    bisimulation). Blocks are numbered by first appearance.

    O((nodes + arcs) log arcs) for each round; rounds are as many as the longest way that it takes to tell nodes apart.
    """
    actions = int(graph.action.max(initial=0)) + 1
    degree = np.bincount(graph.target, minlength=graph.size)
    begin = np.cumsum(degree) - degree
    block = np.unique(graph.label, return_inverse=True)[1]
    while True:
        blocks = int(block.max(initial=-1)) + 1
        kinds = actions * blocks  # of arcs
        incoming = np.sort(graph.target * kinds + graph.action * blocks + block[graph.source]) % kinds
        refined = block.copy()
        numbers = blocks
        for turn in range(int(degree.max(initial=0))):
            found = np.flatnonzero(degree > turn)
            seen, refined[found] = np.unique(
                refined[found] * kinds + incoming[begin[found] + turn], return_inverse=True
            )
            refined[found] += numbers  # never one of those that nothing more comes into
            numbers += len(seen)
        _, first, block = np.unique(refined, return_index=True, return_inverse=True)
        if len(first) == blocks:
            return invert_order(np.argsort(first))[block]


def find_first_nodes(block: Ints) -> Ints:
    """Return the first node of each block."""
    return np.unique(block, return_index=True)[1]


def invert_order(order: Ints) -> Ints:
    """Return the place of each number in an order."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place
