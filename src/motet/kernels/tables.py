"""What kernels read: events, the code each class of events runs, queries; and the labels of result rows they write."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner, kernel
from motet.kernels.totals import NO_MINIMUM, Floats, Layout, Words

Code = NDArray[np.int32]
Times = NDArray[np.int64]
Flags = NDArray[np.bool_]

WEIGHT_ONE = -2  # a weight of one, whatever the event
WEIGHT_ZERO = -1  # no weight
MAX_TIME = np.int64(2**62)  # later than any event
MIN_TIME = np.int64(-(2**62))  # earlier than any event


class Events(NamedTuple):
    """Events of many keys, by key and then time. `enter` and `leave` are times, or ranks for windows that count events.

    An event's class tells which symbols it has. Attribute rows: `int_values` for weights of counts (1 where there is a
    value) and minima (its place in an order of whole numbers), `float_values` for weights of sums. Of
    events that stand for several (see `motet.kernels.ties`) they hold the sums, and the least places.
    """

    offsets: Times
    time: Times
    enter: Times
    leave: Times
    klass: NDArray[np.int32]
    int_values: NDArray[np.int64]
    float_values: NDArray[np.float64]
    multiplicity: Times  # how many events each stands for, negative where tied to the one before; empty: each is one


class Machine(NamedTuple):
    """A merged automaton as code. `code[c]` is where the block of class c begins (see `BLOCK`).

    `fold` maps each fresh node to its settled one, others to themselves.
    """

    code: Code
    fold: NDArray[np.int32]
    starts: NDArray[np.int32]


class Queries(NamedTuple):
    """The queries of a machine, by number: windows, accepting nodes (and the fresh nodes that fold into them), NEGs."""

    within: Times
    slide: Times
    accept_offsets: Times
    accept: NDArray[np.int32]
    fresh_offsets: Times
    fresh: NDArray[np.int32]
    neg_offsets: Times
    neg: NDArray[np.int32]
    at_close: Flags  # reports when a start expires, not when a match completes
    expiries: Flags  # reports also when matches expire (its partitions are combined later)


# A class's block of code begins with these words, then come its lists, in the order of their lengths here:
# - steps into settled nodes, for a lone event of a class that `IS_DIRECT`;
# - steps into fresh nodes, in the order one event must take them;
# - moves: source, and target or -1 for clearing the source;
# - queries it may complete; NEGs it belies.
# A step is source, target, and for each count, minimum and sum the attribute row that weighs it, or ALWAYS, or NEVER.
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
    """Words of code to a step."""
    return 2 + layout.ni + layout.nm + layout.nf


@inner
def steps_at(block: int, code: Code, width: int) -> int:
    """Where a block's steps into fresh nodes begin."""
    return block + BLOCK + code[block + DIRECT] * width


@inner
def moves_at(block: int, code: Code, width: int) -> int:
    return steps_at(block, code, width) + code[block + STEPS] * width


@inner
def completions_at(block: int, code: Code, width: int) -> int:
    return moves_at(block, code, width) + 2 * code[block + MOVES]


@inner
def load_weights(
    wi: Words,
    wf: Floats,
    layout: Layout,
    code: Code,
    step: int,
    int_values: Words,
    float_values: Floats,
    e: int,
    n: int = 1,
) -> None:
    """Fill in what event e, which stands for n, adds to each channel on a step."""
    ni = layout.ni
    for c in range(ni):
        row = code[step + 2 + c]
        wi[c] = n if row == WEIGHT_ONE else 0 if row == WEIGHT_ZERO else int_values[row, e]
    for c in range(ni, ni + layout.nm):
        row = code[step + 2 + c]
        wi[c] = NO_MINIMUM if row == WEIGHT_ZERO else int_values[row, e]
    for c in range(layout.nf):
        row = code[step + 2 + ni + layout.nm + c]
        wf[c] = 0.0 if row == WEIGHT_ZERO else float_values[row, e]


# Labels of a result row: whose it is (query, key and whether it is a result or only a change, for combining), and its
# times.
OWNER = 0
START = 1
END = 2
LABELS = 3


@kernel
def grow_labels(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels with room for twice as many rows."""
    wider = np.empty((2 * labels.shape[0], LABELS), np.int64)
    for row in range(labels.shape[0]):
        for at in range(LABELS):
            wider[row, at] = labels[row, at]
    return wider


@kernel
def grow_buffer(ints: Words) -> Words:
    """An array with room for twice as many words."""
    wider = np.empty(2 * ints.size, np.int64)
    for at in range(ints.size):
        wider[at] = ints[at]
    return wider


@inner
def fill(array: NDArray[np.int64], value: int) -> None:
    for at in range(array.size):
        array[at] = value


@kernel
def membership_mask(nodes: NDArray[np.int32], size: int) -> Flags:
    """Which of so many nodes are among these."""
    flags = np.zeros(size, np.bool_)
    for at in range(nodes.size):
        flags[nodes[at]] = True
    return flags


@inner
def divides_all(unit: int, sizes: Times) -> bool:
    """Whether every size is a whole number of units."""
    for at in range(sizes.size):
        if sizes[at] % unit != 0:
            return False
    return True


@inner
def shift_to_front(array: NDArray[np.int64], first: int, last: int) -> None:
    """Move elements first..last to the beginning."""
    for at in range(last - first + 1):
        array[at] = array[first + at]


@inner
def write_label(
    labels: NDArray[np.int64], row: int, query: int, key: int, start: int, end: int, completes: bool
) -> None:
    """Fill in a row's labels; its totals are there already."""
    labels[row, OWNER] = (query << 33) | (key << 1) | completes
    labels[row, START] = start
    labels[row, END] = end


def decode_owners(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], Flags]:
    """The query and key of each row, and whether it is a result."""
    owner = labels[:, OWNER]
    return owner >> 33, (owner >> 1) & (2**32 - 1), (owner & 1) == 1


def renumber_keys(labels: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """Labels of keys that were numbered from 0 where `first` others come before them."""
    labels[:, OWNER] += first << 1
    return labels
