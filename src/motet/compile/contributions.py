"""The columns of contributions: what the matches of one window or time add to aggregates.

Contributions of all partitions of a group make a result, so they may come from different tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from motet.model.query import Aggregate
from motet.plans.detect.query import DetectQuery
from motet.schema import EventSchema

# What contributions hold for an aggregate over the events of a variable.
PARTS = {
    "COUNT": ("count",),
    "SUM": ("count", "sum"),
    "AVG": ("count", "sum"),
    "VAR": ("count", "sum", "squares"),
    "STDDEV": ("count", "sum", "squares"),
    "MIN": ("count", "extreme"),
    "MAX": ("count", "extreme"),
}

# Columns of contributions beside the groups and values: of how many matches they are, the window's end, or the time
# from which on a match counts, until it expires; and whether a result is due when it completes.
NUMBER = "#n"
END = "#end"
FROM = "#from"
UNTIL = "#until"
DUE = "#due"
QUERY = "#query"


def contribution_schema(queries: Iterable[DetectQuery], groups: Sequence[str], schema: EventSchema) -> pa.Schema:
    """Return the columns of the contributions of some queries: keys, groups, then the values of each query."""
    fields = [pa.field(QUERY, pa.int32()), *(pa.field(name, pa.int64()) for name in (NUMBER, END, FROM, UNTIL))]
    fields.append(pa.field(DUE, pa.bool_()))
    fields += [pa.field(name, schema.plain_type(name)) for name in groups]
    for query in queries:
        if query.query.is_aggregate:
            columns = partial_columns(query).items()
            fields += [pa.field(name, _value_type(item, part, schema)) for name, (item, part) in columns]
    return pa.schema(fields)


def partial_columns(query: DetectQuery) -> dict[str, tuple[Aggregate, str]]:
    """Map the value columns of a query's contributions to the aggregate and the part of it that each holds."""
    return {
        f"#{query.number}_{at}_{part}": (item, part)
        for at, item in enumerate(query.query.aggregates)
        if item.variable is not None or item.distinct
        for part in (("values",) if item.distinct else PARTS[item.function])
    }


def _value_type(item: Aggregate, part: str, schema: EventSchema) -> pa.DataType:
    if part == "extreme":
        assert item.name is not None
        return schema.plain_type(item.name)
    if part == "values":
        return pa.list_(schema.plain_type(str(item.name)))
    return pa.int64() if part == "count" else pa.float64()
