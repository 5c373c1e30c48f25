"""The totals of earlier events under a condition, as sorted runs that are written once and then only read.

A run belongs to a key and an edge. It has the distinct values of its events in the order in which the edge's condition
lets them in, and for each of them, by slot, the totals of all events up to it (for an equality: of its own events). So
what an inequality lets in is one row of each run. The events of a micro-batch become a run when it ends; runs no longer
than the newest are merged with it, so that a key has O(log of its events) runs, and each event is merged as often.

Slots have absolute numbers here, since slots open and expire while a run stays. Slots that have expired, and values
that have nothing left in those that are open, are dropped when runs are merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import Ints
from motet.kernels.jit import inner, kernel
from motet.kernels.steps import Slots
from motet.kernels.totals import (
    SHADOW_LIMIT,
    Layout,
    Totals,
    add_total,
    allocate_totals,
    clear_totals,
    copy_totals,
    has_matches,
)

# Fields of a run in the directory of a key.
VALUES = 0  # its first value
SIZE = 1  # how many
TOTALS = 2  # its first total
SLOT = 3  # its first slot
WIDTH = 4  # how many
FIELDS = 5

MOST_RUNS = 48

# Words of `TrendRuns.free`.
FREE_VALUE = 0
FREE_RUN_TOTAL = 1
FREE = 2


class TrendRuns(NamedTuple):
    """The runs of all keys, and the directory of the key that is being processed: `count[k]` runs of edge k."""

    values: Ints
    totals: Totals
    free: Ints
    directory: Ints  # edge, run, field
    count: Ints

    def count_room(self) -> int:
        """Return for how many totals there is room in all."""
        return self.totals.ints.size // self.totals.layout.words


def create_runs(edges: int, layout: Layout, room: int) -> TrendRuns:
    """Create room for so many values and totals of runs, none so far."""
    return TrendRuns(
        np.empty(room, np.int64),
        allocate_totals(room, 1, layout),
        np.zeros(FREE, np.int64),
        np.zeros((edges, MOST_RUNS, FIELDS), np.int64),
        np.zeros(edges, np.int64),
    )


def grow_runs(runs: TrendRuns, values: int, totals: int) -> TrendRuns:
    """Make room for so many further values and totals, and as many again as there are."""
    free = runs.free
    wider = allocate_totals(2 * int(free[FREE_RUN_TOTAL]) + totals, 1, runs.totals.layout)
    used = int(free[FREE_RUN_TOTAL])
    wider.ints[: used * wider.layout.words] = runs.totals.ints[: used * wider.layout.words]
    if wider.layout.has_shadows:
        wider.floats[:used] = runs.totals.floats[:used]
    longer = np.empty(2 * int(free[FREE_VALUE]) + values, np.int64)
    longer[: free[FREE_VALUE]] = runs.values[: free[FREE_VALUE]]
    return runs._replace(values=longer, totals=wider)


@kernel
def copy_runs(records: Ints, first: Ints, edges: int, runs: TrendRuns, target: TrendRuns) -> None:
    """Copy the runs that directories at these words of the records name to another buffer. O(words)."""
    free = target.free
    for key in range(first.size):
        at = first[key]
        for _ in range(edges):
            count = records[at]
            at += 1
            for _ in range(count):
                size, totals = records[at + SIZE], records[at + SIZE] * records[at + WIDTH]
                for place in range(size):
                    target.values[free[FREE_VALUE] + place] = runs.values[records[at + VALUES] + place]
                copy_totals(runs.totals, records[at + TOTALS], target.totals, free[FREE_RUN_TOTAL], totals)
                records[at + VALUES] = free[FREE_VALUE]
                records[at + TOTALS] = free[FREE_RUN_TOTAL]
                free[FREE_VALUE] += size
                free[FREE_RUN_TOTAL] += totals
                at += FIELDS


@inner
def load_directory(runs: TrendRuns, records: Ints, at: int) -> int:
    """Read the directory of a key from word `at` on; return where it ends."""
    for edge in range(runs.count.size):
        runs.count[edge] = records[at]
        at += 1
        for run in range(runs.count[edge]):
            for field in range(FIELDS):
                runs.directory[edge, run, field] = records[at + field]
            at += FIELDS
    return at


@inner
def save_directory(runs: TrendRuns, records: Ints, at: int) -> int:
    """Write the directory of a key from word `at` on; return where it ends."""
    for edge in range(runs.count.size):
        records[at] = runs.count[edge]
        at += 1
        for run in range(runs.count[edge]):
            for field in range(FIELDS):
                records[at + field] = runs.directory[edge, run, field]
            at += FIELDS
    return at


@inner
def count_before(runs: TrendRuns, edge: int, run: int, value: int, descends: bool, included: bool) -> int:
    """Return how many of a run's values come before another, that one included or not. O(log n)."""
    first = runs.directory[edge, run, VALUES]
    low, high = np.int64(0), runs.directory[edge, run, SIZE]
    while low < high:
        middle = (low + high) // 2
        other = runs.values[first + middle]
        is_before = other > value if descends else other < value
        if is_before or (included and other == value):
            low = middle + 1
        else:
            high = middle
    return low


@inner
def add_run_row(
    runs: TrendRuns, edge: int, run: int, place: int, base: int, slots: Slots, totals: Totals, row: int
) -> int:
    """Add the totals of a run's value to a row, whose slot s is number base + s, in these slots.

    Returns a negative number where a 64-bit count overflowed. O(slots * words).
    """
    slot, width = runs.directory[edge, run, SLOT], runs.directory[edge, run, WIDTH]
    first, after = max(slot, base + slots.lo), min(slot + width, base + slots.hi + 1)
    a = runs.directory[edge, run, TOTALS] + place * width + first - slot
    return add_range(runs.totals, a, totals, row * totals.slots + first - base, after - first)


@inner
def add_range(source: Totals, a: int, target: Totals, b: int, count: int) -> int:
    """Add `count` totals from number a on to those from number b on of another buffer, or further on in the same one.

    Returns a negative number where a count left its bounds. O(count * words).
    """
    bad = np.int64(0)
    if not source.layout.has_shadows:
        for s in range(count):
            bad |= add_total(source, a + s, target, b + s)
        return bad
    largest = 0.0
    for s in range(count):
        target.ints[b + s] += source.ints[a + s]
    for s in range(count):
        total = target.floats[b + s] + source.floats[a + s]
        target.floats[b + s] = total
        largest = max(largest, total)
    return 0 if largest < SHADOW_LIMIT else -1


@inner
def push_run(runs: TrendRuns, edge: int, size: int, slot: int, width: int) -> None:
    """Note a run whose values and totals were written to the free places."""
    at = runs.count[edge]
    entry = runs.directory[edge, at]
    entry[VALUES] = runs.free[FREE_VALUE]
    entry[SIZE] = size
    entry[TOTALS] = runs.free[FREE_RUN_TOTAL]
    entry[SLOT] = slot
    entry[WIDTH] = width
    runs.count[edge] = at + 1
    runs.free[FREE_VALUE] += size
    runs.free[FREE_RUN_TOTAL] += size * width


@inner
def merge_runs(runs: TrendRuns, edge: int, oldest: int, descends: bool, is_equality: bool) -> int:
    """Merge the newest run of an edge with those before it that are no longer, dropping slots before `oldest`.

    Returns a negative number where a 64-bit count overflowed. O(values * slots * words), amortised O(log) times that of
    an event.
    """
    bad = np.int64(0)
    while runs.count[edge] > 1:
        last = runs.count[edge] - 1
        if runs.directory[edge, last - 1, SIZE] > runs.directory[edge, last, SIZE] and last < MOST_RUNS - 1:
            return bad
        bad |= _merge_last_two(runs, edge, oldest, descends, is_equality)
    return bad


@inner
def _merge_last_two(runs: TrendRuns, edge: int, oldest: int, descends: bool, is_equality: bool) -> int:
    bad = np.int64(0)
    b = runs.count[edge] - 1
    a = b - 1
    one, other = runs.directory[edge, a], runs.directory[edge, b]
    slot = max(oldest, min(one[SLOT], other[SLOT]))
    width = max(max(one[SLOT] + one[WIDTH], other[SLOT] + other[WIDTH]) - slot, 0)
    values, totals = runs.free[FREE_VALUE], runs.free[FREE_RUN_TOTAL]
    i, j, size = np.int64(0), np.int64(0), np.int64(0)
    while i < one[SIZE] or j < other[SIZE]:
        takes_one, takes_other = i < one[SIZE], j < other[SIZE]
        if takes_one and takes_other:
            x, y = runs.values[one[VALUES] + i], runs.values[other[VALUES] + j]
            if x != y:
                takes_one = (x > y) if descends else (x < y)
                takes_other = not takes_one
        runs.values[values + size] = runs.values[one[VALUES] + i] if takes_one else runs.values[other[VALUES] + j]
        i += takes_one
        j += takes_other
        row = totals + size * width
        clear_totals(runs.totals, row, width)
        if i > 0 and (takes_one or not is_equality):
            bad |= _add_slots(runs, one, i - 1, row, slot)
        if j > 0 and (takes_other or not is_equality):
            bad |= _add_slots(runs, other, j - 1, row, slot)
        if _adds_something(runs.totals, row, width, size > 0 and not is_equality):
            size += 1
    runs.count[edge] = a
    push_run(runs, edge, size, slot, width)
    if size == 0:
        runs.count[edge] = a
    return bad


@inner
def _add_slots(runs: TrendRuns, run: Ints, place: int, row: int, slot: int) -> int:
    """Add a row of a run to one of free totals that begins with a slot; negative where a count overflowed."""
    first = max(slot, run[SLOT])
    a = run[TOTALS] + place * run[WIDTH] + first - run[SLOT]
    return add_range(runs.totals, a, runs.totals, row + first - slot, run[SLOT] + run[WIDTH] - first)


@inner
def _adds_something(totals: Totals, row: int, width: int, has_previous: bool) -> bool:
    """Return whether a row holds anything that the row before it does not."""
    words = totals.layout.words
    for slot in range(row, row + width):
        if not has_previous:
            if has_matches(totals, slot):
                return True
            continue
        for word in range(slot * words, (slot + 1) * words):
            if totals.ints[word] != totals.ints[word - width * words]:
                return True
        if totals.layout.has_shadows and totals.floats[slot] != totals.floats[slot - width]:
            return True
    return False
