"""Order events by key and time, and rank them for windows that count events."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from motet.kernels.arrays import Flags, Ints, SmallInts
from motet.kernels.jit import inner, kernel


def order_by_key(keys: SmallInts, time: Ints, count: int) -> tuple[Ints, Ints, Flags]:
    """Sort by key, stably: return the order, where each of `count` keys begins in it, and which are not in time order.

    A counting sort, O(n + keys).
    """
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    order = np.empty(len(keys), np.int64)
    disordered = np.zeros(count, np.bool_)
    last = np.full(count, np.iinfo(np.int64).min, np.int64)
    _order_by_key(keys, time, offsets[:-1].copy(), order, last, disordered)
    return order, offsets, disordered


@kernel
def _order_by_key(keys: SmallInts, time: Ints, at: Ints, order: Ints, last: Ints, disordered: Flags) -> None:
    """Fill in the order and which keys are disordered; `at` is where the next event of each key goes. O(n)."""
    for e in range(keys.size):
        key = keys[e]
        order[at[key]] = e
        at[key] += 1
        if time[e] < last[key]:
            disordered[key] = True
        last[key] = time[e]


def sort_disordered(order: Ints, offsets: Ints, disordered: Flags, time: Ints) -> None:
    """Sort the events of each disordered key by time, in place and stably.

    It merges stretches that are in order, O(n log s) for keys of n events in s stretches.
    """
    most = int(np.diff(offsets)[disordered].max(initial=0))
    _sort_disordered(order, offsets, disordered, time, *(np.empty(most, np.int64) for _ in range(3)))


@kernel
def _sort_disordered(
    order: Ints, offsets: Ints, disordered: Flags, time: Ints, times: Ints, other_times: Ints, other_rows: Ints
) -> None:
    """Sort by help of room for the events of any one key. O(n log s) for keys of n events in s stretches in order."""
    for key in range(disordered.size):
        if disordered[key]:
            rows = order[offsets[key] : offsets[key + 1]]
            for at in range(rows.size):
                times[at] = time[rows[at]]
            while _merge_stretches(times[: rows.size], rows, other_times, other_rows) > 1:
                pass


@inner
def _merge_stretches(times: Ints, rows: Ints, other_times: Ints, other_rows: Ints) -> int:
    """Merge every two neighbouring stretches that are in order; return how many there are then. O(n)."""
    size, count, begin = times.size, 0, 0
    while begin < size:
        middle = _find_end(times, begin)
        end = _find_end(times, middle) if middle < size else size
        one, two = begin, middle
        for at in range(begin, end):
            if two == end or (one < middle and times[one] <= times[two]):
                other_times[at], other_rows[at] = times[one], rows[one]
                one += 1
            else:
                other_times[at], other_rows[at] = times[two], rows[two]
                two += 1
        count += 1
        begin = end
    for at in range(size):
        times[at], rows[at] = other_times[at], other_rows[at]
    return count


@inner
def _find_end(times: Ints, begin: int) -> int:
    """Return where the stretch in order that begins there ends."""
    end = begin + 1
    while end < times.size and times[end - 1] <= times[end]:
        end += 1
    return end


def rank_events(time: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Return for each event how many of its key's events are earlier, and how many are not later. O(n)."""
    is_first = np.ones(len(time), np.bool_)
    is_first[1:] = time[1:] != time[:-1]
    begins = offsets[:-1][np.diff(offsets) > 0]
    is_first[begins] = True
    firsts = np.flatnonzero(is_first)
    sizes = np.diff(firsts, append=len(time))
    before = firsts - np.repeat(offsets[:-1], np.diff(offsets))[firsts]
    return np.repeat(before, sizes), np.repeat(before + sizes, sizes)


def sort_rows(keys: Sequence[tuple[Ints, int]]) -> Ints | None:
    """Return the stable order of rows by several keys, the first one first; None where they are in order.

    Each key has numbers from 0 on, below a bound. O(n log n). Where keys and place fit in one number these are sorted,
    which takes less time than sorting places by numbers.
    """
    size, codes_end = len(keys[0][0]), math.prod(bound for _, bound in keys)
    if codes_end >= 1 << 63:
        order: Ints = np.lexsort([numbers for numbers, _ in reversed(keys)])
        return None if (np.diff(order) == 1).all() else order
    codes = np.zeros(size, np.int64)
    for numbers, bound in keys:
        codes *= bound
        codes += numbers
    if (codes[1:] >= codes[:-1]).all():
        return None
    if codes_end * size >= 1 << 63:
        return np.argsort(codes, kind="stable")
    codes *= size
    codes += np.arange(size)
    codes.sort()
    codes %= size
    return codes
