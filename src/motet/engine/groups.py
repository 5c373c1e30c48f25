"""Group rows by a number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def group_rows(numbers: NDArray[Any]) -> tuple[NDArray[np.int64], list[tuple[int, int, int]]]:
    """Return an order that groups rows of equal numbers, and (number, first row, row count) for each number that
    occurs.

    The order is stable. Numbers count from 0. O(rows + numbers).
    """
    counts = np.bincount(numbers)
    # Numpy sorts numbers of two bytes by counting them.
    order = np.argsort(numbers.astype(np.uint16) if len(counts) <= 1 << 16 else numbers, kind="stable")
    found = np.flatnonzero(counts)
    starts = np.cumsum(counts) - counts
    return order, list(zip(found.tolist(), starts[found].tolist(), counts[found].tolist(), strict=True))
