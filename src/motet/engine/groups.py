"""Rows brought together by a number that each of them has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def brought_together(numbers: NDArray[Any]) -> tuple[NDArray[np.int64], list[tuple[int, int, int]]]:
    """An order in which rows of equal numbers stand together, each in the order that they have; and for every number
    that occurs, where its rows begin and how many there are. Numbers count from 0. O(rows + numbers).
    """
    counts = np.bincount(numbers)
    # Numpy sorts numbers of two bytes by counting them.
    order = np.argsort(numbers.astype(np.uint16) if len(counts) <= 1 << 16 else numbers, kind="stable")
    found = np.flatnonzero(counts)
    starts = np.cumsum(counts) - counts
    return order, list(zip(found.tolist(), starts[found].tolist(), counts[found].tolist(), strict=True))
