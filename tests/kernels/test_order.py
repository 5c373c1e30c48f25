"""Rows are sorted by several keys at once, whatever the keys are."""

from __future__ import annotations

import numpy as np
import pytest

from motet.kernels.order import sort_rows


@pytest.mark.parametrize("bounds", [(3, 4), (7, 2**40, 3), (2**40, 2**30)], ids=str)
@pytest.mark.parametrize("size", [0, 1, 50, 3000])
def test_rows_are_sorted_stably_by_the_first_key_first(bounds: tuple[int, ...], size: int) -> None:
    rng = np.random.default_rng(size)
    keys = [(rng.integers(0, min(bound, 5), size) * (bound // 5 or 1) % bound, bound) for bound in bounds]
    expected = np.lexsort([numbers for numbers, _ in reversed(keys)])
    order = sort_rows(keys)
    found = np.arange(size) if order is None else order
    assert found.tolist() == expected.tolist()
    assert sort_rows([(numbers[found], bound) for numbers, bound in keys]) is None
