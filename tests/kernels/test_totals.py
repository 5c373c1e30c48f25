"""Extended numbers and ordering: the arithmetic that everything else rests on."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from motet.kernels.order import order_by_key, rank_events, sort_disordered
from motet.kernels.totals import RADIX, list_layouts, make_layout, multiply_extended, sum_extended

# Whole numbers far beyond a double, as kernels would hold them.
huge = st.builds(lambda base, power: base * 2**power, st.integers(1, 2**50), st.integers(0, 3000))


def extended(value: int) -> tuple[float, int]:
    exponent = 0
    while value >= 2 ** (480 * (exponent + 1)):
        exponent += 1
    return float(Fraction(value, 2 ** (480 * exponent))), exponent


def plain(helper: Any) -> Any:
    """Helpers of kernels can be called from Python only before they are compiled."""
    return getattr(helper, "py_func", helper)


def exact(number: tuple[float, int]) -> Fraction:
    return Fraction(number[0]) * Fraction(2) ** (480 * int(number[1]))


@given(huge, huge)
def test_extended_sums_and_products_are_right_to_a_double(one: int, other: int) -> None:
    total = exact(plain(sum_extended)(*extended(one), *extended(other)))
    product = exact(plain(multiply_extended)(*extended(one), *extended(other)))
    assert abs(total / (one + other) - 1) < Fraction(1, 2**40)
    assert abs(product / (one * other) - 1) < Fraction(1, 2**40)


def test_a_mantissa_stays_far_from_the_end_of_doubles() -> None:
    number = (1.0, 0)
    for _ in range(5000):
        number = plain(sum_extended)(*number, *number)
        assert number[0] < RADIX
    assert math.isclose(math.log2(number[0]) + 480 * number[1], 5000)


def test_layouts_are_tried_from_the_cheapest() -> None:
    assert [layout.words for layout in list_layouts(0, 0, 0, rarely_large=True)] == [1, 1, 3]
    assert [layout.has_shadows for layout in list_layouts(0, 0, 0, rarely_large=False)] == [True, False]
    assert [layout.extended for layout in list_layouts(1, 1, 1, rarely_large=False)] == [False, True]
    assert make_layout(1, 2, 1, extended=True).words == 5 + 2 + 2 + 2


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), max_size=40))
def test_events_come_by_key_and_time_and_keep_their_order_in_ties(rows: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in rows], np.int32)
    time = np.array([at for _, at in rows], np.int64)
    order, offsets, disordered = order_by_key(keys, time, 4)
    sort_disordered(order, offsets, disordered, time)
    assert order.tolist() == sorted(range(len(rows)), key=lambda row: (*rows[row], row))
    assert offsets.tolist() == [sum(key < bound for key, _ in rows) for bound in range(5)]


@given(st.lists(st.integers(0, 6), max_size=20))
def test_ranks_count_the_events_before_and_up_to_each(times: list[int]) -> None:
    ordered = sorted(times)
    enter, leave = rank_events(np.array(ordered, np.int64), np.array([0, len(times)], np.int64))
    assert enter.tolist() == [sum(other < at for other in ordered) for at in ordered]
    assert leave.tolist() == [sum(other <= at for other in ordered) for at in ordered]
