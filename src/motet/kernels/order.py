"""Ordering events by key and time, and ranking them for windows that count events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import kernel


@kernel
def order_by_key(
    keys: NDArray[np.int32], time: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """A stable counting sort by key: the order, where each key begins in it, and which keys are not in time order.

    O(n + keys).
    """
    offsets = np.zeros(count + 1, np.int64)
    for e in range(keys.size):
        offsets[keys[e] + 1] += 1
    for key in range(count):
        offsets[key + 1] += offsets[key]
    at = offsets[:-1].copy()
    last = np.full(count, np.iinfo(np.int64).min, np.int64)
    order = np.empty(keys.size, np.int64)
    disordered = np.zeros(count, np.bool_)
    for e in range(keys.size):
        key = keys[e]
        order[at[key]] = e
        at[key] += 1
        if time[e] < last[key]:
            disordered[key] = True
        last[key] = time[e]
    return order, offsets, disordered


@kernel
def sort_disordered(
    order: NDArray[np.int64], offsets: NDArray[np.int64], disordered: NDArray[np.bool_], time: NDArray[np.int64]
) -> None:
    """Sort each disordered key's stretch by time. O(n log n) of those keys."""
    for key in range(disordered.size):
        if disordered[key]:
            stretch = order[offsets[key] : offsets[key + 1]].copy()
            places = np.argsort(time[stretch], kind="mergesort")
            order[offsets[key] : offsets[key + 1]] = stretch[places]


@kernel
def rank_events(time: NDArray[np.int64], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each event, how many of its key's events are earlier, and how many are not later. O(n)."""
    enter = np.empty(time.size, np.int64)
    leave = np.empty(time.size, np.int64)
    for key in range(offsets.size - 1):
        e = offsets[key]
        while e < offsets[key + 1]:
            after = e + 1
            while after < offsets[key + 1] and time[after] == time[e]:
                after += 1
            for a in range(e, after):
                enter[a] = e - offsets[key]
                leave[a] = after - offsets[key]
            e = after
    return enter, leave
