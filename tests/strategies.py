"""Random streams, patterns, queries and workloads for property tests (hypothesis strategies)."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count, pairwise
from random import Random
from typing import Any, TypeVar

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

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
    attributes,
    is_local,
    variables,
    walk,
)
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq, absences, children
from motet.model.pattern import events as written_events
from motet.model.query import (
    AGGREGATE_FUNCTIONS,
    AfterMatch,
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
from motet.reference.conditions import is_adjacent
from motet.reference.positions import (
    ExpandedPattern,
    are_neighbours,
    expand_pattern,
    is_nullable,
    max_bindings,
    next_is_adjacent,
)

Row = dict[str, Any]
T = TypeVar("T")

TYPES = ("A", "B", "C", "D")
STREAM_SCHEMA = pa.schema(
    {
        "time": pa.int64(),
        "type": pa.string(),
        "k": pa.int64(),
        "g": pa.string(),
        "x": pa.int64(),
        "y": pa.float64(),
        "s": pa.string(),
    }
)
GROUPS: tuple[tuple[str, ...], ...] = ((), (), (), (), ("g",), ("k",), ("g", "k"), ("s",))
EQUIVALENCES: tuple[tuple[str, ...], ...] = ((), (), (), (), ("k",), ("k",), ("g",), ("k", "g"))
OPERATORS = frozenset({"SEQ", "REPEAT", "AND", "OR", "NOT", "NEG"})
WINDOWS = frozenset({"sliding", "continuous", "count", "none"})

DEFINITIONS = (
    EventDefinition(
        "E",
        Logical(
            "AND",
            (
                Membership(Attribute("", "type"), (Literal("A"), Literal("B"))),
                Comparison(">", Attribute("", "x"), Literal(0)),
            ),
        ),
    ),
    # A definition wins over a type of the data.
    EventDefinition(
        "D",
        Logical(
            "AND",
            (Comparison("=", Attribute("", "type"), Literal("D")), Comparison("<=", Attribute("", "y"), Literal(0.5))),
        ),
    ),
)


# Drawing: a few plain integer strategies, since building strategies on the fly takes most of the time of a test.


@lru_cache(maxsize=64)
def draw_up_to(most: int) -> SearchStrategy[int]:
    return st.integers(0, most)


@dataclass(frozen=True, slots=True)
class Dice:
    """Choices of hypothesis, which shrink towards the first option, or of random numbers."""

    draw: DrawFn | Random

    def up_to(self, most: int) -> int:
        return self.draw.randint(0, most) if isinstance(self.draw, Random) else self.draw(draw_up_to(most))

    def pick(self, options: Sequence[T]) -> T:
        return options[self.up_to(len(options) - 1)]

    def number(self, least: int, most: int) -> int:
        return least + self.up_to(most - least)

    def once_in(self, times: int) -> bool:
        return self.up_to(times - 1) == times - 1


# Streams


@st.composite
def streams(
    draw: DrawFn,
    *,
    min_rows: int = 0,
    max_rows: int = 16,
    max_per_type: int = 6,
    types: Sequence[str] = TYPES,
    keys: int = 3,
    earliest: int = -4,
    latest: int = 9,
    nulls: bool = True,
) -> list[Row]:
    """Draw rows in any order with many ties: `time`, `type`, key `k`, group `g`, whole `x`, dyadic `y` and text `s`."""
    dice = Dice(draw)
    wanted = min(max_rows, dice.pick([0, 4, 8, 12, max_rows, max_rows, max_rows]))
    return draw_rows(dice, max(min_rows, wanted), max_per_type, types, keys, earliest, latest, nulls)


def draw_rows(
    dice: Dice,
    count: int,
    max_per_type: int = 6,
    types: Sequence[str] = TYPES,
    keys: int = 3,
    earliest: int = -4,
    latest: int = 9,
    nulls: bool = True,
) -> list[Row]:
    rarity = dice.pick([0, 0, 30, 10]) if nulls else 0
    last_key = dice.number(1, keys)
    last_time = dice.number(earliest + 3, latest) if latest - earliest > 3 else latest
    columns: dict[str, Sequence[Any]] = {
        "time": range(earliest, last_time + 1),
        "type": (*types, *types, "Z"),
        "k": range(1, last_key + 1),
        "g": ("u", "v"),
        "x": (0, 1, 2, 3, -1, -2, -3),
        "y": tuple(quarters / 4 for quarters in (0, 1, 2, 3, 4, 8, -1, -2, -4, -7)),
        "s": ("p", "q", "pq"),
    }
    seen: Counter[str | None] = Counter()
    rows = []
    for _ in range(count):
        row = {name: None if rarity and dice.once_in(rarity) else dice.pick(some) for name, some in columns.items()}
        seen[row["type"]] += 1
        if seen[row["type"]] <= max_per_type:  # bounds the 2^n matches of a Kleene pattern
            rows.append(row)
    return rows


def build_stream_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema = STREAM_SCHEMA) -> pa.Table:
    """Build the rows of a stream as a table; columns are typed even where all is null."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


# Patterns


@dataclass(slots=True)
class Budget:
    """What a pattern may still use, so that the oracle can list all matches."""

    events: int
    loops: int
    operators: frozenset[str]


@st.composite
def patterns(draw: DrawFn, *, operators: frozenset[str] = OPERATORS, types: Sequence[str] = TYPES) -> Pattern:
    """Return a valid pattern of a few operators, its events with or without variables."""
    return draw_pattern(Dice(draw), operators, types)


def draw_pattern(
    dice: Dice,
    operators: frozenset[str],
    types: Sequence[str],
    max_events: int = 5,
    max_loops: int = 2,
    unnamed: bool = True,
) -> Pattern:
    budget = Budget(dice.number(1, max_events), max_loops, operators)
    pattern = draw_part(dice, budget, 3, types, "AND" in operators)
    if "NOT" in operators and dice.once_in(3):
        pattern = insert_nots(dice, pattern, types, in_and=False, in_or=False)
        if not absences(pattern):
            pattern = surround(dice, pattern, Not(Event(dice.pick(types))))
    if "NEG" in operators and dice.once_in(10):
        pattern = surround(dice, pattern, Neg(Event(dice.pick(types))))
    return add_variables(dice, pattern, unnamed)


def draw_part(dice: Dice, budget: Budget, depth: int, types: Sequence[str], may_conjoin: bool) -> Pattern:
    """Draw an event or an operator over smaller parts."""
    choices = ["EVENT"]
    if depth > 0 and budget.events > 1:
        choices += [name for name in ("SEQ", "SEQ", "SEQ", "OR") if name in budget.operators]
        choices += ["AND"] if may_conjoin else []
    if depth > 0 and "REPEAT" in budget.operators:
        choices += ["REPEAT", "REPEAT"]
    match dice.pick(choices):
        case "EVENT":
            budget.events -= 1
            return Event(dice.pick(types))
        case "REPEAT":
            low, high = dice.pick(list_repetitions(budget))
            if high is None:
                budget.loops -= 1
            elif high > 1:
                budget.events -= 1  # copies are positions too
            return Repeat(draw_part(dice, budget, depth - 1, types, may_conjoin), low, high)
        case "SEQ":
            return Seq(draw_parts(dice, budget, 4, depth, types, may_conjoin))
        case "OR":
            return Or(draw_parts(dice, budget, 3, depth, types, may_conjoin))
        case _:
            return And(draw_parts(dice, budget, 3, depth, types, False))


def draw_parts(
    dice: Dice, budget: Budget, most: int, depth: int, types: Sequence[str], may_conjoin: bool
) -> tuple[Pattern, ...]:
    """Draw two parts or more, as long as the budget lasts."""
    wanted = dice.number(2, most)
    parts: list[Pattern] = []
    while len(parts) < wanted and (budget.events > 0 or len(parts) < 2):
        parts.append(draw_part(dice, budget, depth - 1, types, may_conjoin))
    return tuple(parts)


def list_repetitions(budget: Budget) -> list[tuple[int, int | None]]:
    """Return the bounds a repetition may have: `?` always, loops and copies while the budget lasts."""
    loops: list[tuple[int, int | None]] = [(1, None), (1, None), (0, None), (2, None)] if budget.loops > 0 else []
    copies: list[tuple[int, int | None]] = [(1, 2), (2, 3), (0, 2), (2, 2)] if budget.events > 1 else []
    return [(0, 1), *loops, *copies]


def surround(dice: Dice, pattern: Pattern, absence: Not | Neg) -> Pattern:
    """Put a NOT or NEG beside a pattern."""
    parts = pattern.parts if isinstance(pattern, Seq) else (pattern,)
    return Seq(dice.pick([(absence, *parts), (*parts, absence)]))


def can_be_empty(pattern: Pattern) -> bool:
    return is_nullable(expand_pattern(pattern).tree)


def insert_nots(dice: Dice, pattern: Pattern, types: Sequence[str], *, in_and: bool, in_or: bool) -> Pattern:
    """Return a pattern with NOTs among the parts of its SEQs, wherever they are allowed.

    Under an AND both sides must bind an event. Under an OR the SEQ must: else one match could be read with
    either of two NOTs, which is legal but has no use.
    """
    match pattern:
        case Seq(parts):
            inner = [insert_nots(dice, part, types, in_and=in_and, in_or=in_or) for part in parts]
            binding = [number for number, part in enumerate(parts) if not can_be_empty(part)]
            if in_and:
                allowed = [at for at in range(1, len(parts)) if binding and binding[0] < at <= binding[-1]]
            elif in_or and not binding:
                allowed = []
            else:
                allowed = list(range(len(parts) + 1))
            if allowed and dice.once_in(2):
                inner.insert(dice.pick(allowed), Not(Event(dice.pick(types))))
            return Seq(tuple(inner))
        case And(parts):
            return And(tuple(insert_nots(dice, part, types, in_and=True, in_or=in_or) for part in parts))
        case Or(parts):
            return Or(tuple(insert_nots(dice, part, types, in_and=in_and, in_or=True) for part in parts))
        case Repeat(part):
            return replace(pattern, part=insert_nots(dice, part, types, in_and=in_and, in_or=in_or))
        case Event() | Not() | Neg():
            return pattern


def add_variables(dice: Dice, pattern: Pattern, unnamed: bool = True) -> Pattern:
    """Give most events a variable of their own; with `unnamed`, some go by their type."""
    numbers = count(1)

    def named(event: Event) -> Event:
        return event if unnamed and dice.once_in(3) else Event(event.type, f"{event.type.lower()}{next(numbers)}")

    def name(pattern: Pattern) -> Pattern:
        match pattern:
            case Event():
                return named(pattern)
            case Seq(parts):
                return Seq(tuple(map(name, parts)))
            case And(parts):
                return And(tuple(map(name, parts)))
            case Or(parts) if all(isinstance(part, Event) for part in parts) and dice.once_in(2):
                shared = f"o{next(numbers)}"
                return Or(tuple(Event(part.type, shared) for part in parts if isinstance(part, Event)))
            case Or(parts):
                return Or(tuple(map(name, parts)))
            case Repeat(part):
                return replace(pattern, part=name(part))
            case Not(event) | Neg(event):
                return replace(pattern, event=named(event))

    return name(pattern)


# Conditions

SIGNS = ("<", "<=", ">", ">=", "!=", "=")


def list_condition_names(pattern: Pattern) -> tuple[list[str], list[str]]:
    """Return the names that conditions may use: of bound events, and of those under NOT or NEG."""
    bound = written_events(pattern)
    absent = [absence.event for absence in absences(pattern)]
    once = Counter(event.type for event in (*bound, *absent))

    def usable(events: Sequence[Event]) -> list[str]:
        return list(
            dict.fromkeys(event.name for event in events if event.variable is not None or once[event.type] == 1)
        )

    return usable(bound), usable(absent)


def list_repeated_types(pattern: Pattern) -> list[str]:
    """Return the types that are written several times, without variables and never under NOT or NEG: a condition speaks
    of all of them.
    """
    counts = Counter(event.type for event in written_events(pattern))
    others = {absence.event.type for absence in absences(pattern)}
    others |= {event.type for event in written_events(pattern) if event.variable is not None}
    return [kind for kind, count in counts.items() if count > 1 and kind not in others]


def draw_number(dice: Dice, name: str, at: At = At.EACH) -> Expression:
    """Draw a number read from one event, sometimes with arithmetic around it."""
    plain = Attribute(name, dice.pick(["x", "x", "y"]), at)
    match dice.number(0, 7):
        case 5:
            return Arithmetic(dice.pick("+-*/%"), plain, Literal(dice.number(1, 2)))
        case 6:
            return Arithmetic(dice.pick("+-*"), plain, Attribute(name, "x", at))
        case 7:
            return Negative(plain) if dice.once_in(2) else Call("ABS", (plain,))
        case _:
            return plain


def draw_local(dice: Dice, name: str) -> Expression:
    """Draw a condition on single events of one name that about half of them satisfy."""
    match dice.number(0, 9):
        case 8:
            return Inverse(draw_simple(dice, name))
        case 9:
            return Logical("OR", (draw_simple(dice, name), draw_simple(dice, name)))
        case _:
            return draw_simple(dice, name)


def draw_simple(dice: Dice, name: str) -> Expression:
    x, y, s = (Attribute(name, attribute) for attribute in "xys")
    match dice.number(0, 9):
        case 0 | 1:
            return Comparison(dice.pick(SIGNS), draw_number(dice, name), Literal(dice.number(-1, 1)))
        case 9:
            return Comparison(dice.pick(SIGNS[:5]), Attribute(name, "time"), Literal(dice.number(0, 4)))
        case 2:
            return Comparison(dice.pick(SIGNS), y, Literal(dice.pick([0.0, 0.25, -0.5])))
        case 3:
            return Comparison("=", s, Literal(dice.pick(["p", "q"])))
        case 4:
            return Membership(s, (Literal("p"), Literal("pq")), dice.once_in(2))
        case 5:
            return Membership(x, (Literal(0), Literal(1), Literal(2)), dice.once_in(2))
        case 6:
            return Like(s, dice.pick(["p%", "_"]), dice.once_in(3))
        case 7:
            return IsNull(x, dice.once_in(2))
        case _:
            left = Call("COALESCE", (x, Literal(0))) if dice.once_in(2) else x
            return Comparison("<", left, y)


def draw_pair(dice: Dice, left: str, right: str) -> Expression:
    """Draw a comparison of two variables, one to a side."""
    if dice.once_in(5):
        return Comparison(dice.pick(["=", "!="]), Attribute(left, "s"), Attribute(right, "s"))
    if dice.once_in(5):
        return draw_time_limit(dice, Attribute(left, "time"), Attribute(right, "time"))
    return Comparison(dice.pick(SIGNS), draw_number(dice, left), draw_number(dice, right))


def draw_time_limit(dice: Dice, one: Attribute, other: Attribute) -> Expression:
    """Draw a limit on the time between two events, said in one of several ways."""
    length = dt.timedelta(milliseconds=500 * dice.number(1, 12))
    between = Arithmetic("-", other, one)
    sign = dice.pick(SIGNS[:4])
    match dice.number(0, 7):
        case 0 | 1:
            return Comparison(sign, Arithmetic("+", one, Literal(length)), other)
        case 2:
            return Comparison(sign, Call("ABS", (between,)), Literal(length))
        case 3:
            return Comparison(sign, Arithmetic("*", between, Literal(2)), Literal(length))
        case 4:
            return Membership(between, (Literal(length), Literal(2 * length), Literal(None)), dice.once_in(2))
        case 5:
            return Comparison(sign, Arithmetic("/", between, Literal(length)), Literal(1.5))
        case _:
            return Comparison(sign, between, Literal(length))


def draw_equalities(dice: Dice, names: Sequence[str], *, chain: bool = False) -> list[Expression]:
    """Draw equalities that tie some variables together, as `[attr]` would where a match binds all of them.

    With `chain`, each variable is compared with the one before it.
    """
    attribute = dice.pick(["k", "k", "s", "x", "y"])
    pairs = pairwise(names) if chain or dice.once_in(2) else [(names[0], name) for name in names[1:]]
    return [Comparison("=", Attribute(one, attribute), Attribute(other, attribute)) for one, other in pairs]


def draw_next(dice: Dice, name: str) -> Expression:
    """Draw a comparison of an event with the next one of the same variable."""
    if dice.once_in(5):
        return Comparison("!=", Attribute(name, "s"), Attribute(name, "s", At.NEXT))
    now, after = dice.pick([(At.EACH, At.NEXT), (At.NEXT, At.EACH)])
    if dice.once_in(5):
        return draw_time_limit(dice, Attribute(name, "time", now), Attribute(name, "time", after))
    return Comparison(dice.pick(SIGNS), draw_number(dice, name, now), draw_number(dice, name, after))


def list_adjacent_pairs(pattern: Pattern) -> list[tuple[str, str]]:
    """Return the variables that adjacent conditions may compare; a variable with itself stands for NEXT."""
    expanded = expand_pattern(pattern)
    names, _ = list_condition_names(pattern)
    places = {name: expanded.positions(name) for name in names}
    found = [
        (name, name)
        for name in names
        if max_bindings(expanded.tree, places[name]) > 1 and next_is_adjacent(expanded.tree, places[name])
    ]
    return found + [
        (left, right)
        for left in names
        for right in names
        if left != right and can_bind_both(expanded, left, right)
        if are_neighbours(expanded.tree, places[left], places[right])
    ]


def can_bind_both(expanded: ExpandedPattern, left: str, right: str) -> bool:
    """Return whether some match binds both of two variables that are bound at most once."""
    return max_bindings(expanded.tree, expanded.positions(left) | expanded.positions(right)) == 2


def draw_match_value(dice: Dice, name: str) -> Expression:
    """Draw a number taken from all events that a match binds to a variable."""
    attribute = dice.pick(["x", "y"])
    match dice.number(0, 3):
        case 0:
            return KleeneAggregate("COUNT", name, None)
        case 1:
            return Attribute(name, attribute, dice.pick([At.FIRST, At.LAST]))
        case _:
            return KleeneAggregate(dice.pick(["SUM", "AVG", "MIN", "MAX", "COUNT"]), name, attribute)


def draw_match_condition(dice: Dice, names: Sequence[str], absent: Sequence[str]) -> Expression:
    """Draw a condition that only detection takes."""
    one, other = dice.pick(names), dice.pick(names)
    match dice.number(0, 4):
        case 0:
            return Comparison(dice.pick(SIGNS), draw_match_value(dice, one), Literal(dice.number(-1, 2)))
        case 1:
            return Comparison(dice.pick(SIGNS), draw_match_value(dice, one), draw_number(dice, other))
        case 2 if absent:
            return draw_pair(dice, dice.pick(absent), one)
        case _:
            return draw_next(dice, one) if one == other else draw_pair(dice, one, other)


# Queries


def draw_window(dice: Dice, kinds: frozenset[str]) -> Window | None:
    """Draw a window in ticks of the time column; slides may exceed or not divide the size."""
    match dice.pick(sorted(kinds, reverse=True)):
        case "sliding":
            return TimeWindow(dice.number(1, 12), dice.number(1, 6), ticks=True)
        case "continuous":
            return TimeWindow(dice.number(1, 12), ticks=True)
        case "count":
            return CountWindow(dice.number(1, 9))
        case _:
            return None


def draw_aggregates(dice: Dice, pattern: Pattern, name: str) -> tuple[Aggregate, ...]:
    """Draw COUNT(*) and up to three more, each label once; some aliases are those of other queries too."""
    bound = written_events(pattern)
    # A type that also stands under NOT or NEG without a variable has a name that could mean either.
    absent = {absence.event.name for absence in absences(pattern)}
    names = sorted({event.name for event in bound} | {event.type for event in bound} - absent)

    def one() -> Aggregate:
        match dice.number(0, 5):
            case 0:
                return Aggregate("COUNT", dice.pick(names))
            case 1:
                return Aggregate(dice.pick(["COUNT", "MIN", "MAX"]), dice.pick(names), dice.pick(["s", "s", "time"]))
            case _:
                return Aggregate(dice.pick(AGGREGATE_FUNCTIONS), dice.pick(names), dice.pick(["x", "y"]))

    items = [one() for _ in range(dice.number(0, 3))]
    if not items or not dice.once_in(5):
        items.insert(0, Aggregate("COUNT"))
    if dice.once_in(6):
        items[-1] = replace(items[-1], alias=dice.pick([f"{name}_value", "value"]))
    return tuple({item.label: item for item in items}.values())


@st.composite
def queries(
    draw: DrawFn,
    *,
    name: str = "q",
    operators: frozenset[str] = OPERATORS,
    windows: frozenset[str] = WINDOWS,
    types: Sequence[str] = TYPES,
    adjacent: bool = True,
) -> Query:
    """Draw an aggregate query whose conditions are local, equivalence or adjacent."""
    return draw_query(Dice(draw), name, operators, windows, types, adjacent)


def draw_query(
    dice: Dice,
    name: str,
    operators: frozenset[str],
    windows: frozenset[str],
    types: Sequence[str],
    adjacent: bool,
) -> Query:
    pattern = draw_pattern(dice, operators, types)
    names, absent = list_condition_names(pattern)
    conditions: list[Expression] = []
    repeated = list_repeated_types(pattern)
    if names and dice.once_in(3):
        conditions.append(draw_local(dice, dice.pick(names)))
    if repeated and dice.once_in(3):
        conditions.append(draw_local(dice, dice.pick(repeated)))
    if absent and dice.once_in(3):
        conditions.append(draw_local(dice, dice.pick(absent)))
    if adjacent and dice.once_in(2):
        pairs = list_adjacent_pairs(pattern)
        for left, right in [dice.pick(pairs) for _ in range(dice.number(1, 2))] if pairs else []:
            conditions.append(draw_next(dice, left) if left == right else draw_pair(dice, left, right))
        if len(names) > 1 and dice.once_in(3) and all(pair in pairs for pair in pairwise(names)):
            conditions += draw_equalities(dice, names, chain=True)
    group_by = dice.pick(GROUPS)
    keys = tuple(GroupKey(key) for key in group_by if dice.once_in(2))
    aggregates = draw_aggregates(dice, pattern, name)
    equivalence = dice.pick(EQUIVALENCES)
    partition = tuple(dict.fromkeys((*group_by, *equivalence)))
    if len({*equivalence} - {*group_by}) == 1 and dice.once_in(3):
        aggregates = (*aggregates, Aggregate("COUNT", None, dice.pick(partition), distinct=True))
    window = draw_window(dice, windows)
    having = draw_having(dice, aggregates, group_by) if dice.once_in(5) else None
    returns = (*keys, *aggregates)
    return Query(name, pattern, returns, tuple(conditions), equivalence, group_by, window, having=having)


def draw_having(dice: Dice, aggregates: Sequence[Aggregate], group_by: Sequence[str]) -> Expression | None:
    """Draw a condition on a number of the result, sometimes on a time, a text or an attribute of the group too."""
    numbers = [item.label for item in aggregates if item.function == "COUNT" or item.name not in ("s", "time")]
    parts: list[Expression] = []
    if numbers:
        number: Expression = Attribute("", dice.pick(numbers))
        if dice.once_in(4):
            number = Arithmetic(dice.pick("+-/"), number, Attribute("", dice.pick(numbers)))
        parts.append(Comparison(dice.pick(SIGNS[:4]), number, Literal(dice.number(0, 3))))
    times = [Attribute("", item.label) for item in aggregates if item.function != "COUNT" and item.name == "time"]
    if times and dice.once_in(2):
        length = Literal(dt.timedelta(seconds=dice.number(0, 4)))
        parts.append(Comparison(dice.pick(SIGNS[:4]), Arithmetic("-", times[-1], times[0]), length))
    texts = [item.label for item in aggregates if item.function != "COUNT" and item.name == "s"]
    texts += [name for name in group_by if name != "k"]
    if texts and dice.once_in(2):
        parts.append(Membership(Attribute("", dice.pick(texts)), (Literal("p"), Literal("u")), dice.once_in(2)))
    if "k" in group_by and dice.once_in(2):
        parts.append(Comparison(dice.pick(SIGNS), Attribute("", "k"), Literal(2)))
    return Logical(dice.pick(["AND", "OR"]), tuple(parts)) if len(parts) > 1 else next(iter(parts), None)


@st.composite
def detection_queries(
    draw: DrawFn,
    *,
    name: str = "q",
    operators: frozenset[str] = OPERATORS,
    windows: frozenset[str] = WINDOWS,
    types: Sequence[str] = TYPES,
    policies: Sequence[Policy] = tuple(Policy),
) -> Query:
    """Return a query that needs matches: it returns them, or aggregates under any conditions, by any policy."""
    return draw_detection_query(Dice(draw), name, operators, windows, types, policies)


def draw_detection_query(
    dice: Dice,
    name: str,
    operators: frozenset[str],
    windows: frozenset[str],
    types: Sequence[str],
    policies: Sequence[Policy],
) -> Query:
    if dice.once_in(10):
        return draw_distinct_query(dice, name, operators, windows, types)
    query = draw_query(dice, name, operators, windows, types, True)
    names, absent = list_condition_names(query.pattern)
    spoken = [*names, *list_repeated_types(query.pattern)]
    more = [draw_match_condition(dice, spoken, absent) for _ in range(dice.number(0, 2))] if spoken else []
    if len(names) > 1 and dice.once_in(4):
        more += draw_equalities(dice, names)
    returns, having = query.returns, query.having
    if not dice.once_in(5):
        returns, having = draw_match_returns(dice, names, name), None
    elif names and dice.once_in(3):
        attribute = dice.pick(["x", "s", "y"])
        returns = (*returns, Aggregate("COUNT", dice.pick(names), attribute, distinct=True))
    elif query.partition and dice.once_in(2):
        counted = Aggregate("COUNT", None, dice.pick(query.partition), distinct=True)
        returns = tuple(dict.fromkeys((*returns, counted)))
    conditions = (*query.conditions, *more)
    return replace(query, conditions=conditions, returns=returns, policy=dice.pick(policies), having=having)


def draw_distinct_query(
    dice: Dice, name: str, operators: frozenset[str], windows: frozenset[str], types: Sequence[str]
) -> Query:
    """Draw a query of one event or two that needs its matches for nothing but the values which it counts."""
    pattern = draw_pattern(dice, operators, types, max_events=2, max_loops=1)
    counted = Aggregate("COUNT", None, dice.pick("kg"), distinct=True)
    group_by = dice.pick([(), (), ("s",), ("k",)])
    return Query(name, pattern, (counted,), (), ("k", "g"), group_by, draw_window(dice, windows))


@st.composite
def skip_queries(draw: DrawFn, *, name: str = "q", types: Sequence[str] = TYPES, ties: bool = True) -> Query:
    """Return a query over the matches which AFTER MATCH SKIP takes: of any pattern, often of a sequence, plain or with
    parts that are repeated.

    With `ties` it counts them: which ones they are is not certain where events have times in common.
    """
    return draw_skip_query(Dice(draw), name, types, ties)


def draw_skip_query(dice: Dice, name: str, types: Sequence[str], ties: bool = True) -> Query:
    query = draw_detection_query(dice, name, OPERATORS, WINDOWS, types, tuple(Policy))
    if dice.once_in(2):
        parts: list[Pattern] = [Event(dice.pick(types)) for _ in range(dice.number(1, 3))]
        for _ in range(dice.pick([0, 0, 1, 2])):  # as many loops as the oracle can list the matches of
            begin = dice.number(0, len(parts) - 1)
            end = dice.number(begin + 1, len(parts))
            looped = parts[begin] if end == begin + 1 else Seq(tuple(parts[begin:end]))
            parts[begin:end] = [Repeat(looped, dice.number(1, 2), None)]
        pattern = add_variables(dice, Seq(tuple(parts)))
        window = draw_window(dice, WINDOWS)
        names, _ = list_condition_names(pattern)
        matches = not ties and dice.once_in(2)
        returns = draw_match_returns(dice, names, name) if matches else draw_aggregates(dice, pattern, name)
        query = Query(name, pattern, returns, (), query.equivalence, query.group_by, window)
    query = replace(query, after_match=dice.pick([AfterMatch.PAST_LAST_EVENT, AfterMatch.TO_NEXT_EVENT]))
    return replace(query, returns=(Aggregate("COUNT"),), having=None) if ties else query


@st.composite
def policy_queries(
    draw: DrawFn, *, name: str = "q", types: Sequence[str] = TYPES, policies: Sequence[Policy] = tuple(Policy)
) -> Query:
    """Return a query by a policy over two parts or three, with a condition between neighbours where there may be one,
    and often one between its first variable and a later one.
    """
    dice = Dice(draw)
    budget = Budget(3, 1, OPERATORS - {"AND"})
    parts = [
        draw_part(dice, budget, 1, types, False) if dice.once_in(2) else Event(dice.pick(types))
        for _ in range(dice.number(2, 3))
    ]
    pattern: Pattern = Seq(tuple(parts))
    if dice.once_in(4):
        pattern = insert_nots(dice, pattern, types, in_and=False, in_or=False)
    pattern = add_variables(dice, pattern, unnamed=False)
    names, _ = list_condition_names(pattern)
    conditions: list[Expression] = []
    pairs = list_adjacent_pairs(pattern)
    if pairs:
        left, right = dice.pick(pairs)
        conditions.append(draw_next(dice, left) if left == right else draw_pair(dice, left, right))
    if dice.once_in(2) and len(names) > 1:
        conditions.append(draw_pair(dice, names[0], dice.pick(names[1:])))
    returns = draw_aggregates(dice, pattern, name) if dice.once_in(4) else (AllVariables(),)
    window = draw_window(dice, WINDOWS) if dice.once_in(2) else TimeWindow(30, ticks=True)
    partition = ("k",) if dice.once_in(3) else ()
    return Query(name, pattern, returns, tuple(conditions), partition, (), window, dice.pick(policies))


@st.composite
def conjunction_queries(
    draw: DrawFn, *, name: str = "q", types: Sequence[str] = TYPES, policies: Sequence[Policy] = tuple(Policy)
) -> Query:
    """Return a query whose pattern has an AND: alone, in a SEQ or repeated, often with another AND in it."""
    dice = Dice(draw)
    budget = Budget(3, 1, OPERATORS - {"NEG"})

    def draw_conjunction(depth: int) -> Pattern:
        parts = [
            draw_conjunction(depth - 1) if depth and dice.once_in(3) else draw_part(dice, budget, 1, types, False)
            for _ in range(2)
        ]
        if dice.once_in(4):
            parts[0] = Seq((parts[0], Event(dice.pick(types))))
        return And(tuple(parts))

    pattern = draw_conjunction(2)
    match dice.number(0, 5):
        case 0:
            pattern = Seq((Event(dice.pick(types)), pattern))
        case 1:
            pattern = Seq((pattern, Event(dice.pick(types))))
        case 2:
            pattern = Repeat(pattern, *dice.pick([(0, 1), (1, 2), *([(1, None)] if budget.loops > 0 else [])]))
    if dice.once_in(4):
        pattern = insert_nots(dice, pattern, types, in_and=False, in_or=False)
    pattern = add_variables(dice, pattern, unnamed=False)
    names, absent = list_condition_names(pattern)
    conditions = [draw_match_condition(dice, names, absent) for _ in range(dice.number(0, 2))]
    returns = draw_aggregates(dice, pattern, name) if dice.once_in(4) else draw_match_returns(dice, names, name)
    partition = ("k",) if dice.once_in(3) else ()
    return Query(
        name, pattern, returns, tuple(conditions), partition, (), draw_window(dice, WINDOWS), dice.pick(policies)
    )


@st.composite
def equality_queries(draw: DrawFn, *, name: str = "q", types: Sequence[str] = TYPES, absent: bool = True) -> Query:
    """Return a query, mostly of aggregates, over two parts or three whose variables are all tied by equalities.

    Parts are events, optional, repeated or alternative; with `absent`, sometimes a NOT stands among them.
    """
    dice = Dice(draw)
    budget = Budget(3, 1, OPERATORS)
    parts = [
        draw_part(dice, budget, 1, types, False) if dice.once_in(2) else Event(dice.pick(types))
        for _ in range(dice.number(2, 3))
    ]
    pattern: Pattern = dice.pick([Seq, Seq, And, Or])(tuple(parts))
    if absent and isinstance(pattern, Seq) and dice.once_in(5):
        pattern = insert_nots(dice, pattern, types, in_and=False, in_or=False)
    pattern = add_variables(dice, pattern, unnamed=False)
    names, _ = list_condition_names(pattern)
    conditions = draw_equalities(dice, names)
    if dice.once_in(4):
        conditions.append(draw_local(dice, dice.pick(names)))
    returns = draw_match_returns(dice, names, name) if dice.once_in(4) else draw_aggregates(dice, pattern, name)
    window = CountWindow(dice.number(2, 5)) if dice.once_in(2) else draw_window(dice, WINDOWS)
    return Query(name, pattern, returns, tuple(conditions), (), dice.pick(GROUPS[:5]), window)


def draw_match_returns(dice: Dice, names: Sequence[str], name: str) -> tuple[ReturnItem, ...]:
    """Draw `*`, or some variables and perhaps a computed value, under a name that other queries may have too."""
    if not names or dice.once_in(2):
        return (AllVariables(),)
    chosen = sorted({dice.pick(names) for _ in range(dice.number(1, 3))})
    items: list[ReturnItem] = [Variable(variable) for variable in chosen]
    if dice.once_in(2):
        value = draw_moment(dice, names) if dice.once_in(3) else draw_match_value(dice, dice.pick(names))
        items.append(Computed(value, dice.pick([f"{name}_value", "value"])))
    return tuple(items)


def draw_moment(dice: Dice, names: Sequence[str]) -> Expression:
    """Draw a time of a match, or a time between two of its events."""
    one = Attribute(dice.pick(names), "time", dice.pick([At.FIRST, At.LAST]))
    match dice.number(0, 2):
        case 0:
            return one
        case 1:
            return Arithmetic(dice.pick("+-"), one, Literal(dt.timedelta(milliseconds=500 * dice.number(1, 6))))
        case _:
            return Arithmetic("-", Attribute(dice.pick(names), "time", At.LAST), one)


@st.composite
def workloads(
    draw: DrawFn,
    *,
    min_queries: int = 1,
    max_queries: int = 20,
    detection: bool = False,
    skips: bool = False,
    operators: frozenset[str] = OPERATORS,
    windows: frozenset[str] = WINDOWS,
    adjacent: bool = True,
    definitions: bool = True,
) -> Workload:
    """Return aggregate queries q0, q1, ..., with `detection` also match queries, with `skips` also counts of those
    that AFTER MATCH SKIP takes; sometimes with defined types.
    """
    dice = Dice(draw)
    defined = DEFINITIONS if definitions and dice.once_in(3) else ()
    types = (*TYPES, "E") if defined else TYPES

    def one(name: str) -> Query:
        if skips and dice.once_in(4):
            return draw_skip_query(dice, name, types)
        if detection and dice.once_in(2):
            return draw_detection_query(dice, name, operators, windows, types, tuple(Policy))
        return draw_query(dice, name, operators, windows, types, adjacent)

    return Workload(tuple(one(f"q{number}") for number in range(dice.number(min_queries, max_queries))), defined)


REPEATS = {"REPEAT 0,1", "REPEAT 1,", "REPEAT 0,", "REPEAT 2,", "REPEAT 1,2", "REPEAT 2,3", "REPEAT 0,2", "REPEAT 2,2"}
FEATURES = frozenset(
    {policy.value for policy in Policy}
    | {skip.value for skip in AfterMatch}
    | set(AGGREGATE_FUNCTIONS)
    | REPEATS
    | {"SEQ", "AND", "OR", "NOT", "NEG", "NOT first", "NOT middle", "NOT last", "a type of its own"}
    | {"local", "NEXT", "adjacent", "pairwise", "time", "over a match"}
    | {"condition on an absent event", "condition on an absent event and a bound one"}
    | {"sliding", "slide beyond size", "size not a multiple of slide", "continuous", "count", "whole"}
    | {"GROUP BY", "[attr]", "HAVING", "COUNT(DISTINCT attr)", "COUNT(DISTINCT v.attr)", "matches", "computed"}
)


def draw_all_kinds(
    dice: Dice, accepts: Callable[[Query], bool], times: int = 1, features: frozenset[str] = FEATURES
) -> Workload:
    """Return queries of all kinds: each of some features is in as many of them; `accepts` tells which will do."""
    types = (*TYPES, "E")
    missing = Counter(dict.fromkeys(features, times))
    queries: list[Query] = []
    while missing.total():
        name = f"q{len(queries)}"
        drawn = dice.number(0, 2)
        if drawn == 0:
            query = draw_query(dice, name, OPERATORS, WINDOWS, types, True)
        elif drawn == 1:
            query = draw_detection_query(dice, name, OPERATORS, WINDOWS, types, tuple(Policy))
        else:
            query = draw_skip_query(dice, name, types)
        found = Counter(list_features(query) & features)
        if found & missing and accepts(query):
            queries.append(query)
            missing -= found
    return Workload(tuple(queries), DEFINITIONS)


# What queries show


def list_features(query: Query) -> set[str]:
    """Return what a query shows, in words: some of `FEATURES`."""
    found = list_operators(query.pattern) | {query.policy.value, query.after_match.value}
    expanded = expand_pattern(query.pattern)
    for condition in query.conditions:
        names = variables(condition)
        parts = list(walk(condition))
        if any(isinstance(part, KleeneAggregate) or getattr(part, "at", None) in (At.FIRST, At.LAST) for part in parts):
            found.add("over a match")
        if any(isinstance(part, Literal) and isinstance(part.value, dt.timedelta) for part in parts):
            found.add("time")
        if not all(expanded.positions(name) for name in names):
            found.add("condition on an absent event" + ("" if len(names) == 1 else " and a bound one"))
        elif any(attribute.at is At.NEXT for attribute in attributes(condition)):
            found.add("NEXT")
        elif is_local(condition):
            found.add("local")
        else:
            found.add("adjacent" if is_adjacent(condition, expanded) else "pairwise")
    match query.window:
        case TimeWindow(size, slide) if slide is not None:
            found.add("sliding")
            found |= {"slide beyond size"} if slide > size else set()
            found |= {"size not a multiple of slide"} if size % slide else set()
        case TimeWindow():
            found.add("continuous")
        case CountWindow():
            found.add("count")
        case None:
            found.add("whole")
    shown = {
        "GROUP BY": bool(query.group_by),
        "[attr]": bool(query.equivalence),
        "HAVING": query.having is not None,
        "matches": not query.is_aggregate,
        "computed": any(isinstance(item, Computed) for item in query.returns),
        "a type of its own": any(event.type == "E" for event in written_events(query.pattern)),
        "COUNT(DISTINCT attr)": any(item.distinct and item.variable is None for item in query.aggregates),
        "COUNT(DISTINCT v.attr)": any(item.distinct and item.variable is not None for item in query.aggregates),
    }
    found |= {feature for feature, is_there in shown.items() if is_there}
    found |= {item.function for item in query.aggregates if not item.distinct}
    return found | list_not_places(query.pattern)


def list_not_places(pattern: Pattern) -> set[str]:
    """Return where in a SEQ something must be absent."""
    match pattern:
        case Seq(parts):
            at = {number for number, part in enumerate(parts) if isinstance(part, Not)}
            places = {"first": 0 in at, "last": len(parts) - 1 in at, "middle": bool(at - {0, len(parts) - 1})}
            return {f"NOT {place}" for place, is_there in places.items() if is_there}
    return set()


def list_operators(pattern: Pattern) -> set[str]:
    """Return the operators a pattern uses, for tests of coverage."""
    match pattern:
        case Repeat(_, low, high):
            own = f"REPEAT {low},{'' if high is None else high}"
        case _:
            own = type(pattern).__name__.upper()
    return {own}.union(*map(list_operators, children(pattern)))
