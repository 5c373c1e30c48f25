"""Number and name the parts of a stream's state such that Spark spreads them evenly over its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

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

    Where they are `wide`, whole numbers of a key are hashed as those of 64 bits, so that a key may become wider.
    """

    number: int
    even: bool = True
    wide: bool = True

    def names(self, branch: str) -> tuple[str, ...]:
        """Return the name of each bucket of a branch."""
        if not self.even:
            return tuple(f"{branch}/{at}" for at in range(self.number))
        first = hash_text(branch)
        return tuple(self._name(branch, at, (first + at) % self.number) for at in range(self.number))

    def _name(self, branch: str, at: int, partition: int) -> str:
        candidates = (f"{branch}/{at}.{attempt}" for attempt in count())
        return next(name for name in candidates if hash_text(name) % self.number == partition)


def find_branch(bucket: str) -> str:
    """Return the name of the branch that a bucket is of."""
    return bucket.rpartition("/")[0]


def choose_buckets(session: SparkSession, asked: int | None) -> Buckets:
    """Return as many buckets as asked for, or as there are state partitions."""
    return Buckets(asked or min(int(session.conf.get("spark.sql.shuffle.partitions") or 1), MAX_BUCKETS))


def find_balanced_keys(count: int) -> NDArray[np.int32]:
    """Return for each of so many partitions a number that Spark's hash sends there. O(n log n)."""
    found = np.full(count, -1, np.int32)
    first = 0
    while (found < 0).any():
        numbers = np.arange(first, first + 8 * count)
        hashes = _finish(_mix(SEED, numbers.astype(np.uint64)), 4).astype(np.uint32).view(np.int32)
        partitions, at = np.unique(hashes.astype(np.int64) % count, return_index=True)
        new = found[partitions] < 0
        found[partitions[new]] = numbers[at[new]]
        first += len(numbers)
    return found


def hash_text(text: str) -> int:
    """Return Spark's `hash` of a text: Murmur3 by words of four bytes, and the rest byte by byte."""
    data = text.encode()
    whole = len(data) - len(data) % 4
    state = SEED
    for at in range(0, whole, 4):
        state = _mix(state, int.from_bytes(data[at : at + 4], "little"))
    for byte in data[whole:]:
        state = _mix(state, byte - 256 if byte > 127 else byte)
    state = _finish(state, len(data))
    return int(state - (1 << 32) if state >> 31 else state)


def _mix(state: int, word: Any) -> Any:
    """Mix a word into the state of Murmur3: an integer, or an array of unsigned 64-bit integers at once."""
    word = word * 0xCC9E2D51 & WORD
    word = (word << 15 | word >> 17) & WORD
    mixed = state ^ (word * 0x1B873593 & WORD)
    mixed = (mixed << 13 | mixed >> 19) & WORD
    return mixed * 5 + 0xE6546B64 & WORD


def _finish(state: Any, length: int) -> Any:
    """Finish a hash of so many bytes."""
    state = state ^ length
    state = (state ^ state >> 16) * 0x85EBCA6B & WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & WORD
    return state ^ state >> 16
