"""Queries and workloads."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from motet.model.expression import Expression
from motet.model.pattern import Pattern
from motet.model.span import QueryNode, Span
from motet.model.window import Window


class Policy(StrEnum):
    """Which events may be passed over between two bound ones."""

    SKIP_TILL_ANY = "SKIP TILL ANY"
    SKIP_TILL_NEXT = "SKIP TILL NEXT"
    CONTIGUOUS = "CONTIGUOUS"


class AfterMatch(StrEnum):
    """Which matches of a partition are left out because of others."""

    ALL = "ALL"
    PAST_LAST_EVENT = "AFTER MATCH SKIP PAST LAST EVENT"
    TO_NEXT_EVENT = "AFTER MATCH SKIP TO NEXT EVENT"


# COUNT(*), COUNT(E), COUNT(E.attr) and the rest over E.attr.
AGGREGATE_FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX", "VAR", "STDDEV")


@dataclass(frozen=True, slots=True)
class Aggregate(QueryNode):
    """An aggregate over all matches: `COUNT(*)` has no variable, `COUNT(E)` no name.

    `COUNT(DISTINCT attribute)`, of a partition attribute, has a name but no variable.
    """

    function: str
    variable: str | None = None
    name: str | None = None
    alias: str | None = None
    distinct: bool = field(default=False, kw_only=True)

    @property
    def label(self) -> str:
        """The name of its column in the result."""
        if self.alias is not None:
            return self.alias
        argument = ".".join(part for part in (self.variable, self.name) if part is not None)
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{argument or '*'})"


@dataclass(frozen=True, slots=True)
class AllVariables(QueryNode):
    """`RETURN *`: every variable of each match."""


@dataclass(frozen=True, slots=True)
class Variable(QueryNode):
    """`RETURN a`: one variable of each match."""

    name: str
    alias: str | None = None

    @property
    def label(self) -> str:
        return self.alias or self.name


@dataclass(frozen=True, slots=True)
class Computed(QueryNode):
    """`RETURN b.price - a.price AS gain`: an expression over each match; unnamed, its alias is its text."""

    expression: Expression
    alias: str

    @property
    def label(self) -> str:
        return self.alias


@dataclass(frozen=True, slots=True)
class GroupKey(QueryNode):
    """A GROUP BY attribute repeated in RETURN; results carry all of them anyway."""

    name: str


ReturnItem = Aggregate | AllVariables | Variable | Computed | GroupKey


@dataclass(frozen=True, slots=True)
class Query(QueryNode):
    """One pattern query. `conditions` is a conjunction; `equivalence` holds the attributes of `[attr]`, and `places`
    where they and those of GROUP BY are written. `having` reads columns of the result as attributes of no variable.
    """

    name: str
    pattern: Pattern
    returns: tuple[ReturnItem, ...]
    conditions: tuple[Expression, ...] = ()
    equivalence: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ()
    window: Window | None = None
    policy: Policy = Policy.SKIP_TILL_ANY
    after_match: AfterMatch = AfterMatch.ALL
    having: Expression | None = None
    places: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False, kw_only=True)

    def find_place(self, attribute: str) -> Span | None:
        """Return where an attribute of GROUP BY or `[attr]` is written; failing that, the query."""
        return dict(self.places).get(attribute, self.span)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return tuple(item for item in self.returns if isinstance(item, Aggregate))

    @property
    def is_aggregate(self) -> bool:
        """Whether RETURN asks for values over matches rather than for the matches."""
        return all(isinstance(item, Aggregate | GroupKey) for item in self.returns)

    @property
    def partition(self) -> tuple[str, ...]:
        """The attributes on which all bound events agree, each once, GROUP BY first."""
        return tuple(dict.fromkeys((*self.group_by, *self.equivalence)))


@dataclass(frozen=True, slots=True)
class EventDefinition(QueryNode):
    """`EVENT name AS condition`: a type made of the rows that satisfy a condition over bare columns."""

    name: str
    condition: Expression


@dataclass(frozen=True, slots=True)
class Workload:
    """The queries of a file, with the event types it defines. `text` and `origin` serve messages only."""

    queries: tuple[Query, ...]
    definitions: tuple[EventDefinition, ...] = ()
    text: str = field(default="", compare=False, repr=False)
    origin: str = field(default="<text>", compare=False, repr=False)

    def __getitem__(self, name: str) -> Query:
        for query in self.queries:
            if query.name == name:
                return query
        raise KeyError(name)
