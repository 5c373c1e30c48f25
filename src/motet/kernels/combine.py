"""Combines the totals of several partitions, always extended ones: plain sums, and a sweep over time for continuous
queries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import kernel
from motet.kernels.totals import Layout, Words, add_total, clear_totals, create_totals


@kernel
def sum_groups(order: NDArray[np.int64], offsets: NDArray[np.int64], ints: Words, layout: Layout) -> Words:
    """The sum of each group of rows, group g being order[offsets[g]] to order[offsets[g + 1]]. O(rows)."""
    groups = offsets.size - 1
    into, into_floats = create_totals(groups, layout)
    floats = ints.view(np.float64)
    for group in range(groups):
        for at in range(offsets[group], offsets[group + 1]):
            add_total(ints, floats, order[at] * layout.words, into, into_floats, group * layout.words, layout)
    return into


@kernel
def sweep_groups(
    order: NDArray[np.int64],
    offsets: NDArray[np.int64],
    part: NDArray[np.int64],
    parts: NDArray[np.int64],
    end: NDArray[np.int64],
    completes: NDArray[np.bool_],
    ints: Words,
    layout: Layout,
) -> tuple[NDArray[np.int64], Words]:
    """For each time at which a partition of a group completes a match: a row of it, and the sum over all partitions
    then.

    Rows of a group are in order of time, each giving a partition's value from then on. A tree over the partitions
    of a group makes each row cost O(log partitions).
    """
    words = layout.words
    shown = np.empty(order.size, np.int64)
    into, _ = create_totals(order.size, layout)
    size = 0
    for group in range(offsets.size - 1):
        leaves = 1
        while leaves < parts[group]:
            leaves *= 2
        tree, tree_floats = create_totals(2 * leaves, layout)
        at = offsets[group]
        while at < offsets[group + 1]:
            now = end[order[at]]
            completed = np.int64(-1)
            while at < offsets[group + 1] and end[order[at]] == now:
                row = order[at]
                if completes[row]:
                    completed = row
                node = leaves + part[row]
                tree[node * words : (node + 1) * words] = ints[row * words : (row + 1) * words]
                node //= 2
                while node >= 1:
                    clear_totals(tree, tree_floats, layout, node * words, 1)
                    for child in (2 * node, 2 * node + 1):
                        add_total(tree, tree_floats, child * words, tree, tree_floats, node * words, layout)
                    node //= 2
                at += 1
            if completed >= 0:
                shown[size] = completed
                into[size * words : (size + 1) * words] = tree[words : 2 * words]
                size += 1
    return shown[:size], into[: size * words]
