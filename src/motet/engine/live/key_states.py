"""The state that kernels keep of each key between micro-batches, as packed words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motet.kernels.ragged import concat_offsets, expand_ranges, offsets_from_counts
from motet.kernels.tables import MAX_TIME

Ints = NDArray[np.int64]
STATE_ARRAYS = ("ids", "offsets", "words", "wake")


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
        empty = np.zeros(0, np.int64)
        return cls(empty, np.zeros(1, np.int64), empty, empty)

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
        """Return all states but those at these indices."""
        dropped = places[places >= 0]
        if not len(dropped):
            return self
        kept = np.ones(len(self.ids), np.bool_)
        kept[dropped] = False
        return self.filter(kept)

    def filter(self, kept: NDArray[np.bool_]) -> KeyStates:
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
        return int(self.wake.min()) if len(self.wake) else int(MAX_TIME)


def pack_states(ids: Ints, offsets: Ints, words: Ints, wake: Ints) -> KeyStates:
    """Pack what a kernel wrote, without the keys that have no state."""
    kept = np.diff(offsets) > 0
    return KeyStates(ids[kept], np.concatenate((offsets[:-1][kept], offsets[-1:])).astype(np.int64), words, wake[kept])


def writable(array: Ints) -> Ints:
    """Return words as kernels take them, whatever buffer they were read from."""
    return np.require(array, np.int64, ["C", "W"])
