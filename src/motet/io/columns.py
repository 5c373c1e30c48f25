"""List the columns that a workload reads, and guess types of columns without values."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from motet.io.events import EventSource
from motet.model.expression import Expression, KleeneAggregate, attributes, walk
from motet.model.query import Aggregate, Computed, Query, Workload
from motet.model.validate import find_problems


def count_event_types(source: EventSource) -> dict[str, int]:
    """Count the rows of each event type, by one pass over the type column alone."""
    found: Counter[str] = Counter()
    for batch in source.batches([source.type]):
        for entry in pc.value_counts(batch.column(0).drop_null()).to_pylist():
            found[entry["values"]] += entry["counts"]
    return dict(found)


# Kind of value -> the type of a column that holds it.
TYPES = {"text": pa.string(), "number": pa.float64(), "time": pa.timestamp("us"), "boolean": pa.bool_()}


def guess_types(schema: pa.Schema, workload: Workload) -> pa.Schema:
    """Return the schema with a type for each column without values: the one to which the workload objects least."""
    return pa.schema(
        [(field.name, guess_type(field.name, workload)) if pa.types.is_null(field.type) else field for field in schema]
    )


def guess_type(name: str, workload: Workload) -> pa.DataType:
    return TYPES[min(TYPES, key=lambda kind: len(find_problems(workload, {name: kind})))]


def list_columns(workload: Workload) -> list[str]:
    """Return every column that a workload names, each once."""
    names = [name for query in workload.queries for name in list_query_names(query)]
    names += [name for definition in workload.definitions for name in list_expression_names(definition.condition)]
    return list(dict.fromkeys(names))


def list_query_names(query: Query) -> list[str]:
    names = [*query.partition]
    for condition in query.conditions:
        names += list_expression_names(condition)
    for item in query.returns:
        match item:
            case Aggregate(name=str(name)):
                names.append(name)
            case Computed(expression):
                names += list_expression_names(expression)
    return names


def list_expression_names(expression: Expression) -> list[str]:
    of_aggregates = [node.name for node in walk(expression) if isinstance(node, KleeneAggregate) and node.name]
    return [attribute.name for attribute in attributes(expression)] + of_aggregates
