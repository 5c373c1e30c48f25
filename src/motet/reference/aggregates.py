"""Aggregates of a bag of values, each value with how often it occurs: exact, rounded once at the end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from motet.errors import RunError


def aggregate(function: str, values: Iterable[Any]) -> Any:
    """COUNT, SUM, AVG, MIN, MAX, VAR or STDDEV of values; nulls are passed over."""
    return aggregate_bag(function, Counter(value for value in values if value is not None))


def aggregate_bag(function: str, bag: Mapping[Any, int]) -> Any:
    """The same over non-null values with their multiplicities; null over none, except COUNT."""
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
            return total(bag, 1)
        case "AVG":
            return total(bag, count)
        case "VAR":
            return variance(bag, count)
        case "STDDEV":
            spread = variance(bag, count)
            return None if spread is None else math.sqrt(spread)
    raise RunError(f"unknown aggregate {function!r}")


def total(bag: Mapping[Any, int], divisor: int) -> float | None:
    """The sum over a divisor, correctly rounded. Infinities add as floats do; infinity less infinity is null."""
    infinite = {value for value in bag if not math.isfinite(value)}
    if infinite:
        return infinite.pop() if len(infinite) == 1 else None
    return rounded(Fraction(sum(Fraction(value) * times for value, times in bag.items()), divisor))


def variance(bag: Mapping[Any, int], count: int) -> float | None:
    """The variance of a sample; null over fewer than two values."""
    if count < 2 or any(not math.isfinite(value) for value in bag):
        return None
    mean = Fraction(sum(Fraction(value) * times for value, times in bag.items()), count)
    squares = sum(((Fraction(value) - mean) ** 2 * times for value, times in bag.items()), Fraction(0))
    return rounded(squares / (count - 1))


def rounded(value: Fraction) -> float:
    """The nearest double; infinity beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
