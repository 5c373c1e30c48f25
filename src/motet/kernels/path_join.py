"""Join instances with the paths of a loop: only those paths are listed that fit an instance in time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.arrays import MAX_TIME, MIN_TIME, Flags, Ints, SmallInts
from motet.kernels.instances import Absences, Bundles, Instances, has_event_between, upper_bound
from motet.kernels.jit import inner, kernel
from motet.kernels.operators import AFTER, APART, BEFORE
from motet.kernels.paths import PathEnds, PathGraph, PathList


class PathJoinTable(NamedTuple):
    """What a join with paths checks; slots count the items of the outer side, then the path.

    `relation[i, 0]`: how outer item i stands to the path. `gap[g, s]`: 1 where gap g comes after slot s, 2 where before
    it; `gap_absence[g]`: what must not occur in it.
    """

    relation: NDArray[np.int8]
    gap: NDArray[np.int8]
    gap_absence: SmallInts


def find_path_ends_for_rows(
    outer: Instances,
    rows: tuple[int, int],
    table: PathJoinTable,
    line: PathGraph,
    latest: Ints,
    bundles: Bundles,
    since: int,
) -> tuple[Ints, PathEnds]:
    """Return where paths may end that fit a range of outer rows, and for which row.

    `latest` are the latest starts of the line. What ends before `since` together with its row is left out.
    O(log n + results) for each row, twice.
    """
    size = 0
    while True:  # once to count, and once to write
        owner, ends = np.empty(size, np.int64), PathEnds(*np.empty((4, size), np.int64))
        found = _find_ends_for_rows(outer, rows[0], rows[1], table, line, latest, bundles, since, owner, ends)
        if found == size:
            return owner, ends
        size = found


@kernel
def _find_ends_for_rows(
    outer: Instances,
    start: int,
    stop: int,
    table: PathJoinTable,
    line: PathGraph,
    latest: Ints,
    bundles: Bundles,
    since: int,
    owner: Ints,
    ends: PathEnds,
) -> int:
    """Write the ends as far as there is room, and return how many there are; see `find_path_ends_for_rows`."""
    count = 0
    key = 0
    for row in range(start, stop):
        while outer.offsets[key + 1] <= row:
            key += 1
        low, high = line.oldest[outer.end[row]], MAX_TIME
        if outer.first[row] < low:
            continue
        for i in range(outer.columns.shape[0]):
            if table.relation[i, 0] == BEFORE:
                low = max(low, bundles.last[outer.columns[i, row]] + 1)
            elif table.relation[i, 0] == AFTER:
                high = min(high, bundles.first[outer.columns[i, row]])
        for item in range(line.offsets.shape[0]):
            if not line.ends[item]:
                continue
            end = line.offsets[item, key + 1]
            earliest = low if outer.last[row] >= since else max(low, since)
            at = upper_bound(line.last, line.offsets[item, key], end, earliest - 1)
            while at < end and line.last[at] < high:
                limit = line.oldest[line.end[at]]
                if limit > outer.first[row]:
                    break
                if latest[at] >= max(low, limit):
                    if count < owner.size:
                        owner[count], ends.item[count], ends.row[count] = row, item, at
                        ends.key[count], ends.floor[count] = key, max(low, limit)
                    count += 1
                at += 1
    return count


def filter_paths(
    columns: Ints, owner: Ints, paths: PathList, table: PathJoinTable, bundles: Bundles, absences: Absences
) -> Flags:
    """Return which paths share no event with their outer row where they must not, and have nothing absent in their
    gaps. O(events of a path * items of its row), and O(log n) for each gap.
    """
    kept = np.ones(len(owner), np.bool_)
    _filter_paths(columns, owner, paths, table, bundles, absences, kept)
    return kept


@kernel
def _filter_paths(
    columns: Ints, owner: Ints, paths: PathList, table: PathJoinTable, bundles: Bundles, absences: Absences, kept: Flags
) -> None:
    """Clear the marks of paths that do not fit; see `filter_paths`."""
    ours = columns.shape[0]
    for p in range(owner.size):
        row = owner[p]
        for i in range(ours):
            if table.relation[i, 0] == APART and _shares_event(columns[i, row], paths, p, bundles):
                kept[p] = False
                break
        g = 0
        while kept[p] and g < table.gap.shape[0]:
            since, until = MIN_TIME, MAX_TIME
            for slot in range(ours + 1):
                first = paths.first[p] if slot == ours else bundles.first[columns[slot, row]]
                last = paths.last[p] if slot == ours else bundles.last[columns[slot, row]]
                if table.gap[g, slot] == 1:
                    since = max(since, last)
                elif table.gap[g, slot] == 2:
                    until = min(until, first)
            kept[p] = not has_event_between(absences, table.gap_absence[g], paths.key[p], since, until)
            g += 1


@inner
def _shares_event(what: int, paths: PathList, p: int, bundles: Bundles) -> bool:
    """Return whether a path has an event of an item."""
    b = what - bundles.events
    for at in range(paths.begin[p], paths.begin[p + 1]):
        if b < 0:
            if paths.event[at] == what:
                return True
        else:
            for beside in range(bundles.begin[b], bundles.begin[b + 1]):
                if paths.event[at] == bundles.event[beside]:
                    return True
    return False
