"""Queries in Python: the same model as the text gives.

>>> import motet
>>> trade, quote = motet.event("Trade", "t"), motet.event("Quote", "q")
>>> rise = (
...     motet.query("rise")
...     .pattern(motet.seq(quote, trade.plus()))
...     .where(motet.next_(trade).price > trade.price)
...     .same("symbol")
...     .within("10 min", slide="1 min")
...     .returning(motet.count(), motet.sum_(trade.price).as_("spent"))
...     .build()
... )
>>> rise.name
'rise'
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, overload

from motet.errors import Diagnostic, QueryError
from motet.language.clauses import make_window, resolve_item
from motet.language.durations import EVENTS, TICKS, TIME, Length, read_length
from motet.language.printer import expression_text, pattern_text
from motet.language.syntax import ClauseError, parse_clause
from motet.language.tokens import tokenize
from motet.model import expression as ex
from motet.model.names import resolve_variables
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq
from motet.model.query import (
    AfterMatch,
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
from motet.model.validate import check_workload

Value = int | float | str | bool | dt.datetime | dt.timedelta | None


# Expressions


class Operand:
    """A value in a condition; operators and comparisons on it build the expression."""

    __hash__ = None  # type: ignore[assignment]  # == builds a comparison

    def __init__(self, node: ex.Expression) -> None:
        self.node = node

    def __repr__(self) -> str:
        return expression_text(self.node)

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
        return Operand(ex.Negative(self.node))

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
        return Operand(ex.Logical("AND", (*_flatten("AND", self), *_flatten("AND", other))))

    def __or__(self, other: Operand) -> Operand:
        return Operand(ex.Logical("OR", (*_flatten("OR", self), *_flatten("OR", other))))

    def __invert__(self) -> Operand:
        return Operand(ex.Inverse(self.node))

    def __bool__(self) -> bool:
        raise TypeError("a condition has no truth value yet: join conditions by & | ~ rather than and, or, not")

    def is_null(self) -> Operand:
        """Test for NULL: `IS NULL`."""
        return Operand(ex.IsNull(self.node))

    def is_not_null(self) -> Operand:
        """Test for a value: `IS NOT NULL`."""
        return Operand(ex.IsNull(self.node, negated=True))

    def is_in(self, *options: Value) -> Operand:
        """Test for one of some values: `IN (options)`."""
        return Operand(ex.Membership(self.node, tuple(map(ex.Literal, options))))

    def not_in(self, *options: Value) -> Operand:
        """Test for none of some values: `NOT IN (options)`."""
        return Operand(ex.Membership(self.node, tuple(map(ex.Literal, options)), negated=True))

    def like(self, pattern: str) -> Operand:
        """Test a text, where `%` is any run of characters and `_` any one: `LIKE pattern`."""
        return Operand(ex.Like(self.node, pattern))

    def not_like(self, pattern: str) -> Operand:
        """Test that a text is not like a pattern: `NOT LIKE pattern`."""
        return Operand(ex.Like(self.node, pattern, negated=True))

    def between(self, low: Operand | Value, high: Operand | Value) -> Operand:
        """Test for a range, both ends included: `BETWEEN low AND high`."""
        return (self >= low) & (self <= high)

    def as_(self, alias: str) -> Computed | Aggregate:
        """Name the value in the result: `AS alias`."""
        return Computed(self.node, alias)


def _as_expression(value: object) -> ex.Expression:
    match value:
        case Operand(node=node):
            return node
        case None | bool() | int() | float() | str() | dt.datetime() | dt.timedelta():
            return ex.Literal(value)
    raise TypeError(f"{value!r} cannot be part of an expression")


def _arithmetic(operator: str, left: object, right: object) -> Operand:
    return Operand(ex.Arithmetic(operator, _as_expression(left), _as_expression(right)))


def _comparison(operator: str, left: object, right: object) -> Operand:
    return Operand(ex.Comparison(operator, _as_expression(left), _as_expression(right)))


def _flatten(operator: str, operand: Operand) -> tuple[ex.Expression, ...]:
    """Return the parts of `a & b` in `a & b & c`, which Python reads as `(a & b) & c`."""
    match operand.node:
        case ex.Logical(same, parts) if same == operator:
            return parts
    return (operand.node,)


class AggregateOperand(Operand):
    """An aggregate: over all matches where RETURN has it alone, over the events of one match inside an expression."""

    def __init__(self, function: str, variable: str, name: str | None) -> None:
        super().__init__(ex.KleeneAggregate(function, variable, name))
        self.item = Aggregate(function, variable, name)

    def as_(self, alias: str) -> Aggregate:
        """Name the aggregate over all matches: `AVG(b.price) AS alias`."""
        return replace(self.item, alias=alias)

    def per_match(self, alias: str) -> Computed:
        """Return the aggregate over the events of each match instead: `(AVG(b.price)) AS alias`."""
        return Computed(self.node, alias)


# Patterns


class Part:
    """A pattern or a part of one."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern

    def __repr__(self) -> str:
        return pattern_text(self._pattern)

    def plus(self) -> Part:
        """Repeat once or more: `P+`."""
        return self.times(1, None)

    def star(self) -> Part:
        """Repeat any number of times: `P*`."""
        return self.times(0, None)

    def optional(self) -> Part:
        """Match once or not at all: `P?`."""
        return self.times(0, 1)

    def times(self, low: int, high: int | None = -1) -> Part:
        """Repeat `low` to `high` times: `P{low,high}`.

        Args:
            low: The fewest repetitions.
            high: The most; None for no limit, and exactly `low` where it is left out.
        """
        return Part(Repeat(self._pattern, low, low if high == -1 else high))

    def __getitem__(self, bounds: object) -> Part:
        """Repeat by a slice: `part[2:5]` is `P{2,5}`, both ends included as in the text; `part[1:]` is `P+`."""
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
        """Forbid the event in the gap where it stands: `~event("N")` is `NOT N`."""
        return Part(Not(self._event))


def event(type: str, variable: str | None = None) -> EventPart:
    """Make one event of a pattern.

    Args:
        type: The event's type: a value of the type column, or the name of a definition (see `define`).
        variable: What conditions and results call it; its type, where no other event of the pattern has it.

    Returns:
        A part for `seq` and the like. Its attributes are values for conditions: `event("Trade", "t").price` is
        `t.price`. `~` forbids it, `part[2:5]` and `plus()` repeat it.

    Examples:
        >>> import motet
        >>> trade = motet.event("Trade", "t")
        >>> trade.plus(), trade.price > 1000
        (Trade t+, t.price > 1000)
    """
    return EventPart(Event(type, variable))


def seq(*parts: Part | str) -> Part:
    """Put parts one after the other: `SEQ(...)`.

    Args:
        *parts: Parts of the pattern; a string is the type of an event.

    Returns:
        A part that binds all of them, each strictly after the one before it.

    Examples:
        >>> import motet
        >>> motet.seq("Quote", motet.event("Trade").plus(), ~motet.event("Halt"), "Close")
        SEQ(Quote, Trade+, NOT Halt, Close)
    """
    return Part(Seq(tuple(map(_as_pattern, parts))))


def all_of(*parts: Part | str) -> Part:
    """Put parts in any order: `AND(...)`.

    Args:
        *parts: Parts of the pattern; a string is the type of an event.

    Returns:
        A part that binds all of them, ties allowed.

    Examples:
        >>> import motet
        >>> motet.all_of("Passport", "Ticket")
        AND(Passport, Ticket)
    """
    return Part(And(tuple(map(_as_pattern, parts))))


def any_of(*parts: Part | str) -> Part:
    """Choose between parts: `OR(...)`.

    Args:
        *parts: Parts of the pattern; a string is the type of an event.

    Returns:
        A part that binds any one of them.

    Examples:
        >>> import motet
        >>> motet.any_of("Card", "Cash")
        OR(Card, Cash)
    """
    return Part(Or(tuple(map(_as_pattern, parts))))


def neg(part: EventPart | str) -> Part:
    """Forbid an event in all of a match's window: `NEG(E)`.

    Args:
        part: The event, or its type.

    Returns:
        A part for `seq` or `all_of`. To forbid an event in one gap of a sequence, write `~event("N")` there.

    Examples:
        >>> import motet
        >>> motet.seq("A", "B", motet.neg("Alarm"))
        SEQ(A, B, NEG(Alarm))
    """
    return Part(Neg(part._event if isinstance(part, EventPart) else Event(part)))


def _as_pattern(part: Part | str) -> Pattern:
    return Event(part) if isinstance(part, str) else part._pattern


def _name(variable: EventPart | str) -> str:
    return variable._event.name if isinstance(variable, EventPart) else variable


def attr(variable: EventPart | str, name: str) -> Operand:
    """Read an attribute whose name Python cannot spell, or that an event part uses itself.

    Args:
        variable: The event, or its variable.
        name: The column.

    Returns:
        The value `variable.name`, for conditions and results.

    Examples:
        >>> import motet
        >>> motet.attr("t", "plus") > 3
        t.plus > 3
    """
    return Operand(ex.Attribute(_name(variable), name))


def column(name: str) -> Operand:
    """Read a bare column, in the condition of `define`.

    Args:
        name: The column.

    Returns:
        The value of the column in the row that a definition looks at.

    Examples:
        >>> import motet
        >>> (motet.column("side") == "buy") & (motet.column("qty") > 1000)
        side = 'buy' AND qty > 1000
    """
    return Operand(ex.Attribute("", name))


class EventSelector:
    """`NEXT(b)`, `FIRST(b)` or `LAST(b)`: its attributes stand in conditions."""

    def __init__(self, variable: str, at: ex.At) -> None:
        self._variable = variable
        self._at = at

    def __getattr__(self, name: str) -> Operand:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Operand:
        return Operand(ex.Attribute(self._variable, name, self._at))


def next_(variable: EventPart | str) -> EventSelector:
    """Select, for each event of a repetition, the next one bound to the same variable: `NEXT(b)`.

    Args:
        variable: The repeated event, or its variable.

    Returns:
        A selector: `next_(b).price` or `next_(b)["price"]` is `NEXT(b).price`, for conditions.

    Examples:
        >>> import motet
        >>> trade = motet.event("Trade", "t")
        >>> motet.next_(trade).price > trade.price
        NEXT(t).price > t.price
    """
    return EventSelector(_name(variable), ex.At.NEXT)


def first(variable: EventPart | str) -> EventSelector:
    """Select the first event that a match binds to a variable: `FIRST(b)`.

    Args:
        variable: The repeated event, or its variable.

    Returns:
        A selector: `first(b).price` is `FIRST(b).price`, for conditions and results.

    Examples:
        >>> import motet
        >>> motet.last("t").price - motet.first("t").price
        LAST(t).price - FIRST(t).price
    """
    return EventSelector(_name(variable), ex.At.FIRST)


def last(variable: EventPart | str) -> EventSelector:
    """Select the last event that a match binds to a variable: `LAST(b)`.

    Args:
        variable: The repeated event, or its variable.

    Returns:
        A selector: `last(b).price` is `LAST(b).price`, for conditions and results.

    Examples:
        >>> import motet
        >>> motet.last("t").price > 100
        LAST(t).price > 100
    """
    return EventSelector(_name(variable), ex.At.LAST)


def call(function: str, *arguments: Operand | Value) -> Operand:
    """Call a scalar function.

    Args:
        function: ABS, FLOOR, CEIL, SQRT, LOWER, UPPER, LENGTH or COALESCE, in any case.
        *arguments: Values, and constants.

    Returns:
        The value of the call, for conditions and results.

    Examples:
        >>> import motet
        >>> a, b = motet.event("A", "a"), motet.event("B", "b")
        >>> motet.call("abs", a.price - b.price) < 0.5
        ABS(a.price - b.price) < 0.5
    """
    return Operand(ex.Call(function.upper(), tuple(map(_as_expression, arguments))))


# Aggregates

AggregateArgument = Operand | EventPart | str


class MatchCount:
    """`COUNT(*)`."""

    def as_(self, alias: str) -> Aggregate:
        """Name the count in the result: `COUNT(*) AS alias`."""
        return Aggregate("COUNT", alias=alias)


def count_distinct(of: AggregateArgument, name: str | None = None, alias: str | None = None) -> Aggregate:
    """Count distinct values: `COUNT(DISTINCT attribute)` or `COUNT(DISTINCT E.attribute)`.

    Args:
        of: An attribute of `same` or `group_by`, as text: how many of its values have a match. Or an attribute of an
            event (`b.price`), an event, or its variable: how many values bound events have.
        name: The attribute, where `of` is an event or a variable.
        alias: The name of its column in the result.

    Returns:
        The aggregate, for `returning`.

    Examples:
        >>> import motet
        >>> users = motet.query("q").pattern("A", "B").same("user").returning(motet.count_distinct("user"))
        >>> users.build().returns[0].label
        'COUNT(DISTINCT user)'
    """
    if isinstance(of, str) and name is None:
        return Aggregate("COUNT", None, of, alias, distinct=True)
    node = _aggregate("COUNT", of, name).node
    assert isinstance(node, ex.KleeneAggregate)
    return Aggregate("COUNT", node.variable, node.name, alias, distinct=True)


@overload
def count() -> MatchCount: ...


@overload
def count(of: AggregateArgument, name: str | None = None) -> AggregateOperand: ...


def count(of: AggregateArgument | None = None, name: str | None = None) -> AggregateOperand | MatchCount:
    """Count matches, `COUNT(*)`, or the events or values that they bind: `COUNT(E)`, `COUNT(E.name)`.

    Args:
        of: An attribute of an event (`b.price`), an event, or its variable; all matches where it is left out.
        name: The attribute, where `of` is an event or a variable.

    Returns:
        The aggregate, for `returning`; `as_` names it. Inside an expression it is over the events of one match.

    Examples:
        >>> import motet
        >>> motet.query("q").pattern("A", "B").returning(motet.count(), motet.count("B")).build().returns[1].label
        'COUNT(B)'
    """
    return MatchCount() if of is None else _aggregate("COUNT", of, name)


def sum_(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """Add up an attribute: `SUM(E.name)`.

    Args:
        of: An attribute of an event (`b.price`), an event, or its variable.
        name: The attribute, where `of` is an event or a variable.

    Returns:
        The aggregate, for `returning`; `as_` names it. Inside an expression it is over the events of one match.

    Raises:
        TypeError: `of` is a value that is no attribute of an event.

    Examples:
        >>> import motet
        >>> motet.sum_(motet.event("B", "b").price), motet.sum_("b", "price")
        (SUM(b.price), SUM(b.price))
    """
    return _aggregate("SUM", of, name)


def avg(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """Average an attribute: `AVG(E.name)`.

    Args:
        of: An attribute of an event (`b.price`), an event, or its variable.
        name: The attribute, where `of` is an event or a variable.

    Returns:
        The aggregate, for `returning`; `as_` names it. Inside an expression it is over the events of one match.

    Examples:
        >>> import motet
        >>> motet.avg("b", "price")
        AVG(b.price)
    """
    return _aggregate("AVG", of, name)


def min_(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """Find the least value of an attribute: `MIN(E.name)`.

    Args:
        of: An attribute of an event (`b.price`), an event, or its variable.
        name: The attribute, where `of` is an event or a variable.

    Returns:
        The aggregate, for `returning`; `as_` names it. Inside an expression it is over the events of one match.

    Examples:
        >>> import motet
        >>> motet.min_("b", "price")
        MIN(b.price)
    """
    return _aggregate("MIN", of, name)


def max_(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """Find the greatest value of an attribute: `MAX(E.name)`.

    Args:
        of: An attribute of an event (`b.price`), an event, or its variable.
        name: The attribute, where `of` is an event or a variable.

    Returns:
        The aggregate, for `returning`; `as_` names it. Inside an expression it is over the events of one match.

    Examples:
        >>> import motet
        >>> motet.max_("b", "price")
        MAX(b.price)
    """
    return _aggregate("MAX", of, name)


def var(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """Compute the variance of an attribute over all matches: `VAR(E.name)`.

    Args:
        of: An attribute of an event (`b.price`), an event, or its variable.
        name: The attribute, where `of` is an event or a variable.

    Returns:
        The aggregate, for `returning`; `as_` names it.

    Examples:
        >>> import motet
        >>> motet.var("b", "price")
        VAR(b.price)
    """
    return _aggregate("VAR", of, name)


def stddev(of: AggregateArgument, name: str | None = None) -> AggregateOperand:
    """Compute the standard deviation of an attribute over all matches: `STDDEV(E.name)`.

    Args:
        of: An attribute of an event (`b.price`), an event, or its variable.
        name: The attribute, where `of` is an event or a variable.

    Returns:
        The aggregate, for `returning`; `as_` names it.

    Examples:
        >>> import motet
        >>> motet.stddev("b", "price")
        STDDEV(b.price)
    """
    return _aggregate("STDDEV", of, name)


def _aggregate(function: str, of: AggregateArgument, name: str | None) -> AggregateOperand:
    match of:
        case Operand(node=ex.Attribute(variable, attribute, ex.At.EACH)) if name is None:
            return AggregateOperand(function, variable, attribute)
        case Operand():
            raise TypeError(f"{function} takes an attribute of an event, such as b.price")
    return AggregateOperand(function, _name(of), name)


# Queries

ReturnArgument = AggregateOperand | MatchCount | Operand | EventPart | str | ReturnItem


_NO_PATTERN = Seq(())


@dataclass(frozen=True)
class QueryBuilder:
    """A query under construction: every method returns a new one, so parts can be kept and varied."""

    _query: Query
    _returns: tuple[ReturnArgument, ...] = ("*",)

    @property
    def name(self) -> str:
        """What results call the query."""
        return self._query.name

    def _with(self, **clauses: Any) -> QueryBuilder:
        return replace(self, _query=replace(self._query, **clauses))

    def pattern(self, *parts: Part | str) -> QueryBuilder:
        """Set what to look for; several parts are a SEQ."""
        patterns = tuple(map(_as_pattern, parts))
        return self._with(pattern=patterns[0] if len(patterns) == 1 else Seq(patterns))

    def where(self, *conditions: Operand) -> QueryBuilder:
        """Add conditions, all of which must hold."""
        added = [part for condition in conditions for part in ex.conjuncts(_as_expression(condition))]
        return self._with(conditions=(*self._query.conditions, *added))

    def same(self, *attributes: str) -> QueryBuilder:
        """Let all events of a match agree on some attributes: `[attributes]`."""
        return self._with(equivalence=_drop_repeated((*self._query.equivalence, *attributes)))

    def group_by(self, *attributes: str) -> QueryBuilder:
        """Return results for each value of some attributes: `GROUP BY attributes`."""
        return self._with(group_by=_drop_repeated((*self._query.group_by, *attributes)))

    def within(self, size: str | int | dt.timedelta, slide: str | int | dt.timedelta | None = None) -> QueryBuilder:
        """Set a window of time: `WITHIN size SLIDE slide`.

        Args:
            size: "10 min", a timedelta, or a number in units of a whole-number time column.
            slide: How far apart windows begin, in the same terms; without it the window is continuous.

        Raises:
            QueryError: A length cannot be read, or the two do not fit together.
        """
        try:
            window = make_window(_read_length(size), None if slide is None else _read_length(slide))
        except ClauseError as wrong:
            raise self._error(replace(wrong.diagnostic, span=None)) from None
        return self._with(window=replace(window, span=None))

    def within_events(self, size: int) -> QueryBuilder:
        """Set a window of so many consecutive events: `WITHIN size EVENTS`."""
        return self._with(window=make_window(Length(size, EVENTS, None), None))

    def policy(self, policy: Policy | str) -> QueryBuilder:
        """Say which events may be passed over: "SKIP TILL ANY" (the default), "SKIP TILL NEXT" or "CONTIGUOUS"."""
        return self._with(policy=Policy(policy))

    def after_match(self, skip: AfterMatch | str) -> QueryBuilder:
        """Say which matches are left out: "AFTER MATCH SKIP PAST LAST EVENT" or "AFTER MATCH SKIP TO NEXT EVENT"."""
        return self._with(after_match=AfterMatch(skip))

    def having(self, condition: Operand) -> QueryBuilder:
        """Keep the results that satisfy a condition on their columns: `having(column("COUNT(*)") > 10)`."""
        return self._with(having=condition.node)

    def returning(self, *items: ReturnArgument) -> QueryBuilder:
        """Set what to return: aggregates, events, named values, attributes of `group_by`, or "*" (the default)."""
        return replace(self, _returns=items)

    def build(self) -> Query:
        """Build the query. Raises QueryError with all that is wrong with it."""
        if self._query.pattern is _NO_PATTERN:
            raise self._error(Diagnostic("this query has no pattern", hint="as in .pattern(seq('A', 'B'))"))
        returns = tuple(_as_item(item, self._query.group_by) for item in self._returns)
        return workload(replace(self._query, returns=returns)).queries[0]

    def _error(self, problem: Diagnostic) -> QueryError:
        return QueryError([replace(problem, query=self._query.name)], origin="<python>")


def query(name: str) -> QueryBuilder:
    """Begin a query.

    Args:
        name: What results call it.

    Returns:
        A builder: `pattern` says what to look for, `where`, `same`, `group_by`, `within` and `policy` narrow it down,
        `returning` says what to return. It can be run as it is; `build` makes the query.

    Examples:
        >>> import motet
        >>> pairs = motet.query("pairs").pattern("A", "B").same("user").within("10 min").returning(motet.count())
        >>> pairs.build().equivalence
        ('user',)
    """
    return QueryBuilder(Query(name, _NO_PATTERN, ()))


def define(name: str, condition: Operand) -> EventDefinition:
    """Define an event type by a condition on single rows: `EVENT name AS condition`.

    Args:
        name: The new type, for patterns.
        condition: What a row must satisfy, over columns (see `column`).

    Returns:
        The definition, for `workload`.

    Examples:
        >>> import motet
        >>> big = motet.define("BigBuy", motet.column("qty") > 1000)
        >>> motet.workload(motet.query("q").pattern("BigBuy", "Sell"), definitions=[big]).definitions[0].name
        'BigBuy'
    """
    return EventDefinition(name, _as_expression(condition))


def workload(*queries: Query | QueryBuilder, definitions: Iterable[EventDefinition] = ()) -> Workload:
    """Put queries into one workload, to run together.

    Args:
        *queries: Queries, or builders of them.
        definitions: The event types that they use beside those of the data (see `define`).

    Returns:
        The workload.

    Raises:
        QueryError: Something is wrong with the queries, or they do not fit together.

    Examples:
        >>> import motet
        >>> two = motet.workload(motet.query("ab").pattern("A", "B"), motet.query("ac").pattern("A", "C"))
        >>> [query.name for query in two.queries]
        ['ab', 'ac']
    """
    built = tuple(each.build() if isinstance(each, QueryBuilder) else resolve_variables(each) for each in queries)
    whole = Workload(built, tuple(definitions))
    check_workload(replace(whole, origin="<python>"))
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
