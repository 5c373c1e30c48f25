"""Describe detection in a program: branches of queries with the same partition, and the columns of matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from motet.model.expression import (
    Arithmetic,
    Attribute,
    Call,
    Expression,
    KleeneAggregate,
    Literal,
    Negative,
    attributes,
    walk,
)
from motet.model.pattern import events
from motet.model.query import Aggregate, AllVariables, Computed, Query, Variable
from motet.optimizer.joins import JoinPlan
from motet.plans.detect.build import JoinSpec, PlannedQuery, join_specs, plan_queries
from motet.plans.detect.query import DetectQuery
from motet.schema import EventSchema
from motet.template.positions import Positions, max_bindings
from motet.template.symbols import Symbol


@dataclass(frozen=True)
class DetectBranch:
    """The detection queries with the same partition attributes.

    `overlap` is how long before a result events still matter to it, None where for ever. `trees` are set where the
    joins were planned at compile time, from statistics.
    """

    partition: tuple[str, ...]
    queries: tuple[DetectQuery, ...]
    columns: tuple[str, ...]
    types: frozenset[str] | None
    overlap: int | None
    ranked: bool
    trees: JoinPlan | None = field(default=None, compare=False)
    shuffle_by: tuple[str, ...] = ()  # in a stream: rows that agree on these attributes must be kept together

    @property
    def name(self) -> str:
        """The name of its state, the same for other queries over the same keys."""
        kind = "combined" if self.needs_combine else "matches"
        return "/".join(["+".join(self.partition), "+".join(self.shuffle_by), kind])

    @property
    def is_scattered(self) -> bool:
        """In a stream: whether partitions that are combined lie in different tasks."""
        return self.needs_combine and self.shuffle_by == self.partition

    @property
    def related_by(self) -> tuple[str, ...]:
        """In a stream: the attributes by which events concern each other."""
        return self.shuffle_by if self.needs_combine and not self.is_scattered else self.partition

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        found = (symbol for query in self.queries for symbol in (*query.symbols, *query.absent))
        return tuple(dict.fromkeys(sorted(found, key=repr)))

    @cached_property
    def join_specs(self) -> list[JoinSpec]:
        """What trees have to be chosen for."""
        return join_specs(self.queries)

    @cached_property
    def planned_queries(self) -> list[PlannedQuery]:
        """The nodes of trees that were planned ahead, built once."""
        assert self.trees is not None, "nothing was planned ahead"
        return plan_queries(self.queries, self.trees)

    @property
    def needs_combine(self) -> bool:
        """Whether some results are combined over partitions."""
        return any(query.query.is_aggregate and query.is_combined for query in self.queries)


def make_detect_branch(
    partition: tuple[str, ...],
    queries: Sequence[DetectQuery],
    schema: EventSchema,
    definitions: Mapping[str, Expression],
    shuffle_by: tuple[str, ...] = (),
) -> DetectBranch:
    """Build the branch of some queries, with the columns it reads."""
    ranked = any(query.ranked for query in queries)
    symbols = [symbol for query in queries for symbol in (*query.symbols, *query.absent)]
    defined = {symbol.type for symbol in symbols if symbol.type in definitions}
    read = {name for query in queries for name in _columns_of(query.query)}
    conditions = [condition for symbol in symbols for condition in symbol.all_conditions(definitions)]
    read |= {attribute.name for condition in conditions for attribute in attributes(condition)}
    own = () if all(query.query.is_aggregate for query in queries) else schema.own_columns.names
    columns = tuple(dict.fromkeys((*own, schema.time, schema.type, *partition, *sorted(read))))
    endless = any(query.span.ranked or query.span.within == 0 or query.skips_across_windows for query in queries)
    return DetectBranch(
        partition=partition,
        queries=tuple(queries),
        columns=columns,
        types=None if ranked or defined else frozenset(symbol.type for symbol in symbols),
        # A match reaches back one window from when it is certain, and an absence before it another.
        overlap=None if endless else 2 * max(query.span.within for query in queries),
        ranked=ranked,
        shuffle_by=shuffle_by,
    )


def _columns_of(query: Query) -> Iterator[str]:
    for condition in query.conditions:
        yield from _columns_in(condition)
    for item in query.returns:
        if isinstance(item, Aggregate) and item.name is not None:
            yield item.name
        if isinstance(item, Computed):
            yield from _columns_in(item.expression)


def _columns_in(expression: Expression) -> Iterator[str]:
    for node in walk(expression):
        if isinstance(node, Attribute | KleeneAggregate) and node.name is not None:
            yield node.name


# The columns of matches


def event_type(columns: pa.Schema) -> pa.DataType:
    """Return the type of an event: a struct of its columns."""
    return pa.struct([pa.field(field.name, decode_type(field.type)) for field in columns])


def decode_type(data_type: pa.DataType) -> pa.DataType:
    """Return the value type of a dictionary type, other types as they are."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def positions_of_name(positions: Positions, name: str) -> frozenset[int]:
    """Return the positions of all events with a name: `RETURN *` shows equal names as one variable."""
    return frozenset(p for p, event in enumerate(positions.events) if event.name == name)


def match_columns(query: DetectQuery) -> Iterator[tuple[str, frozenset[int] | Expression]]:
    """Yield the columns of a query that returns matches: the positions each shows, or what it computes."""
    positions = query.positions
    for item in query.query.returns:
        match item:
            case AllVariables():
                for name in dict.fromkeys(event.name for event in events(query.query.pattern)):
                    yield name, positions_of_name(positions, name)
            case Variable(name):
                yield item.label, positions.find(name)
            case Computed(expression):
                yield item.label, expression


def match_types(query: DetectQuery, schema: EventSchema) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the types of match columns: a list where a variable may be bound more than once."""
    event = event_type(schema.own_columns)
    for label, what in match_columns(query):
        if isinstance(what, frozenset):
            yield label, pa.list_(event) if max_bindings(query.positions.graph, what) > 1 else event
        else:
            yield label, value_type(what, schema.columns)


def value_type(expression: Expression, columns: pa.Schema) -> pa.DataType:
    """Return the type of what an expression computes."""
    match expression:
        case Literal(value):
            return pa.scalar(value).type
        case Attribute(_, name):
            return decode_type(columns.field(name).type)
        case KleeneAggregate("COUNT"):
            return pa.int64()
        case KleeneAggregate("MIN" | "MAX", _, name):
            return decode_type(columns.field(name).type)
        case KleeneAggregate() | Arithmetic("/") | Call("SQRT"):
            return pa.float64()
        case Arithmetic(_, left, right):
            return _common_number_type(value_type(left, columns), value_type(right, columns))
        case Negative(operand) | Call("ABS", (operand,)):
            return _common_number_type(value_type(operand, columns), pa.int64())
        case Call("FLOOR" | "CEIL" | "LENGTH" | "MICROSECONDS"):
            return pa.int64()
        case Call("DURATION"):
            return pa.duration("us")
        case Call("TIMESTAMP"):
            return pa.timestamp("us")
        case Call("COALESCE", arguments):
            known = [t for t in (value_type(each, columns) for each in arguments) if not pa.types.is_null(t)]
            if len(set(known)) <= 1:
                return known[0] if known else pa.null()
            return _common_number_type(known[0], known[1])
        case Call():
            return pa.string()
    return pa.bool_()


def _common_number_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    both_whole = all(pa.types.is_integer(side) or pa.types.is_null(side) for side in (left, right))
    return pa.int64() if both_whole else pa.float64()
