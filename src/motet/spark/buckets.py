"""Number and name the parts of a stream's state such that Spark spreads them evenly over its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

MAX_BUCKETS = 64  # by default
SEED = 42
WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class Buckets:
    """So many to a branch. Each is a call of the engine in every micro-batch, and two in one task gain nothing.

    Spark sends a name to the state partition that its hash tells, so a few of them may well meet in one and leave
    others idle. Where they are `even`, each has another hash modulo their number: as many partitions as buckets get one
    each, half as many two each. A branch that needs only its first begins where its own hash tells.
    """

    number: int
    even: bool = True

    def names(self, branch: str) -> tuple[str, ...]:
        """Return the name of each bucket of a branch."""
        if not self.even:
            return tuple(f"{branch}/{at}" for at in range(self.number))
        first = hash_text(branch.encode())
        return tuple(self._name(branch, at, (first + at) % self.number) for at in range(self.number))

    def _name(self, branch: str, at: int, place: int) -> str:
        candidates = (f"{branch}/{at}.{attempt}" for attempt in count())
        return next(name for name in candidates if hash_text(name.encode()) % self.number == place)


def choose_buckets(session: SparkSession, asked: int | None) -> Buckets:
    """Return as many buckets as asked for, or as there are state partitions."""
    return Buckets(asked or min(int(session.conf.get("spark.sql.shuffle.partitions") or 1), MAX_BUCKETS))


def find_balanced_keys(count: int) -> NDArray[np.int32]:
    """Return for each of so many partitions a number that Spark's hash sends there. O(n log n)."""
    found = np.full(count, -1, np.int32)
    first = 0
    while (found < 0).any():
        numbers = np.arange(first, first + 8 * count, dtype=np.int32)
        places, at = np.unique(hash_ints(numbers) % count, return_index=True)
        new = found[places] < 0
        found[places[new]] = numbers[at[new]]
        first += len(numbers)
    return found


def hash_ints(numbers: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return Spark's `hash` of 32-bit integers."""
    word = numbers.astype(np.uint64) * 0xCC9E2D51 & WORD
    word = (word << 15 | word >> 17) & WORD
    state = SEED ^ (word * 0x1B873593 & WORD)
    state = (state << 13 | state >> 19) & WORD
    state = (state * 5 + 0xE6546B64 & WORD) ^ 4
    state = (state ^ state >> 16) * 0x85EBCA6B & WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & WORD
    return (state ^ state >> 16).astype(np.uint32).view(np.int32).astype(np.int64)


def hash_text(text: bytes) -> int:
    """Return Spark's `hash` of a text: Murmur3 by words of four bytes, and the rest byte by byte."""
    whole = len(text) - len(text) % 4
    words = [int.from_bytes(text[at : at + 4], "little") for at in range(0, whole, 4)]
    state = _mix_words(SEED, words)
    state = _mix_words(state, [byte - 256 if byte > 127 else byte for byte in text[whole:]])
    state ^= len(text)
    state = (state ^ state >> 16) * 0x85EBCA6B & WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & WORD
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _mix_words(state: int, words: Sequence[int]) -> int:
    for word in words:
        word = word * 0xCC9E2D51 & WORD
        word = (word << 15 | word >> 17) & WORD
        state ^= word * 0x1B873593 & WORD
        state = (state << 13 | state >> 19) & WORD
        state = (state * 5 + 0xE6546B64) & WORD
    return state
