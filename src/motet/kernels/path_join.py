"""Joins instances with the paths of a loop: only those paths are listed that fit an instance in time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.instances import MIN_TIME, Absences, Bundles, Instances, Ints, has_event_between, upper_bound
from motet.kernels.jit import inner, kernel
from motet.kernels.join import AFTER, APART, BEFORE, MAX_TIME, JoinTable
from motet.kernels.paths import PathEnds, PathGraph, PathList


@kernel
def find_path_ends_for_rows(
    outer: Instances,
    start: int,
    stop: int,
    table: JoinTable,
    line: PathGraph,
    latest: Ints,
    bundles: Bundles,
    since: int,
) -> tuple[Ints, PathEnds]:
    """For outer rows `start` to `stop`, where paths may end that fit them, and for which row; what ends before `since`
    together with its row is left out. O(log n + results) for each row, twice.
    """
    count = 0
    owner = np.empty(0, np.int64)
    item, row_of, keys, floor = owner, owner, owner, owner
    for fill in range(2):
        if fill == 1:
            owner = np.empty(count, np.int64)
            item = np.empty(count, np.int64)
            row_of = np.empty(count, np.int64)
            keys = np.empty(count, np.int64)
            floor = np.empty(count, np.int64)
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
            for q in range(line.offsets.shape[0]):
                if not line.ends[q]:
                    continue
                end = line.offsets[q, key + 1]
                earliest = low if outer.last[row] >= since else max(low, since)
                at = upper_bound(line.last, line.offsets[q, key], end, earliest - 1)
                while at < end and line.last[at] < high:
                    limit = line.oldest[line.end[at]]
                    if limit > outer.first[row]:
                        break
                    if latest[at] >= max(low, limit):
                        if fill == 1:
                            owner[count], item[count], row_of[count] = row, q, at
                            keys[count], floor[count] = key, max(low, limit)
                        count += 1
                    at += 1
    return owner, PathEnds(item, row_of, keys, floor)


@kernel
def filter_paths(
    columns: NDArray[np.int64], owner: Ints, paths: PathList, table: JoinTable, bundles: Bundles, absences: Absences
) -> NDArray[np.bool_]:
    """Which paths share no event with their outer row where they must not, and have nothing absent in their gaps."""
    kept = np.ones(owner.size, np.bool_)
    ours = columns.shape[0]
    for p in range(owner.size):
        row = owner[p]
        for i in range(ours):
            if table.relation[i, 0] == APART and _path_shares_event(columns[i, row], paths, p, bundles):
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
    return kept


@inner
def _path_shares_event(what: int, paths: PathList, p: int, bundles: Bundles) -> bool:
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
