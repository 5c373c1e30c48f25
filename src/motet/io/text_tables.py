"""Print results as text tables: one for each query, with its own columns only."""

from __future__ import annotations

import datetime as dt
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
        console.print(_build_query_table(rows, of_query, limit))
        _say_hidden(console, len(of_query), limit)


def print_relation(console: Console, rows: pa.Table, limit: int | None) -> None:
    """Print the first rows of a table, and say how many were left out."""
    table = Table(box=box.SIMPLE_HEAD)
    for field in rows.schema:
        table.add_column(escape(field.name), justify="right" if is_number(field.type) else "left")
    for row in rows.slice(0, limit).to_pylist():
        table.add_row(*(escape(format_cell(value)) for value in row.values()))
    console.print(table)
    _say_hidden(console, len(rows), limit)


def _say_hidden(console: Console, rows: int, limit: int | None) -> None:
    hidden = rows - (rows if limit is None else limit)
    if hidden > 0:
        console.print(f"  [dim]... and {hidden:,} more row{'s' if hidden > 1 else ''}[/]\n")


def _build_query_table(rows: QueryColumns, results: pa.Table, limit: int | None) -> Table:
    """Build a table of a query's first rows."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in rows.shown:
        table.add_column(escape(name), justify="right" if is_number(results.schema.field(name).type) else "left")
    for row in to_rows(results.slice(0, limit), " "):
        table.add_row(*(escape(format_value(rows, name, row[name])) for name in rows.shown))
    return table


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
