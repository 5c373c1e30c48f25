"""Combine the totals of several partitions, always extended ones: in sum, or swept over time for continuous queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import Flags, Ints
from motet.kernels.jit import kernel
from motet.kernels.totals import Layout, Totals, add_total, clear_totals, copy_totals, create_totals


def _view_rows(ints: Ints, layout: Layout) -> Totals:
    return Totals(ints, ints.view(np.float64), layout, 1)


def sum_groups(order: Ints, offsets: Ints, ints: Ints, layout: Layout) -> Ints:
    """Return the sum of each group of rows, group g being order[offsets[g]] to order[offsets[g + 1]]. O(rows)."""
    sums = create_totals(len(offsets) - 1, 1, layout)
    _sum_groups(order, offsets, _view_rows(ints, layout), sums)
    return sums.ints


@kernel
def _sum_groups(order: Ints, offsets: Ints, rows: Totals, sums: Totals) -> None:
    """Fill in the sums; see `sum_groups`."""
    for group in range(offsets.size - 1):
        for at in range(offsets[group], offsets[group + 1]):
            add_total(rows, order[at], sums, group)


def sweep_groups(
    order: Ints,
    offsets: Ints,
    partition: Ints,
    partitions: Ints,
    time: Ints,
    completes: Flags,
    ints: Ints,
    layout: Layout,
) -> tuple[Ints, Ints]:
    """Return for each time at which a partition of a group completes a match: a row of it, and the sum over all
    partitions then.

    Group g is order[offsets[g]] to order[offsets[g + 1]], in order of time. A row gives the value of its `partition`,
    of the `partitions[g]` of its group, from its `time` on. A tree over the partitions of a group makes each row cost
    O(log partitions).
    """
    rows = SweepRows(order, offsets, partition, partitions, time, completes)
    found = np.empty(len(order), np.int64)
    sums = create_totals(len(order), 1, layout)
    tree = create_totals(4 * int(partitions.max(initial=1)), 1, layout)
    size = _sweep_groups(rows, _view_rows(ints, layout), tree, found, sums)
    return found[:size], sums.ints[: size * layout.words]


class SweepRows(NamedTuple):
    """The arguments of `sweep_groups`."""

    order: Ints
    offsets: Ints
    partition: Ints
    partitions: Ints
    time: Ints
    completes: Flags


@kernel
def _sweep_groups(rows: SweepRows, values: Totals, tree: Totals, found: Ints, sums: Totals) -> int:
    """Fill in the rows found and their sums, and return how many there are; see `sweep_groups`."""
    order, offsets = rows.order, rows.offsets
    size = 0
    for group in range(offsets.size - 1):
        leaves = 1
        while leaves < rows.partitions[group]:
            leaves *= 2
        clear_totals(tree, 0, 2 * leaves)
        at = offsets[group]
        while at < offsets[group + 1]:
            now = rows.time[order[at]]
            completed = np.int64(-1)
            while at < offsets[group + 1] and rows.time[order[at]] == now:
                row = order[at]
                if rows.completes[row]:
                    completed = row
                node = leaves + rows.partition[row]
                copy_totals(values, row, tree, node, 1)
                node //= 2
                while node >= 1:
                    clear_totals(tree, node, 1)
                    add_total(tree, 2 * node, tree, node)
                    add_total(tree, 2 * node + 1, tree, node)
                    node //= 2
                at += 1
            if completed >= 0:
                found[size] = completed
                copy_totals(tree, 1, sums, size, 1)
                size += 1
    return size
