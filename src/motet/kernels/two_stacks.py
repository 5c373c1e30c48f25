"""Two stacks: a sliding product of event matrices, the strategy whose cost does not grow with the window.

The events of the window are split in two. The back keeps one product, each event being one column operation on it.
When the front runs out, the back is swept from its end, each event being one row operation, and of each suffix
product the start's row is kept: the front. The value of the window is the front's top row times the back. Rows and
columns of a product are the settled nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner, kernel
from motet.kernels.slots import DONE, NEEDS_ROOM, OVERFLOWED, Labels, zero_weights
from motet.kernels.steps import (
    DUE,
    FIRST_DUE,
    LAST_DUE,
    WAITING,
    Nodes,
    apply_event,
    apply_negations,
    apply_simultaneous,
    clear_due_windows,
    commit_fresh_nodes,
    count_event,
    is_negated,
    mark_windows_due,
    record_negations,
)
from motet.kernels.tables import (
    BLOCK,
    DIRECT,
    IS_DIRECT,
    LABELS,
    MAX_TIME,
    MIN_TIME,
    MOVES,
    STEPS,
    Code,
    Events,
    Flags,
    Machine,
    Queries,
    Times,
    fill,
    grow_buffer,
    grow_labels,
    load_weights,
    membership_mask,
    moves_at,
    shift_to_front,
    step_width,
    steps_at,
    write_label,
)
from motet.kernels.totals import (
    COUNT_SURE,
    SHADOW_LIMIT,
    Floats,
    Layout,
    Words,
    add_product,
    add_total,
    allocate_totals,
    clear_totals,
    copy_totals,
    create_totals,
    grow_totals,
    has_matches,
    propagate,
    set_empty_match,
)

MOST_ROOM = 1 << 23
NEEDS_FRONT = 3
NEEDS_GROUPS = 4

# Where a run stands between calls. Of the groups of events of one time, `groups[x]` being where group x begins,
# lo..hi are in the window:
# the front lo..middle, the back middle..hi. The front's first row is for group `base`.
AT = 0  # the next event
ROW = 1  # the next result row
LO = 2
MIDDLE = 3
HI = 4
BASE = 5
STATE = 6


@kernel
def run_stacks(
    events: Events,
    machine: Machine,
    queries: Queries,
    settled: Nodes,
    reachable_rows: Nodes,
    layout: Layout,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> tuple[Labels, Words, Floats, Flags]:
    """Results of one query over all keys: labels and totals of each, and which keys overflowed 64 bits (theirs are
    left out).

    `settled` lists the settled nodes, the start first; `reachable_rows[n]` is how many of the first of them hold all
    that lead to node n. Each event costs O(transitions of its class * settled nodes * channels) amortised, each
    result O(settled nodes * accepting nodes), whatever the window holds. A slide of 0 means a continuous window.
    """
    keys = events.offsets.size - 1
    nodes = machine.fold.size
    rank = settled.size
    back, back_floats = create_totals(nodes * rank, layout)
    suffix, suffix_floats = create_totals(nodes * rank, layout)
    front, front_floats = create_totals(64 * rank, layout)
    # Room for a result at every event: memory that is never written costs nothing.
    room = min(events.time.size, MOST_ROOM) + 2
    labels = np.empty((room, LABELS), np.int64)
    out, out_floats = allocate_totals(room, layout)
    groups = np.empty(1024, np.int64)
    overflowed = np.zeros(keys, np.bool_)
    touched = np.empty(nodes, np.bool_)
    is_start = np.zeros(nodes, np.bool_)
    accepting = membership_mask(queries.accept, nodes)
    single = _single_steps(machine.code, accepting, reachable_rows, rank, layout)
    fresh = np.zeros(nodes + 1, np.int32)
    last_neg = np.empty(queries.neg.size + 1, np.int64)
    due = np.empty((DUE, 2), np.int64)
    wi, wf = np.zeros(layout.ni + layout.nm, np.int64), np.zeros(layout.nf, np.float64)
    zero_int, zero_float = zero_weights(layout), np.zeros(layout.nf, np.float64)
    state = np.zeros(STATE, np.int64)
    for key in range(keys):
        mark = state[ROW]
        state[AT] = events.offsets[key]
        for at in (LO, MIDDLE, HI, BASE):
            state[at] = 0
        fill(last_neg, MIN_TIME)
        clear_due_windows(due)
        for node in range(nodes):  # a product has entries for every settled node
            touched[node] = machine.fold[node] == node
        _reset_product(back, back_floats, layout, settled)
        status = NEEDS_ROOM
        while status != DONE and status != OVERFLOWED:
            status = _run_key(
                state,
                key,
                events.offsets[key + 1],
                back,
                back_floats,
                suffix,
                suffix_floats,
                front,
                front_floats,
                labels,
                out,
                out_floats,
                groups,
                layout,
                settled,
                single,
                events.time,
                events.enter,
                events.leave,
                events.klass,
                events.int_values,
                events.float_values,
                events.multiplicity,
                machine.code,
                machine.fold,
                queries,
                queries.accept,
                queries.fresh,
                accepting,
                touched,
                is_start,
                fresh,
                last_neg,
                due,
                queries.within[0],
                queries.slide[0],
                queries.expiries[0],
                ranked,
                emit_from,
                emit_to,
                wi,
                wf,
                zero_int,
                zero_float,
            )
            if status == NEEDS_ROOM:
                labels = grow_labels(labels)
                out, out_floats = grow_totals(out, out_floats, layout)
            elif status == NEEDS_FRONT:
                front, front_floats = create_totals(2 * (state[HI] - state[LO]) * rank, layout)
            elif status == NEEDS_GROUPS:
                groups = grow_buffer(groups)
        if status == OVERFLOWED:
            overflowed[key] = True
            state[ROW] = mark
            fresh[-1] = 0
    return labels[: state[ROW]], out[: state[ROW] * layout.words], out_floats[: state[ROW] * layout.words], overflowed


@kernel
def _run_key(
    state: NDArray[np.int64],
    key: int,
    end: int,
    back: Words,
    back_floats: Floats,
    suffix: Words,
    suffix_floats: Floats,
    front: Words,
    front_floats: Floats,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    groups: Times,
    layout: Layout,
    settled: Nodes,
    single: Nodes,
    time: Times,
    enter: Times,
    leave: Times,
    klass: NDArray[np.int32],
    int_values: Words,
    float_values: Floats,
    multiplicity: Times,
    code: Code,
    fold: Nodes,
    queries: Queries,
    accept: Nodes,
    fresh_accept: Nodes,
    accepting: Flags,
    touched: Flags,
    is_start: Flags,
    fresh: Nodes,
    last_neg: Times,
    due: NDArray[np.int64],
    within: int,
    slide: int,
    expiries: bool,
    ranked: bool,
    emit_from: int,
    emit_to: int,
    wi: Words,
    wf: Floats,
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """Run on through one key's events until they end, counts overflow, or some room runs out (then call again)."""
    rank = settled.size
    top = rank - 1
    words = layout.words
    width = step_width(layout)
    simple = words == 1 and slide == 0 and not expiries
    e = state[AT]
    while True:
        if simple:
            state[AT] = e
            bad = _count_plain_events(
                state,
                key,
                end,
                back,
                back_floats,
                front,
                front_floats,
                labels,
                out,
                out_floats,
                groups,
                rank,
                time,
                enter,
                leave,
                klass,
                accept,
                single,
                within,
                emit_from,
                emit_to,
                layout.has_shadows,
            )
            if bad < 0:
                return OVERFLOWED
            e = state[AT]
        flush = e >= end
        if flush and slide == 0 and (ranked or not expiries):
            return DONE
        state[AT] = e
        now = MAX_TIME if flush else time[e]
        after = e + 1
        while after < end and time[after] == now:
            after += 1
        if state[ROW] + 2 > labels.shape[0]:
            return NEEDS_ROOM

        if slide > 0:
            if due[FIRST_DUE, 0] <= due[LAST_DUE, 0] and due[FIRST_DUE, 0] * slide + within <= now:
                status = _close_windows(
                    state,
                    key,
                    e,
                    end,
                    back,
                    back_floats,
                    suffix,
                    suffix_floats,
                    front,
                    front_floats,
                    labels,
                    out,
                    out_floats,
                    groups,
                    layout,
                    settled,
                    single,
                    time,
                    klass,
                    int_values,
                    float_values,
                    code,
                    fold,
                    queries,
                    accept,
                    last_neg,
                    due,
                    within,
                    slide,
                    now,
                    emit_from,
                    emit_to,
                    wi,
                    wf,
                    zero_int,
                    zero_float,
                )
                if status != DONE:
                    return status
        else:
            leaving = MAX_TIME if flush else leave[e]
            while state[LO] < state[HI] and leaving - enter[groups[state[LO]]] >= within:
                lo, hi, row = state[LO], state[HI], state[ROW]
                if row + 2 > labels.shape[0]:
                    return NEEDS_ROOM
                bad = np.int64(0)
                expiry = now if ranked else time[groups[lo]] + within
                keep = lo + 1
                held = False
                if expiries:
                    bad |= _write_window_value(
                        state, front, front_floats, back, back_floats, accept, rank, out, out_floats, layout
                    )
                    held = has_matches(out, out_floats, layout, row * words)
                else:
                    while keep < hi and leaving - enter[groups[keep]] >= within:
                        keep += 1
                if keep >= state[MIDDLE]:
                    if (hi - keep) * rank * words > front.size:
                        return NEEDS_FRONT
                    bad |= _rebuild_front(
                        front,
                        front_floats,
                        back,
                        back_floats,
                        suffix,
                        suffix_floats,
                        layout,
                        settled,
                        single,
                        code,
                        klass,
                        fold,
                        int_values,
                        float_values,
                        groups,
                        keep,
                        hi,
                        min(e, end),
                        wi,
                        wf,
                        zero_int,
                        zero_float,
                    )
                    state[MIDDLE] = hi
                    state[BASE] = keep
                state[LO] = keep
                if expiries and expiry >= emit_from and expiry < emit_to:
                    # An expired absence may let matches count that did not before.
                    bad |= _write_window_value(
                        state, front, front_floats, back, back_floats, accept, rank, out, out_floats, layout
                    )
                    if held or has_matches(out, out_floats, layout, row * words):
                        write_label(labels, row, 0, key, expiry, expiry, False)
                        state[ROW] = row + 1
                if bad < 0:
                    return OVERFLOWED
        if flush:
            return DONE

        if state[LO] == state[HI]:
            for at in (LO, MIDDLE, HI, BASE):
                state[at] = 0
        if state[HI] == groups.size:
            lo = state[LO]
            if lo <= groups.size // 2:
                return NEEDS_GROUPS
            shift_to_front(groups, lo, state[HI] - 1)
            for at in (MIDDLE, HI, BASE, LO):
                state[at] -= lo
        groups[state[HI]] = e
        state[HI] += 1

        completed = False
        bad = np.int64(0)
        block = code[klass[e]]
        if after == e + 1 and code[block + IS_DIRECT]:
            if slide == 0:
                step = block + BLOCK
                for _ in range(code[block + DIRECT]):
                    if accepting[code[step + 1]]:
                        completed |= _reaches_node(
                            state, front, front_floats, back, back_floats, code[step], rank, layout
                        )
                    step += width
            if layout.has_shadows and code[block + MOVES] == 0:
                count_event(back, back_floats, rank, code, block, touched, is_start, 0, top, False, 1)
            else:
                bad |= apply_event(
                    back,
                    back_floats,
                    layout,
                    rank,
                    code,
                    block,
                    touched,
                    is_start,
                    int_values,
                    float_values,
                    e,
                    1,
                    0,
                    top,
                    False,
                    wi,
                    wf,
                )
        else:
            bad |= apply_simultaneous(
                back,
                back_floats,
                layout,
                rank,
                code,
                klass,
                multiplicity,
                touched,
                is_start,
                fold,
                fresh,
                int_values,
                float_values,
                e,
                after,
                0,
                top,
                False,
                wi,
                wf,
            )
            bad |= apply_negations(
                back,
                back_floats,
                layout,
                rank,
                code,
                klass,
                touched,
                fold,
                fresh,
                e,
                after,
                0,
                top,
                zero_int,
                zero_float,
            )
            if slide == 0:
                for at in range(fresh_accept.size):
                    completed |= _reaches_node(
                        state, front, front_floats, back, back_floats, fresh_accept[at], rank, layout
                    )
            bad |= commit_fresh_nodes(
                back, back_floats, layout, rank, touched, fold, fresh, 0, top, zero_int, zero_float
            )
        if completed and now >= emit_from and now < emit_to:
            bad |= _write_window_value(
                state, front, front_floats, back, back_floats, accept, rank, out, out_floats, layout
            )
            write_label(labels, state[ROW], 0, key, now, now, True)
            state[ROW] += 1
        if bad < 0:
            return OVERFLOWED
        if slide > 0:
            mark_windows_due(
                code, klass, width, queries.within, queries.slide, queries.accept_offsets, accept, touched, due,
                e, after, now, now // slide,
            )  # fmt: skip
            due[WAITING, -1] = 0
            record_negations(code, klass, width, last_neg, e, after, now)
        e = after


# What a class does that takes one step and nothing else: first words of its source and target, the rows of a product
# that
# the step can change (0: it is no such class), and whether it completes matches.
SOURCE = 0
TARGET = 1
ROWS = 2
ACCEPTS = 3
SINGLE = 4


@kernel
def _single_steps(code: Code, accepting: Flags, reachable_rows: Nodes, rank: int, layout: Layout) -> Nodes:
    """The classes of one step, as a table; none where totals are more than one word."""
    classes = code[0] if code.size > 0 else 0
    single = np.zeros(classes * SINGLE, np.int32)
    for number in range(classes):
        block = code[number]
        if layout.words == 1 and code[block + IS_DIRECT] and code[block + DIRECT] == 1 and code[block + MOVES] == 0:
            source, target = code[block + BLOCK], code[block + BLOCK + 1]
            single[number * SINGLE + SOURCE] = source * rank
            single[number * SINGLE + TARGET] = target * rank
            single[number * SINGLE + ROWS] = reachable_rows[source]
            single[number * SINGLE + ACCEPTS] = accepting[target]
    return single


@inner
def _count_plain_events(
    state: NDArray[np.int64],
    key: int,
    end: int,
    back: Words,
    back_floats: Floats,
    front: Words,
    front_floats: Floats,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    groups: Times,
    rank: int,
    time: Times,
    enter: Times,
    leave: Times,
    klass: NDArray[np.int32],
    accept: Nodes,
    single: Nodes,
    within: int,
    emit_from: int,
    emit_to: int,
    shadowed: bool,
) -> int:
    """Count on through lone events of plain steps in a continuous window, as far as neither a sweep nor more room is
    needed.

    This is what most events of most continuous queries come to, so it is written out; everything else stops it and
    goes the general way.
    """
    lo, middle, hi, base, row = state[LO], state[MIDDLE], state[HI], state[BASE], state[ROW]
    bad = np.int64(0)
    e = state[AT]
    following = time[e] if e < end else MAX_TIME
    while e < end:
        now = following
        following = time[e + 1] if e + 1 < end else MAX_TIME
        if following == now:
            break
        kind = klass[e] * SINGLE
        if single[kind + ROWS] == 0:
            break
        keep = lo
        while keep < hi and leave[e] - enter[groups[keep]] >= within:
            keep += 1
        if keep > lo and keep >= middle:
            break
        lo = keep
        if hi == groups.size or row == labels.shape[0]:
            break
        groups[hi] = e
        hi += 1
        completed = False
        top = (lo - base) * rank
        source, target, rows = single[kind + SOURCE], single[kind + TARGET], single[kind + ROWS]
        if single[kind + ACCEPTS]:
            if lo >= middle:
                completed = back_floats[source] != 0.0 if shadowed else back[source] != 0
            elif shadowed:
                for p in range(rows):
                    completed |= back_floats[source + p] != 0.0 and front_floats[top + p] != 0.0
            else:
                for p in range(rows):
                    completed |= (back[source + p] != 0) & (front[top + p] != 0)
        for p in range(rank):
            total = back[target + p] + back[source + p]
            back[target + p] = total
            bad |= total
        if shadowed:
            for p in range(rows):
                back_floats[target + p] += back_floats[source + p]
        if bad < 0 and not shadowed:
            return bad
        if completed and now >= emit_from and now < emit_to:
            count = np.int64(0)
            size = 0.0
            for at in range(accept.size):
                first = accept[at] * rank
                if lo >= middle:
                    count += back[first]
                    size += back_floats[first] if shadowed else float(back[first])
                else:
                    for p in range(rank):
                        x, y = front[top + p], back[first + p]
                        count += x * y
                        if not shadowed:
                            if (x | y) >> 30 != 0:  # else neither the product nor a sum of a few is near 64 bits
                                size += float(x) * float(y)
                        elif front_floats[top + p] != 0.0 and back_floats[first + p] != 0.0:
                            size += front_floats[top + p] * back_floats[first + p]
            if not size < (SHADOW_LIMIT if shadowed else COUNT_SURE):
                return -1
            out[row] = count
            if shadowed:
                out_floats[row] = size
            write_label(labels, row, 0, key, now, now, True)
            row += 1
        e += 1
    state[AT] = e
    state[LO] = lo
    state[HI] = hi
    state[ROW] = row
    return 0


@inner
def _close_windows(
    state: NDArray[np.int64],
    key: int,
    e: int,
    end: int,
    back: Words,
    back_floats: Floats,
    suffix: Words,
    suffix_floats: Floats,
    front: Words,
    front_floats: Floats,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    groups: Times,
    layout: Layout,
    settled: Nodes,
    single: Nodes,
    time: Times,
    klass: NDArray[np.int32],
    int_values: Words,
    float_values: Floats,
    code: Code,
    fold: Nodes,
    queries: Queries,
    accept: Nodes,
    last_neg: Times,
    due: NDArray[np.int64],
    within: int,
    slide: int,
    now: int,
    emit_from: int,
    emit_to: int,
    wi: Words,
    wf: Floats,
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """Report every window that has ended by now and may hold a match, letting what lies before it expire."""
    rank = settled.size
    words = layout.words
    last = min(due[LAST_DUE, 0], (now - within) // slide)
    for k in range(due[FIRST_DUE, 0], last + 1):
        opened = k * slide
        due[FIRST_DUE, 0] = k
        if opened + within < emit_from or opened + within >= emit_to:
            continue
        row, hi = state[ROW], state[HI]
        if row == labels.shape[0]:
            return NEEDS_ROOM
        keep = state[LO]
        while keep < hi and time[groups[keep]] < opened:
            keep += 1
        bad = np.int64(0)
        if keep > state[LO] and keep >= state[MIDDLE]:
            if (hi - keep) * rank * words > front.size:
                return NEEDS_FRONT
            bad |= _rebuild_front(
                front,
                front_floats,
                back,
                back_floats,
                suffix,
                suffix_floats,
                layout,
                settled,
                single,
                code,
                klass,
                fold,
                int_values,
                float_values,
                groups,
                keep,
                hi,
                min(e, end),
                wi,
                wf,
                zero_int,
                zero_float,
            )
            state[MIDDLE] = hi
            state[BASE] = keep
        state[LO] = keep
        if not is_negated(queries, 0, last_neg, opened):
            bad |= _write_window_value(
                state, front, front_floats, back, back_floats, accept, rank, out, out_floats, layout
            )
            if has_matches(out, out_floats, layout, row * words):
                write_label(labels, row, 0, key, opened, opened + within, True)
                state[ROW] = row + 1
        if bad < 0:
            return OVERFLOWED
    due[FIRST_DUE, 0] = max(due[FIRST_DUE, 0], last + 1)
    return DONE


@inner
def _reset_product(ints: Words, floats: Floats, layout: Layout, settled: Nodes) -> None:
    """Make a product the identity."""
    clear_totals(ints, floats, layout, 0, ints.size // layout.words)
    for at in range(settled.size):
        set_empty_match(ints, floats, layout, (settled[at] * settled.size + at) * layout.words)


@inner
def _reaches_node(
    state: NDArray[np.int64],
    front: Words,
    front_floats: Floats,
    back: Words,
    back_floats: Floats,
    node: int,
    rank: int,
    layout: Layout,
) -> bool:
    """Whether any match begun in the window has reached a node of the back."""
    first = node * rank * layout.words
    if state[LO] >= state[MIDDLE]:
        return has_matches(back, back_floats, layout, first)
    at = (state[LO] - state[BASE]) * rank * layout.words
    for p in range(0, rank * layout.words, layout.words):
        if has_matches(front, front_floats, layout, at + p) and has_matches(back, back_floats, layout, first + p):
            return True
    return False


@inner
def _write_window_value(
    state: NDArray[np.int64],
    front: Words,
    front_floats: Floats,
    back: Words,
    back_floats: Floats,
    accept: Nodes,
    rank: int,
    out: Words,
    out_floats: Floats,
    layout: Layout,
) -> int:
    """Put the value of the window into the next result row: the front's top row times the back's accepting columns."""
    bad = np.int64(0)
    words = layout.words
    to = state[ROW] * words
    clear_totals(out, out_floats, layout, to, 1)
    for at in range(accept.size):
        first = accept[at] * rank * words
        if state[LO] >= state[MIDDLE]:
            bad |= add_total(back, back_floats, first, out, out_floats, to, layout)
        else:
            top = (state[LO] - state[BASE]) * rank * words
            for p in range(0, rank * words, words):
                bad |= add_product(
                    front, front_floats, top + p, back, back_floats, first + p, out, out_floats, to, layout
                )
    return bad


@inner
def _rebuild_front(
    front: Words,
    front_floats: Floats,
    back: Words,
    back_floats: Floats,
    suffix: Words,
    floats: Floats,
    layout: Layout,
    settled: Nodes,
    single: Nodes,
    code: Code,
    klass: NDArray[np.int32],
    fold: Nodes,
    int_values: Words,
    float_values: Floats,
    groups: Times,
    lo: int,
    hi: int,
    end: int,
    wi: Words,
    wf: Floats,
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """Turn the groups lo..hi into the front, and empty the back. O(events * transitions * settled nodes)."""
    rank = settled.size
    size = rank * layout.words
    bad = np.int64(0)
    _reset_product(suffix, floats, layout, settled)
    width = step_width(layout)
    weighs = width > 2
    for group in range(hi - 1, lo - 1, -1):
        first = groups[group]
        after = groups[group + 1] if group + 1 < hi else end
        kind = klass[first] * SINGLE
        if after == first + 1 and single[kind + ROWS] > 0:
            source, target = single[kind + SOURCE], single[kind + TARGET]
            for p in range(rank):
                total = suffix[source + p] + suffix[target + p]
                suffix[source + p] = total
                bad |= total
            to = (group - lo) * size
            for p in range(rank):
                front[to + p] = suffix[p]
            if layout.has_shadows:
                bad = np.int64(0)
                for p in range(rank):
                    floats[source + p] += floats[target + p]
                for p in range(rank):
                    front_floats[to + p] = floats[p]
            continue
        block = code[klass[first]]
        if after == first + 1 and code[block + IS_DIRECT]:
            if code[block + MOVES] > 0:
                move = moves_at(block, code, width)
                for at in range(code[block + MOVES]):
                    clear_totals(suffix, floats, layout, code[move + 2 * at] * size, rank)
            for at in range(code[block + DIRECT] - 1, -1, -1):
                step = block + BLOCK + at * width
                if weighs:
                    load_weights(wi, wf, layout, code, step, int_values, float_values, first)
                bad |= propagate(suffix, floats, layout, code[step + 1] * size, code[step] * size, rank, wi, wf)
        else:
            for node in range(fold.size):
                if fold[node] != node:
                    copy_totals(suffix, floats, fold[node] * size, suffix, floats, node * size, rank, layout)
            for a in range(after - 1, first - 1, -1):
                block = code[klass[a]]
                move = moves_at(block, code, width)
                for at in range(code[block + MOVES] - 1, -1, -1):
                    source, target = code[move + 2 * at], code[move + 2 * at + 1]
                    if target >= 0:
                        bad |= propagate(
                            suffix, floats, layout, target * size, source * size, rank, zero_int, zero_float
                        )
                    else:
                        clear_totals(suffix, floats, layout, source * size, rank)
            for a in range(after - 1, first - 1, -1):
                block = code[klass[a]]
                steps = steps_at(block, code, width)
                for at in range(code[block + STEPS] - 1, -1, -1):
                    step = steps + at * width
                    load_weights(wi, wf, layout, code, step, int_values, float_values, a)
                    bad |= propagate(suffix, floats, layout, code[step + 1] * size, code[step] * size, rank, wi, wf)
        copy_totals(suffix, floats, 0, front, front_floats, (group - lo) * size, rank, layout)
    _reset_product(back, back_floats, layout, settled)
    return bad
