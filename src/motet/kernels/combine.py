"""Combines the totals of several partitions: plain sums, and a sweep over time for continuous queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import kernel
from motet.kernels.totals import Totals, clear, extended_sum, move_slot, new_totals


@kernel
def add_slot(a: Totals, node: int, s: int, b: Totals, target: int, r: int) -> None:
    """Add one extended total to another."""
    b.n[target, r] += a.n[node, s]
    m, e = extended_sum(b.nm[target, r], b.ne[target, r], a.nm[node, s], a.ne[node, s])
    b.nm[target, r], b.ne[target, r] = m, e
    for c in range(a.i.shape[2]):
        b.i[target, r, c] += a.i[node, s, c]
        m, e = extended_sum(b.im[target, r, c], b.ie[target, r, c], a.im[node, s, c], a.ie[node, s, c])
        b.im[target, r, c], b.ie[target, r, c] = m, e
    for c in range(a.f.shape[2]):
        m, e = extended_sum(b.f[target, r, c], b.fe[target, r, c], a.f[node, s, c], a.fe[node, s, c])
        b.f[target, r, c], b.fe[target, r, c] = m, e
    for c in range(a.m.shape[2]):
        b.m[target, r, c] = min(b.m[target, r, c], a.m[node, s, c])


@kernel
def sum_groups(order: NDArray[np.int64], offsets: NDArray[np.int64], t: Totals) -> Totals:
    """The sum of each group of rows, group g being order[offsets[g]] to order[offsets[g + 1]]. O(rows)."""
    groups = offsets.size - 1
    into = new_totals(1, groups, t.i.shape[2], t.f.shape[2], t.m.shape[2], True)
    for group in range(groups):
        for at in range(offsets[group], offsets[group + 1]):
            add_slot(t, 0, order[at], into, 0, group)
    return into


@kernel
def sweep_groups(
    order: NDArray[np.int64],
    offsets: NDArray[np.int64],
    part: NDArray[np.int64],
    parts: NDArray[np.int64],
    end: NDArray[np.int64],
    done: NDArray[np.bool_],
    t: Totals,
) -> tuple[NDArray[np.int64], Totals]:
    """For each time at which a partition of a group completes a match: a row of it, and the sum over all partitions then.

    Rows of a group are in order of time, each giving a partition's value from then on. A tree over the partitions of a group makes each
    row cost O(log partitions).
    """
    rows = order.size
    shown = np.empty(rows, np.int64)
    into = new_totals(1, rows, t.i.shape[2], t.f.shape[2], t.m.shape[2], True)
    size = 0
    for group in range(offsets.size - 1):
        leaves = 1
        while leaves < parts[group]:
            leaves *= 2
        tree = new_totals(1, 2 * leaves, t.i.shape[2], t.f.shape[2], t.m.shape[2], True)
        at = offsets[group]
        while at < offsets[group + 1]:
            now = end[order[at]]
            completed = np.int64(-1)
            while at < offsets[group + 1] and end[order[at]] == now:
                row = order[at]
                if done[row]:
                    completed = row
                node = leaves + part[row]
                move_slot(t, 0, row, tree, 0, node, True)
                node //= 2
                while node >= 1:
                    clear(tree, 0, node, node, True)
                    add_slot(tree, 0, 2 * node, tree, 0, node)
                    add_slot(tree, 0, 2 * node + 1, tree, 0, node)
                    node //= 2
                at += 1
            if completed >= 0:
                shown[size] = completed
                move_slot(tree, 0, 1, into, 0, size, True)
                size += 1
    return shown[:size], into
