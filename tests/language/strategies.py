"""Random models of every node type, for properties of the language."""

from __future__ import annotations

import datetime as dt

from hypothesis import strategies as st

from motet.model.expression import (
    FUNCTIONS,
    Arithmetic,
    At,
    Attribute,
    Call,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    KleeneAggregate,
    Like,
    Literal,
    Logical,
    Membership,
    Negative,
)
from motet.model.kinds import KLEENE_FUNCTIONS
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq
from motet.model.query import (
    AGGREGATE_FUNCTIONS,
    Aggregate,
    AllVariables,
    Computed,
    EventDefinition,
    GroupKey,
    Policy,
    Query,
    ReturnItem,
    Variable,
    Workload,
)
from motet.model.window import CountWindow, TimeWindow, Window

ODD_NAMES = [
    "Declaration SUBMITTED by EMPLOYEE",
    'say "cheese"',
    "back`tick",
    "return",
    "PATTERN",
    "Where",
    "group",
    "query",
    "like",
    "and",
    "NOT",
    "null",
    "count",
    "patern",
    "3G",
    "a.b",
    "größe",
    "価格",
    "_",
    "x'y",
    "-- no comment",
    "$",
    " ",
]
# Types and variables share no names, so that none is called by its type where it has a variable.
types = st.sampled_from(["A", "B", "OakSt", "E_1"]) | st.sampled_from(ODD_NAMES).map(lambda name: name + "T")
variables = st.sampled_from(["a", "b", "x1", "first"]) | st.sampled_from(ODD_NAMES)
attributes = st.sampled_from(["price", "vehicle", "time"]) | st.sampled_from(ODD_NAMES)
aliases = st.sampled_from(["total", "COUNT(*)", "a.price"]) | st.sampled_from(ODD_NAMES)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
literals = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    texts,
    st.datetimes(timezones=st.none() | st.just(dt.UTC)).map(lambda moment: moment.replace(fold=0)),
).map(Literal)


def _compound(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        st.builds(Negative, inner),
        st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), inner, inner),
        st.builds(Logical, st.sampled_from(["AND", "OR"]), several),
        st.builds(Inverse, inner),
        st.builds(IsNull, inner, st.booleans()),
        st.builds(Membership, inner, st.lists(literals, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(Like, inner, texts, st.booleans()),
        st.builds(Call, st.sampled_from(sorted(FUNCTIONS)), st.lists(inner, max_size=2).map(tuple)),
    )


columns = st.builds(Attribute, st.just(""), attributes)
leaves = st.one_of(
    literals,
    st.builds(Attribute, variables, attributes, st.sampled_from(At)),
    st.builds(KleeneAggregate, st.sampled_from(KLEENE_FUNCTIONS), variables, attributes),
    st.builds(KleeneAggregate, st.just("COUNT"), variables, st.none()),
)
expressions = st.recursive(leaves, _compound, max_leaves=8)
column_expressions = st.recursive(literals | columns, _compound, max_leaves=8)
# WHERE is a conjunction: its parts are conditions of their own.
conditions = expressions.filter(
    lambda expression: not (isinstance(expression, Logical) and expression.operator == "AND")
)

events = st.builds(Event, types, st.none() | variables)


def _larger(inner: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    parts = st.lists(inner, min_size=1, max_size=3).map(tuple)
    bounds = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 3))
    return st.one_of(
        st.builds(Seq, parts),
        st.builds(And, parts),
        st.builds(Or, parts),
        st.builds(lambda part, limits: Repeat(part, *limits), inner, bounds),
    )


patterns: st.SearchStrategy[Pattern] = st.recursive(
    events | st.builds(Not, events) | st.builds(Neg, events), _larger, max_leaves=6
)

lengths = st.integers(1, 10**13) | st.sampled_from([1_000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000])
windows: st.SearchStrategy[Window] = st.one_of(
    st.builds(CountWindow, st.integers(1, 1000)),
    st.builds(TimeWindow, lengths, st.none() | lengths, st.booleans()),
)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """A query, not always one that makes sense, but one that text can say."""
    group_by = draw(st.lists(attributes, unique=True, max_size=2))
    items: list[st.SearchStrategy[ReturnItem]] = [
        st.builds(AllVariables),
        st.builds(Aggregate, st.just("COUNT"), alias=st.none() | aliases),
        st.builds(Aggregate, st.sampled_from(AGGREGATE_FUNCTIONS), variables, attributes, st.none() | aliases),
        st.builds(Aggregate, st.just("COUNT"), variables, st.none(), st.none() | aliases),
        st.builds(Variable, variables.filter(lambda name: name not in group_by), st.none() | aliases),
        st.builds(Computed, expressions, aliases),
    ]
    if group_by:
        items.append(st.builds(GroupKey, st.sampled_from(group_by)))
    return Query(
        draw(variables),
        draw(patterns),
        tuple(draw(st.lists(st.one_of(items), min_size=1, max_size=3))),
        tuple(draw(st.lists(conditions, max_size=3))),
        tuple(draw(st.lists(attributes, unique=True, max_size=2))),
        tuple(group_by),
        draw(st.none() | windows),
        draw(st.sampled_from(Policy)),
    )


workloads = st.builds(
    Workload,
    st.lists(queries(), min_size=1, max_size=3).map(tuple),
    st.lists(st.builds(EventDefinition, types, column_expressions), max_size=2).map(tuple),
)
