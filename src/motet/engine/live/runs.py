"""Runs of words, one to a key: what kernels keep of each key between micro-batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motet.kernels.tables import FOREVER

Ints = NDArray[np.int64]
RUN_PARTS = ("ids", "offsets", "words", "wake")


@dataclass(frozen=True)
class Runs:
    """The run of each key in `ids`, each key once; `wake` is when it next has something to report by itself, or is to
    be forgotten.
    """

    ids: Ints
    offsets: Ints
    words: Ints
    wake: Ints

    @classmethod
    def none(cls) -> Runs:
        empty = np.zeros(0, np.int64)
        return cls(empty, np.zeros(1, np.int64), empty, empty)

    def places(self, ids: Ints, known: int) -> Ints:
        """Where the run of each of these keys is, -1 where it has none. Keys are numbered below `known`."""
        at = np.full(known, -1, np.int64)
        at[self.ids] = np.arange(len(self.ids))
        return at[ids]

    def take(self, places: Ints) -> tuple[Ints, Ints]:
        """The runs at these places (-1: none) in one piece: where each begins, and their words."""
        has = places >= 0
        first = np.where(has, self.offsets[:-1][places] if len(self.ids) else 0, 0)
        sizes = np.where(has, np.diff(self.offsets)[places] if len(self.ids) else 0, 0)
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        at = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], sizes)
        return offsets, np.ascontiguousarray(self.words[at])

    def without(self, places: Ints) -> Runs:
        """All runs but those at these places."""
        gone = places[places >= 0]
        if not len(gone):
            return self
        kept = np.ones(len(self.ids), np.bool_)
        kept[gone] = False
        return self.where(kept)

    def where(self, kept: NDArray[np.bool_]) -> Runs:
        """Some of the runs."""
        sizes = np.diff(self.offsets)
        offsets = np.concatenate(([0], np.cumsum(sizes[kept]))).astype(np.int64)
        return Runs(self.ids[kept], offsets, self.words[np.repeat(kept, sizes)], self.wake[kept])

    def plus(self, other: Runs) -> Runs:
        """These and others, of other keys."""
        if not len(other.ids):
            return self
        return Runs(
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.offsets, self.offsets[-1] + other.offsets[1:])),
            np.concatenate((self.words, other.words)),
            np.concatenate((self.wake, other.wake)),
        )

    def renamed(self, numbers: Ints) -> Runs:
        """The same runs with other numbers for their keys."""
        return Runs(numbers[self.ids], self.offsets, self.words, self.wake)

    @property
    def soonest(self) -> int:
        return int(self.wake.min()) if len(self.wake) else int(FOREVER)


def runs_of(ids: Ints, offsets: Ints, words: Ints, wake: Ints) -> Runs:
    """What a kernel wrote, without the keys of which nothing is kept."""
    kept = np.diff(offsets) > 0
    return Runs(ids[kept], np.concatenate((offsets[:-1][kept], offsets[-1:])).astype(np.int64), words, wake[kept])


def writable(array: Ints) -> Ints:
    """Words as kernels take them, whatever they were read from."""
    return np.require(array, np.int64, ["C", "W"])
