"""What to know before a run: which columns a workload reads, and which event types there are."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from motet.io.events import EventSource
from motet.model.expression import Expression, KleeneAggregate, attributes, walk
from motet.model.query import Aggregate, Computed, Query, Workload
from motet.model.validate import problems


def event_counts(source: EventSource) -> dict[str, int]:
    """How many rows each event type has, by one pass over the type column alone."""
    found: Counter[str] = Counter()
    for batch in source.batches([source.type]):
        for entry in pc.value_counts(batch.column(0).drop_null()).to_pylist():
            found[entry["values"]] += entry["counts"]
    return dict(found)


# Kind of value -> the type of a column that holds it.
TYPES = {"text": pa.string(), "number": pa.float64(), "time": pa.timestamp("us"), "boolean": pa.bool_()}


def likely_types(schema: pa.Schema, workload: Workload) -> pa.Schema:
    """The schema with a type for each column of which no value was seen: the one that the workload objects to least."""
    return pa.schema(
        [(field.name, likely_type(field.name, workload)) if pa.types.is_null(field.type) else field for field in schema]
    )


def likely_type(name: str, workload: Workload) -> pa.DataType:
    return TYPES[min(TYPES, key=lambda kind: len(problems(workload, {name: kind})))]


def columns_read(workload: Workload) -> list[str]:
    """Every column that a workload names, each once."""
    names = [name for query in workload.queries for name in query_columns(query)]
    names += [name for definition in workload.definitions for name in expression_columns(definition.condition)]
    return list(dict.fromkeys(names))


def query_columns(query: Query) -> list[str]:
    names = [*query.partition]
    for condition in query.conditions:
        names += expression_columns(condition)
    for item in query.returns:
        match item:
            case Aggregate(name=str(name)):
                names.append(name)
            case Computed(expression):
                names += expression_columns(expression)
    return names


def expression_columns(expression: Expression) -> list[str]:
    of_aggregates = [node.name for node in walk(expression) if isinstance(node, KleeneAggregate) and node.name]
    return [attribute.name for attribute in attributes(expression)] + of_aggregates
