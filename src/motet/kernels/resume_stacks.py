"""Run two stacks over all keys, from the beginning or on from where each key stopped.

What a key needs to go on is its events in the window, which stay where they are between runs; the entries saved for its
front, which are only taken from the end until the front is rebuilt; and a *record* of the rest: the windows due, when
NEGs were violated, the columns of the back that are not as in the identity, and the rows of starts. Only the record is
written anew in each run, where the last one was if it fits, and its size does not depend on the window.

A record is a sequence of 64-bit words: how many windows due, NEGs, columns and totals of starts it holds; then for each
window due its query, first and last; for each NEG its number and time; for each column its node and totals; for each
total its place in the suffix product and its words. Where totals have shadows, these follow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, MIN_TIME, Flags, Floats, Ints, SmallInts
from motet.kernels.jit import inner, kernel
from motet.kernels.prefetch import prefetch
from motet.kernels.ragged import expand_ranges, offsets_from_counts
from motet.kernels.slots import Inputs, Window, make_window
from motet.kernels.steps import DUE, FIRST_DUE, LAST_DUE, WAITING, create_active_nodes
from motet.kernels.tables import (
    AT,
    BLOCK,
    DIRECT,
    DONE,
    IS_DIRECT,
    KEY,
    MOVES,
    OVERFLOWED,
    ROW,
    STEPS,
    Events,
    KernelResult,
    Machine,
    Queries,
    ResultRows,
    begin_key,
    collect_results,
    create_output,
    end_key,
)
from motet.kernels.totals import (
    Layout,
    Totals,
    allocate_totals,
    clear_totals,
    create_totals,
    create_weights,
    has_matches,
)
from motet.kernels.two_stacks import (
    BASE,
    BOTTOM,
    CHANGED_COLUMNS,
    CHANGED_LINES,
    COUNT,
    ENTRIES,
    ENTRY,
    FREE_ENTRY,
    FREE_RECORD,
    FREE_TOTAL,
    KEEPS_FRONTS,
    LO,
    MIDDLE,
    NEEDS_FRONT,
    SAVED,
    STACK_STATE,
    TO_SAVE,
    WORK,
    PlainSteps,
    Stacks,
    StackState,
    StackTable,
    begin_window,
    note_column,
    note_line,
    run_key,
    sweep_back,
)

MOST_ROOM = 1 << 23
MIN_ROOM = 1 << 12
NEEDS_RECORDS = 4  # a status beside those of `motet.kernels.tables`
AHEAD = 8  # keys: some microseconds, in which memory answers
LINE = 8  # words of a cache line
GOLDEN_RATIO = 0.6180339887498949  # its multiples, modulo 1, are spread evenly

# Words of what is known of a key between runs. Its events are numbered; those before `FIRST_LIVE` are dropped.
ORIGIN = 0  # where event number 0 is in the log of events
REGION_END = 1  # up to where the log has room for the key
FIRST_LIVE = 2  # the first event in the window
FIRST_BACK = 3  # the first event of the back
NEXT_EVENT = 4  # the first event that was not processed
LENGTH = 5  # after the last event
FRONT_BOTTOM = 6  # the entries of the front
FRONT_TOP = 7
FRONT_TOTALS = 8  # after its last saved total
FRONT_TO_SAVE = 9
RECORD = 10  # where its record is
RECORD_SIZE = 11
WAKE = 12  # when it has something to report by itself
LEVEL = 13  # which layout its totals have
HEAD = 14

# Words at the head of a record.
RECORD_DUES = 0
RECORD_NEGS = 1
RECORD_COLUMNS = 2
RECORD_TOTALS = 3
RECORD_HEAD = 4


class FedKeys(NamedTuple):
    """The keys of a run: which of the events are to be processed, and what is known of each.

    In a run from the beginning to the end nothing is known or kept: `heads` are empty.
    """

    first: Ints
    after: Ints
    runs: Flags  # whether there is anything to do
    row: Ints  # of `heads`
    heads: Ints  # row, see `ORIGIN` and what follows
    records: Ints
    floats: Floats  # a view of the records
    most: int  # the most words that a record may have


def run_stacks(
    events: Events,
    machine: Machine,
    queries: Queries,
    table: StackTable,
    layout: Layout,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> KernelResult:
    """Return the results of queries of one window over all keys; see `StackRun.run` and `collect_results`.

    A slide of 0 means a continuous window; see `Window` for the other arguments.
    """
    window = make_window(queries, 0, 0, ranked, int(MAX_TIME), emit_from, emit_to)
    run = StackRun(machine, queries, table, layout)
    offsets = events.offsets
    runs = np.ones(len(offsets) - 1, np.bool_)
    return run.run(events, window, offsets[:-1], offsets[1:], runs)


class StackRun:
    """The buffers that two stacks work on, and the records and fronts of keys where these go on later."""

    def __init__(self, machine: Machine, queries: Queries, table: StackTable, layout: Layout) -> None:
        nodes, size = len(machine.fold), len(queries.within)
        self.machine, self.queries, self.layout = machine, queries, layout
        self.records = np.empty(0, np.int64)
        self._limits = MIN_ROOM, MIN_ROOM  # of records and of fronts
        self.stacks = Stacks(
            create_totals(len(table.origin), 1, layout),
            create_totals(int(table.size.sum()) + 1, 1, layout),
            allocate_totals(64, 1, layout),
            np.empty((64, ENTRY), np.int64),
            table,
            _list_plain_steps(machine.code, table, layout),
        )
        self.state = StackState(
            np.zeros(STACK_STATE, np.int64),
            create_active_nodes(machine, np.zeros(nodes, np.bool_)),
            np.zeros((DUE, size + 1), np.int64),
            np.empty(len(queries.neg) + 1, np.int64),
            create_weights(layout),
            create_weights(layout),
            np.empty(size, np.int64),
            np.zeros(size, np.bool_),
            np.zeros(size, np.bool_),
            np.arange(nodes, dtype=np.int32),
            np.ones(nodes, np.bool_),
            np.arange(nodes, dtype=np.int32),
            np.ones(nodes, np.bool_),
            np.zeros(nodes, np.int64),
        )
        self.state.nodes.in_use[:] = table.own_row >= 0  # a product has entries for every settled node
        self.state.words[CHANGED_COLUMNS] = self.state.words[CHANGED_LINES] = nodes

    def set_machine(self, machine: Machine) -> None:
        """Go on with more classes of events."""
        if machine is not self.machine:
            self.machine = machine
            plain = _list_plain_steps(machine.code, self.stacks.table, self.layout)
            self.stacks = self.stacks._replace(plain=plain)

    @property
    def work(self) -> int:
        """How many events were applied and swept so far."""
        return int(self.state.words[WORK])

    def run(
        self,
        events: Events,
        window: Window,
        first: Ints,
        after: Ints,
        runs: Flags,
        rows: Ints | None = None,
        heads: Ints | None = None,
    ) -> KernelResult:
        """Process the events from `first` to `after` of each key that runs; return the results.

        With `heads`, each key goes on from its row of them, which is changed but where counts overflowed.

        Whatever the window holds, each event costs, amortised, for each of its steps O(words * (rows before its source
        + nodes after its target)): the first when it enters the back, the second when it is swept, and the second
        again, to save and to restore, where its source is a start. A result costs O(words * rows before the nodes that
        its query accepts), and each sliding window O(queries that are due). Queries that share nothing cost together
        what they cost each, save for reading: see `motet.plans.machine.count_touched_totals`. A key that goes on costs
        its record: O(words * rows of the columns that events have changed).
        """
        words = self.state.words
        words[ROW] = words[KEY] = 0
        words[KEEPS_FRONTS] = heads is not None
        inputs = Inputs(events, self.machine, self.queries, window)
        nothing = np.zeros(0, np.int64)
        row = nothing if rows is None else rows
        known = np.zeros((0, HEAD), np.int64) if heads is None else heads
        most = max_record_size(self.queries, self.stacks)

        def run(output: ResultRows) -> int:
            while True:
                keys = FedKeys(first, after, runs, row, known, self.records, self.records.view(np.float64), most)
                status = _run_keys(self.state, self.stacks, output, inputs, keys)
                if status == NEEDS_FRONT:
                    self._grow_fronts()
                elif status == NEEDS_RECORDS:
                    room = max(MIN_ROOM, len(self.records), most)
                    self.records = np.concatenate((self.records, np.empty(room, np.int64)))
                else:
                    return status

        # Room for a result at every event: memory that is never written costs nothing.
        room = min(int((after - first)[runs].sum()), MOST_ROOM) + len(self.queries.within) + 1
        return collect_results(run, words, create_output(room, len(first), self.layout))

    def _grow_fronts(self) -> None:
        """Make room for what the next sweep saves."""
        words, stacks = self.state.words, self.stacks
        room = 2 * int(max(words[FREE_ENTRY], words[FREE_TOTAL]) + words[TO_SAVE])
        saved, entries = allocate_totals(room, 1, self.layout), np.empty((room, ENTRY), np.int64)
        if words[KEEPS_FRONTS]:
            entries[: len(stacks.entries)] = stacks.entries
            saved.ints[: len(stacks.saved.ints)] = stacks.saved.ints
            if self.layout.has_shadows:
                saved.floats[: len(stacks.saved.floats)] = stacks.saved.floats
        self.stacks = stacks._replace(saved=saved, entries=entries)

    @property
    def is_wasteful(self) -> bool:
        """Whether at least half of the records or fronts may be of no use any more."""
        return self._has_wasted_records or self._has_wasted_fronts

    @property
    def _has_wasted_records(self) -> bool:
        return bool(self.state.words[FREE_RECORD] > self._limits[0])

    @property
    def _has_wasted_fronts(self) -> bool:
        words = self.state.words
        return bool(max(words[FREE_ENTRY], words[FREE_TOTAL]) > self._limits[1])

    def compact(self, heads: Ints) -> None:
        """Drop the records and fronts that none of the keys has, `heads` being those of all keys.

        O(what is kept), amortised O(what was written).
        """
        if self._has_wasted_records:
            self._compact_records(heads)
        if self._has_wasted_fronts:
            self._compact_fronts(heads)

    def _compact_records(self, heads: Ints) -> None:
        sizes = heads[:, RECORD_SIZE]
        records = self.records[expand_ranges(heads[:, RECORD], sizes)]
        heads[:, RECORD] = offsets_from_counts(sizes)[:-1]
        self.records = np.empty(3 * len(records) + MIN_ROOM, np.int64)
        self.records[: len(records)] = records
        self.state.words[FREE_RECORD] = len(records)
        self._limits = 2 * len(records) + MIN_ROOM, self._limits[1]

    def _compact_fronts(self, heads: Ints) -> None:
        words, stacks, layout = self.state.words, self.stacks, self.layout
        counts = heads[:, FRONT_TOP] - heads[:, FRONT_BOTTOM]
        entries = stacks.entries[expand_ranges(heads[:, FRONT_BOTTOM], counts)]
        offsets = offsets_from_counts(counts)
        ends = offsets_from_counts(entries[:, COUNT])[offsets]
        totals = expand_ranges(heads[:, FRONT_TOTALS] - np.diff(ends), np.diff(ends))
        kept = max(len(entries), len(totals))
        room = 3 * kept + MIN_ROOM
        saved, moved = allocate_totals(room, 1, layout), np.empty((room, ENTRY), np.int64)
        moved[: len(entries)] = entries
        saved.ints.reshape(-1, layout.words)[: len(totals)] = stacks.saved.ints.reshape(-1, layout.words)[totals]
        if layout.has_shadows:
            saved.floats[: len(totals)] = stacks.saved.floats[totals]
        self.stacks = stacks._replace(saved=saved, entries=moved)
        heads[:, FRONT_BOTTOM], heads[:, FRONT_TOP], heads[:, FRONT_TOTALS] = offsets[:-1], offsets[1:], ends[1:]
        words[FREE_ENTRY], words[FREE_TOTAL] = len(entries), len(totals)
        self._limits = self._limits[0], 2 * kept + MIN_ROOM


def _list_plain_steps(code: SmallInts, table: StackTable, layout: Layout) -> PlainSteps:
    """List the steps of the classes of direct steps and nothing else; none where totals are more than one word."""
    classes = int(code[0]) if len(code) else 0
    offsets, saves = np.zeros(classes + 1, np.int64), np.zeros(classes, np.int64)
    steps: list[tuple[int, ...]] = []
    width = 2 + layout.ni + layout.nm + layout.nf
    column, rows, size, is_start = (each.tolist() for each in (table.column, table.rows, table.size, table.is_start))
    words = code.tolist()
    for number, block in enumerate(words[:classes]):
        direct, listed, moves = words[block + DIRECT], words[block + STEPS], words[block + MOVES]
        first = block + BLOCK
        away = first + width * (direct + listed)
        ends = [(words[at], words[at + 1]) for at in range(first, away, width)]
        saves[number] = sum(size[target] for source, target in ends if is_start[source])
        saves[number] += sum(size[words[at]] for at in range(away, away + 2 * moves, 2) if is_start[words[at]])
        if layout.words == 1 and words[block + IS_DIRECT] and not moves:
            steps += [(one, other, column[one], column[other], rows[one]) for one, other in ends[:direct]]
        offsets[number + 1] = len(steps)
    return PlainSteps(offsets, np.array(steps, np.int32).ravel(), saves)


def max_record_size(queries: Queries, stacks: Stacks) -> int:
    """Return the most words that a record may have."""
    table, width = stacks.table, stacks.back.layout.words + 1
    head = RECORD_HEAD + 3 * len(queries.within) + 2 * len(queries.neg) + 2 + len(table.column)
    return head + len(table.origin) * width + int(table.size[table.is_start].sum()) * (1 + width)


@kernel
def _run_keys(state: StackState, stacks: Stacks, output: ResultRows, inputs: Inputs, keys: FedKeys) -> int:
    """Run on through all keys, unless some room runs out (then call again); see `StackRun.run`."""
    words = state.words
    is_fed = keys.heads.shape[0] > 0
    for key in range(words[KEY], keys.first.size):
        if is_fed:
            _fetch_ahead(stacks, inputs.events, keys, key)
        if not keys.runs[key]:
            continue
        if begin_key(words, key, keys.first[key]):
            begin_window(state, stacks, keys.first[key])
            words[WORK] += keys.after[key] - keys.first[key]
            if is_fed:
                _load_key(state, stacks, keys, keys.row[key])
        if is_fed and keys.records.size - words[FREE_RECORD] < keys.most:
            return NEEDS_RECORDS
        status = run_key(state, stacks, output, inputs, keys.after[key])
        if is_fed and status == DONE and _is_first_sweep_due(words, inputs, keys.row[key]):
            status = sweep_back(state, stacks, inputs.events, inputs.machine, words[LO], keys.after[key])
        if status != DONE and status != OVERFLOWED:
            return status
        if is_fed and status == DONE:
            _save_key(state, stacks, inputs, keys, keys.row[key])
        end_key(words, output, status)
    return DONE


@inner
def _fetch_ahead(stacks: Stacks, events: Events, keys: FedKeys, key: int) -> None:
    """Fetch what keys that come soon are read from: first their heads, and what these point to once they are there."""
    heads, saved = keys.heads, stacks.saved
    if key + 2 * AHEAD < keys.row.size:
        row = keys.row[key + 2 * AHEAD]
        prefetch(heads, row)
        prefetch(heads[row], HEAD - 1)
    if key + AHEAD < keys.row.size and keys.runs[key + AHEAD]:
        row = keys.row[key + AHEAD]
        for word in range(0, heads[row, RECORD_SIZE] + LINE - 1, LINE):
            prefetch(keys.records, heads[row, RECORD] + word)
        prefetch(stacks.entries, heads[row, FRONT_TOP] - 1)
        last = heads[row, FRONT_TOTALS] * saved.layout.words - 1
        prefetch(saved.ints, last)
        prefetch(saved.ints, last - LINE)
        first = heads[row, ORIGIN] + heads[row, FIRST_LIVE]
        for event in (first, heads[row, ORIGIN] + heads[row, NEXT_EVENT]):
            prefetch(events.time, event)
            prefetch(events.enter, event)
            prefetch(events.leave, event)
            prefetch(events.klass, event)


@inner
def _is_first_sweep_due(words: Ints, inputs: Inputs, row: int) -> bool:
    """Return whether to sweep a key for the first time, before it has to be.

    Each sweep is one window after the one before. Keys that begin together are first swept at shares of a window that
    differ, so that none of the later micro-batches has to sweep all of them.
    """
    if words[MIDDLE] > words[BASE] or words[LO] >= words[AT]:
        return False
    held = inputs.events.leave[words[AT] - 1] - inputs.events.enter[words[LO]]
    return held >= inputs.window.widest * (row * GOLDEN_RATIO % 1.0)


@inner
def _load_key(state: StackState, stacks: Stacks, keys: FedKeys, row: int) -> None:
    """Go on from what `_save_key` saved of a key. O(words of its record)."""
    words, heads, records, due, table = state.words, keys.heads, keys.records, state.due, stacks.table
    words[BASE] = heads[row, ORIGIN]
    words[LO] = heads[row, ORIGIN] + heads[row, FIRST_LIVE]
    words[MIDDLE] = heads[row, ORIGIN] + heads[row, FIRST_BACK]
    words[BOTTOM] = heads[row, FRONT_BOTTOM]
    words[ENTRIES] = heads[row, FRONT_TOP]
    words[SAVED] = heads[row, FRONT_TOTALS]
    words[TO_SAVE] = heads[row, FRONT_TO_SAVE]
    if heads[row, RECORD_SIZE] == 0:
        return
    head = heads[row, RECORD]
    at = head + RECORD_HEAD
    due[WAITING, -1] = records[head + RECORD_DUES]
    for place in range(records[head + RECORD_DUES]):
        query = records[at]
        due[WAITING, place] = query
        due[FIRST_DUE, query] = records[at + 1]
        due[LAST_DUE, query] = records[at + 2]
        at += 3
    for _ in range(records[head + RECORD_NEGS]):
        state.last_neg[records[at]] = records[at + 1]
        at += 2
    for _ in range(records[head + RECORD_COLUMNS]):
        node = records[at]
        note_column(state, node)
        at = _read_totals(keys, at + 1, stacks.back, table.column[node], table.rows[node])
    if words[LO] < words[MIDDLE]:
        for node in range(table.is_start.size):
            if table.is_start[node]:
                note_line(state, node)
                clear_totals(stacks.suffix, table.line[node], table.size[node])
        for _ in range(records[head + RECORD_TOTALS]):
            at = _read_totals(keys, at + 1, stacks.suffix, records[at], 1)


@inner
def _save_key(state: StackState, stacks: Stacks, inputs: Inputs, keys: FedKeys, row: int) -> None:
    """Save what a key needs to go on. O(words of its record, and starts)."""
    words, heads, records, due, table = state.words, keys.heads, keys.records, state.due, stacks.table
    origin = words[BASE]
    heads[row, FIRST_LIVE] = words[LO] - origin
    heads[row, FIRST_BACK] = words[MIDDLE] - origin
    heads[row, NEXT_EVENT] = words[AT] - origin
    heads[row, FRONT_BOTTOM] = words[BOTTOM]
    heads[row, FRONT_TOP] = words[ENTRIES]
    heads[row, FRONT_TOTALS] = words[SAVED]
    heads[row, FRONT_TO_SAVE] = words[TO_SAVE]
    head = words[FREE_RECORD]
    at = head + RECORD_HEAD
    records[head + RECORD_DUES] = due[WAITING, -1]
    for place in range(due[WAITING, -1]):
        query = due[WAITING, place]
        records[at] = query
        records[at + 1] = due[FIRST_DUE, query]
        records[at + 2] = due[LAST_DUE, query]
        at += 3
    count = np.int64(0)
    for neg in range(state.last_neg.size):
        if state.last_neg[neg] > MIN_TIME:
            records[at] = neg
            records[at + 1] = state.last_neg[neg]
            at += 2
            count += 1
    records[head + RECORD_NEGS] = count
    count = np.int64(0)
    for place in range(words[CHANGED_COLUMNS]):
        node = state.columns[place]
        if table.own_row[node] >= 0:  # fresh ones are empty by now
            records[at] = node
            at = _write_totals(keys, at + 1, stacks.back, table.column[node], table.rows[node])
            count += 1
    records[head + RECORD_COLUMNS] = count
    count = np.int64(0)
    for node in range(table.is_start.size if words[LO] < words[MIDDLE] else 0):
        for total in range(table.line[node], table.line[node] + (table.size[node] if table.is_start[node] else 0)):
            if has_matches(stacks.suffix, total):
                records[at] = total
                at = _write_totals(keys, at + 1, stacks.suffix, total, 1)
                count += 1
    records[head + RECORD_TOTALS] = count
    if at - head <= heads[row, RECORD_SIZE]:  # in place of the last one
        place = heads[row, RECORD]
        for word in range(at - head):
            records[place + word] = records[head + word]
    else:
        heads[row, RECORD] = head
        words[FREE_RECORD] = at
    heads[row, RECORD_SIZE] = at - head
    heads[row, WAKE] = _next_wakeup_time(state, inputs)


@inner
def _next_wakeup_time(state: StackState, inputs: Inputs) -> int:
    """Return when, without a further event, a key has something to report: after the time it is reported for, where an
    event at that time may still come.
    """
    queries, words, due = inputs.queries, state.words, state.due
    within, slide = queries.within[0], queries.slide[0]
    soonest = MAX_TIME
    if slide == 0:
        if queries.expiries[0] and not inputs.window.ranked and words[LO] < words[AT]:
            soonest = inputs.events.time[words[LO]] + within + 1
        return soonest
    for place in range(due[WAITING, -1]):
        soonest = min(soonest, due[FIRST_DUE, due[WAITING, place]] * slide + within)
    return soonest


@inner
def _read_totals(keys: FedKeys, at: int, totals: Totals, first: int, count: int) -> int:
    """Read totals from word `at` of the records on; return where they end."""
    words = totals.layout.words
    for word in range(count * words):
        totals.ints[first * words + word] = keys.records[at + word]
    at += count * words
    if totals.layout.has_shadows:
        for place in range(count):
            totals.floats[first + place] = keys.floats[at + place]
        at += count
    return at


@inner
def _write_totals(keys: FedKeys, at: int, totals: Totals, first: int, count: int) -> int:
    """Write totals to the records from word `at` on; return where they end."""
    words = totals.layout.words
    for word in range(count * words):
        keys.records[at + word] = totals.ints[first * words + word]
    at += count * words
    if totals.layout.has_shadows:
        for place in range(count):
            keys.floats[at + place] = totals.floats[first + place]
        at += count
    return at
