"""Run a query with adjacent conditions: totals per event, in an order index, so that an inequality costs O(log n).

Beside the totals of its nodes, the engine keeps an *entry* for each event whose successors are under a condition:
the totals of the matches that end in it. An inequality sums a prefix of a Fenwick tree over the entries' values, an
equality reads one bucket, anything else scans the entries. All of them are rows of one buffer: first the nodes,
then pending joins, then entries, then the trees, then one that is free.

Where a key goes on from an earlier run, the totals of the events of that run are in sorted runs (`trend_runs`), and
those of nodes and slots as `motet.kernels.resume` saves them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, Flags, Ints, SmallInts
from motet.kernels.jit import inner, kernel
from motet.kernels.ragged import expand_ranges, offsets_from_counts
from motet.kernels.resume import (
    HEAD,
    States,
    drop_expired_slots,
    load_key,
    needs_state,
    next_wakeup_time,
    save_key,
    view_states,
)
from motet.kernels.slots import (
    BASE,
    HI,
    LO,
    SLOT_STATE,
    STARTS,
    WINDOWS,
    Inputs,
    SlotState,
    Window,
    close_start,
    create_slot_state,
    finish_key,
    open_slots,
    report_completed,
    reset_key,
    slot_capacity,
)
from motet.kernels.steps import (
    Moment,
    Slots,
    activate,
    apply_negations,
    commit_fresh_nodes,
    mark_windows_due,
    next_moment,
    record_negations,
)
from motet.kernels.tables import (
    AT,
    DONE,
    KEY,
    MOVES,
    NEEDS_ROOM,
    OVERFLOWED,
    STEPS,
    Events,
    KernelResult,
    Machine,
    Queries,
    ResultRows,
    begin_key,
    collect_results,
    create_output,
    fill,
    load_weights,
    membership_mask,
    moves_at,
    step_width,
    steps_at,
)
from motet.kernels.totals import (
    ChannelWeights,
    Layout,
    Totals,
    add_counts,
    allocate_totals,
    clear_totals,
    copy_totals,
    create_totals,
    propagate,
)
from motet.kernels.trend_runs import (
    FIELDS,
    FREE_RUN_TOTAL,
    FREE_VALUE,
    MOST_RUNS,
    SIZE,
    VALUES,
    TrendRuns,
    add_range,
    add_run_row,
    copy_runs,
    count_before,
    create_runs,
    grow_runs,
    load_directory,
    merge_runs,
    push_run,
    save_directory,
)

MIN_ROOM = 1 << 12

LESS = 0
LESS_EQUAL = 1
GREATER = 2
GREATER_EQUAL = 3
EQUAL = 4
UNEQUAL = 5
SCAN = 6  # several conditions on one transition

# Further words of a run's state.
HORIZON = SLOT_STATE  # the event up to which values are indexed
ENTRIES = SLOT_STATE + 1  # how many entries there are
PENDING = SLOT_STATE + 2  # how many joins of the current time
FREE_RECORD = SLOT_STATE + 3  # where the next record of a key goes
RUN_VALUES = SLOT_STATE + 4  # how many values of runs there must be room for
WORK = SLOT_STATE + 5  # values written to runs
TREND_STATE = SLOT_STATE + 6

NO_VALUE = np.int64(-(2**63))  # the code of null

# Statuses beside those of `motet.kernels.tables`.
NEEDS_RECORDS = 3
NEEDS_RUNS = 4

# Words of what is known of a key between runs.
RECORD = 0  # where its record is: the directory of its runs, then what `motet.kernels.resume.save_key` writes
RECORD_SIZE = 1
HELD_SLOTS = 2
WAKE = 3  # when it has something to report by itself, or can be forgotten
TREND_HEAD = 4


class Edges(NamedTuple):
    """Transitions under conditions, from node source[k] to node target[k].

    Edge k's conditions are operator[offsets[k]:offsets[k + 1]], condition c comparing before[c] of the earlier event
    with after[c] of the later, as codes of equal order, `NO_VALUE` for null. `kind` is the operator, or SCAN.
    """

    source: SmallInts
    target: SmallInts
    kind: SmallInts
    offsets: Ints
    operator: SmallInts
    before: Ints  # condition, event
    after: Ints


class Capacity(NamedTuple):
    """How many entries and trees to keep, and for how many events of one time.

    `joins` and `kept` are the most nodes that one event reaches, and those of them whose entries are kept.
    """

    entries: int
    tied: int
    joins: int
    kept: int
    trees: int

    @property
    def spread(self) -> int:
        """How many values the tree of an edge may cover."""
        return 2 * self.entries + self.tied

    def rows(self, nodes: int) -> int:
        """Return how many rows of totals there are, those of the machine's nodes included."""
        return nodes + self.tied * self.joins + self.entries + self.trees * (self.spread + 1) + 1


class TrendIndex(NamedTuple):
    """Entries, joins of the current time, and per edge the sorted values that its tree covers.

    Join x has its totals in row `first_pending` + x, entry x in row `first_entry` + x, and the tree of edge k in rows
    `first_tree[k]` onward. Joins have an event and the fresh node they reach, entries an event and a node (-1: given
    up).
    """

    join_event: Ints
    join_node: SmallInts
    entry_event: Ints
    entry_node: SmallInts
    is_stored: Flags  # whether events that reach a node need entries
    kept: int  # the most entries that one event needs
    values: Ints  # edge, place
    size: Ints  # how many values
    first_tree: Ints
    first_pending: int
    first_entry: int
    free_row: int
    order: Ints  # entries by value


class Trend(NamedTuple):
    """What a run over trends works on: its state, totals by row, the conditions, the index of entries, and the runs of
    earlier ones. `kept` is the state with the rows of nodes alone: what is kept between runs.
    """

    state: SlotState
    kept: SlotState
    totals: Totals
    edges: Edges
    index: TrendIndex
    runs: TrendRuns


class TrendKeys(NamedTuple):
    """The keys of a run: which are to be processed, and what is known of each (nothing where `heads` are empty)."""

    runs: Flags
    row: Ints  # of `heads`
    heads: Ints  # row, see `RECORD` and what follows
    records: States
    most: int  # the most words that a record may have


def measure_capacity(events: Events, machine: Machine, edges: Edges, layout: Layout, widest: int) -> Capacity:
    """Return the room that a run over these events needs. O(events + nodes)."""
    live, tied = count_live_events(events, widest)
    is_stored = membership_mask(edges.source, len(machine.fold))
    classes = np.flatnonzero(np.bincount(events.klass)).astype(np.int32)
    joins, kept = _count_joins(machine, classes, is_stored, layout)
    return Capacity(2 * (live + tied) * kept + tied * kept, tied, joins, kept, len(edges.source))


@kernel
def _count_joins(machine: Machine, classes: SmallInts, is_stored: Flags, layout: Layout) -> tuple[int, int]:
    """Return the most steps of one event, and the most of those that reach a stored node (at least 1). O(steps)."""
    code, width = machine.code, step_width(layout)
    joins, kept = np.int64(1), np.int64(1)
    for which in range(classes.size):
        block = code[classes[which]]
        stored = np.int64(0)
        for at in range(code[block + STEPS]):
            stored += is_stored[machine.fold[code[steps_at(code, block, width) + at * width + 1]]]
        joins = max(joins, code[block + STEPS])
        kept = max(kept, stored)
    return joins, kept


@kernel
def count_live_events(events: Events, widest: int) -> tuple[int, int]:
    """Return the most events of one key in a window (all of them where widest is 0), and the most at one time. O(n)."""
    most = np.int64(1)
    tied = np.int64(1)
    for key in range(events.offsets.size - 1):
        oldest = events.offsets[key]
        first = oldest
        for e in range(events.offsets[key], events.offsets[key + 1]):
            if widest > 0:
                while oldest <= e and events.leave[e] - events.enter[oldest] >= widest:
                    oldest += 1
            if events.time[e] != events.time[first]:
                first = e
            most = max(most, e - oldest + 1)
            tied = max(tied, e - first + 1)
    return most, tied


def run_trends(
    events: Events,
    machine: Machine,
    queries: Queries,
    edges: Edges,
    layout: Layout,
    capacity: Capacity,
    window: Window,
) -> KernelResult:
    """Return the results of one query with adjacent conditions over all keys; see `TrendRun.run`."""
    runs = np.ones(len(events.offsets) - 1, np.bool_)
    return TrendRun(len(edges.source), layout).run(events, machine, queries, edges, capacity, window, runs)


class TrendRun:
    """The records and sorted runs of keys that go on later. `work` is how many values were written to runs."""

    def __init__(self, edges: int, layout: Layout) -> None:
        self.layout = layout
        self.records = np.empty(0, np.int64)
        self.runs = create_runs(edges, layout, MIN_ROOM)
        self.spare = create_runs(edges, layout, 1)  # the room that runs had before they were moved, for the next time
        self.free_record = 0
        self.work = 0
        self._limits = MIN_ROOM, MIN_ROOM  # of records and of totals in runs

    def run(
        self,
        events: Events,
        machine: Machine,
        queries: Queries,
        edges: Edges,
        capacity: Capacity,
        window: Window,
        is_run: Flags,
        rows: Ints | None = None,
        heads: Ints | None = None,
    ) -> KernelResult:
        """Process the events of each key that is to be run; return the results: see `collect_results`.

        With `heads`, each key goes on from its row of them, which is changed but where counts overflowed.

        Each transition costs O(open slots * log of the events in a window) under one inequality, O(open slots) under
        one equality, O(open slots * events in a window) otherwise. With `heads`, each event costs the first of these
        again, amortised, and each key O(nodes * open slots).
        """
        nodes, count, layout = len(machine.fold), len(edges.source), self.layout
        known = np.zeros((0, TREND_HEAD), np.int64) if heads is None else heads
        row = np.zeros(0, np.int64) if rows is None else rows
        held = 0 if heads is None else int(heads[row[is_run], HELD_SLOTS].max(initial=0))
        slots = slot_capacity(events, machine, window) + 2 * held
        pending = capacity.tied * capacity.joins
        first_entry, spread = nodes + pending, capacity.spread
        first_tree = first_entry + capacity.entries
        free_row = capacity.rows(nodes) - 1
        index = TrendIndex(
            join_event=np.empty(pending, np.int64),
            join_node=np.empty(pending, np.int32),
            entry_event=np.empty(capacity.entries, np.int64),
            entry_node=np.empty(capacity.entries, np.int32),
            is_stored=membership_mask(edges.source, nodes),
            kept=capacity.kept,
            values=np.empty((count, spread), np.int64),
            size=np.zeros(count, np.int64),
            first_tree=first_tree + np.arange(count) * (spread + 1),
            first_pending=nodes,
            first_entry=first_entry,
            free_row=free_row,
            order=np.empty(capacity.entries, np.int64),
        )
        totals = create_totals(free_row + 1, slots, layout)
        state = create_slot_state(machine, queries, layout, window, slots)
        in_use = np.zeros(free_row + 1, np.bool_)
        state = state._replace(words=np.zeros(TREND_STATE, np.int64), nodes=state.nodes._replace(in_use=in_use))
        kept = state._replace(nodes=state.nodes._replace(in_use=in_use[:nodes]))
        state.words[FREE_RECORD] = self.free_record
        inputs = Inputs(events, machine, queries, window)
        most = count * (1 + MOST_RUNS * FIELDS) + HEAD + 3 * (len(queries.within) + 1) + 2 * (len(queries.neg) + 1)
        most += slots + nodes * (1 + slots * (layout.words + 1))

        def run(output: ResultRows) -> int:
            while True:
                keys = TrendKeys(is_run, row, known, view_states(row, self.records), most)
                trend = Trend(state, kept, totals, edges, index, self.runs)
                status = _run_keys(trend, output, inputs, keys)
                if status == NEEDS_RECORDS:
                    room = max(MIN_ROOM, len(self.records), most)
                    self.records = np.concatenate((self.records, np.empty(room, np.int64)))
                elif status == NEEDS_RUNS:
                    values = int(state.words[RUN_VALUES])
                    self.runs = grow_runs(self.runs, values, values * slots)
                else:
                    self.free_record = int(state.words[FREE_RECORD])
                    self.work += int(state.words[WORK])
                    return status

        return collect_results(run, state.words, create_output(1024, len(events.offsets) - 1, layout))

    @property
    def is_wasteful(self) -> bool:
        """Whether at least half of the records or runs may be of no use any more."""
        return self.free_record > self._limits[0] or bool(self.runs.free[FREE_RUN_TOTAL] > self._limits[1])

    def compact(self, heads: Ints) -> None:
        """Drop the records and runs that none of the keys has, `heads` being those of all keys.

        O(what is kept), amortised O(what was written).
        """
        if self.free_record > self._limits[0]:
            sizes = heads[:, RECORD_SIZE]
            records = self.records[expand_ranges(heads[:, RECORD], sizes)]
            heads[:, RECORD] = offsets_from_counts(sizes)[:-1]
            if len(self.records) > 8 * len(records) + MIN_ROOM:
                self.records = np.empty(3 * len(records) + MIN_ROOM, np.int64)
            self.records[: len(records)] = records  # to have other memory mapped would cost as much as to copy them
            self.free_record = len(records)
            self._limits = 2 * len(records) + MIN_ROOM, self._limits[1]
        if self.runs.free[FREE_RUN_TOTAL] > self._limits[1]:
            before, target = self.runs, self.spare
            if target.count_room() < before.free[FREE_RUN_TOTAL] or len(target.values) < before.free[FREE_VALUE]:
                values = np.empty(3 * int(before.free[FREE_VALUE]) // 2, np.int64)
                totals = allocate_totals(3 * int(before.free[FREE_RUN_TOTAL]) // 2, 1, self.layout)
                target = before._replace(values=values, totals=totals, free=np.zeros_like(before.free))
            target.free[:] = 0
            first = np.ascontiguousarray(heads[heads[:, RECORD_SIZE] > 0, RECORD])
            copy_runs(self.records, first, len(before.count), before, target)
            self.runs, self.spare = target, before
            kept = int(target.free[FREE_RUN_TOTAL])
            if before.count_room() > 8 * kept + MIN_ROOM:
                self.spare = create_runs(len(before.count), self.layout, 1)
            self._limits = self._limits[0], 2 * kept + MIN_ROOM


@kernel
def _run_keys(trend: Trend, output: ResultRows, inputs: Inputs, keys: TrendKeys) -> int:
    """Run on through all keys, unless some room runs out (then call again); see `TrendRun.run`."""
    state, totals, index, runs = trend.state, trend.totals, trend.index, trend.runs
    events, window, words, heads = inputs.events, inputs.window, state.words, keys.heads
    is_fed = heads.shape[0] > 0
    for key in range(words[KEY], events.offsets.size - 1):
        if not keys.runs[key]:
            continue
        if begin_key(words, key, events.offsets[key]):
            reset_key(state)
            words[HORIZON] = events.offsets[key]
            words[ENTRIES] = 0
            fill(index.size, 0)
            fill(runs.count, 0)
            if is_fed and heads[keys.row[key], RECORD_SIZE] > 0:
                at = load_directory(runs, keys.records.words, heads[keys.row[key], RECORD])
                load_key(keys.records, at, trend.kept, totals, window.mode)
        if is_fed and keys.records.words.size - words[FREE_RECORD] < keys.most:
            return NEEDS_RECORDS
        status = _run_key(trend, output, inputs)
        if status == NEEDS_ROOM:
            return status
        if is_fed and status == DONE:
            needed = _count_run_values(runs, words[ENTRIES])
            words[RUN_VALUES] = needed
            room = runs.totals.ints.size // totals.layout.words - runs.free[FREE_RUN_TOTAL]
            if runs.values.size - runs.free[FREE_VALUE] < needed or room < needed * totals.slots:
                return NEEDS_RUNS
            status = _save_key(trend, inputs, keys, keys.row[key])
        _clear_index(trend)
        finish_key(trend.kept, totals, output, status)
    return DONE


@inner
def _count_run_values(runs: TrendRuns, entries: int) -> int:
    """Return how many values may be written when the runs of a key are merged with that of new entries."""
    count = np.int64(0)
    for edge in range(runs.count.size):
        count += (runs.count[edge] + 2) * entries
        for run in range(runs.count[edge]):
            count += (run + 2) * runs.directory[edge, run, SIZE]
    return count


@inner
def _save_key(trend: Trend, inputs: Inputs, keys: TrendKeys, row: int) -> int:
    """Save what a key needs to go on; return a status. O(nodes * slots, and what merging runs costs)."""
    state, totals, window, heads = trend.kept, trend.totals, inputs.window, keys.heads
    words = state.words
    drop_expired_slots(words, window)
    heads[row, RECORD_SIZE] = 0
    heads[row, WAKE] = MAX_TIME
    if not needs_state(state, totals, window):
        return DONE
    written = trend.runs.free[FREE_VALUE]
    if _store_runs(trend) < 0:
        return OVERFLOWED
    words[WORK] += trend.runs.free[FREE_VALUE] - written
    head = words[FREE_RECORD]
    at = save_directory(trend.runs, keys.records.words, head)
    words[FREE_RECORD] = save_key(keys.records, at, state, totals, window)
    heads[row, RECORD] = head
    heads[row, RECORD_SIZE] = words[FREE_RECORD] - head
    heads[row, HELD_SLOTS] = words[HI] - words[LO] + 1
    heads[row, WAKE] = next_wakeup_time(state, inputs.queries, window)
    return DONE


@inner
def _store_runs(trend: Trend) -> int:
    """Make a run of the entries under each edge, and merge it; negative where a 64-bit count overflowed."""
    state, totals, edges, index, runs = trend.state, trend.totals, trend.edges, trend.index, trend.runs
    words, order = state.words, index.order
    lo, width = words[LO], words[HI] - words[LO] + 1
    bad = np.int64(0)
    for edge in range(edges.source.size):
        kind, values = edges.kind[edge], edges.before[edges.offsets[edge]]
        is_equality, descends = kind == EQUAL, kind == GREATER or kind == GREATER_EQUAL
        count = 0
        for x in range(words[ENTRIES]):
            if index.entry_node[x] == edges.source[edge] and values[index.entry_event[x]] != NO_VALUE:
                order[count] = x
                count += 1
        _sort_entries(order, count, values, index.entry_event, descends)
        size = np.int64(0)
        first = runs.free[FREE_RUN_TOTAL] - width
        for place in range(count):
            value = values[index.entry_event[order[place]]]
            if size == 0 or runs.values[runs.free[FREE_VALUE] + size - 1] != value:
                runs.values[runs.free[FREE_VALUE] + size] = value
                size += 1
                if size == 1 or is_equality:
                    clear_totals(runs.totals, first + size * width, width)
                else:
                    copy_totals(runs.totals, first + (size - 1) * width, runs.totals, first + size * width, width)
            a = (index.first_entry + order[place]) * totals.slots + lo
            bad |= add_range(totals, a, runs.totals, first + size * width, width)
        if size > 0:
            push_run(runs, edge, size, words[BASE] + lo, width)
            bad |= merge_runs(runs, edge, words[BASE] + lo, descends, is_equality)
    return bad


@inner
def _sort_entries(order: Ints, size: int, values: Ints, event: Ints, descends: bool) -> None:
    """Sort entries by value, by heapsort. O(n log n)."""
    for root in range(size // 2 - 1, -1, -1):
        _sift_entry(order, root, size, values, event, descends)
    for end in range(size - 1, 0, -1):
        order[0], order[end] = order[end], order[0]
        _sift_entry(order, 0, end, values, event, descends)


@inner
def _sift_entry(order: Ints, root: int, end: int, values: Ints, event: Ints, descends: bool) -> None:
    """Move an entry down a heap to its place."""
    entry = order[root]
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and _is_after(values, event[order[child + 1]], event[order[child]], descends):
            child += 1
        if not _is_after(values, event[order[child]], event[entry], descends):
            break
        order[root] = order[child]
        root = child
    order[root] = entry


@inner
def _is_after(values: Ints, one: int, other: int, descends: bool) -> bool:
    return values[one] < values[other] if descends else values[one] > values[other]


@inner
def _run_key(trend: Trend, output: ResultRows, inputs: Inputs) -> int:
    """Run on through one key's events until they end, counts overflow, or the room for results runs out (then call
    again).
    """
    state, totals = trend.state, trend.totals
    events, machine, queries, window = inputs.events, inputs.machine, inputs.queries, inputs.window
    words, nodes, zero = state.words, state.nodes, state.zero
    width = step_width(totals.layout)
    end = events.offsets[words[KEY] + 1]
    while True:
        moment = next_moment(events, words[AT], end, window.until)
        status = open_slots(state, totals, output, inputs, moment)
        if status != DONE or moment.first >= end:
            return status
        slots = Slots(words[LO], words[HI], window.mode != WINDOWS)
        if slots.lo <= slots.hi:
            bad = _make_room(trend, events, moment, slots, window.widest)
            bad |= _join_events(trend, events, machine, moment, slots)
            bad |= apply_negations(totals, nodes, machine, events, moment, slots, zero)
            bad |= _move_entries(trend, events, machine, moment, slots)
            if window.mode == STARTS:
                bad |= report_completed(state, totals, output, queries, window, moment.time)
            bad |= commit_fresh_nodes(totals, nodes, machine, slots, zero)
            bad |= _store_entries(trend, machine, slots)
            if bad < 0:
                return OVERFLOWED
            if window.mode == STARTS:
                close_start(totals, machine, slots.hi)
            else:
                mark_windows_due(state.due, nodes, machine, events, queries, moment, width, words[BASE] + slots.hi)
        record_negations(state.last_neg, machine, events, moment, width)
        words[AT] = moment.after


@inner
def _add_row(trend: Trend, source: int, target: int, slots: Slots, weights: ChannelWeights) -> int:
    """Propagate the totals of one row to another; negative where a 64-bit count overflowed."""
    state, totals = trend.state, trend.totals
    state.nodes.in_use[target] = True
    a, b, count = source * totals.slots + slots.lo, target * totals.slots + slots.lo, slots.hi - slots.lo + 1
    if totals.layout.has_shadows:  # most totals of trends are: to call the general step costs more than they do
        add_counts(totals, a, b, count, 1)
        return 0
    return propagate(totals, a, b, count, 1, weights)


@inner
def _clear_row(trend: Trend, row: int) -> None:
    """Empty a row that is in use."""
    state, totals = trend.state, trend.totals
    if state.nodes.in_use[row]:
        clear_totals(totals, row * totals.slots, state.words[HI] + 1)
        state.nodes.in_use[row] = False


@inner
def _copy_row(trend: Trend, source: int, target: int) -> None:
    """Copy a row to another."""
    state, totals = trend.state, trend.totals
    copy_totals(totals, source * totals.slots, totals, target * totals.slots, state.words[HI] + 1)
    state.nodes.in_use[target] = True


@inner
def _join_events(trend: Trend, events: Events, machine: Machine, moment: Moment, slots: Slots) -> int:
    """Join each event of one time to the matches before it: a pending row for each node it reaches.

    Returns a negative number where a 64-bit count overflowed.
    """
    state, totals, edges, index = trend.state, trend.totals, trend.edges, trend.index
    bad = np.int64(0)
    code, count = machine.code, 0
    width = step_width(totals.layout)
    for e in range(moment.first, moment.after):
        block = code[events.klass[e]]
        own = count
        step = steps_at(code, block, width)
        for _ in range(code[block + STEPS]):
            source, target = code[step], code[step + 1]
            at = own
            while at < count and index.join_node[at] != target:
                at += 1
            if at == count:
                index.join_event[count] = e
                index.join_node[count] = target
                count += 1
            load_weights(state.weights, totals.layout, code, step, events, e, 1)
            edge = 0
            while edge < edges.source.size and not (edges.source[edge] == source and edges.target[edge] == target):
                edge += 1
            row = index.first_pending + at
            if edge == edges.source.size:
                first = slots.hi if slots.newest_only and state.nodes.is_start[source] else slots.lo
                bad |= _add_row(trend, source, row, Slots(first, slots.hi, False), state.weights)
            else:
                bad |= _join_edge(trend, edge, e, row, slots)
            step += width
        for at in range(own, count):
            activate(state.nodes, machine, index.join_node[at])
            row = index.first_pending + at
            bad |= _add_row(trend, row, index.join_node[at], slots, state.zero)
    state.words[PENDING] = count
    return bad


@inner
def _join_edge(trend: Trend, edge: int, e: int, row: int, slots: Slots) -> int:
    """Add to a row the entries that an edge's conditions allow before event e; negative where a count overflowed."""
    state, edges, index = trend.state, trend.edges, trend.index
    bad = np.int64(0)
    kind = edges.kind[edge]
    if kind == SCAN or kind == UNEQUAL:
        for x in range(state.words[ENTRIES]):
            if index.entry_node[x] == edges.source[edge] and _is_allowed(edges, edge, index.entry_event[x], e):
                bad |= _add_row(trend, index.first_entry + x, row, slots, state.weights)
        return bad
    value = edges.after[edges.offsets[edge], e]
    if value == NO_VALUE:
        return bad
    if trend.runs.count[edge] > 0:
        bad |= _join_runs(trend, edge, value, row, slots)
    first_row, size = index.first_tree[edge], index.size[edge]
    if kind == EQUAL:
        at = _count_below(index, edge, value)
        if at < size and index.values[edge, at] == value:
            bad |= _add_row(trend, first_row + 1 + at, row, slots, state.weights)
        return bad
    if kind == LESS:
        prefix = _count_below(index, edge, value)
    elif kind == LESS_EQUAL:
        prefix = _count_below(index, edge, value + 1)
    elif kind == GREATER:
        prefix = size - _count_below(index, edge, value + 1)
    else:
        prefix = size - _count_below(index, edge, value)
    while prefix > 0:
        bad |= _add_row(trend, first_row + prefix, row, slots, state.weights)
        prefix -= prefix & -prefix
    return bad


@inner
def _join_runs(trend: Trend, edge: int, value: int, row: int, slots: Slots) -> int:
    """Add to a row the entries of earlier runs that an edge's condition allows; negative where a count overflowed.

    O(runs * (log of their values + slots)).
    """
    state, totals, runs, free = trend.state, trend.totals, trend.runs, trend.index.free_row
    kind = trend.edges.kind[edge]
    descends = kind == GREATER or kind == GREATER_EQUAL
    included = kind == EQUAL or kind == LESS_EQUAL or kind == GREATER_EQUAL
    joined = row if totals.layout.words == 1 else free  # counts are not changed by the event
    bad = np.int64(0)
    for run in range(runs.count[edge]):
        place = count_before(runs, edge, run, value, descends, included) - 1
        if place < 0 or (kind == EQUAL and runs.values[runs.directory[edge, run, VALUES] + place] != value):
            continue
        state.nodes.in_use[joined] = True
        bad |= add_run_row(runs, edge, run, place, state.words[BASE], slots, totals, joined)
    if state.nodes.in_use[free]:
        bad |= _add_row(trend, free, row, slots, state.weights)
        _clear_row(trend, free)
    return bad


@inner
def _count_below(index: TrendIndex, edge: int, value: int) -> int:
    """Return how many of an edge's values are below another. O(log n)."""
    low, high = np.int64(0), index.size[edge]
    while low < high:
        middle = (low + high) // 2
        if index.values[edge, middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _is_allowed(edges: Edges, edge: int, one: int, other: int) -> bool:
    """Return whether all of an edge's conditions hold between two events."""
    for c in range(edges.offsets[edge], edges.offsets[edge + 1]):
        x, y = edges.before[c, one], edges.after[c, other]
        if x == NO_VALUE or y == NO_VALUE:
            return False
        operator = edges.operator[c]
        if operator == LESS:
            holds = x < y
        elif operator == LESS_EQUAL:
            holds = x <= y
        elif operator == GREATER:
            holds = x > y
        elif operator == GREATER_EQUAL:
            holds = x >= y
        elif operator == EQUAL:
            holds = x == y
        else:
            holds = x != y
        if not holds:
            return False
    return True


@inner
def _place_in_tree(trend: Trend, edge: int, event: int) -> int:
    """Return where an event stands in an edge's tree (from 1), 0 where it has no value."""
    edges, index = trend.edges, trend.index
    value = edges.before[edges.offsets[edge], event]
    if value == NO_VALUE:
        return 0
    kind = edges.kind[edge]
    if kind == EQUAL:
        return _count_below(index, edge, value) + 1
    if kind == LESS or kind == LESS_EQUAL:
        return _count_below(index, edge, value + 1)
    return index.size[edge] - _count_below(index, edge, value)


@inner
def _insert_entry(trend: Trend, node: int, entry: int, slots: Slots) -> int:
    """Add an entry's totals to the trees of the edges that leave a node; negative where a count overflowed."""
    state, edges, index = trend.state, trend.edges, trend.index
    bad = np.int64(0)
    row = index.first_entry + entry
    for edge in range(edges.source.size):
        kind = edges.kind[edge]
        if edges.source[edge] != node or kind == SCAN or kind == UNEQUAL:
            continue
        at = _place_in_tree(trend, edge, index.entry_event[entry])
        while at > 0 and at <= index.size[edge]:
            bad |= _add_row(trend, row, index.first_tree[edge] + at, slots, state.zero)
            if kind == EQUAL:
                break
            at += at & -at
    return bad


@inner
def _store_entries(trend: Trend, machine: Machine, slots: Slots) -> int:
    """Keep the joins of the current time as entries where successors need them; negative where a count overflowed."""
    state, index = trend.state, trend.index
    bad = np.int64(0)
    for x in range(state.words[PENDING]):
        row = index.first_pending + x
        node = machine.fold[index.join_node[x]]
        if index.is_stored[node]:
            entry = state.words[ENTRIES]
            index.entry_event[entry] = index.join_event[x]
            index.entry_node[entry] = node
            state.words[ENTRIES] = entry + 1
            _copy_row(trend, row, index.first_entry + entry)
            bad |= _insert_entry(trend, node, entry, slots)
        _clear_row(trend, row)
    return bad


@inner
def _clear_tree(trend: Trend, edge: int) -> None:
    """Empty the tree of an edge."""
    index = trend.index
    for row in range(index.first_tree[edge] + 1, index.first_tree[edge] + index.size[edge] + 1):
        _clear_row(trend, row)


@inner
def _clear_index(trend: Trend) -> None:
    """Empty the rows of entries and trees. O(those in use)."""
    index = trend.index
    for entry in range(trend.state.words[ENTRIES]):
        _clear_row(trend, index.first_entry + entry)
    for edge in range(trend.edges.source.size):
        _clear_tree(trend, edge)


@inner
def _make_room(trend: Trend, events: Events, moment: Moment, slots: Slots, widest: int) -> int:
    """Where entries may not suffice or values are not indexed, drop the entries that expired and index the rest.

    Values to come are indexed with them, as far as there may be entries for them. Negative where a count overflowed.
    O(n log n), once for as many events as there is room for entries.
    """
    state, edges, index = trend.state, trend.edges, trend.index
    words, room = state.words, index.entry_event.size
    needed = words[ENTRIES] + (moment.after - moment.first) * index.kept
    bad = np.int64(0)
    if moment.after <= words[HORIZON] and needed <= room:
        return bad
    words[HORIZON] = min(moment.after + room, events.offsets[words[KEY] + 1])
    leave = events.leave[moment.first]
    kept = 0
    for x in range(words[ENTRIES]):
        is_live = widest == 0 or leave - events.enter[index.entry_event[x]] < widest
        if index.entry_node[x] >= 0 and is_live:
            if kept < x:
                index.entry_event[kept] = index.entry_event[x]
                index.entry_node[kept] = index.entry_node[x]
                _copy_row(trend, index.first_entry + x, index.first_entry + kept)
            kept += 1
    for x in range(kept, words[ENTRIES]):
        _clear_row(trend, index.first_entry + x)
    words[ENTRIES] = kept
    for edge in range(edges.source.size):
        if edges.kind[edge] != SCAN and edges.kind[edge] != UNEQUAL:
            _clear_tree(trend, edge)
            _index_values(trend, edge, moment.first)
    for x in range(kept):
        bad |= _insert_entry(trend, index.entry_node[x], x, slots)
    return bad


@inner
def _index_values(trend: Trend, edge: int, e: int) -> None:
    """Sort the values of an edge's entries and of events from e up to the horizon."""
    edges, index = trend.edges, trend.index
    condition = edges.offsets[edge]
    size = 0
    for x in range(trend.state.words[ENTRIES]):  # of any node: an absence may move an entry to this edge's
        if edges.before[condition, index.entry_event[x]] != NO_VALUE:
            index.values[edge, size] = edges.before[condition, index.entry_event[x]]
            size += 1
    for a in range(e, trend.state.words[HORIZON]):
        if edges.before[condition, a] != NO_VALUE:
            index.values[edge, size] = edges.before[condition, a]
            size += 1
    index.size[edge] = size
    _sort_values(index.values, edge, size)


@inner
def _sort_values(values: Ints, row: int, size: int) -> None:
    """Sort the first values of a row by heapsort. O(n log n)."""
    for root in range(size // 2 - 1, -1, -1):
        _sift_down(values, row, root, size)
    for end in range(size - 1, 0, -1):
        values[row, 0], values[row, end] = values[row, end], values[row, 0]
        _sift_down(values, row, 0, end)


@inner
def _sift_down(values: Ints, row: int, root: int, end: int) -> None:
    """Move a value down a heap to its place."""
    value = values[row, root]
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and values[row, child + 1] > values[row, child]:
            child += 1
        if values[row, child] <= value:
            break
        values[row, root] = values[row, child]
        root = child
    values[row, root] = value


@inner
def _move_entries(trend: Trend, events: Events, machine: Machine, moment: Moment, slots: Slots) -> int:
    """Move the entries behind the totals that negations moved away; negative where a 64-bit count overflowed."""
    state, totals, edges, index = trend.state, trend.totals, trend.edges, trend.index
    bad = np.int64(0)
    code, entries = machine.code, state.words[ENTRIES]
    width = step_width(totals.layout)
    for e in range(moment.first, moment.after):
        block = code[events.klass[e]]
        move = moves_at(code, block, width)
        for at in range(code[block + MOVES]):
            source, target = code[move + 2 * at], code[move + 2 * at + 1]
            if target >= 0:
                for x in range(entries):
                    if index.entry_node[x] == source:
                        bad |= _insert_entry(trend, target, x, slots)
                        index.entry_node[x] = -2 - target  # until the source's own trees are cleared
                continue
            for edge in range(edges.source.size):
                if edges.source[edge] == source:
                    _clear_tree(trend, edge)
                    trend.runs.count[edge] = 0
            for x in range(entries):
                if index.entry_node[x] <= -2:
                    index.entry_node[x] = -2 - index.entry_node[x]
                elif index.entry_node[x] == source:
                    index.entry_node[x] = -1
    return bad
