"""Keep the live instances of a detection plan in one growing buffer, linked by key and value, newest first.

Rows are appended in the order of their last events. Each index of a node links the rows of one key, or of one key and
one value, in chains from the newest to the oldest, with jumps that make a search by time logarithmic. Rows are never
removed one by one: `compact` drops those that have left their windows when the buffer is full. Rows that nothing later
can be joined with are at the end of the buffer, until their event has been applied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, Ints, SmallInts
from motet.kernels.expressions import Values
from motet.kernels.instances import change_value
from motet.kernels.jit import inner, kernel
from motet.kernels.prefetch import prefetch

# Facts of a row.
FIRST = 0  # the time of its first event; for a step, the latest first time of the paths that lead to it
LAST = 1
END = 2  # its last event
KEY = 3
NODE = 4
SO_FAR = 5  # for a step: the greatest FIRST in its chain up to here, ...
FOLLOWED = 5  # ... or for one of SKIP TILL NEXT: the time of the next step, MAX_TIME while there is none
FACTS = 6
# Links of a row in an index: the row before it, one further back, and how many there are before it.
PREVIOUS = 0
JUMP = 1
DEPTH = 2
LINKS = 3
# Fields of an entry of the hash table: what identifies a chain, and its newest row.
INDEX = 0
CHAIN_KEY = 1
VALUE = 2
HEAD = 3
ENTRY = 4
# Counts of a store.
TOP = 0  # rows that stay
ENTRIES = 1  # entries of the hash table in use
WORK = 2  # rows looked at so far
BOTTOM = 3  # the first of the rows that do not stay
COUNTS = 4

NOT_LINKED = -2

# What an index tells rows apart by, where it is not the value of an item.
BY_KEY = -1
OPEN_STEPS = -2  # by key, only those that have no next step
FOLLOWED_STEPS = -3  # by key and the time of the next step, those that have one


class IndexTable(NamedTuple):
    """The indexes of all nodes: node n has those from `offsets[n]` to `offsets[n + 1]`.

    Index x tells rows apart by key and, where `item[x]` is not negative, by a value of the event at that item: that in
    row `value[x]` of the floats, changed as a test says (see `motet.kernels.instances.Tests`). Rows without a value are
    not in it. A negative item is one of those named above.
    """

    offsets: Ints
    item: SmallInts
    value: SmallInts
    change: SmallInts
    constant: SmallInts


class MatchStore(NamedTuple):
    """Rows: their facts, their links in each index of their node, and from word `items` on the events of their items,
    all in one place, for a window may hold more than caches do; the hash table of chains; and the counts.
    """

    rows: Ints
    items: int
    table: Ints
    counts: Ints


def create_store(rows: int, width: int, indexes: int, chains: int) -> MatchStore:
    """Create an empty store with room for so many rows of at most so many items and indexes, and twice the chains."""
    indexes = max(indexes, 1)
    counts = np.zeros(COUNTS, np.int64)
    counts[BOTTOM] = rows
    return MatchStore(
        np.zeros((rows, FACTS + LINKS * indexes + width), np.int64),
        FACTS + LINKS * indexes,
        np.full((1 << (4 * chains).bit_length(), ENTRY), -1, np.int64),
        counts,
    )


@inner
def read_operand(values: Values, row: int, event: int, change: int, constant: int) -> float:
    """Return a side of a comparison for an event."""
    return change_value(change, values.floats[row, event], values.constants[constant])


@inner
def fold_value(value: float) -> int:
    """Return an integer that is the same for equal values, and mostly another for others."""
    scaled = value * 65536.0
    if -4e18 < scaled < 4e18:
        return np.int64(scaled)
    return np.int64(1) if value > 0 else np.int64(-1)


@inner
def _hash_chain(store: MatchStore, index: int, key: int, value: int) -> int:
    """Return the first place of the hash table where a chain may be."""
    folded = np.int64((value ^ (value >> 32)) & 0x7FFFFFFF)  # in full width also where nothing is compiled
    mixed = (folded * 0x1E3779B1) ^ (np.int64(key & 0x7FFFFFFF) * 0x05EBCA6B) ^ (np.int64(index) * 0x42B2AE35)
    return (mixed ^ (mixed >> 15) ^ (mixed >> 31)) & (store.table.shape[0] - 1)


@inner
def fetch_chain(store: MatchStore, index: int, key: int, value: int, newest: bool) -> None:
    """Fetch the entry of a chain that will be looked up soon; or its newest row, some time after its entry."""
    at = _hash_chain(store, index, key, value)
    if not newest:
        prefetch(store.table, at)
    elif store.table[at, INDEX] == index and store.table[at, CHAIN_KEY] == key and store.table[at, HEAD] >= 0:
        row = store.rows[store.table[at, HEAD]]
        prefetch(row, 0)
        prefetch(row, store.items)


@inner
def find_entry(store: MatchStore, index: int, key: int, value: int) -> int:
    """Return the place of a chain in the hash table, or of the free entry where it would be. Expected O(1)."""
    table = store.table
    at = _hash_chain(store, index, key, value)
    while table[at, INDEX] >= 0 and (
        table[at, INDEX] != index or table[at, CHAIN_KEY] != key or table[at, VALUE] != value
    ):
        at = (at + 1) & (table.shape[0] - 1)
    return at


@inner
def find_newest(store: MatchStore, index: int, key: int, value: int) -> int:
    """Return the newest row of a chain, or -1."""
    at = find_entry(store, index, key, value)
    return store.table[at, HEAD] if store.table[at, INDEX] >= 0 else -1


@inner
def find_before(store: MatchStore, row: int, slot: int, until: int) -> int:
    """Return the newest row of a chain, from one row back, whose last event is before a time, or -1. O(log n).

    `slot` is the word at which links in the index begin.
    """
    while row >= 0 and store.rows[row, LAST] >= until:
        jump = store.rows[row, slot + JUMP]
        is_later = jump != row and store.rows[jump, LAST] >= until
        row = jump if is_later else store.rows[row, slot + PREVIOUS]
    return row


@inner
def add_row(store: MatchStore, stays: bool) -> int:
    """Return the next row that stays, or that does not; -1 if there is no room."""
    counts = store.counts
    if counts[TOP] == counts[BOTTOM]:
        return -1
    if stays:
        counts[TOP] += 1
        return counts[TOP] - 1
    counts[BOTTOM] -= 1
    return counts[BOTTOM]


@inner
def link_row(store: MatchStore, indexes: IndexTable, values: Values, row: int) -> bool:
    """Put a row into the indexes of its node; return whether there was room."""
    node, key = store.rows[row, NODE], store.rows[row, KEY]
    begin = indexes.offsets[node]
    for index in range(begin, indexes.offsets[node + 1]):
        item, slot, value = indexes.item[index], FACTS + LINKS * (index - begin), np.int64(0)
        store.rows[row, slot + PREVIOUS] = NOT_LINKED
        is_open = store.rows[row, FOLLOWED] == MAX_TIME
        if (item == OPEN_STEPS and not is_open) or (item == FOLLOWED_STEPS and is_open):
            continue
        if item == FOLLOWED_STEPS:
            value = store.rows[row, FOLLOWED]
        elif item >= 0:
            event = store.rows[row, store.items + item]
            found = read_operand(values, indexes.value[index], event, indexes.change[index], indexes.constant[index])
            if np.isnan(found):
                continue
            value = fold_value(found)
        if not _push_row(store, index, slot, key, value, row):
            return False
    return True


@inner
def _push_row(store: MatchStore, index: int, slot: int, key: int, value: int, row: int) -> bool:
    """Let a row be the newest of a chain; return whether there was room."""
    at = find_entry(store, index, key, value)
    if store.table[at, INDEX] < 0:
        if 2 * store.counts[ENTRIES] >= store.table.shape[0]:
            return False
        store.counts[ENTRIES] += 1
        store.table[at, INDEX], store.table[at, CHAIN_KEY], store.table[at, VALUE] = index, key, value
        store.table[at, HEAD] = -1
    newest = store.table[at, HEAD]
    links = store.rows[row, slot : slot + LINKS]
    links[PREVIOUS], links[JUMP], links[DEPTH] = newest, row, 0
    if newest >= 0:
        jump = store.rows[newest, slot + JUMP]
        beyond = store.rows[jump, slot + JUMP]
        depth, middle = store.rows[newest, slot + DEPTH], store.rows[jump, slot + DEPTH]
        links[JUMP] = beyond if depth - middle == middle - store.rows[beyond, slot + DEPTH] else newest
        links[DEPTH] = depth + 1
    store.table[at, HEAD] = row
    return True


@inner
def leave_chain(store: MatchStore, index: int, key: int, row: int, newer: int) -> int:
    """Take a step out of the chain of open ones, `newer` being the one before it there or -1; return the one after."""
    older = store.rows[row, FACTS + PREVIOUS]
    if newer >= 0:
        store.rows[newer, FACTS + PREVIOUS] = older
    else:
        store.table[find_entry(store, index, key, 0), HEAD] = older
    store.rows[row, FACTS + PREVIOUS] = NOT_LINKED
    return older


@inner
def follow_step(store: MatchStore, index: int, key: int, row: int, moment: int) -> bool:
    """Note the time of the next step of one that has left the chain of open ones; return whether there was room.

    `index` is that of open steps; the one after it has those with a next step.
    """
    store.rows[row, FOLLOWED] = moment
    return _push_row(store, index + 1, FACTS + LINKS, key, moment, row)


@inner
def unlink_rows(store: MatchStore, indexes: IndexTable, values: Values, first: int) -> None:
    """Remove the rows from one on, newest first."""
    row = store.counts[TOP] - 1
    while row >= first:
        node = store.rows[row, NODE]
        begin = indexes.offsets[node]
        for index in range(begin, indexes.offsets[node + 1]):
            previous = store.rows[row, FACTS + LINKS * (index - begin) + PREVIOUS]
            if previous != NOT_LINKED:
                item, value = indexes.item[index], 0
                if item >= 0:
                    event = store.rows[row, store.items + item]
                    value = fold_value(
                        read_operand(
                            values, indexes.value[index], event, indexes.change[index], indexes.constant[index]
                        )
                    )
                at = find_entry(store, index, store.rows[row, KEY], value)
                if store.table[at, INDEX] >= 0 and store.table[at, HEAD] == row:
                    store.table[at, HEAD] = previous
        row -= 1
    store.counts[TOP] = first


@kernel
def count_live_rows(store: MatchStore, limits: Ints) -> int:
    """Return how many rows `compact` would copy. O(rows)."""
    count = 0
    for row in range(store.counts[TOP]):
        count += store.rows[row, FIRST] >= limits[store.rows[row, NODE]]
    return count


@kernel
def compact(source: MatchStore, target: MatchStore, indexes: IndexTable, values: Values, limits: Ints) -> bool:
    """Copy the rows that may still be part of something to an empty store; return whether there was room.

    Row r of node n may, where its first event is not before `limits[n]`. Expected O(rows).
    """
    for row in range(source.counts[TOP]):
        if source.rows[row, FIRST] < limits[source.rows[row, NODE]]:
            continue
        to = target.counts[TOP]
        for word in range(source.rows.shape[1]):
            target.rows[to, word] = source.rows[row, word]
        target.counts[TOP] += 1
        if not link_row(target, indexes, values, to):
            return False
    return True
