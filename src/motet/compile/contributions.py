"""The columns of contributions: what the matches of one window or time add to aggregates.

Contributions of all partitions of a group make a result, so they may come from different tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from motet.model.query import Aggregate
from motet.plans.detect.query import DetectQuery
from motet.schema import EventSchema

SUMS = ("SUM", "AVG", "VAR", "STDDEV")

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
            fields += [pa.field(name, _value_type(name, item, schema)) for name, item in partial_columns(query).items()]
    return pa.schema(fields)


def partial_columns(query: DetectQuery) -> dict[str, Aggregate]:
    """Map the value columns of a query's contributions to the aggregate each is for."""
    found: dict[str, Aggregate] = {}
    for at, item in enumerate(query.query.aggregates):
        if item.variable is None:
            continue
        prefix = f"#{query.number}_{at}_"
        found[prefix + "count"] = item
        if item.function in SUMS:
            found[prefix + "sum"] = item
        if item.function in ("VAR", "STDDEV"):
            found[prefix + "squares"] = item
        if item.function in ("MIN", "MAX"):
            found[prefix + "extreme"] = item
    return found


def _value_type(column: str, item: Aggregate, schema: EventSchema) -> pa.DataType:
    if column.endswith("_count"):
        return pa.int64()
    if column.endswith("_extreme"):
        assert item.name is not None
        return schema.plain_type(item.name)
    return pa.float64()
