"""List paths of a line: all ways to walk from item to item, kept as one shared graph and listed only where they end.

The graph is never stored: the instances of each item lie in order of time, and those that may come before one are a
stretch of them. `latest_starts` gives for each instance the latest first time of all paths that lead to it, so that
listing never walks where no path in the window begins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MIN_TIME, Flags, Ints, SmallInts
from motet.kernels.instances import Absences, Bundles, EvalContext, latest_before, passes_test, upper_bound
from motet.kernels.jit import inner, kernel


class EdgeRules(NamedTuple):
    """What steps ask: edge e has the ways from `ways[e]` on, each a stretch of `forbidden` absences, one of which must
    be free, and the tests from `tests[e]` on.
    """

    ways: Ints
    forbids: Ints
    forbidden: SmallInts
    tests: Ints


class PathGraph(NamedTuple):
    """A line and the instances of its items: item i has in key k those from `offsets[i, k]` to `offsets[i, k + 1]`.

    `what` is the event or bundle, `end` its last event; `oldest` has for each event the earliest first time of what may
    end with it; `position` where the places of an item begin. Edge e, of those from `edges[q]` to
    `edges[q + 1]`, leads from item `source[e]` to q by its `rules`.
    """

    offsets: Ints
    what: Ints
    first: Ints
    last: Ints
    end: Ints
    oldest: Ints
    position: SmallInts
    begins: Flags
    ends: Flags
    edges: Ints
    source: SmallInts
    rules: EdgeRules


class PathStarts(NamedTuple):
    """For each instance of a line the latest first time of the paths to it, and the latest up to it in its item and
    key.
    """

    latest: Ints
    so_far: Ints


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
    position: SmallInts
    event: Ints
    first: Ints
    last: Ints
    end: Ints
    key: Ints
    origin: Ints


def new_cursor(depth: int) -> PathCursor:
    """Create a walk of at most so many steps that has not begun."""
    item, row, edge, candidate = np.zeros((4, depth), np.int64)
    return PathCursor(item, row, edge, candidate, np.array([-1, 0, 0], np.int64))


def allocate_paths(rows: int, entries: int) -> PathList:
    """Create room for so many paths of so many steps in all."""
    return PathList(
        np.zeros(rows + 1, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries, np.int64),
        *(np.empty(rows, np.int64) for _ in range(5)),
    )


def latest_starts(line: PathGraph, absences: Absences) -> PathStarts:
    """Compute the latest starts of all instances of a line, in one pass by time.

    O(instances x edges), and O(log n) for each absence of an edge: what came before an absent event is forgotten once
    it is passed. Where bundles begin out of order, edges look at all of their source again.
    """
    starts = PathStarts(*(np.full(len(line.first), MIN_TIME, np.int64) for _ in range(2)))
    edges = len(line.source)
    scratch = EdgeProgress(*np.empty((4, edges), np.int64))
    _latest_starts(line, starts, absences, np.empty(len(line.offsets), np.int64), scratch)
    return starts


class EdgeProgress(NamedTuple):
    """How far each edge has looked at the instances of its source, all that end before `seen`.

    `best` is the latest start of those that end at `since` or later, from `begin` on: nothing is absent after them.
    """

    seen: Ints
    begin: Ints
    since: Ints
    best: Ints


@kernel
def _latest_starts(line: PathGraph, starts: PathStarts, absences: Absences, at: Ints, progress: EdgeProgress) -> None:
    """Fill in the starts (see `latest_starts`); `at` and `progress` are scratch memory for each item and edge."""
    items = line.offsets.shape[0]
    latest, so_far = starts.latest, starts.so_far
    for key in range(line.offsets.shape[1] - 1):
        for q in range(items):
            at[q] = line.offsets[q, key]
        for e in range(line.source.size):
            _restart_edge(line, progress, e, key)
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
                best = max(best, _advance_edge(line, starts, absences, progress, e, row, key))
            latest[row] = best
            so_far[row] = best if row == line.offsets[q, key] else max(best, so_far[row - 1])


@inner
def _restart_edge(line: PathGraph, progress: EdgeProgress, edge: int, key: int) -> None:
    """Let an edge look at the instances of its source from the first on."""
    progress.seen[edge] = line.offsets[line.source[edge], key]
    progress.begin[edge] = progress.seen[edge]
    progress.since[edge] = MIN_TIME
    progress.best[edge] = MIN_TIME


@inner
def _advance_edge(
    line: PathGraph, starts: PathStarts, absences: Absences, progress: EdgeProgress, edge: int, row: int, key: int
) -> int:
    """Return the latest start of the paths that an edge leads on to an instance. Amortised O(1) but for absences."""
    p, first = line.source[edge], line.first[row]
    end = line.offsets[p, key + 1]
    since = free_since(line.rules, absences, edge, key, first)
    is_behind = progress.seen[edge] > line.offsets[p, key] and line.last[progress.seen[edge] - 1] >= first
    if is_behind or since < progress.since[edge]:
        _restart_edge(line, progress, edge, key)  # only bundles begin out of order
    if since > progress.since[edge]:
        # What ended before an absent event is forgotten. No later one is as early, so the rest is looked at once more.
        progress.since[edge], progress.best[edge] = since, MIN_TIME
        begin = upper_bound(line.last, progress.begin[edge], end, since - 1)
        progress.begin[edge], progress.seen[edge] = begin, begin
    while progress.seen[edge] < end and line.last[progress.seen[edge]] < first:
        progress.best[edge] = max(progress.best[edge], starts.latest[progress.seen[edge]])
        progress.seen[edge] += 1
    return progress.best[edge]


def find_path_ends(line: PathGraph, latest: Ints, since: int) -> PathEnds:
    """Return the instances from a time on at which a path in the window may end, by key. O(instances log keys)."""
    items, rows, keys = [], [], []
    for item in np.flatnonzero(line.ends):
        own = np.arange(line.offsets[item, 0], line.offsets[item, -1])
        may_end = (line.last[own] >= since) & (latest[own] >= line.oldest[line.end[own]])
        rows.append(own[may_end])
        items.append(np.full(len(rows[-1]), item, np.int64))
        keys.append(np.searchsorted(line.offsets[item], rows[-1], "right") - 1)
    key = np.concatenate(keys)
    order = np.argsort(key, kind="stable")
    row = np.concatenate(rows)[order]
    return PathEnds(np.concatenate(items)[order], row, key[order], line.oldest[line.end[row]])


@kernel
def list_paths(
    line: PathGraph,
    starts: PathStarts,
    ends: PathEnds,
    cursor: PathCursor,
    context: EvalContext,
    out: PathList,
    most: int,
) -> tuple[int, bool]:
    """List paths from a cursor on until all are listed or the room is full; at most so many with each end.

    Returns how many there are, and whether all are listed. Where edges have no tests, every step belongs to a path that
    is listed: O(output), and O(log n) for each step to find what comes before it; with absences also what lies between,
    back to the absent event, from which no path begins in the window.
    """
    found = 0
    depth, end, count = cursor.now[0], cursor.now[1], cursor.now[2]
    while True:
        if depth < 0:
            if end == ends.row.size:
                cursor.now[0], cursor.now[1] = -1, end
                return found, True
            depth, count = 0, 0
            cursor.item[0], cursor.row[0] = ends.item[end], ends.row[end]
            cursor.edge[0] = -1
        item, row = cursor.item[depth], cursor.row[depth]
        if cursor.edge[depth] < 0:
            if line.begins[item] and line.first[row] >= ends.floor[end]:
                size = _path_size(line, cursor, depth, context.bundles)
                if found == out.first.size or out.begin[found] + size > out.event.size:
                    cursor.now[0], cursor.now[1], cursor.now[2] = depth, end, count
                    return found, False
                _write_path(line, cursor, depth, context.bundles, out, found)
                out.first[found] = line.first[row]
                out.last[found] = line.last[ends.row[end]]
                out.end[found] = line.end[ends.row[end]]
                out.key[found] = ends.key[end]
                out.origin[found] = end
                found += 1
                count += 1
                if count == most:
                    depth = -1
                    end += 1
                    continue
            cursor.edge[depth] = line.edges[item]
            cursor.candidate[depth] = -2
        if _next_step(line, starts, cursor, context, depth, ends.key[end], ends.floor[end]):
            candidate, source = cursor.candidate[depth], line.source[cursor.edge[depth]]
            depth += 1
            cursor.item[depth], cursor.row[depth], cursor.edge[depth] = source, candidate, -1
        else:
            depth -= 1
            if depth < 0:
                end += 1


@inner
def _next_step(
    line: PathGraph,
    starts: PathStarts,
    cursor: PathCursor,
    context: EvalContext,
    depth: int,
    key: int,
    oldest: int,
) -> bool:
    """Move to the next instance that may come before the one at this depth; return whether there is one."""
    item, row = cursor.item[depth], cursor.row[depth]
    candidate = cursor.candidate[depth]
    for edge in range(cursor.edge[depth], line.edges[item + 1]):
        source = line.source[edge]
        begin = line.offsets[source, key]
        if candidate == -2:
            candidate = upper_bound(line.last, begin, line.offsets[source, key + 1], line.first[row] - 1)
        candidate -= 1
        since = free_since(line.rules, context.absences, edge, key, line.first[row])
        while candidate >= begin and starts.so_far[candidate] >= oldest and line.last[candidate] >= since:
            if starts.latest[candidate] >= oldest and passes_edge_tests(
                line.rules, context, edge, line.what[candidate], line.what[row]
            ):
                cursor.edge[depth] = edge
                cursor.candidate[depth] = candidate
                return True
            candidate -= 1
        candidate = -2
    return False


@inner
def free_since(rules: EdgeRules, absences: Absences, edge: int, key: int, until: int) -> int:
    """Return the earliest time from which on one of an edge's ways is free of absences up to another time.

    O(log n) for each absence.
    """
    if rules.ways[edge] == rules.ways[edge + 1]:
        return MIN_TIME
    earliest = until
    for way in range(rules.ways[edge], rules.ways[edge + 1]):
        since = MIN_TIME
        for at in range(rules.forbids[way], rules.forbids[way + 1]):
            since = max(since, latest_before(absences, rules.forbidden[at], key, until))
        earliest = min(earliest, since)
    return earliest


@inner
def passes_edge_tests(rules: EdgeRules, context: EvalContext, edge: int, before: int, after: int) -> bool:
    """Return whether the tests of an edge hold for what it leads from and to."""
    # A test of neighbours knows the two as slots 0 and 1, one of NEXT as slot 0 and what follows it.
    scope = context.scope
    scope.current[0], scope.current[1] = before, after
    scope.following[0] = after
    for number in range(rules.tests[edge], rules.tests[edge + 1]):
        if not passes_test(context, number):
            return False
    return True


@inner
def _path_size(line: PathGraph, cursor: PathCursor, depth: int, bundles: Bundles) -> int:
    """Return the events of the path that the cursor has walked."""
    size = 0
    for at in range(depth + 1):
        b = line.what[cursor.row[at]] - bundles.events
        size += 1 if b < 0 else bundles.begin[b + 1] - bundles.begin[b]
    return size


@inner
def _write_path(line: PathGraph, cursor: PathCursor, depth: int, bundles: Bundles, out: PathList, to: int) -> None:
    """Write the steps of the path that the cursor has walked, in the order of time."""
    put = out.begin[to]
    for back in range(depth + 1):
        at = depth - back
        what = line.what[cursor.row[at]]
        b = what - bundles.events
        if b < 0:
            out.position[put] = line.position[cursor.item[at]]
            out.event[put] = what
            put += 1
        else:
            for inside in range(bundles.begin[b], bundles.begin[b + 1]):
                out.position[put] = line.position[cursor.item[at]] + bundles.position[inside]
                out.event[put] = bundles.event[inside]
                put += 1
    out.begin[to + 1] = put
