"""Comparison of result tables: the same rows in any order."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
WHERE = ("query", "window_start", "window_end", "time", "start", "end")


def assert_same_results(actual: pa.Table, expected: pa.Table, *, tolerance: float = 1e-9, shown: int = 5) -> None:
    """Fail unless two result tables have the same columns and, in any order, the same rows.

    Floating values may differ by a relative `tolerance`, but not those of SUM, MIN and MAX columns: over dyadic
    fractions they are exact.
    """
    assert dict(zip(actual.column_names, actual.schema.types, strict=True)) == dict(
        zip(expected.column_names, expected.schema.types, strict=True)
    ), f"columns differ:\n  actual   {actual.schema}\n  expected {expected.schema}"
    found, wanted = group_by_place(actual), group_by_place(expected)
    problems = []
    for place in sorted(found.keys() | wanted.keys(), key=str):
        extra, missing = find_unmatched(found.get(place, []), wanted.get(place, []), tolerance)
        if extra or missing:
            problems.append(describe_difference(place, extra, missing))
    if problems:
        more = f"\n... and {len(problems) - shown} more" if len(problems) > shown else ""
        raise AssertionError("results differ\n" + "\n".join(problems[:shown]) + more)


def group_by_place(table: pa.Table) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows of a result table by query and time."""
    places: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        places[tuple(str(row.get(name)) for name in WHERE)].append(row)  # a variable may have one of these names
    return places


def find_unmatched(actual: list[Row], expected: list[Row], tolerance: float) -> tuple[list[Row], list[Row]]:
    """Return the rows of either side that have no partner on the other."""
    extra, missing = list(actual), []
    for row in expected:
        for number, other in enumerate(extra):
            if all(is_same_value(name, other[name], value, tolerance) for name, value in row.items()):
                del extra[number]
                break
        else:
            missing.append(row)
    return extra, missing


def is_same_value(label: str, actual: Any, expected: Any, tolerance: float) -> bool:
    """Return whether two values are equal, floats nearly so; NaN is equal to itself."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return actual.keys() == expected.keys() and all(
            is_same_value("", actual[name], value, tolerance) for name, value in expected.items()
        )
    if isinstance(expected, list) and isinstance(actual, list):
        return len(actual) == len(expected) and all(
            is_same_value("", one, other, tolerance) for one, other in zip(actual, expected, strict=True)
        )
    if isinstance(expected, float) and isinstance(actual, float):
        if math.isnan(expected) or math.isnan(actual):
            return math.isnan(expected) and math.isnan(actual)
        if label.startswith(("SUM(", "MIN(", "MAX(")):
            return actual == expected
        return math.isclose(actual, expected, rel_tol=tolerance, abs_tol=1e-12)
    return bool(actual == expected)


def describe_difference(place: tuple[Any, ...], extra: list[Row], missing: list[Row]) -> str:
    """Describe one place where results differ."""
    known = ", ".join(f"{name} {value}" for name, value in zip(WHERE, place, strict=True) if value != "None")
    lines = [known]
    lines += [f"  missing    {get_values(row)}" for row in missing]
    lines += [f"  unexpected {get_values(row)}" for row in extra]
    return "\n".join(lines)


def get_values(row: Row) -> Row:
    """Return the columns of a row that do not name its place."""
    return {name: value for name, value in row.items() if name not in WHERE and value is not None}
