"""Translates ClickHouse's windowFunnel, sequenceMatch and sequenceCount; a funnel is a query for each step."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from sqlglot import exp

from motet.dialects.exclusion import are_exclusive
from motet.dialects.sql import (
    find_offsets,
    parse_sql,
    refuse_other_arguments,
    refuse_other_clauses,
    resolve_column,
    translate_expression,
)
from motet.dialects.translation import SourceText, Translation, assign_type, build_sequence, named_events
from motet.model.expression import (
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    Like,
    Literal,
    Logical,
    Membership,
    conjuncts,
)
from motet.model.names import rewrite_leaves
from motet.model.pattern import Event, Not, Or, Pattern, Seq
from motet.model.query import AfterMatch, Aggregate, EventDefinition, Query, Workload
from motet.model.window import UNITS, TimeWindow

_FUNCTIONS = ("windowfunnel", "sequencematch", "sequencecount")
_KNOWN_CLAUSES = frozenset({"expressions", "from_", "group"})
_CALL = frozenset({"this", "expressions", "params"})
_ACTION = re.compile(
    r"\(\?(?P<number>\d+)\)|(?P<loose>\.\*)|(?P<any>\.)|\(\?t(?P<operator><=|<|>=|>|==)(?P<seconds>\d+)\)"
)
# Functions that go by bytes, or divide by zero to infinity, in ClickHouse and not here.
_DIFFERENT = (exp.Length, exp.Lower, exp.Upper, exp.Div, exp.Mod)
# Modes that change nothing where no row satisfies two conditions and no two rows share a time.
_MODES = ("strict_increase", "strict_once")
STRICT_ORDER = "strict_order"

ANY_STEP = "any_step"  # the type of rows that some condition describes
START = "start_step"  # the type of rows that the first condition describes

FUNNEL = ("the level of a key is the number of the last of these queries with a row for it, or 0",)
STRICT = ("the level of a key is how many of these queries, from the first on, have a row for it without a gap",)
MATCH = ("sequenceMatch is 1 for the keys that have a row here",)
COUNT = ("sequenceCount is COUNT(*) here, and 0 for the keys that have no row",)
SAME = (
    "the same where rows of one key do not share a time, no column that is read is null or NaN,",
    "and the time is a DateTime or counts seconds",
)
_HINT = "as in SELECT user, windowFunnel(3600)(time, type = 'view', type = 'buy') FROM t GROUP BY user"


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """One step of a funnel: an event of a type, with conditions on it."""

    type: str
    conditions: tuple[Expression, ...] = ()
    all_conditions: tuple[Expression, ...] = ()  # the one that says the type as well


def translate_source(source: SourceText) -> Translation:
    """Translate a SELECT of the key and one windowFunnel, sequenceMatch or sequenceCount."""
    tree = parse_sql(source, source.text, "clickhouse")
    if not isinstance(tree, exp.Select):
        raise source.error_at("there must be one SELECT here", 0, hint=_HINT)
    refuse_other_clauses(tree, source, _KNOWN_CLAUSES)
    key = _read_key(source, tree)
    call = _find_call(source, tree, key)
    refuse_other_arguments(call, source, _CALL)
    first, *conditions = call.args["params"]
    if not isinstance(first, exp.Column) or first.table or not conditions:
        message = f"{call.this} takes the column of the time, then conditions"
        raise source.error_at(
            message, *find_offsets(call), "as in windowFunnel(3600)(time, type = 'view', type = 'buy')"
        )
    clock = first.name
    steps, definitions = _read_steps(source, conditions)
    shared = SAME if clock == source.time else (*SAME, f"the time of events is {clock}: run with --time {clock}")
    if _get_function_name(call) == "windowfunnel":
        seconds, strict_order = _read_funnel_window(source, call)
        _refuse_shared_rows(source, steps, conditions)
        if strict_order:
            described = [translate_expression(node, resolve_column(""), source) for node in conditions]
            definitions += _define_interruptions(described)
            queries = _build_strict_funnel(source.name, steps, key, seconds, clock)
            return Translation(Workload(queries, tuple(definitions)), (*STRICT, *shared))
        queries = _build_funnel(source.name, steps, key, TimeWindow(seconds * UNITS["s"] + 1))
        return Translation(Workload(queries, tuple(definitions)), (*FUNNEL, *shared))
    text = call.expressions[0] if len(call.expressions) == 1 else None
    if not isinstance(text, exp.Literal) or not text.is_string:
        message = f"{call.this} takes one pattern"
        raise source.error_at(message, *find_offsets(call), "as in sequenceMatch('(?1).*(?2)')")
    query = _translate_sequence(source, str(text.this), steps, key, clock)
    is_count = _get_function_name(call) == "sequencecount"
    if is_count:
        query = replace(query, after_match=AfterMatch.PAST_LAST_EVENT)
    if any(event.type == ANY_STEP for event in named_events(query.pattern)):
        definitions.append(_define_any_step(source, conditions))
    return Translation(Workload((query,), tuple(definitions)), (*(COUNT if is_count else MATCH), *shared))


def _find_call(source: SourceText, tree: Any, key: tuple[str, ...]) -> Any:
    """Return the one call that is selected; all else must be a column of the key."""
    found = []
    for item in tree.expressions:
        value = item.this if isinstance(item, exp.Alias) else item
        if type(value) is exp.ParameterizedAgg and _get_function_name(value) in _FUNCTIONS:
            found.append(value)
        elif not isinstance(item, exp.Column) or item.table or item.name not in key:
            message = f"'{item.sql()}' is not translated: only columns of GROUP BY and one call are"
            raise source.error_at(message, *find_offsets(item), "compute it from the results")
    if len(found) != 1:
        raise source.error_at("there must be one windowFunnel, sequenceMatch or sequenceCount here", 0, hint=_HINT)
    return found[0]


def _get_function_name(call: Any) -> str:
    return str(call.this).lower()


def _read_steps(source: SourceText, conditions: Sequence[Any]) -> tuple[list[FunnelStep], list[EventDefinition]]:
    steps: list[FunnelStep] = []
    definitions: list[EventDefinition] = []
    for at, node in enumerate(conditions, 1):
        for part in node.find_all(*_DIFFERENT):
            message = f"'{part.sql()}' may have another value in ClickHouse than here"
            raise source.error_at(message, *find_offsets(node), "compute a column of it first")
        condition = translate_expression(node, resolve_column(f"s{at}"), source)
        if not _is_condition(condition):
            message = f"'{node.sql()}' is a number where a condition is expected"
            raise source.error_at(message, *find_offsets(node), "compare it, as in x = 1")
        found = list(conjuncts(condition))
        type, others, defined = assign_type(f"s{at}", found, source, f"step_{at}")
        steps.append(FunnelStep(type, tuple(others), tuple(found)))
        definitions += defined
    return steps, definitions


def _is_condition(expression: Expression) -> bool:
    """Return whether an expression is true or false, and no number that ClickHouse takes as such."""
    match expression:
        case Logical(_, parts):
            return all(map(_is_condition, parts))
        case Inverse(operand):
            return _is_condition(operand)
    return isinstance(expression, Comparison | IsNull | Like | Membership)


def _read_key(source: SourceText, tree: Any) -> tuple[str, ...]:
    group = tree.args.get("group")
    if group is None:
        return ()
    refuse_other_arguments(group, source, frozenset({"expressions"}))
    aliases = {item.alias.lower() for item in tree.expressions if isinstance(item, exp.Alias)}
    for column in group.expressions:
        if not isinstance(column, exp.Column) or column.table or column.name.lower() in aliases:
            message = "GROUP BY must name columns of the table"
            raise source.error_at(message, *find_offsets(column), "compute them before, as columns")
    return tuple(column.name for column in group.expressions)


def _read_funnel_window(source: SourceText, call: Any) -> tuple[int, bool]:
    """Return the window of a funnel in seconds, its end included, and whether its mode is `strict_order`."""
    length, *modes = call.expressions or [None]
    if not isinstance(length, exp.Literal) or length.is_string or not str(length.this).isdigit():
        raise source.error_at("the window of a funnel must be a number of seconds", *find_offsets(call))
    names = [mode.this if isinstance(mode, exp.Literal) else None for mode in modes]
    for mode, name in zip(modes, names, strict=True):
        if name not in (*_MODES, STRICT_ORDER) or (name == "strict_once" and STRICT_ORDER in names):
            message = f"the mode {mode.sql()} has no equal" + (" beside strict_order" if STRICT_ORDER in names else "")
            raise source.error_at(
                message, *find_offsets(call), f"the default, {', '.join(_MODES)} and {STRICT_ORDER} have"
            )
    return int(length.this), STRICT_ORDER in names


def _refuse_shared_rows(source: SourceText, steps: Sequence[FunnelStep], conditions: Sequence[Any]) -> None:
    """Refuse steps that one row may satisfy together: ClickHouse counts it for both."""
    for (one, first), (other, second) in combinations(enumerate(steps, 1), 2):
        if not are_exclusive(first.all_conditions, second.all_conditions):
            message = f"a row may satisfy conditions {one} and {other}, and ClickHouse counts it twice; motet does not"
            hint = "let each ask for another value of one column"
            raise source.error_at(message, *find_offsets(conditions[other - 1]), hint)


def _build_funnel(
    name: str, steps: Sequence[FunnelStep], key: tuple[str, ...], window: TimeWindow
) -> tuple[Query, ...]:
    """Build for each step a query that has a row for each key that came so far within the window."""
    return tuple(
        Query(
            f"{name}_{length}",
            build_sequence([Event(step.type, f"s{at}") for at, step in enumerate(steps[:length], 1)]),
            (Aggregate("COUNT"),),
            tuple(condition for step in steps[:length] for condition in step.conditions),
            (),
            key,
            window,
        )
        for length in range(1, len(steps) + 1)
    )


def _build_strict_funnel(
    name: str, steps: Sequence[FunnelStep], key: tuple[str, ...], seconds: int, clock: str
) -> tuple[Query, ...]:
    """Build for each step a query that has a row for each key that comes so far before anything else interrupts it.

    ClickHouse reads the rows of a key from the first that begins a funnel, and stops at one that no condition
    describes, or whose step before it was not reached yet. So step k is reached if each step j up to it is, by some
    chain before any row of other steps than 1 to j. The chain may begin at a later start than the first one.
    """
    queries = []
    for length in range(1, len(steps) + 1):
        first, *later = (Event(step.type, f"s{at}") for at, step in enumerate(steps[:length], 1))
        conditions = [condition for step in steps[:length] for condition in step.conditions]
        parts: list[Pattern] = [first]
        if later:
            gap = Not(Event(f"other_{length}"))
            begin = Event(first.type, "begin")
            conditions += (_rename(condition, "begin") for condition in steps[0].conditions)
            parts = [Not(Event(START)), Or((first, Seq((begin, gap, first))))]
            parts += (part for event in later for part in (gap, event))
            between = Arithmetic("-", Attribute(f"s{length}", clock), Attribute("s1", clock))
            conditions.append(Comparison("<=", between, Literal(dt.timedelta(seconds=seconds))))
        queries.append(
            Query(f"{name}_{length}", build_sequence(parts), (Aggregate("COUNT"),), tuple(conditions), (), key)
        )
    return tuple(queries)


def _define_interruptions(described: Sequence[Expression]) -> list[EventDefinition]:
    """Define the rows that begin a funnel, and for each later step those of neither it nor the steps before it."""
    if len(described) == 1:
        return []
    return [
        EventDefinition(START, described[0]),
        *(
            EventDefinition(f"other_{length}", Inverse(Logical("OR", tuple(described[:length]))))
            for length in range(2, len(described) + 1)
        ),
    ]


def _translate_sequence(
    source: SourceText, text: str, steps: Sequence[FunnelStep], key: tuple[str, ...], clock: str
) -> Query:
    """Translate `(?1).*(?2)` to a SEQ; without `.*` nothing that a condition describes may lie between."""
    offset = source.text.find(text)
    parts: list[Pattern] = []
    conditions: list[Expression] = []
    before: re.Match[str] | None = None  # what stands before the next event, other than nothing
    bound, at = 0, 0
    while (found := _ACTION.match(text, at)) is not None:
        place = offset + at, offset + found.end()
        at = found.end()
        if found["operator"] or found["loose"]:
            if (before is not None and (before["operator"] or found["operator"])) or (found["operator"] and not bound):
                message = f"'{found[0]}' has no equal here"
                raise source.error_at(message, *place, "a time stands alone between two events")
            before = found
            continue
        number = int(found["number"] or 0)
        if found["number"] and not 1 <= number <= len(steps):
            raise source.error_at(f"there is no condition {number}", *place, f"there are {len(steps)}")
        bound += 1
        variable = f"e{bound}"
        if before is not None and before["operator"]:
            conditions.append(_compare_times(before, f"e{bound - 1}", variable, clock))
        elif bound > 1 and before is None:
            parts.append(Not(Event(ANY_STEP)))
        parts.append(Event(steps[number - 1].type if number else ANY_STEP, variable))
        if number:
            conditions += (_rename(each, variable) for each in steps[number - 1].conditions)
        before = None
    if at != len(text) or not bound or (before is not None and before["operator"]):
        hint = "(?1), ., .* and (?t<=seconds) between two events are"
        raise source.error_at("this pattern is not understood", offset + at, offset + len(text), hint)
    return Query(source.name, build_sequence(parts), (Aggregate("COUNT"),), tuple(conditions), (), key)


def _compare_times(found: re.Match[str], one: str, other: str, clock: str) -> Expression:
    """Return the condition that a time between two events is."""
    between = Arithmetic("-", Attribute(other, clock), Attribute(one, clock))
    operator = "=" if found["operator"] == "==" else found["operator"]
    return Comparison(operator, between, Literal(dt.timedelta(seconds=int(found["seconds"]))))


def _rename(condition: Expression, variable: str) -> Expression:
    return rewrite_leaves(condition, lambda leaf: Attribute(variable, leaf.name or ""))


def _define_any_step(source: SourceText, conditions: Sequence[Any]) -> EventDefinition:
    """Define the type of all rows that some condition describes: others are passed over."""
    described = tuple(translate_expression(node, resolve_column(""), source) for node in conditions)
    return EventDefinition(ANY_STEP, described[0] if len(described) == 1 else Logical("OR", described))
