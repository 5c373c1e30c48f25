"""Small tables, and what a statement over one gives as plain tuples."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import motet


def rows_of(statement: str, **tables: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a statement's result as tuples, in order."""
    found = motet.sql(statement, {name: as_table(rows) for name, rows in tables.items()})
    return [tuple(row.values()) for row in found.to_pylist()]


def as_table(rows: Any) -> pa.Table:
    """Return rows as a table: a list of numbers has them as `x` with their place from 1 on as `id`."""
    if isinstance(rows, list) and not (rows and isinstance(rows[0], dict)):
        return pa.table({"id": range(1, len(rows) + 1), "x": rows})
    return pa.Table.from_pylist(rows) if isinstance(rows, list) else rows


def match(
    rows: Any,
    pattern: str,
    define: str = "",
    measures: str = "CLASSIFIER() AS label",
    select: str = "*",
    output: str = "ALL ROWS PER MATCH",
    skip: str = "PAST LAST ROW",
    subset: str = "",
    partition: str = "",
    order: str = "id",
) -> list[tuple[Any, ...]]:
    """Return what a MATCH_RECOGNIZE over rows gives."""
    return rows_of(
        f"""SELECT {select} FROM t MATCH_RECOGNIZE (
            {f"PARTITION BY {partition}" if partition else ""} ORDER BY {order}
            {f"MEASURES {measures}" if measures else ""}
            {output}
            AFTER MATCH SKIP {skip}
            PATTERN ({pattern})
            {f"SUBSET {subset}" if subset else ""}
            {f"DEFINE {define}" if define else ""})""",
        t=rows,
    )


def labels(rows: Any, pattern: str, define: str = "", **clauses: str) -> list[str]:
    """Return the matches of a pattern, each as the ids of its rows with the variables they are mapped to: `1A 2B`."""
    found = match(rows, pattern, define, "MATCH_NUMBER() AS n, CLASSIFIER() AS label", "n, id, label", **clauses)
    numbers = dict.fromkeys(number for number, _, _ in found)
    return [" ".join(f"{id}{label or '-'}" for n, id, label in found if n == number) for number in numbers]


def labels_by_value(rows: list[int], pattern: str) -> list[str]:
    """Return the matches where an A is a 1, a B a 2 and a C a 3."""
    values = {"A": 1, "B": 2, "C": 3}
    return labels(rows, pattern, ", ".join(f"{name} AS x = {x}" for name, x in values.items() if name in pattern))


def values_of(
    measure: str, pattern: str = "A+", rows: Any = (10, 20, 30), define: str = "", **clauses: str
) -> list[Any]:
    """Return a measure on each row of a match."""
    return [
        value
        for (value,) in match(
            list(rows) if isinstance(rows, tuple) else rows, pattern, define, f"{measure} AS value", "value", **clauses
        )
    ]
