"""Paths of a line: all ways to walk from item to item, kept as one shared graph and listed only where they end.

The graph is never stored: the instances of each item lie in order of time, and those that may come before one are a
stretch of them. `latest_starts` gives for each instance the latest first time of all paths that lead to it, so that
listing never walks where no path in the window begins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.expressions import EventScope, Stack, Values
from motet.kernels.instances import (
    MIN_TIME,
    Absences,
    Bundles,
    Codes,
    Ints,
    Tests,
    has_event_between,
    passes_test,
    upper_bound,
)
from motet.kernels.jit import inner, kernel


class PathGraph(NamedTuple):
    """A line and the instances of its items: item i has in key k those from `offsets[i, k]` to `offsets[i, k + 1]`.

    `what` is the event or bundle, `end` its last event; `oldest` has for each event the earliest first time of what may
    end with it; `position` where the places of an item begin. Edge e, of those from `edges[q]` to
    `edges[q + 1]`, leads from item `source[e]` to q; its ways are those from `ways[e]` on, each a stretch of
    `forbidden` absences, and its tests those from `tests[e]` on.
    """

    offsets: NDArray[np.int64]
    what: Ints
    first: Ints
    last: Ints
    end: Ints
    oldest: Ints
    position: Codes
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    edges: Ints
    source: Codes
    ways: Ints
    forbids: Ints
    forbidden: Codes
    tests: Ints


class PathEnds(NamedTuple):
    """Where paths may end: item, instance and key, and the earliest time at which such a path may begin."""

    item: Ints
    row: Ints
    key: Ints
    floor: Ints


class PathCursor(NamedTuple):
    """Where listing stands, so that it can go on: the item, instance, edge and candidate of each step, last one first.

    `now` holds the depth, the end that is being listed, and how many of its paths are.
    """

    item: Ints
    row: Ints
    edge: Ints
    candidate: Ints
    now: Ints


class PathList(NamedTuple):
    """Paths, each a stretch of positions and events, with its times and key; `origin` is the end it was listed for."""

    begin: Ints
    position: Codes
    event: Ints
    first: Ints
    last: Ints
    end: Ints
    key: Ints
    origin: Ints


def new_cursor(depth: int) -> PathCursor:
    """A walk of at most so many steps that has not begun."""
    steps = [np.zeros(depth, np.int64) for _ in range(4)]
    return PathCursor(steps[0], steps[1], steps[2], steps[3], np.array([-1, 0, 0], np.int64))


def allocate_paths(rows: int, entries: int) -> PathList:
    """Room for so many paths of so many steps in all."""
    return PathList(
        np.zeros(rows + 1, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries, np.int64),
        *(np.empty(rows, np.int64) for _ in range(5)),
    )


@kernel
def latest_starts(line: PathGraph) -> tuple[Ints, Ints]:
    """For each instance the latest first time of the paths to it, and the latest up to it in its item and key.

    O(instances x edges), in one pass by time.
    """
    items = line.offsets.shape[0]
    latest = np.full(line.first.size, MIN_TIME, np.int64)
    so_far = np.full(line.first.size, MIN_TIME, np.int64)
    at = np.empty(items, np.int64)
    seen = np.empty(max(line.source.size, 1), np.int64)
    for key in range(line.offsets.shape[1] - 1):
        for q in range(items):
            at[q] = line.offsets[q, key]
        for e in range(line.source.size):
            seen[e] = line.offsets[line.source[e], key]
        while True:
            q = -1
            for item in range(items):
                if at[item] < line.offsets[item, key + 1] and (q < 0 or line.last[at[item]] < line.last[at[q]]):
                    q = item
            if q < 0:
                break
            row = at[q]
            at[q] += 1
            best = line.first[row] if line.begins[q] else MIN_TIME
            for e in range(line.edges[q], line.edges[q + 1]):
                p = line.source[e]
                begin, end = line.offsets[p, key], line.offsets[p, key + 1]
                if seen[e] > begin and line.last[seen[e] - 1] >= line.first[row]:
                    seen[e] = begin  # only bundles begin out of order
                while seen[e] < end and line.last[seen[e]] < line.first[row]:
                    seen[e] += 1
                if seen[e] > begin:
                    best = max(best, so_far[seen[e] - 1])
            latest[row] = best
            so_far[row] = best if row == line.offsets[q, key] else max(best, so_far[row - 1])
    return latest, so_far


@kernel
def find_path_ends(line: PathGraph, latest: Ints, since: int) -> PathEnds:
    """The instances from a time on at which a path in the window may end. O(instances)."""
    count = 0
    for q in range(line.offsets.shape[0]):
        if line.ends[q]:
            count += line.offsets[q, line.offsets.shape[1] - 1] - line.offsets[q, 0]
    items = np.empty(count, np.int64)
    rows = np.empty(count, np.int64)
    keys = np.empty(count, np.int64)
    floor = np.empty(count, np.int64)
    found = 0
    for key in range(line.offsets.shape[1] - 1):
        for q in range(line.offsets.shape[0]):
            if line.ends[q]:
                for row in range(line.offsets[q, key], line.offsets[q, key + 1]):
                    if line.last[row] >= since and latest[row] >= line.oldest[line.end[row]]:
                        items[found] = q
                        rows[found] = row
                        keys[found] = key
                        floor[found] = line.oldest[line.end[row]]
                        found += 1
    return PathEnds(items[:found], rows[:found], keys[:found], floor[:found])


@kernel
def list_paths(
    line: PathGraph,
    latest: Ints,
    so_far: Ints,
    ends: PathEnds,
    walk: PathCursor,
    tests: Tests,
    values: Values,
    bundles: Bundles,
    absences: Absences,
    scope: EventScope,
    stack: Stack,
    out: PathList,
    most: int,
) -> tuple[int, bool]:
    """List paths from where the walk stands until all are listed or the room is full; at most so many with each end.

    Returns how many there are, and whether all are listed. Where edges have no tests and no absences, every step
    belongs to a path that is listed: O(output), and O(log n) for each step to find what comes before it.
    """
    found = 0
    end_item, end_row, end_key, floor = ends.item, ends.row, ends.key, ends.floor
    depth, end, count = walk.now[0], walk.now[1], walk.now[2]
    while True:
        if depth < 0:
            if end == end_row.size:
                walk.now[0], walk.now[1] = -1, end
                return found, True
            depth, count = 0, 0
            walk.item[0], walk.row[0] = end_item[end], end_row[end]
            walk.edge[0] = -1
        item, row = walk.item[depth], walk.row[depth]
        key = end_key[end]
        oldest = floor[end]
        if walk.edge[depth] < 0:
            if line.begins[item] and line.first[row] >= oldest:
                size = _path_size(line, walk, depth, bundles)
                if found == out.first.size or out.begin[found] + size > out.event.size:
                    walk.now[0], walk.now[1], walk.now[2] = depth, end, count
                    return found, False
                _write_path(line, walk, depth, bundles, out, found)
                out.first[found] = line.first[row]
                out.last[found] = line.last[end_row[end]]
                out.end[found] = line.end[end_row[end]]
                out.key[found] = key
                out.origin[found] = end
                found += 1
                count += 1
                if count == most:
                    depth = -1
                    end += 1
                    continue
            walk.edge[depth] = line.edges[item]
            walk.candidate[depth] = -2
        step = _next_step(line, walk, depth, key, oldest, latest, so_far, tests, values, absences, scope, stack)
        if step:
            candidate, source = walk.candidate[depth], line.source[walk.edge[depth]]
            depth += 1
            walk.item[depth], walk.row[depth], walk.edge[depth] = source, candidate, -1
        else:
            depth -= 1
            if depth < 0:
                end += 1


@inner
def _next_step(
    line: PathGraph,
    walk: PathCursor,
    depth: int,
    key: int,
    oldest: int,
    latest: Ints,
    so_far: Ints,
    tests: Tests,
    values: Values,
    absences: Absences,
    scope: EventScope,
    stack: Stack,
) -> bool:
    """Move to the next instance that may come before the one at this depth, by any edge; whether there is one."""
    item, row = walk.item[depth], walk.row[depth]
    candidate = walk.candidate[depth]
    for edge in range(walk.edge[depth], line.edges[item + 1]):
        source = line.source[edge]
        begin = line.offsets[source, key]
        if candidate == -2:
            candidate = upper_bound(line.last, begin, line.offsets[source, key + 1], line.first[row] - 1)
        candidate -= 1
        while candidate >= begin and so_far[candidate] >= oldest:
            if latest[candidate] >= oldest and _can_follow(
                line, edge, candidate, row, key, tests, values, absences, scope, stack
            ):
                walk.edge[depth] = edge
                walk.candidate[depth] = candidate
                return True
            candidate -= 1
        candidate = -2
    return False


@inner
def _can_follow(
    line: PathGraph,
    edge: int,
    before: int,
    row: int,
    key: int,
    tests: Tests,
    values: Values,
    absences: Absences,
    scope: EventScope,
    stack: Stack,
) -> bool:
    free = line.ways[edge] == line.ways[edge + 1]
    for way in range(line.ways[edge], line.ways[edge + 1]):
        holds = True
        for at in range(line.forbids[way], line.forbids[way + 1]):
            if has_event_between(absences, line.forbidden[at], key, line.last[before], line.first[row]):
                holds = False
                break
        if holds:
            free = True
            break
    if not free:
        return False
    # A test of neighbours knows the two as slots 0 and 1, one of NEXT as slot 0 and what follows it.
    scope.current[0], scope.current[1] = line.what[before], line.what[row]
    scope.following[0] = line.what[row]
    for number in range(line.tests[edge], line.tests[edge + 1]):
        if not passes_test(tests, number, values, scope, stack):
            return False
    return True


@inner
def _path_size(line: PathGraph, walk: PathCursor, depth: int, bundles: Bundles) -> int:
    size = 0
    for at in range(depth + 1):
        b = line.what[walk.row[at]] - bundles.events
        size += 1 if b < 0 else bundles.begin[b + 1] - bundles.begin[b]
    return size


@inner
def _write_path(line: PathGraph, walk: PathCursor, depth: int, bundles: Bundles, out: PathList, to: int) -> None:
    """The steps of the walk in the order of time."""
    put = out.begin[to]
    for back in range(depth + 1):
        at = depth - back
        what = line.what[walk.row[at]]
        b = what - bundles.events
        if b < 0:
            out.position[put] = line.position[walk.item[at]]
            out.event[put] = what
            put += 1
        else:
            for inside in range(bundles.begin[b], bundles.begin[b + 1]):
                out.position[put] = line.position[walk.item[at]] + bundles.position[inside]
                out.event[put] = bundles.event[inside]
                put += 1
    out.begin[to + 1] = put
