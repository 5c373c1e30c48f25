"""Build and cut ragged arrays: row i holds the values from `offsets[i]` to `offsets[i + 1]`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def offsets_from_counts(counts: Any) -> Ints:
    """Return the offsets of rows of these lengths. O(rows)."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(np.asarray(counts, np.int64), out=offsets[1:])
    return offsets


def offsets_of(lists: Iterable[Sized]) -> Ints:
    """Return the offsets of the lists as rows."""
    return offsets_from_counts([len(each) for each in lists])


def flatten_lists(lists: Sequence[Sequence[int]]) -> tuple[Ints, NDArray[np.int32]]:
    """Return the lists as the offsets and values of a ragged array."""
    return offsets_of(lists), np.array([value for each in lists for value in each], np.int32)


def concat_offsets(parts: Sequence[Ints]) -> Ints:
    """Return the offsets of ragged arrays one after the other. O(rows)."""
    return offsets_from_counts(np.concatenate([np.zeros(0, np.int64), *map(np.diff, parts)]))


def row_numbers(offsets: Ints) -> Ints:
    """Return the row of each value. O(values)."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def expand_ranges(starts: Ints, counts: Ints) -> Ints:
    """Return the numbers `start`, `start + 1`, ... of each range, as many as its count. O(numbers)."""
    return _expand(starts, counts, offsets_from_counts(counts))


def _expand(starts: Ints, counts: Ints, offsets: Ints) -> Ints:
    return np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1])


def take_rows(offsets: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the offsets of some rows, in their order, and the places of their values. O(values taken)."""
    counts = np.diff(offsets)[rows]
    taken = offsets_from_counts(counts)
    return taken, _expand(offsets[rows], counts, taken)


def merge_rows(one: Ints, other: Ints) -> tuple[Ints, Ints, Ints]:
    """Append the rows of two ragged arrays to each other: return the offsets, and where the values of each go."""
    first, second = np.diff(one), np.diff(other)
    offsets = offsets_from_counts(first + second)
    return offsets, expand_ranges(offsets[:-1], first), expand_ranges(offsets[:-1] + first, second)
