"""What comparisons read: constants beside an attribute, expressions of one type, and an index over inequalities."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import motet
from motet.reference.tables import run_table as enumerate_table
from tests.comparison import assert_same_results

OPERANDS = (
    "{0}.x + 3",
    "{0}.x - 3",
    "3 - {0}.x",
    "{0}.x * 2",
    "-{0}.x",
    "{0}.x / 4",
    "1.5 + {0}.x",
    "{0}.y * 0.1",
    "{0}.y - 2",
    "{0}.x / 0",
    "{0}.x * {0}.x + 1",
    "{0}.x % 3",
)


def make_events(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    null = rng.random(count) < 0.1
    return pa.table(
        {
            "time": np.sort(rng.integers(0, count, count)),
            "type": pa.array(["A", "B", "C"]).take(pa.array(rng.integers(0, 3, count))),
            "x": pa.array(rng.integers(-5, 6, count), mask=null),
            "y": pa.array(rng.integers(-40, 40, count) / 8, mask=null[::-1].copy()),
        }
    )


@pytest.mark.parametrize("comparison", ["<", ">=", "=", "!="])
@pytest.mark.parametrize("operand", OPERANDS)
def test_constants_beside_attributes_are_compared_as_written(operand: str, comparison: str) -> None:
    table = make_events(60, len(operand))
    left, right = operand.format("a"), OPERANDS[len(operand) % 9].format("b")
    query = f"RETURN a.x AS ax, b.x AS bx PATTERN SEQ(A a, B b) WHERE {left} {comparison} {right} WITHIN 30 s"
    assert_same_results(motet.run(table, query), enumerate_table(motet.read(query), table))


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_sums_that_doubles_cannot_tell_apart_are_computed_as_whole_numbers(offset: int) -> None:
    large = 2**53
    table = pa.table({"time": [1, 2], "type": ["A", "B"], "x": [large, large + 1 + offset]})
    found = motet.run(table, "RETURN * PATTERN SEQ(A a, B b) WHERE a.x + 1 = b.x")
    assert len(found) == (offset == 0)


def test_an_overflow_of_a_type_that_is_not_compared_is_none() -> None:
    table = pa.table({"time": [1, 2, 3], "type": ["A", "B", "C"], "x": [1, 5, 2**63 - 1]})
    assert len(motet.run(table, "RETURN * PATTERN SEQ(A a, B b) WHERE a.x * a.x + 1 < b.x")) == 1


@pytest.mark.parametrize("comparison", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("keys", [1, 3])
def test_selective_inequalities_find_all_pairs(comparison: str, keys: int) -> None:
    rng = np.random.default_rng(keys)
    size = 6_000
    x, k = np.round(rng.random(size), 3), rng.integers(0, keys, size)
    is_b = rng.random(size) < 0.5
    x[rng.random(size) < 0.01] = np.nan
    table = pa.table({"time": np.arange(size), "type": np.where(is_b, "B", "A"), "x": x, "k": k, "id": np.arange(size)})
    shift = 0.98 if comparison.startswith("<") else -0.98
    query = (
        f"RETURN a.id AS a, b.id AS b PATTERN SEQ(A a, B b) WHERE [k] AND a.x + {shift} {comparison} b.x WITHIN 3000 s"
    )
    first, second = np.flatnonzero(~is_b), np.flatnonzero(is_b)
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[comparison]
    pairs = compare.outer(x[first] + shift, x[second]) & np.equal.outer(k[first], k[second])
    pairs &= np.less.outer(first, second) & (np.subtract.outer(first, second) > -3000)
    expected = {(int(first[one]), int(second[other])) for one, other in np.argwhere(pairs)}
    found = motet.run(table, query, memory_limit="8GiB")
    assert len(found) == len(expected) > 100
    assert set(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)) == expected
