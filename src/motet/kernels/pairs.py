"""Run queries by pairs, pane by pane: for many queries that share parts of their patterns.

See `motet.plans.pairs` for what pairs are. Within a pane, events step the totals of pairs, which know nothing of
windows; when it is over, the totals of every open window are multiplied by them. So an event costs the same however
many windows are open, and equal parts of patterns are stepped once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, MIN_TIME, Flags, Ints, SmallInts
from motet.kernels.jit import inner, kernel
from motet.kernels.resume import NEEDS_WORDS, States, grow_states, view_states
from motet.kernels.slots import Window, is_wanted, make_window
from motet.kernels.steps import Moment, is_negated, multiplicity_of, next_moment
from motet.kernels.tables import (
    AT,
    DONE,
    FRAME,
    KEY,
    NEEDS_ROOM,
    OVERFLOWED,
    ROW,
    Events,
    KernelResult,
    Queries,
    ResultRows,
    begin_key,
    collect_results,
    create_output,
    end_key,
    fill,
    load_weights,
    write_label,
)
from motet.kernels.totals import (
    COUNT_SURE,
    ChannelWeights,
    Layout,
    Totals,
    add_product,
    add_total,
    clear_totals,
    copy_totals,
    create_totals,
    create_weights,
    has_matches,
    propagate,
    set_empty_match,
)

# `code[c]` is where the block of class c begins: these words, then its lists in this order. A run is source, target,
# weights as of a step (see `motet.kernels.tables`), and how many neighbouring pairs take that step; a move is source,
# and target or -1 for clearing the source; last the NEGs it violates.
IS_DIRECT = 0  # a lone event may step pairs in place, in the order given: no moves, no pair is read after it changed
RUNS = 1
MOVES = 2
NEGS = 3
HEAD = 4

# Words of the state of a run. Of the lanes, each for the windows that begin at one time, lo..hi are open; lane 0 is
# number `base`. `pane` is when the last pane with events began, and `is_open` whether windows are still to be
# multiplied by its pairs.
BASE = FRAME
LO = FRAME + 1
HI = FRAME + 2
PANE = FRAME + 3
IS_OPEN = FRAME + 4
PAIR_STATE = FRAME + 5


# A saved state begins with the last pane, whether it is open, the number of the first lane, and how many there are.
SAVED = 4


class PairMachine(NamedTuple):
    """The code that each class of events runs, the pairs that hold an empty match, and the number of pairs."""

    code: SmallInts
    starts: SmallInts
    size: int


class WindowRows(NamedTuple):
    """What a window keeps: for each row, `joins` has a row and a pair by turns; the rows of starts, and of ends.

    A row that `keeps` has the products of its joins added to it. Others become the sum of them, those between two
    offsets of `circles` together.
    """

    join_offsets: Ints
    joins: SmallInts
    keeps: Flags
    circles: Ints
    begin: SmallInts
    accept_offsets: Ints
    accept: SmallInts


class PairState(NamedTuple):
    """The state of a run: totals of pairs and of windows, and what is known of the key that is being processed."""

    words: Ints  # see `BASE` and what follows
    pairs: Totals  # the second half is for what the events of one time add
    windows: Totals  # a row for each of `WindowRows`, a slot for each lane
    product: Totals  # new rows of windows, as many as change together
    due: Ints  # the next window of each query
    last_neg: Ints  # when each NEG was last violated
    weights: ChannelWeights
    zero: ChannelWeights


def run_pairs(
    events: Events,
    machine: PairMachine,
    rows: WindowRows,
    queries: Queries,
    inner_layout: Layout,
    layout: Layout,
    pane: int,
    step: int,
    bounds: tuple[int, int],
) -> KernelResult:
    """Return the results of all queries over all keys; see `collect_results`.

    Pairs have `inner_layout`, windows `layout`: of counts alone, those of one pane may do without a shadow. `pane`
    divides all windows and slides, `step` all slides. `bounds` are the times from which and before which results are
    wanted. Each event costs O(steps of its class * channels), however many windows are open; each pane of a key that
    has events O((pairs + joins * open windows) * channels).
    """
    window = make_window(queries, 0, pane, False, int(MAX_TIME), *bounds)
    no_past = view_states(np.zeros_like(events.offsets), np.zeros(0, np.int64))
    return _run(events, machine, rows, queries, (inner_layout, layout), window, step, no_past)[0]


def resume_pairs(
    events: Events,
    machine: PairMachine,
    rows: WindowRows,
    queries: Queries,
    layouts: tuple[Layout, Layout],
    pane: int,
    step: int,
    until: int,
    saved: States,
) -> tuple[KernelResult, States, Ints]:
    """Return the results of all keys that are final at time `until`, going on from the saved state of each key.

    Also returns the new states, and when each key next has something to report. A key has one as long as the pane of
    its last event is open, or a window that holds it. Costs are those of `run_pairs`, and O(words) for states: those of
    a key are (pairs + rows * open windows) * channels, whatever events windows hold.
    """
    window = make_window(queries, 0, pane, False, until, int(MIN_TIME), int(MAX_TIME) + 1)
    return _run(events, machine, rows, queries, layouts, window, step, saved)


def _run(
    events: Events,
    machine: PairMachine,
    rows: WindowRows,
    queries: Queries,
    layouts: tuple[Layout, Layout],
    window: Window,
    step: int,
    saved: States,
) -> tuple[KernelResult, States, Ints]:
    inner_layout, layout = layouts
    lanes = 2 * (window.widest // step + 2)
    state = PairState(
        np.zeros(PAIR_STATE, np.int64),
        create_totals(2 * machine.size, 1, inner_layout),
        create_totals(len(rows.join_offsets) - 1, lanes, layout),
        create_totals(int(np.diff(rows.circles).max()), lanes, layout),
        np.empty(len(queries.within), np.int64),
        np.empty(len(queries.neg) + 1, np.int64),
        create_weights(layout),
        create_weights(layout),
    )
    keys = len(events.offsets) - 1
    saves = window.until < MAX_TIME
    written = view_states(np.zeros(keys + 1, np.int64), np.empty(1024 + 2 * len(saved.words) if saves else 0, np.int64))
    wake = np.full(keys, MAX_TIME, np.int64)
    output = create_output(1024 + lanes * len(queries.within), keys, layout)

    def run(output: ResultRows) -> int:
        nonlocal written
        while True:
            status = _run_keys(state, output, events, machine, rows, queries, window, step, saved, written, wake)
            if status != NEEDS_WORDS:
                return status
            written = grow_states(written)

    return collect_results(run, state.words, output), written, wake


@kernel
def _run_keys(
    state: PairState,
    output: ResultRows,
    events: Events,
    machine: PairMachine,
    rows: WindowRows,
    queries: Queries,
    window: Window,
    step: int,
    saved: States,
    written: States,
    wake: Ints,
) -> int:
    """Run on through all keys, unless some room runs out (then call again); see `run_pairs`."""
    words = state.words
    saves = window.until < MAX_TIME
    for key in range(words[KEY], events.offsets.size - 1):
        has_past = saved.offsets[key + 1] > saved.offsets[key]
        written.offsets[key + 1] = written.offsets[key]
        if events.offsets[key] == events.offsets[key + 1] and not has_past:
            continue
        if begin_key(words, key, events.offsets[key]):
            fill(state.last_neg, MIN_TIME)
            fill(state.due, MIN_TIME)
            words[LO], words[HI], words[PANE], words[IS_OPEN] = 0, -1, MIN_TIME, 0
            if has_past:
                _load_key(saved, saved.offsets[key], state)
        end = events.offsets[key + 1]
        status, goes_on = DONE, True
        while goes_on and status == DONE:
            if words[ROW] + state.windows.slots * queries.within.size > output.labels.shape[0]:
                return NEEDS_ROOM
            goes_on = words[AT] < end
            status = _run_pane(state, output, events, machine, rows, queries, window, step, end)
        if saves and status == DONE:
            wake[key] = _next_wakeup_time(state, queries)
            if wake[key] < MAX_TIME:
                if written.words.size - written.offsets[key] < _state_size(state):
                    return NEEDS_WORDS
                written.offsets[key + 1] = _save_key(written, written.offsets[key], state)
        end_key(words, output, status)
    return DONE


@inner
def _run_pane(
    state: PairState,
    output: ResultRows,
    events: Events,
    machine: PairMachine,
    rows: WindowRows,
    queries: Queries,
    window: Window,
    step: int,
    end: int,
) -> int:
    """End the last pane, if it is over, report windows that have ended, and apply the events of the next pane."""
    words, pane = state.words, window.unit
    begin = events.time[words[AT]] // pane * pane if words[AT] < end else window.until
    if words[PANE] > MIN_TIME and begin >= words[PANE] + pane:
        if words[IS_OPEN]:
            if _multiply_windows(state, rows) < 0:
                return OVERFLOWED
            words[IS_OPEN] = 0
        if _report_windows(state, output, rows, queries, window, step, words[PANE], begin) < 0:
            return OVERFLOWED
    if words[AT] == end:
        return DONE
    if not words[IS_OPEN]:
        _open_lanes(state, rows, window.widest, step, begin)
        _open_pane(state, machine)
        words[PANE], words[IS_OPEN] = begin, 1
    stop = words[AT] + 1
    while stop < end and events.time[stop] < begin + pane:
        stop += 1
    return OVERFLOWED if _apply_pane(state, events, machine, stop) < 0 else DONE


@inner
def _next_wakeup_time(state: PairState, queries: Queries) -> int:
    """Return when the next window ends that holds the last pane, or MAX_TIME."""
    pane, soonest = state.words[PANE], MAX_TIME
    for query in range(queries.within.size):
        within, slide = queries.within[query], queries.slide[query]
        first = max(state.due[query], (pane - within) // slide + 1)
        if first <= pane // slide:
            soonest = min(soonest, first * slide + within)
    return soonest


@inner
def _state_size(state: PairState) -> int:
    """Return how many words the state of a key takes."""
    words, windows = state.words, state.windows
    lanes = words[HI] - words[LO] + 1
    totals = windows.ints.size // windows.slots * lanes
    shadows = totals if windows.layout.has_shadows else 0
    pairs = state.pairs.ints.size // 2
    return SAVED + state.due.size + state.last_neg.size + totals + shadows + 2 * pairs


@inner
def _save_key(written: States, at: int, state: PairState) -> int:
    """Write the state of a key from word `at` on; return where it ends. O(its words)."""
    words, windows, pairs = state.words, state.windows, state.pairs
    lo, lanes = words[LO], words[HI] - words[LO] + 1
    to = written.words
    to[at], to[at + 1], to[at + 2], to[at + 3] = words[PANE], words[IS_OPEN], words[BASE] + lo, lanes
    at += SAVED
    for q in range(state.due.size):
        to[at + q] = state.due[q]
    at += state.due.size
    for q in range(state.last_neg.size):
        to[at + q] = state.last_neg[q]
    at += state.last_neg.size
    width = windows.layout.words
    for row in range(windows.ints.size // (windows.slots * width)):
        first = (row * windows.slots + lo) * width
        for place in range(first, first + lanes * width):
            to[at] = windows.ints[place]
            at += 1
            if windows.layout.has_shadows:
                written.floats[at] = windows.floats[place]
                at += 1
    if words[IS_OPEN]:
        for place in range(pairs.ints.size // 2):
            to[at] = pairs.ints[place]
            at += 1
            if pairs.layout.has_shadows:
                written.floats[at] = pairs.floats[place]
                at += 1
    return at


@inner
def _load_key(saved: States, at: int, state: PairState) -> None:
    """Load what `_save_key` wrote from word `at` on. O(its words)."""
    words, windows, pairs = state.words, state.windows, state.pairs
    source = saved.words
    words[PANE], words[IS_OPEN], words[BASE] = source[at], source[at + 1], source[at + 2]
    lanes = source[at + 3]
    words[LO], words[HI] = 0, lanes - 1
    at += SAVED
    for q in range(state.due.size):
        state.due[q] = source[at + q]
    at += state.due.size
    for q in range(state.last_neg.size):
        state.last_neg[q] = source[at + q]
    at += state.last_neg.size
    width = windows.layout.words
    for row in range(windows.ints.size // (windows.slots * width)):
        first = row * windows.slots * width
        for place in range(first, first + lanes * width):
            windows.ints[place] = source[at]
            at += 1
            if windows.layout.has_shadows:
                windows.floats[place] = saved.floats[at]
                at += 1
    if words[IS_OPEN]:
        for place in range(pairs.ints.size // 2):
            pairs.ints[place] = source[at]
            at += 1
            if pairs.layout.has_shadows:
                pairs.floats[place] = saved.floats[at]
                at += 1


@inner
def _open_lanes(state: PairState, rows: WindowRows, widest: int, step: int, begin: int) -> None:
    """Forget the windows that have ended when a pane begins, and open those that have begun."""
    words, windows = state.words, state.windows
    oldest, newest = (begin - widest) // step + 1, begin // step
    size = rows.join_offsets.size - 1
    if words[LO] > words[HI] or oldest > words[BASE] + words[HI]:
        words[BASE] = oldest
        words[LO] = 0
        words[HI] = -1
    words[LO] = max(words[LO], oldest - words[BASE])
    if newest - words[BASE] >= windows.slots:
        by = words[LO]
        for row in range(size):
            first = row * windows.slots
            copy_totals(windows, first + by, windows, first, words[HI] - by + 1)
        words[BASE] += by
        words[HI] -= by
        words[LO] = 0
    opened = words[HI] + 1
    words[HI] = newest - words[BASE]
    if words[HI] >= opened:
        for row in range(size):
            clear_totals(windows, row * windows.slots + opened, words[HI] - opened + 1)
        for at in range(rows.begin.size):
            for lane in range(opened, words[HI] + 1):
                set_empty_match(windows, rows.begin[at] * windows.slots + lane)


@inner
def _open_pane(state: PairState, machine: PairMachine) -> None:
    """Let pairs hold what they do when a pane begins."""
    clear_totals(state.pairs, 0, machine.size)
    for at in range(machine.starts.size):
        set_empty_match(state.pairs, machine.starts[at])


@inner
def _apply_pane(state: PairState, events: Events, machine: PairMachine, stop: int) -> int:
    """Step pairs by all events up to `stop`; negative where a 64-bit count overflowed."""
    pairs, code, size = state.pairs, machine.code, machine.size
    layout = pairs.layout
    width = 3 + layout.ni + layout.nm + layout.nf
    counts_alone = layout.words == 1
    bad = np.int64(0)
    while state.words[AT] < stop:
        moment = next_moment(events, state.words[AT], stop, MAX_TIME)
        e = moment.first
        if moment.after == e + 1 and code[code[events.klass[e]] + IS_DIRECT]:
            if counts_alone:
                bad |= _apply_count_runs(pairs, events, code, 0, e)
            else:
                bad |= _apply_runs(state, events, code, width, 0, e)
        else:
            for a in range(e, moment.after):
                if counts_alone:
                    bad |= _apply_count_runs(pairs, events, code, size, a)
                else:
                    bad |= _apply_runs(state, events, code, width, size, a)
            for a in range(e, moment.after):
                bad |= _apply_moves(state, code, code[events.klass[a]], width)
            for a in range(e, moment.after):
                if counts_alone:
                    bad |= _commit_count_runs(pairs, code, code[events.klass[a]], size)
                else:
                    bad |= _commit_runs(state, code, code[events.klass[a]], width, size)
        if state.last_neg.size > 1:
            _record_negations(state.last_neg, events, code, moment, width)
        state.words[AT] = moment.after
    return bad


@inner
def _record_negations(last_neg: Ints, events: Events, code: SmallInts, moment: Moment, width: int) -> None:
    """Note when each NEG was last violated."""
    for e in range(moment.first, moment.after):
        head = code[events.klass[e]]
        neg = head + HEAD + code[head + RUNS] * width + 2 * code[head + MOVES]
        for place in range(neg, neg + code[head + NEGS]):
            last_neg[code[place]] = moment.time


@inner
def _apply_count_runs(pairs: Totals, events: Events, code: SmallInts, aside: int, e: int) -> int:
    """Do the same as `_apply_runs` where totals are counts alone, as they are for most events of most queries."""
    ints, floats = pairs.ints, pairs.floats
    head = code[events.klass[e]]
    n = multiplicity_of(events, e)
    bad = np.int64(0)
    times = np.float64(n)
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        source, target, length = np.uint64(code[at]), np.uint64(aside + code[at + 1]), np.uint64(code[at + 2])
        if pairs.layout.has_shadows:
            for s in range(length):
                ints[target + s] += n * ints[source + s]
            for s in range(length):
                floats[target + s] += times * floats[source + s]
        elif n == 1:
            for s in range(length):
                total = ints[target + s] + ints[source + s]
                ints[target + s] = total
                bad |= total
        else:
            for s in range(length):
                new = ints[source + s]
                if times * np.float64(new) >= COUNT_SURE:
                    return -1
                total = ints[target + s] + n * new
                ints[target + s] = total
                bad |= total
        at += 3
    return bad


@inner
def _commit_count_runs(pairs: Totals, code: SmallInts, head: int, aside: int) -> int:
    """Do the same as `_commit_runs` where totals are counts alone."""
    ints, floats = pairs.ints, pairs.floats
    bad = np.int64(0)
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        target, added, length = np.uint64(code[at + 1]), np.uint64(aside + code[at + 1]), np.uint64(code[at + 2])
        for s in range(length):
            total = ints[target + s] + ints[added + s]
            ints[target + s] = total
            ints[added + s] = 0
            bad |= total
        if pairs.layout.has_shadows:
            bad = np.int64(0)
            for s in range(length):
                floats[target + s] += floats[added + s]
                floats[added + s] = 0.0
        at += 3
    return bad


@inner
def _apply_runs(state: PairState, events: Events, code: SmallInts, width: int, aside: int, e: int) -> int:
    """Apply the steps of an event, or of several alike that it stands for; negative where a 64-bit count overflowed.

    What they add goes to a place of its own, `aside` pairs away, to be committed when the time is over.
    """
    head = code[events.klass[e]]
    n = multiplicity_of(events, e)
    bad = np.int64(0)
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        if width > 3:
            load_weights(state.weights, state.pairs.layout, code, at, events, e, n)
        bad |= propagate(state.pairs, code[at], aside + code[at + 1], code[at + width - 1], n, state.weights)
        at += width
    return bad


@inner
def _commit_runs(state: PairState, code: SmallInts, head: int, width: int, aside: int) -> int:
    """Add what an event's steps put aside; negative where a 64-bit count overflowed."""
    bad = np.int64(0)
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        target, length = code[at + 1], code[at + width - 1]
        bad |= propagate(state.pairs, target + aside, target, length, 1, state.zero)
        clear_totals(state.pairs, target + aside, length)
        at += width
    return bad


@inner
def _apply_moves(state: PairState, code: SmallInts, head: int, width: int) -> int:
    """Move what an event rules out to where no NOT is pending, or nowhere; negative where a 64-bit count overflowed."""
    bad = np.int64(0)
    at = head + HEAD + code[head + RUNS] * width
    for _ in range(code[head + MOVES]):
        source, target = code[at], code[at + 1]
        if target >= 0:
            bad |= propagate(state.pairs, source, target, 1, 1, state.zero)
        else:
            clear_totals(state.pairs, source, 1)
        at += 2
    return bad


@inner
def _multiply_windows(state: PairState, rows: WindowRows) -> int:
    """Multiply the totals of all open windows by those of a pane; negative where a 64-bit count overflowed.

    O(joins with matches in the pane * open windows * words + joins).
    """
    windows, product = state.windows, state.product
    lo, count = state.words[LO], state.words[HI] - state.words[LO] + 1
    bad = np.int64(0)
    for circle in range(rows.circles.size - 1):
        first, after = rows.circles[circle], rows.circles[circle + 1]
        if rows.keeps[first]:
            bad |= _add_joins(state, rows, first, windows, first * windows.slots + lo)
            continue
        for row in range(first, after):
            clear_totals(product, (row - first) * product.slots, count)
            bad |= _add_joins(state, rows, row, product, (row - first) * product.slots)
        for row in range(first, after):
            copy_totals(product, (row - first) * product.slots, windows, row * windows.slots + lo, count)
    return bad


@inner
def _add_joins(state: PairState, rows: WindowRows, row: int, target: Totals, first: int) -> int:
    """Add the products of the joins of a row to totals of all open windows, from number `first` on."""
    pairs, windows = state.pairs, state.windows
    lo, count = state.words[LO], state.words[HI] - state.words[LO] + 1
    to, lanes = np.uint64(first), np.uint64(count)
    bad = np.int64(0)
    for join in range(rows.join_offsets[row], rows.join_offsets[row + 1]):
        pair = rows.joins[2 * join + 1]
        if not has_matches(pairs, pair):
            continue
        before = rows.joins[2 * join] * windows.slots + lo
        if windows.layout.has_shadows:
            source = np.uint64(before)
            times = pairs.ints[pair]
            shadow = pairs.floats[pair] if pairs.layout.has_shadows else float(times)
            for lane in range(lanes):
                target.ints[to + lane] += windows.ints[source + lane] * times
            for lane in range(lanes):
                target.floats[to + lane] += windows.floats[source + lane] * shadow
        else:
            for lane in range(count):
                bad |= add_product(windows, before + lane, pairs, pair, target, first + lane)
    return bad


@inner
def _report_windows(
    state: PairState,
    output: ResultRows,
    rows: WindowRows,
    queries: Queries,
    window: Window,
    step: int,
    begin: int,
    until: int,
) -> int:
    """Report the windows that have begun by the last pane and will have ended when the next begins.

    Returns a negative number where a 64-bit count overflowed.
    """
    words, windows = state.words, state.windows
    bad = np.int64(0)
    for query in range(queries.within.size):
        within, slide = queries.within[query], queries.slide[query]
        first = max(state.due[query], (begin - within) // slide + 1)
        last = begin // slide
        if until < MAX_TIME:
            last = min(last, (until - within) // slide)
        state.due[query] = max(first, last + 1)
        for number in range(first, last + 1):
            start = number * slide
            end = start + within
            if not is_wanted(window, end) or is_negated(queries, query, state.last_neg, start):
                continue
            row = words[ROW]
            lane = start // step - words[BASE]
            clear_totals(output.totals, row, 1)
            for at in range(rows.accept_offsets[query], rows.accept_offsets[query + 1]):
                bad |= add_total(windows, rows.accept[at] * windows.slots + lane, output.totals, row)
            if has_matches(output.totals, row):
                write_label(output, words, query, start, end, True)
    return bad
