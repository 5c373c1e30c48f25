"""Print results as text tables: one for each query, with its own columns only."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from motet.io.query_columns import QueryColumns, list_query_columns
from motet.io.values import to_rows
from motet.model.query import Workload

# A width for output that no terminal cuts.
UNLIMITED = 10_000


def print_tables(console: Console, results: pa.Table, workload: Workload, limit: int | None) -> None:
    """Print the first rows of each query, and say how many were left out."""
    for rows in list_query_columns(workload):
        of_query = rows.select_rows(results)
        if not len(of_query):
            console.print(f"[bold]{escape(rows.query.name)}[/]: no match")
            continue
        # A title of the table would be wrapped where the table is narrower.
        console.print(f"[bold]{escape(rows.query.name)}[/]", soft_wrap=True)
        values = to_rows(of_query.slice(0, limit), " ")
        cells = ([format_value(rows, name, row[name]) for name in rows.shown] for row in values)
        _print_rows(console, of_query.select(rows.shown).schema, cells, len(of_query), limit)


def print_relation(console: Console, rows: pa.Table, limit: int | None) -> None:
    """Print the first rows of a table, and say how many were left out."""
    cells = (map(format_cell, row.values()) for row in rows.slice(0, limit).to_pylist())
    _print_rows(console, rows.schema, cells, len(rows), limit)


def _print_rows(
    console: Console, schema: pa.Schema, rows: Iterable[Iterable[str]], count: int, limit: int | None
) -> None:
    """Print the first rows of a table, and how many more of its `count` rows there are."""
    table = Table(box=box.SIMPLE_HEAD)
    for field in schema:
        table.add_column(escape(field.name), justify="right" if is_number(field.type) else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)
    hidden = 0 if limit is None else count - limit
    if hidden > 0:
        console.print(f"  [dim]... and {hidden:,} more row{'s' if hidden > 1 else ''}[/]\n")


def format_value(rows: QueryColumns, name: str, value: Any) -> str:
    """Format a value of a column; times that are whole numbers stay as they are."""
    if name in rows.times and isinstance(value, int):
        return str(value)
    return format_cell(value)


def is_number(type: pa.DataType) -> bool:
    """Return whether values of a type are numbers."""
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def format_cell(value: Any) -> str:
    """Format a value for people."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.6g}"
        case dt.datetime():
            return value.isoformat(sep=" ")
        case dict():
            return "{" + ", ".join(f"{name}: {format_cell(item)}" for name, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(format_cell, value)) + "]"
        case _:
            return str(value)
