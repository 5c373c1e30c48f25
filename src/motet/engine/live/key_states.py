"""The keys of a stream, numbered, and the state that kernels keep of each between micro-batches, as packed words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.encode import number_texts, read_column
from motet.engine.live.saved import SavedState
from motet.kernels.numbering import RowIndex, TextIndex
from motet.kernels.ragged import concat_offsets, expand_ranges, offsets_from_counts
from motet.kernels.resume import gather_states
from motet.kernels.tables import MAX_TIME, Events
from motet.template.symbols import Symbol

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
STATE_ARRAYS = ("ids", "offsets", "words", "wake")


class KeyColumn:
    """The values of an attribute by number of a key, in pieces: to read a few of many takes no copy of all."""

    def __init__(self, pieces: Sequence[pa.Array]) -> None:
        self.pieces = pieces

    def take(self, numbers: pa.Array) -> pa.Array:
        """Return the values of keys, null where a number is null. O(numbers * log of the pieces)."""
        if len(self.pieces) == 1:
            return self.pieces[0].take(numbers)
        sizes = np.array([len(piece) for piece in self.pieces])
        if sizes.sum() <= len(numbers):
            return pa.concat_arrays(self.pieces).take(numbers)
        first = offsets_from_counts(sizes)
        chosen = numbers.fill_null(0).to_numpy()
        owner = np.searchsorted(first, chosen, side="right") - 1
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(len(self.pieces) + 1))
        own = chosen[order] - first[owner[order]]
        parts = [
            piece.take(pa.array(own[begin:end]))
            for piece, (begin, end) in zip(self.pieces, pairwise(bounds.tolist()), strict=True)
        ]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        missing = numbers.is_null().to_numpy(zero_copy_only=False)
        return pa.concat_arrays(parts).take(pa.array(place, mask=missing))


class KeyIndex:
    """Numbers for keys in order of appearance, with the partition values of each.

    These are in pieces, each more than twice as large as the next, so that a value is copied O(log keys) times.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.added = schema.empty_table()  # by the last call of `number_keys`
        self._nothing = self.added
        self._pieces: list[pa.Table] = [self.added]
        self._begin_numbers()
        self.count = 0

    def _begin_numbers(self) -> None:
        self._numbers = RowIndex(len(self.partition))
        self._texts = [TextIndex() for _ in self.partition]  # of the columns that hold texts
        self._others: list[dict[Any, int]] = [{} for _ in self.partition]  # of those that hold neither these nor words

    @property
    def partition(self) -> Sequence[str]:
        names: Sequence[str] = self.schema.names
        return names

    @property
    def values(self) -> pa.Table:
        """The partition values of all keys."""
        if len(self._pieces) > 1:
            self._pieces = [pa.concat_tables(self._pieces).combine_chunks()]
        return self._pieces[0]

    def number_keys(self, values: Mapping[str, pa.Array], count: int) -> Ints:
        """Return the numbers of keys, numbering new ones. O(keys given)."""
        if not self.partition:
            self.count = max(self.count, min(count, 1))
            return np.zeros(count, np.int64)
        found = self._numbers.number(self._as_words([values[name] for name in self.partition]))
        self.added = self._nothing
        if self._numbers.count > self.count:
            before = np.maximum.accumulate(np.append(self.count - 1, found[:-1]))
            new = pa.array(np.flatnonzero(found > before))
            arrays = [values[field.name].take(new).cast(field.type) for field in self.schema]
            self.added = pa.Table.from_arrays(arrays, schema=self.schema)
            self._append(self.added)
            self.count = self._numbers.count
        return found

    def _append(self, values: pa.Table) -> None:
        """Append the values of new keys. O(keys * log keys) for all of them."""
        pieces = self._pieces
        pieces.append(values.combine_chunks())
        first = len(pieces) - 1
        while first > 0 and len(pieces[first - 1]) <= 2 * sum(map(len, pieces[first:])):
            first -= 1
        if first < len(pieces) - 1:
            pieces[first:] = [pa.concat_tables(pieces[first:]).combine_chunks()]

    def number_rows(self, table: pa.Table) -> Ints:
        """Return the number of the key of each row, numbering new ones. O(rows)."""
        return self.number_keys({name: read_column(table, name) for name in self.partition}, len(table))

    def restore(self, values: pa.Table) -> None:
        """Continue with the keys of a saved state."""
        if self.partition:
            self._set_values(values.cast(self.schema))
        self.count = len(values) if self.partition else 1

    def _set_values(self, values: pa.Table) -> None:
        self._pieces = [values.combine_chunks()]
        self._begin_numbers()
        self._numbers.number(self._as_words([read_column(values, name) for name in self.partition]))

    @property
    def columns(self) -> dict[str, KeyColumn]:
        """The partition values of all keys, by attribute."""
        return {name: KeyColumn([_as_array(piece.column(name)) for piece in self._pieces]) for name in self.partition}

    def keep(self, wanted: Flags) -> Ints:
        """Forget all other keys; return the new number of each old one."""
        if self.partition:
            self._set_values(self.values.filter(pa.array(wanted)))
        self.count = int(wanted.sum())
        return np.cumsum(wanted) - 1

    def _as_words(self, columns: Sequence[pa.Array]) -> Ints:
        """Return the keys of some columns as rows of words: texts as their numbers."""
        words = np.empty((len(columns[0]), len(columns)), np.int64)
        for at, column in enumerate(columns):
            kind = column.type
            if pa.types.is_integer(kind) and kind != pa.uint64():
                words[:, at] = column.to_numpy(zero_copy_only=False)
            elif pa.types.is_string(kind):
                words[:, at] = number_texts(self._texts[at], column)
            elif pa.types.is_temporal(kind):
                words[:, at] = column.view(f"int{kind.bit_width}").to_numpy(zero_copy_only=False)
            else:
                numbers = self._others[at]
                words[:, at] = [numbers.setdefault(value, len(numbers)) for value in column.to_pylist()]
        return words


def _as_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array: without a copy, where it is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def add_due_keys(events: Events, numbers: Ints, due: Ints) -> tuple[Events, Ints, Flags]:
    """Return the events of keys with those numbers and of keys that are due, the numbers of all of these, and which of
    them have events or are due.
    """
    active = np.diff(events.offsets) > 0
    if not len(due):
        return events, numbers, active
    is_due, is_listed = np.zeros((2, max(int(due.max()), int(numbers.max(initial=0))) + 1), np.bool_)
    is_due[due] = is_listed[numbers] = True
    idle = due[~is_listed[due]]
    offsets = np.concatenate((events.offsets, np.full(len(idle), events.offsets[-1])))
    ids = np.concatenate((numbers, idle))
    active = np.concatenate((active, np.ones(len(idle), np.bool_))) | is_due[ids]
    return events._replace(offsets=offsets), ids, active


def find_keys_with(events: Events, symbols: Set[Symbol], classes: Sequence[frozenset[Symbol]]) -> Flags:
    """Return which keys have an event of some symbols. O(events)."""
    wanted = np.array([not symbols.isdisjoint(found) for found in classes], np.bool_)
    before = offsets_from_counts(wanted[events.klass])
    return before[events.offsets[1:]] > before[events.offsets[:-1]]


class KeyHeads(ABC):
    """What is known of each key between two micro-batches: a row of words, of which one is when it next has something
    to do by itself (`wake_word`), and others tell whether it has state.
    """

    width: ClassVar[int]
    wake_word: ClassVar[int]

    def clear(self) -> None:
        """Forget all keys."""
        self.heads = self.new_heads(0)
        self.next_wake = int(MAX_TIME)  # no key has anything to do before this

    def new_heads(self, count: int) -> Ints:
        """Return the rows of keys that have no state."""
        heads = np.zeros((count, self.width), np.int64)
        heads[:, self.wake_word] = MAX_TIME
        return heads

    def reserve(self, count: int) -> None:
        """Let there be rows for at least so many keys."""
        if count > len(self.heads):
            self.heads = np.concatenate((self.heads, self.new_heads(count)))

    def find_due(self, watermark: int) -> Ints:
        """Return the keys that have something to do by now. O(keys), if there are any."""
        if watermark < self.next_wake:
            return np.zeros(0, np.int64)
        wake = self.heads[:, self.wake_word]
        due = np.flatnonzero((wake <= watermark) & (wake < MAX_TIME))
        self.next_wake = int(wake[wake > watermark].min(initial=MAX_TIME))
        return due

    def note_wakes(self, keys: Ints) -> None:
        """Note when some keys have something to do by themselves."""
        self.next_wake = min(self.next_wake, int(self.heads[keys, self.wake_word].min(initial=MAX_TIME)))

    @property
    @abstractmethod
    def keys(self) -> Ints:
        """The keys that have state."""

    def renumber(self, numbers: Ints) -> None:
        """Give keys other numbers; those without state may have none."""
        kept = self.keys
        heads = self.new_heads(int(numbers[-1]) + 1 if len(numbers) else 0)
        heads[numbers[kept]] = self.heads[kept]
        self.heads = heads


@dataclass(frozen=True)
class KeyStates:
    """The packed states of the keys in `ids`, each key once.

    `words[offsets[i]:offsets[i + 1]]` is the state of `ids[i]`; `wake` is when the key next has something to report by
    itself, or can be forgotten.
    """

    ids: Ints
    offsets: Ints
    words: Ints
    wake: Ints

    @classmethod
    def empty(cls) -> KeyStates:
        nothing = np.zeros(0, np.int64)
        return cls(nothing, np.zeros(1, np.int64), nothing, nothing)

    def find(self, ids: Ints, known: int) -> Ints:
        """Return the index of each key's state, -1 where it has none. Keys are numbered below `known`."""
        at = np.full(known, -1, np.int64)
        at[self.ids] = np.arange(len(self.ids))
        return at[ids]

    def take(self, places: Ints) -> tuple[Ints, Ints]:
        """Gather the states at these indices (-1: none): their offsets and words."""
        has = places >= 0
        first = np.where(has, self.offsets[:-1][places] if len(self.ids) else 0, 0)
        sizes = np.where(has, np.diff(self.offsets)[places] if len(self.ids) else 0, 0)
        return offsets_from_counts(sizes), np.ascontiguousarray(self.words[expand_ranges(first, sizes)])

    def drop(self, places: Ints) -> KeyStates:
        """Return all states but those at these indices; -1 is none."""
        dropped = places[places >= 0]
        kept = np.ones(len(self.ids), np.bool_)
        kept[dropped] = False
        return self.filter(kept) if len(dropped) else self

    def filter(self, kept: Flags) -> KeyStates:
        """Return the states where the mask is true."""
        sizes = np.diff(self.offsets)
        return KeyStates(
            self.ids[kept], offsets_from_counts(sizes[kept]), self.words[np.repeat(kept, sizes)], self.wake[kept]
        )

    def concat(self, other: KeyStates) -> KeyStates:
        """Append the states of other keys."""
        if not len(other.ids):
            return self
        return KeyStates(
            np.concatenate((self.ids, other.ids)),
            concat_offsets((self.offsets, other.offsets)),
            np.concatenate((self.words, other.words)),
            np.concatenate((self.wake, other.wake)),
        )

    def renumber(self, numbers: Ints) -> KeyStates:
        """Give keys other numbers."""
        return KeyStates(numbers[self.ids], self.offsets, self.words, self.wake)

    @property
    def next_wake(self) -> int:
        return int(self.wake.min(initial=MAX_TIME))


class StateLog:
    """The packed states of keys, by key number. A state that changes is written at the end of one buffer.

    What is no longer used is dropped once it is half of the buffer: O(words written), amortised.
    """

    def __init__(self, states: KeyStates | None = None) -> None:
        self.begin = self.size = np.zeros(0, np.int64)
        self.wake = np.zeros(0, np.int64)
        self.words = np.zeros(0, np.int64)
        self.top = 0  # words written
        self.next_wake = int(MAX_TIME)  # no key has anything to report before this
        if states is not None:
            self.write(np.zeros(0, np.int64), states, int(states.ids.max(initial=-1)) + 1)

    def reserve(self, keys: int) -> None:
        """Let there be so many keys."""
        more = keys - len(self.size)
        if more > 0:
            more = max(more, len(self.size))
            nothing = np.zeros(more, np.int64)
            self.begin, self.size = np.concatenate((self.begin, nothing)), np.concatenate((self.size, nothing))
            self.wake = np.concatenate((self.wake, np.full(more, MAX_TIME)))

    def take(self, ids: Ints, wanted: Flags) -> tuple[Ints, Ints]:
        """Return the states of keys, where wanted: their offsets and words. O(words)."""
        return gather_states(self.words, self.begin[ids], np.where(wanted, self.size[ids], 0))

    def write(self, dropped: Ints, states: KeyStates, keys: int) -> None:
        """Drop the states of some keys, and write those of others."""
        self.reserve(keys)
        self.size[dropped], self.wake[dropped] = 0, MAX_TIME
        if self.top + len(states.words) > len(self.words):
            self._move(len(states.words))
        self.words[self.top : self.top + len(states.words)] = states.words
        self.begin[states.ids] = self.top + states.offsets[:-1]
        self.size[states.ids], self.wake[states.ids] = np.diff(states.offsets), states.wake
        self.top += len(states.words)
        self.next_wake = min(self.next_wake, int(states.wake.min(initial=MAX_TIME)))

    def _move(self, more: int) -> None:
        """Move all states to a buffer of twice the size that they need."""
        known = self.states
        self.words = np.empty(2 * (len(known.words) + more), np.int64)
        self.words[: len(known.words)] = known.words
        self.begin[known.ids], self.top = known.offsets[:-1], len(known.words)

    def find_due(self, watermark: int) -> Ints:
        """Return the keys that have something to report by now. O(keys), if there are any."""
        if watermark < self.next_wake:
            return np.zeros(0, np.int64)
        self.next_wake = int(self.wake[self.wake > watermark].min(initial=MAX_TIME))
        return np.flatnonzero((self.wake <= watermark) & (self.size > 0))

    @property
    def ids(self) -> Ints:
        """The keys that have state."""
        return np.flatnonzero(self.size)

    @property
    def states(self) -> KeyStates:
        """All states, one after the other."""
        ids = self.ids
        return KeyStates(ids, *gather_states(self.words, self.begin[ids], self.size[ids]), self.wake[ids])

    def renumber(self, numbers: Ints) -> StateLog:
        """Return the states of keys that have other numbers now."""
        return StateLog(self.states.renumber(numbers))


def pack_states(ids: Ints, offsets: Ints, words: Ints, wake: Ints) -> KeyStates:
    """Pack what a kernel wrote, without the keys that have no state."""
    kept = np.diff(offsets) > 0
    return KeyStates(ids[kept], np.concatenate((offsets[:-1][kept], offsets[-1:])).astype(np.int64), words, wake[kept])


def state_sections(name: str, states: KeyStates) -> dict[str, Any]:
    """Return states as sections of a saved state."""
    return {f"{name} {part}": pa.py_buffer(np.ascontiguousarray(getattr(states, part))) for part in STATE_ARRAYS}


def state_names(saved: SavedState, prefix: str) -> list[str]:
    """Return the names of the states in a saved state that begin so."""
    return sorted({name.rpartition(" ")[0] for name in saved.sections if name.startswith(prefix)})


def read_states(saved: SavedState, name: str) -> KeyStates:
    """Read what `state_sections` wrote."""
    return KeyStates(*(saved.words(f"{name} {part}") for part in STATE_ARRAYS))
