"""Run a pattern by a policy: from each event to the next that continues a run, so that nothing is listed to be dropped.

Under SKIP TILL NEXT and CONTIGUOUS the time of the next step depends on the last one only: it is the earliest at which
any position may follow, or the time of the next event. `link_steps` finds that time for each event and position in one
pass, and with it whether a match can still come of it; `list_runs` then walks only where one does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, Ints, SmallInts
from motet.kernels.instances import EvalContext, upper_bound
from motet.kernels.jit import inner, kernel
from motet.kernels.paths import PathCursor, PathGraph, PathList, is_free_between, passes_edge_tests


class RunGraph(NamedTuple):
    """A line whose items are single events, to be run by a policy.

    The edges that leave item p are those from `leaving[p]` to `leaving[p + 1]` of `edge`, and edge e leads to item
    `target[e]`. Where a policy leaves no choice, `then` has for each event the time of the step after it (MAX_TIME:
    none may follow); else it is empty. Matches that end before `since` are not wanted.
    """

    line: PathGraph
    leaving: Ints
    edge: SmallInts
    target: SmallInts
    then: Ints
    since: int


class RunSteps(NamedTuple):
    """For each instance the time of the step after it (MAX_TIME: none), and the latest time by which a run to it must
    have begun to be completed in its window (MAX_TIME: it never is).
    """

    time: Ints
    begin_by: Ints


class RunStarts(NamedTuple):
    """Where runs begin that will be matches: item, instance and key."""

    item: Ints
    row: Ints
    key: Ints


def find_neighbour_times(offsets: Ints, time: Ints) -> Ints:
    """Return for each event the time of the next one of its key; MAX_TIME where there is none or one of both has ties.

    O(n).
    """
    then = np.full(len(time), MAX_TIME, np.int64)
    if len(time) > 1:
        is_tied = time[1:] == time[:-1]
        is_tied[offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] < len(time))] - 1] = False
        is_alone = ~(np.append(is_tied, False) | np.append(False, is_tied))
        then[:-1] = np.where(is_alone[:-1] & is_alone[1:], time[1:], MAX_TIME)
        then[offsets[1:][offsets[1:] > 0] - 1] = MAX_TIME
    return then


def make_run_graph(line: PathGraph, then: Ints, since: int) -> RunGraph:
    """Return a line with its edges by the item they leave."""
    items = len(line.offsets)
    target = np.repeat(np.arange(items, dtype=np.int32), np.diff(line.edges))
    edge = np.argsort(line.source, kind="stable").astype(np.int32)
    leaving = np.searchsorted(line.source[edge], np.arange(items + 1)).astype(np.int64)
    return RunGraph(line, leaving, edge, target, then, since)


def link_steps(graph: RunGraph, context: EvalContext) -> RunSteps:
    """Find the next step of all instances.

    O(instances x edges) where edges have no tests and for CONTIGUOUS; else also as many tests as there are events in
    the window between an event and the first that passes.
    """
    steps = RunSteps(*(np.full(len(graph.line.first), MAX_TIME, np.int64) for _ in range(2)))
    _link_steps(graph, steps, context, *np.empty((2, len(graph.line.offsets)), np.int64))
    return steps


@kernel
def _link_steps(graph: RunGraph, steps: RunSteps, context: EvalContext, at: Ints, low: Ints) -> None:
    """Fill in the steps, latest instances first; `at` and `low` are scratch memory for a row of each item."""
    line = graph.line
    items = line.offsets.shape[0]
    for key in range(line.offsets.shape[1] - 1):
        for q in range(items):
            at[q] = line.offsets[q, key + 1]
        while True:
            is_done = True
            now = -MAX_TIME
            for q in range(items):
                if at[q] > line.offsets[q, key]:
                    is_done = False
                    now = max(now, line.last[at[q] - 1])
            if is_done:
                break
            for p in range(items):
                low[p] = at[p]
                while low[p] > line.offsets[p, key] and line.last[low[p] - 1] == now:
                    low[p] -= 1
                    _link_step(graph, steps, context, at, p, low[p], key)
            for q in range(items):
                at[q] = low[q]


@inner
def _link_step(graph: RunGraph, steps: RunSteps, context: EvalContext, at: Ints, item: int, row: int, key: int) -> None:
    """Fill in the step after one instance; the instances of item q that come later are those from `at[q]` on."""
    line = graph.line
    event, now = line.what[row], line.last[row]
    begin_by = line.oldest[event] if line.ends[item] and now >= graph.since else MAX_TIME
    then = graph.then[event] if graph.then.size else MAX_TIME
    if not graph.then.size:
        for k in range(graph.leaving[item], graph.leaving[item + 1]):
            q = graph.target[graph.edge[k]]
            candidate, end = at[q], line.offsets[q, key + 1]
            while candidate < end and line.last[candidate] < then and line.oldest[line.what[candidate]] <= now:
                if passes_edge_tests(line, context, graph.edge[k], row, candidate):
                    then = line.last[candidate]
                candidate += 1
    steps.time[row] = then
    if then < MAX_TIME:
        for k in range(graph.leaving[item], graph.leaving[item + 1]):
            q = graph.target[graph.edge[k]]
            candidate, end = at[q], line.offsets[q, key + 1]
            while candidate < end and line.last[candidate] < then:
                candidate += 1
            while candidate < end and line.last[candidate] == then:
                if steps.begin_by[candidate] < begin_by and _can_step(
                    line, context, graph.edge[k], row, candidate, key
                ):
                    begin_by = steps.begin_by[candidate]
                candidate += 1
    steps.begin_by[row] = begin_by


@inner
def _can_step(line: PathGraph, context: EvalContext, edge: int, before: int, row: int, key: int) -> bool:
    """Return whether an edge may be taken between two instances."""
    return passes_edge_tests(line, context, edge, before, row) and is_free_between(
        line, context, edge, before, row, key
    )


def find_run_starts(graph: RunGraph, steps: RunSteps) -> RunStarts:
    """Return the instances at which matches begin, by key. O(instances log keys)."""
    line = graph.line
    items, rows, keys = [], [], []
    for item in np.flatnonzero(line.begins):
        own = np.arange(line.offsets[item, 0], line.offsets[item, -1])
        rows.append(own[steps.begin_by[own] <= line.first[own]])
        items.append(np.full(len(rows[-1]), item, np.int64))
        keys.append(np.searchsorted(line.offsets[item], rows[-1], "right") - 1)
    key = np.concatenate(keys)
    order = np.argsort(key, kind="stable")
    return RunStarts(np.concatenate(items)[order], np.concatenate(rows)[order], key[order])


@kernel
def list_runs(
    graph: RunGraph, steps: RunSteps, starts: RunStarts, cursor: PathCursor, context: EvalContext, out: PathList
) -> tuple[int, bool]:
    """List the matches that begin at some instances, from a cursor on until all are listed or the room is full.

    Returns how many there are, and whether all are listed. O(output), and O(log n) to find each step.
    """
    line = graph.line
    found = 0
    depth, start = cursor.now[0], cursor.now[1]
    while True:
        if depth < 0:
            if start == starts.row.size:
                cursor.now[0], cursor.now[1] = -1, start
                return found, True
            depth = 0
            cursor.item[0], cursor.row[0], cursor.edge[0] = starts.item[start], starts.row[start], -1
        item, row = cursor.item[depth], cursor.row[depth]
        first = line.first[starts.row[start]]
        if cursor.edge[depth] < 0:
            event = line.what[row]
            if line.ends[item] and line.last[row] >= graph.since and line.oldest[event] <= first:
                if found == out.first.size or out.begin[found] + depth + 1 > out.event.size:
                    cursor.now[0], cursor.now[1] = depth, start
                    return found, False
                put = out.begin[found]
                for back in range(depth + 1):
                    out.position[put + back] = line.position[cursor.item[back]]
                    out.event[put + back] = line.what[cursor.row[back]]
                out.begin[found + 1] = put + depth + 1
                out.first[found], out.last[found], out.end[found] = first, line.last[row], event
                out.key[found], out.origin[found] = starts.key[start], start
                found += 1
            cursor.edge[depth] = graph.leaving[item]
            cursor.candidate[depth] = -1
        if _next_run_step(graph, steps, cursor, context, depth, starts.key[start], first):
            target = graph.target[graph.edge[cursor.edge[depth]]]
            depth += 1
            cursor.item[depth], cursor.row[depth], cursor.edge[depth] = target, cursor.candidate[depth - 1], -1
        else:
            depth -= 1
            if depth < 0:
                start += 1


@inner
def _next_run_step(
    graph: RunGraph, steps: RunSteps, cursor: PathCursor, context: EvalContext, depth: int, key: int, first: int
) -> bool:
    """Move to the next instance that may follow the one at this depth; return whether there is one."""
    line = graph.line
    item, row, candidate = cursor.item[depth], cursor.row[depth], cursor.candidate[depth]
    then = steps.time[row]
    if then == MAX_TIME:
        return False
    for k in range(cursor.edge[depth], graph.leaving[item + 1]):
        q = graph.target[graph.edge[k]]
        end = line.offsets[q, key + 1]
        if candidate < 0:
            candidate = upper_bound(line.last, line.offsets[q, key], end, then - 1)
        else:
            candidate += 1
        while candidate < end and line.last[candidate] == then:
            if steps.begin_by[candidate] <= first and _can_step(line, context, graph.edge[k], row, candidate, key):
                cursor.edge[depth], cursor.candidate[depth] = k, candidate
                return True
            candidate += 1
        candidate = -1
    return False
