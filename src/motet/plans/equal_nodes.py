"""Find nodes that always hold equal totals: equal steps come into them from nodes that do (backward bisimulation)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class ArcGraph(NamedTuple):
    """Nodes, or pairs of them, numbered from 0, and the arcs by which events and absences take totals from one to
    another. Totals of nodes that differ in `label` differ whatever comes into them.
    """

    label: Ints
    action: Ints  # of each arc: what it does, by number
    source: Ints
    target: Ints

    @property
    def size(self) -> int:
        return len(self.label)


def find_equal_nodes(graph: ArcGraph) -> Ints:
    """Return the block of each node: the coarsest partition in which equal arcs come into equal nodes.

    O(arcs log arcs) for each round of refinement, of which there are at most as many as the longest way has arcs.
    """
    size = graph.size
    actions = int(graph.action.max(initial=0)) + 1
    degree = np.bincount(graph.target, minlength=size)
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
        block = np.unique(refined, return_inverse=True)[1]
        if block.max(initial=-1) + 1 == blocks:
            return block
