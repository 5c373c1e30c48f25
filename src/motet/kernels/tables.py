"""What kernels read (events, the code each class of events runs, queries) and the result rows they write."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME as MAX_TIME
from motet.kernels.arrays import MIN_TIME as MIN_TIME
from motet.kernels.arrays import Flags, Floats, Ints, SmallInts
from motet.kernels.jit import inner
from motet.kernels.totals import NO_MINIMUM, ChannelWeights, Layout, Totals, allocate_totals, grow_totals

WEIGHT_ONE = -2  # a weight of one, whatever the event
WEIGHT_ZERO = -1  # no weight


class Events(NamedTuple):
    """Events of many keys, by key and then time: key k has those from `offsets[k]` to `offsets[k + 1]`.

    `enter` and `leave` are times, or ranks for windows that count events. An event's class tells which symbols it has.
    Attribute rows: `int_values` for weights of counts (1 where there is a value) and minima (its place in an order of
    whole numbers), `float_values` for weights of sums. Of events that stand for several (see `motet.kernels.ties`) they
    hold the sums, and the least places.
    """

    offsets: Ints
    time: Ints
    enter: Ints
    leave: Ints
    klass: SmallInts
    int_values: Ints  # attribute row, event
    float_values: Floats
    multiplicity: Ints  # how many events each stands for, negative where tied to the one before; empty: each is one


class Machine(NamedTuple):
    """A merged automaton as code. `code[c]` is where the block of class c begins (see `BLOCK`).

    `fold` maps each fresh node to its settled one, others to themselves. `counts_only` are the nodes to which no event
    comes that a channel reads: their totals are counts, and all other channels are empty.
    """

    code: SmallInts
    fold: SmallInts
    starts: SmallInts
    counts_only: Flags


class Queries(NamedTuple):
    """The queries of a machine, by number: windows, accepting nodes (and the fresh nodes that fold into them), NEGs."""

    within: Ints
    slide: Ints
    accept_offsets: Ints
    accept: SmallInts
    fresh_offsets: Ints
    fresh: SmallInts
    neg_offsets: Ints
    neg: SmallInts
    at_close: Flags  # reports when a start expires, not when a match completes
    expiries: Flags  # reports also when matches expire (its partitions are combined later)


# A class's block of code begins with these words, then come its lists, in the order of their lengths here:
# - steps into settled nodes, for a lone event of a class that `IS_DIRECT`;
# - steps into fresh nodes, in the order one event must take them;
# - moves: source, and target or -1 for clearing the source;
# - queries it may complete; NEGs it violates.
# A step is source, target, and for each count, minimum and sum the attribute row that weighs it, or a constant weight.
IS_DIRECT = 0
BEGINS = 1  # whether it may begin a match
DIRECT = 2
STEPS = 3
MOVES = 4
COMPLETIONS = 5
NEGS = 6
BLOCK = 7


@inner
def step_width(layout: Layout) -> int:
    """Return the words of code to a step."""
    return 2 + layout.ni + layout.nm + layout.nf


@inner
def steps_at(code: SmallInts, block: int, width: int) -> int:
    """Return where a block's steps into fresh nodes begin."""
    return block + BLOCK + code[block + DIRECT] * width


@inner
def moves_at(code: SmallInts, block: int, width: int) -> int:
    """Return where a block's moves begin."""
    return steps_at(code, block, width) + code[block + STEPS] * width


@inner
def completions_at(code: SmallInts, block: int, width: int) -> int:
    """Return where the queries that a block may complete begin."""
    return moves_at(code, block, width) + 2 * code[block + MOVES]


@inner
def load_weights(
    weights: ChannelWeights, layout: Layout, code: SmallInts, step: int, events: Events, e: int, n: int
) -> None:
    """Fill in what event e, which stands for n, adds to each channel on a step."""
    ni = layout.ni
    for c in range(ni):
        row = code[step + 2 + c]
        weights.ints[c] = n if row == WEIGHT_ONE else 0 if row == WEIGHT_ZERO else events.int_values[row, e]
    for c in range(ni, ni + layout.nm):
        row = code[step + 2 + c]
        weights.ints[c] = NO_MINIMUM if row == WEIGHT_ZERO else events.int_values[row, e]
    for c in range(layout.nf):
        row = code[step + 2 + ni + layout.nm + c]
        weights.floats[c] = 0.0 if row == WEIGHT_ZERO else events.float_values[row, e]


def membership_mask(members: SmallInts, size: int) -> Flags:
    """Return which of the numbers below `size` are among these."""
    mask = np.zeros(size, np.bool_)
    mask[members] = True
    return mask


@inner
def fill(array: Ints, value: int) -> None:
    """Set all elements of an array."""
    for at in range(array.size):
        array[at] = value


# Labels of a result row: whose it is (query, key and whether it is a result or only a change, for combining), and its
# times.
OWNER = 0
START = 1
END = 2
LABELS = 3


class ResultRows(NamedTuple):
    """Result rows, labels and totals of each, and which keys overflowed 64 bits: these have no rows."""

    labels: Ints
    totals: Totals
    overflowed: Flags


# How a kernel ended. One that needs room for something stops before it, and goes on from there in the next call.
DONE = 0
NEEDS_ROOM = 1  # for result rows
OVERFLOWED = 2  # of one key

# The state of every run over keys begins with these words; what a strategy needs further comes after them.
AT = 0  # the next event
ROW = 1  # the next result row
KEY = 2  # the key that is being processed
KEY_BEGUN = 3  # whether that key was begun in an earlier call
KEY_ROW = 4  # its first result row
FRAME = 5

KernelResult = tuple[Ints, Ints, Floats, Flags]


def create_output(rows: int, keys: int, layout: Layout) -> ResultRows:
    """Create room for so many result rows."""
    labels = np.empty((rows, LABELS), np.int64)
    return ResultRows(labels, allocate_totals(rows, 1, layout), np.zeros(keys, np.bool_))


def collect_results(run: Callable[[ResultRows], int], state: Ints, output: ResultRows) -> KernelResult:
    """Run until done, doubling the room for result rows whenever it is used up.

    Returns labels of the results, totals as ints and as floats, and which keys overflowed 64 bits (theirs are left
    out).
    """
    while run(output) == NEEDS_ROOM:
        labels = np.empty((2 * len(output.labels), LABELS), np.int64)
        labels[: len(output.labels)] = output.labels
        output = ResultRows(labels, grow_totals(output.totals), output.overflowed)
    size, words = state[ROW], output.totals.layout.words
    totals = output.totals
    return output.labels[:size], totals.ints[: size * words], totals.floats[: size * words], output.overflowed


@inner
def begin_key(state: Ints, key: int, first: int) -> bool:
    """Go on to a key; return whether it is new rather than one that an earlier call had to stop at."""
    if state[KEY_BEGUN] == 1:
        return False
    state[KEY] = key
    state[KEY_BEGUN] = 1
    state[KEY_ROW] = state[ROW]
    state[AT] = first
    return True


@inner
def end_key(state: Ints, output: ResultRows, status: int) -> None:
    """Finish a key; the results of one that overflowed are dropped."""
    state[KEY_BEGUN] = 0
    if status == OVERFLOWED:
        output.overflowed[state[KEY]] = True
        state[ROW] = state[KEY_ROW]


@inner
def write_label(output: ResultRows, state: Ints, query: int, start: int, end: int, completes: bool) -> None:
    """Label the next result row, whose totals are there already, and go on to the one after it."""
    row = state[ROW]
    output.labels[row, OWNER] = (query << 33) | (state[KEY] << 1) | completes
    output.labels[row, START] = start
    output.labels[row, END] = end
    state[ROW] = row + 1


def decode_owners(labels: Ints) -> tuple[Ints, Ints, Flags]:
    """Return the query and key of each row, and whether it is a result."""
    owner = labels[:, OWNER]
    return owner >> 33, (owner >> 1) & (2**32 - 1), (owner & 1) == 1


def translate_keys(labels: Ints, numbers: Ints) -> Ints:
    """Give the keys of labels the numbers at their places."""
    owner = labels[:, OWNER]
    key = (owner >> 1) & (2**32 - 1)
    labels[:, OWNER] = owner + ((numbers[key] - key) << 1)
    return labels


def shift_queries(labels: Ints, first: int) -> Ints:
    """Renumber the queries of labels, which were numbered from 0, from `first` on."""
    labels[:, OWNER] += first << 33
    return labels


def renumber_keys(labels: Ints, first: int) -> Ints:
    """Renumber the keys of labels, which were numbered from 0, from `first` on."""
    labels[:, OWNER] += first << 1
    return labels
