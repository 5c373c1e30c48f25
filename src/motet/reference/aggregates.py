"""Aggregates of a bag of values, each value with how often it occurs: exact, rounded once at the end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from motet.errors import RunError


def aggregate(function: str, values: Iterable[Any]) -> Any:
    """Compute COUNT, SUM, AVG, MIN, MAX, VAR or STDDEV of values; nulls are passed over."""
    return aggregate_bag(function, Counter(value for value in values if value is not None))


def aggregate_bag(function: str, bag: Mapping[Any, int]) -> Any:
    """Return the same over non-null values with their multiplicities; null over none, except COUNT."""
    count = sum(bag.values())
    if function == "COUNT":
        return count
    if count == 0:
        return None
    match function:
        case "MIN":
            return min(bag)
        case "MAX":
            return max(bag)
        case "SUM":
            return compute_sum(bag, 1)
        case "AVG":
            return compute_sum(bag, count)
        case "VAR":
            return compute_variance(bag, count)
        case "STDDEV":
            spread = compute_variance(bag, count)
            return None if spread is None else math.sqrt(spread)
    raise RunError(f"unknown aggregate {function!r}")


def compute_sum(bag: Mapping[Any, int], divisor: int) -> float | None:
    """Return the sum over a divisor, correctly rounded. Infinities add as floats do; infinity less infinity is null."""
    infinite = {value for value in bag if not math.isfinite(value)}
    if infinite:
        return infinite.pop() if len(infinite) == 1 else None
    return to_float(Fraction(sum(Fraction(value) * times for value, times in bag.items()), divisor))


def compute_variance(bag: Mapping[Any, int], count: int) -> float | None:
    """Return the variance of a sample; null over fewer than two values."""
    if count < 2 or any(not math.isfinite(value) for value in bag):
        return None
    mean = Fraction(sum(Fraction(value) * times for value, times in bag.items()), count)
    squares = sum(((Fraction(value) - mean) ** 2 * times for value, times in bag.items()), Fraction(0))
    return to_float(squares / (count - 1))


def to_float(value: Fraction) -> float:
    """Return the nearest double; infinity beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
