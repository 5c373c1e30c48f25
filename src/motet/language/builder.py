"""Queries in Python: the same model as the text gives.

trade, quote = event("Trade", "t"), event("Quote", "q")
motet.query("rise").pattern(seq(quote, trade.plus())).where(next_(trade).price > trade.price).same("symbol").within(
    "10 min", slide="1 min"
).returning(count(), sum_(trade.price).as_("spent")).build()
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import overload

from motet.errors import Diagnostic, QueryError
from motet.language.clauses import make_window, resolve_item
from motet.language.durations import EVENTS, TICKS, TIME, Length, read_length
from motet.language.printer import expression_text
from motet.language.syntax import ClauseError, parse_clause
from motet.language.tokens import tokenize
from motet.model.expression import (
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
    conjuncts,
)
from motet.model.names import resolve_variables
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq
from motet.model.query import (
    Aggregate,
    AllVariables,
    Computed,
    EventDefinition,
    Policy,
    Query,
    ReturnItem,
    Variable,
    Workload,
)
from motet.model.validate import find_problems
from motet.model.window import Window

Value = int | float | str | bool | dt.datetime | None


# Expressions


class Operand:
    """A value in a condition; operators and comparisons on it build the expression."""

    __hash__ = None  # type: ignore[assignment]  # == builds a comparison

    def __init__(self, node: Expression) -> None:
        self.node = node

    def __add__(self, other: Operand | Value) -> Operand:
        return _arithmetic("+", self, other)

    def __radd__(self, other: Value) -> Operand:
        return _arithmetic("+", other, self)

    def __sub__(self, other: Operand | Value) -> Operand:
        return _arithmetic("-", self, other)

    def __rsub__(self, other: Value) -> Operand:
        return _arithmetic("-", other, self)

    def __mul__(self, other: Operand | Value) -> Operand:
        return _arithmetic("*", self, other)

    def __rmul__(self, other: Value) -> Operand:
        return _arithmetic("*", other, self)

    def __truediv__(self, other: Operand | Value) -> Operand:
        return _arithmetic("/", self, other)

    def __rtruediv__(self, other: Value) -> Operand:
        return _arithmetic("/", other, self)

    def __mod__(self, other: Operand | Value) -> Operand:
        return _arithmetic("%", self, other)

    def __rmod__(self, other: Value) -> Operand:
        return _arithmetic("%", other, self)

    def __neg__(self) -> Operand:
        return Operand(Negative(self.node))

    def __eq__(self, other: object) -> Operand:  # type: ignore[override]
        return _comparison("=", self, other)

    def __ne__(self, other: object) -> Operand:  # type: ignore[override]
        return _comparison("!=", self, other)

    def __lt__(self, other: Operand | Value) -> Operand:
        return _comparison("<", self, other)

    def __le__(self, other: Operand | Value) -> Operand:
        return _comparison("<=", self, other)

    def __gt__(self, other: Operand | Value) -> Operand:
        return _comparison(">", self, other)

    def __ge__(self, other: Operand | Value) -> Operand:
        return _comparison(">=", self, other)

    def __and__(self, other: Operand) -> Operand:
        return Operand(Logical("AND", (*_flatten("AND", self), *_flatten("AND", other))))

    def __or__(self, other: Operand) -> Operand:
        return Operand(Logical("OR", (*_flatten("OR", self), *_flatten("OR", other))))

    def __invert__(self) -> Operand:
        return Operand(Inverse(self.node))

    def __bool__(self) -> bool:
        raise TypeError("a condition has no truth value yet: join conditions by & | ~ rather than and, or, not")

    def is_null(self) -> Operand:
        """`IS NULL`."""
        return Operand(IsNull(self.node))

    def is_not_null(self) -> Operand:
        """`IS NOT NULL`."""
        return Operand(IsNull(self.node, negated=True))

    def is_in(self, *options: Value) -> Operand:
        """`IN (options)`."""
        return Operand(Membership(self.node, tuple(map(Literal, options))))

    def not_in(self, *options: Value) -> Operand:
        """`NOT IN (options)`."""
        return Operand(Membership(self.node, tuple(map(Literal, options)), negated=True))

    def like(self, pattern: str) -> Operand:
        """`LIKE pattern`."""
        return Operand(Like(self.node, pattern))

    def not_like(self, pattern: str) -> Operand:
        """`NOT LIKE pattern`."""
        return Operand(Like(self.node, pattern, negated=True))

    def between(self, low: Operand | Value, high: Operand | Value) -> Operand:
        """`BETWEEN low AND high`, both included."""
        return (self >= low) & (self <= high)

    def as_(self, alias: str) -> Computed | Aggregate:
        """Name the value in RETURN."""
        return Computed(self.node, alias)


def _as_expression(value: object) -> Expression:
    match value:
        case Operand(node=node):
            return node
        case None | bool() | int() | float() | str() | dt.datetime():
            return Literal(value)
    raise TypeError(f"{value!r} cannot be part of an expression")


def _arithmetic(operator: str, left: object, right: object) -> Operand:
    return Operand(Arithmetic(operator, _as_expression(left), _as_expression(right)))


def _comparison(operator: str, left: object, right: object) -> Operand:
    return Operand(Comparison(operator, _as_expression(left), _as_expression(right)))


def _flatten(operator: str, operand: Operand) -> tuple[Expression, ...]:
    """Return the parts of `a & b` in `a & b & c`, which Python reads as `(a & b) & c`."""
    match operand.node:
        case Logical(same, parts) if same == operator:
            return parts
    return (operand.node,)


class AggregateOperand(Operand):
    """An aggregate: over all matches where RETURN has it alone, over the events of one match inside an expression."""

    def __init__(self, function: str, variable: str, name: str | None) -> None:
        super().__init__(KleeneAggregate(function, variable, name))
        self.item = Aggregate(function, variable, name)

    def as_(self, alias: str) -> Aggregate:
        """Name the aggregate over all matches."""
        return replace(self.item, alias=alias)

    def per_match(self, alias: str) -> Computed:
        """Return the aggregate over the events of each match, as `(AVG(b.price)) AS alias` in text."""
        return Computed(self.node, alias)


# Patterns


class Part:
    """A pattern or a part of one."""

    def __init__(self, pattern: Pattern) -> None:
        self._as_pattern = pattern

    def plus(self) -> Part:
        """`P+`: once or more."""
        return self.times(1, None)

    def star(self) -> Part:
        """`P*`: any number of times."""
        return self.times(0, None)

    def optional(self) -> Part:
        """`P?`: once or not at all."""
        return self.times(0, 1)

    def times(self, low: int, high: int | None = -1) -> Part:
        """`P{low,high}`; no limit where `high` is None, and exactly `low` times where it is left out."""
        return Part(Repeat(self._as_pattern, low, low if high == -1 else high))

    def __getitem__(self, bounds: object) -> Part:
        """`part[2:5]` is `P{2,5}`, both ends included as in the text; `part[1:]` is `P+`."""
        if not isinstance(bounds, slice) or bounds.step is not None:
            raise TypeError("a repetition is written as a slice, such as part[1:] or part[2:5]")
        return self.times(bounds.start or 0, bounds.stop)


class EventPart(Part):
    """One event of a type; its attributes, such as `trade.price`, stand in conditions."""

    def __init__(self, event: Event) -> None:
        super().__init__(event)
        self._event = event

    def __getattr__(self, name: str) -> Operand:
        if name.startswith("__"):  # Python's own protocols (copying, pickling) look for such names
            raise AttributeError(name)
        return attr(self, name)

    def __invert__(self) -> Part:
        """`~event("N")` is `NOT N`."""
        return Part(Not(self._event))


def event(type: str, variable: str | None = None) -> EventPart:
    """Return one event of a type, with a variable where one is given."""
    return EventPart(Event(type, variable))


def seq(*parts: Part | str) -> Part:
    """`SEQ(...)`: one part after the other. A string is the type of an event."""
    return Part(Seq(tuple(map(_as_pattern, parts))))


def all_of(*parts: Part | str) -> Part:
    """`AND(...)`: all parts in any order."""
    return Part(And(tuple(map(_as_pattern, parts))))


def any_of(*parts: Part | str) -> Part:
    """`OR(...)`: any one of the parts."""
    return Part(Or(tuple(map(_as_pattern, parts))))


def neg(part: EventPart | str) -> Part:
    """`NEG(E)`: no such event anywhere in the window of the match."""
    return Part(Neg(part._event if isinstance(part, EventPart) else Event(part)))


def _as_pattern(part: Part | str) -> Pattern:
    return Event(part) if isinstance(part, str) else part._as_pattern


def _name(variable: EventPart | str) -> str:
    return variable._event.name if isinstance(variable, EventPart) else variable


def attr(variable: EventPart | str, name: str) -> Operand:
    """`variable.name`, for attributes whose names Python cannot spell or that an event part uses itself."""
    return Operand(Attribute(_name(variable), name))


def column(name: str) -> Operand:
    """Return a bare column, for the condition of `define`."""
    return Operand(Attribute("", name))


class EventSelector:
    """`NEXT(b)`, `FIRST(b)` or `LAST(b)`: its attributes stand in conditions."""

    def __init__(self, variable: str, at: At) -> None:
        self._variable = variable
        self._at = at

    def __getattr__(self, name: str) -> Operand:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Operand:
        return Operand(Attribute(self._variable, name, self._at))


def next_(variable: EventPart | str) -> EventSelector:
    """`NEXT(b)`: the next event bound to the same variable."""
    return EventSelector(_name(variable), At.NEXT)


def first(variable: EventPart | str) -> EventSelector:
    """`FIRST(b)`: the first event bound to a variable."""
    return EventSelector(_name(variable), At.FIRST)


def last(variable: EventPart | str) -> EventSelector:
    """`LAST(b)`: the last event bound to a variable."""
    return EventSelector(_name(variable), At.LAST)


def call(function: str, *arguments: Operand | Value) -> Operand:
    """Return a scalar function such as `call("ABS", a.price)`."""
    return Operand(Call(function.upper(), tuple(map(_as_expression, arguments))))


# Aggregates

AggregateArgument = Operand | EventPart | str


class MatchCount:
    """`COUNT(*)`."""

    def as_(self, alias: str) -> Aggregate:
        return Aggregate("COUNT", alias=alias)


@overload
def count() -> MatchCount: ...


@overload
def count(of: AggregateArgument, name: str | None = None) -> AggregateOperand: ...


def count(of: AggregateArgument | None = None, name: str | None = None) -> AggregateOperand | MatchCount:
    """`COUNT(*)`, `COUNT(E)`, or `COUNT(E.name)`."""
    return MatchCount() if of is None else _aggregate("COUNT", of, name)


def sum_(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """`SUM(E.name)`, from `sum_(b.price)` or `sum_("b", "price")`."""
    return _aggregate("SUM", of, name)


def avg(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """`AVG(E.name)`."""
    return _aggregate("AVG", of, name)


def min_(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """`MIN(E.name)`."""
    return _aggregate("MIN", of, name)


def max_(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """`MAX(E.name)`."""
    return _aggregate("MAX", of, name)


def var(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """`VAR(E.name)`, over all matches only."""
    return _aggregate("VAR", of, name)


def stddev(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """`STDDEV(E.name)`, over all matches only."""
    return _aggregate("STDDEV", of, name)


def _aggregate(function: str, of: AggregateArgument, name: str | None) -> AggregateOperand:
    match of:
        case Operand(node=Attribute(variable, attribute, At.EACH)) if name is None:
            return AggregateOperand(function, variable, attribute)
        case Operand():
            raise TypeError(f"{function} takes an attribute of an event, such as b.price")
    return AggregateOperand(function, _name(of), name)


# Queries

ReturnArgument = AggregateOperand | MatchCount | Operand | EventPart | str | ReturnItem


@dataclass(frozen=True)
class QueryBuilder:
    """A query in the making: every method gives a new one, so parts can be kept and varied."""

    name: str
    _as_pattern: Pattern | None = None
    _returns: tuple[ReturnArgument, ...] = ("*",)
    _conditions: tuple[Expression, ...] = ()
    _equivalence: tuple[str, ...] = ()
    _group_by: tuple[str, ...] = ()
    _window: Window | None = None
    _policy: Policy = Policy.SKIP_TILL_ANY

    def pattern(self, *parts: Part | str) -> QueryBuilder:
        """Return what to look for; several parts are a SEQ."""
        patterns = tuple(map(_as_pattern, parts))
        return replace(self, _as_pattern=patterns[0] if len(patterns) == 1 else Seq(patterns))

    def where(self, *conditions: Operand) -> QueryBuilder:
        """Add conditions, all of which must hold."""
        added = [part for condition in conditions for part in conjuncts(_as_expression(condition))]
        return replace(self, _conditions=(*self._conditions, *added))

    def same(self, *attributes: str) -> QueryBuilder:
        """`[attributes]`: all events of a match agree on them."""
        return replace(self, _equivalence=_drop_repeated((*self._equivalence, *attributes)))

    def group_by(self, *attributes: str) -> QueryBuilder:
        """Results per value of these attributes."""
        return replace(self, _group_by=_drop_repeated((*self._group_by, *attributes)))

    def within(self, size: str | int | dt.timedelta, slide: str | int | dt.timedelta | None = None) -> QueryBuilder:
        """Return a window of time: "10 min", a timedelta, or a number in units of a whole-number time column."""
        try:
            window = make_window(_read_length(size), None if slide is None else _read_length(slide))
        except ClauseError as wrong:
            raise QueryError([replace(wrong.diagnostic, span=None, query=self.name)], origin="<python>") from None
        return replace(self, _window=replace(window, span=None))

    def within_events(self, size: int) -> QueryBuilder:
        """Return a window of so many consecutive events."""
        return replace(self, _window=make_window(Length(size, EVENTS, None), None))

    def policy(self, policy: Policy | str) -> QueryBuilder:
        """Return which events may be passed over: "SKIP TILL ANY" (the default), "SKIP TILL NEXT" or "CONTIGUOUS"."""
        return replace(self, _policy=Policy(policy))

    def returning(self, *items: ReturnArgument) -> QueryBuilder:
        """Return what to return: aggregates, events, named values, attributes of `group_by`, or "*"."""
        return replace(self, _returns=items)

    def build(self) -> Query:
        """Return the query, validated: QueryError says all that is wrong with it."""
        if self._as_pattern is None:
            raise QueryError(
                [Diagnostic("this query has no pattern", query=self.name, hint="as in .pattern(seq('A', 'B'))")],
                origin="<python>",
            )
        query = Query(
            self.name,
            self._as_pattern,
            tuple(_as_item(item, self._group_by) for item in self._returns),
            self._conditions,
            self._equivalence,
            self._group_by,
            self._window,
            self._policy,
        )
        return workload(query).queries[0]


def query(name: str) -> QueryBuilder:
    """Begin a query."""
    return QueryBuilder(name)


def define(name: str, condition: Operand) -> EventDefinition:
    """`EVENT name AS condition`, over columns: `define("BigBuy", column("qty") > 1000)`."""
    return EventDefinition(name, _as_expression(condition))


def workload(*queries: Query | QueryBuilder, definitions: Iterable[EventDefinition] = ()) -> Workload:
    """Return several queries as one workload, validated together."""
    built = tuple(each.build() if isinstance(each, QueryBuilder) else resolve_variables(each) for each in queries)
    whole = Workload(built, tuple(definitions))
    errors = [problem for problem in find_problems(whole) if not problem.warning]
    if errors:
        raise QueryError(errors, origin="<python>")
    return whole


def _as_item(item: ReturnArgument, group_by: tuple[str, ...]) -> ReturnItem:
    match item:
        case AggregateOperand():
            return item.item
        case MatchCount():
            return Aggregate("COUNT")
        case Operand(node=node):
            return Computed(node, expression_text(node))
        case EventPart():
            return Variable(_name(item))
        case "*":
            return AllVariables()
        case str():
            return resolve_item(item, None, group_by)
    return item


def _drop_repeated(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _read_length(size: str | int | dt.timedelta) -> Length:
    match size:
        case int():
            return Length(size, TICKS, None)
        case dt.timedelta():
            return Length(size // dt.timedelta(microseconds=1), TIME, None)
    tokens, wrong = tokenize(size)
    if wrong or not tokens:
        raise ClauseError(f"{size!r} is no length of time", None, "as in '10 min'")
    return read_length(parse_clause("duration", tokens, "a length", tokens[0]))
