"""Fit saved tables to a program that may have changed since."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from motet.compile import Program
from motet.errors import RunError
from motet.kernels.totals import NO_MINIMUM
from motet.plans.compiled import CompiledQuery


def fit_rows_to_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Drop columns that nobody reads any more, and add those that were not read before as nulls."""
    columns = []
    for field in schema:
        if field.name not in rows.column_names:
            columns.append(pa.nulls(len(rows), field.type))
            continue
        column = rows[field.name]
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as problem:
            raise RunError(
                f"the column {field.name!r} was {column.type} when the stream was last run and is {field.type} now: "
                f"start with a new checkpoint ({problem})"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def to_saved_values(program: Program, compiled: CompiledQuery, partials: pa.Table) -> pa.Table:
    """Return the totals of one query with its own columns only, keys by name."""
    keys = {f"k{at}": name for at, name in enumerate(program.partition)}
    own = [name for name in partials.column_names if name not in keys or keys[name] in compiled.partition]
    table = partials.select([name for name in own if name != "query"])
    return table.rename_columns([f"key {keys[name]}" if name in keys else name for name in table.column_names])


def from_saved_values(program: Program, compiled: CompiledQuery, values: pa.Table) -> pa.Table:
    """Turn the result of `to_saved_values` into partial results; channels that the query lacks are empty."""
    size = len(values)
    names = {f"k{at}": f"key {name}" for at, name in enumerate(program.partition)}
    columns = []
    for field in program.partial_schema:
        name = names.get(field.name, field.name)
        if name == "query":
            columns.append(pa.array(np.full(size, compiled.number, np.int32)))
        elif name in values.column_names:
            columns.append(values[name].cast(field.type))
        elif field.name.startswith(("k", "s")):
            columns.append(pa.nulls(size, field.type))
        else:
            empty = NO_MINIMUM if field.name.startswith("m") else 0
            columns.append(pa.array(np.full(size, empty)).cast(field.type))
    return pa.Table.from_arrays(columns, schema=program.partial_schema)
