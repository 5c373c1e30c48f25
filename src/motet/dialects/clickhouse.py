"""Translates ClickHouse's windowFunnel and sequenceMatch: a funnel is one query for each of its steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from motet.dialects.sql import find_offsets, parse_sql, refuse_other_clauses, resolve_column, translate_expression
from motet.dialects.translation import SourceText, Translation, assign_type, build_sequence
from motet.model.expression import Attribute, Expression, Logical, conjuncts
from motet.model.names import rewrite_leaves
from motet.model.pattern import Event, Not, Pattern, children
from motet.model.query import Aggregate, EventDefinition, Query, Workload
from motet.model.window import UNITS, TimeWindow

_FUNCTIONS = ("windowfunnel", "sequencematch", "sequencecount")
_KNOWN_CLAUSES = frozenset({"expressions", "from_", "group", "order"})
_STEP = re.compile(r"\s*(?:\(\?(?P<number>\d+)\)|(?P<any>\.\*)|\(\?t(?P<operator><=|<|>=|>|==)(?P<seconds>\d+)\))")

ANY_STEP = "any_step"  # the type of rows that some condition describes

FUNNEL = (
    "the level of a key is the number of the last of these queries with a row for it",
    "the same as windowFunnel where steps of one key do not share a time; with 'strict_increase' always",
)
MATCH = (
    "sequenceMatch is 1 for the keys that have a row here",
    "the same where events of one key do not share a time (ClickHouse then takes them in any order)",
)


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """One step of a funnel: an event of a type, with conditions on it."""

    type: str
    conditions: tuple[Expression, ...] = ()


def translate_source(source: SourceText) -> Translation:
    """Translate a SELECT with one windowFunnel or sequenceMatch."""
    tree = parse_sql(source, source.text, "clickhouse")
    calls = [call for call in tree.find_all(exp.ParameterizedAgg) if _function_name(call) in _FUNCTIONS]
    if len(calls) != 1:
        hint = "as in SELECT user, windowFunnel(3600)(time, type = 'view', type = 'buy') FROM t GROUP BY user"
        raise source.error_at("there must be one windowFunnel or sequenceMatch here", 0, hint=hint)
    call = calls[0]
    refuse_other_clauses(tree, source, _KNOWN_CLAUSES)
    first, *conditions = call.args["params"]
    if not isinstance(first, exp.Column) or not conditions:
        message = f"{call.this} takes the column of the time, then conditions"
        hint = "as in windowFunnel(3600)(time, type = 'view', type = 'buy')"
        raise source.error_at(message, *find_offsets(call), hint)
    clock = first.name
    steps, definitions = _read_steps(source, conditions)
    key = _read_key(source, tree)
    shared = () if clock == source.time else (f"the time of events is {clock}: run with --time {clock}",)
    match _function_name(call):
        case "windowfunnel":
            queries = _build_funnel(source.name, steps, key, _read_funnel_window(source, call))
            return Translation(Workload(queries, tuple(definitions)), (*FUNNEL, *shared))
        case "sequencecount":
            message = "sequenceCount counts chains that do not overlap; motet's COUNT(*) counts every one"
            raise source.error_at(message, *find_offsets(call), "sequenceMatch has an equal")
    query = _translate_sequence(source, str(call.expressions[0].this), steps, key)
    if any(isinstance(part, Not) for part in children(query.pattern)):
        definitions.append(_define_any_step(source, conditions))
    return Translation(Workload((query,), tuple(definitions)), (*MATCH, *shared))


def _function_name(call: Any) -> str:
    return str(call.this).lower()


def _read_steps(source: SourceText, conditions: Sequence[Any]) -> tuple[list[FunnelStep], list[EventDefinition]]:
    steps: list[FunnelStep] = []
    definitions: list[EventDefinition] = []
    for at, node in enumerate(conditions, 1):
        found = conjuncts(translate_expression(node, resolve_column(f"s{at}"), source))
        type, others, defined = assign_type(f"s{at}", list(found), source, f"step_{at}")
        steps.append(FunnelStep(type, tuple(others)))
        definitions += defined
    return steps, definitions


def _read_key(source: SourceText, tree: Any) -> tuple[str, ...]:
    group = tree.args.get("group")
    columns = group.expressions if group is not None else []
    for column in columns:
        if not isinstance(column, exp.Column):
            raise source.error_at("GROUP BY must name columns", *find_offsets(column))
    return tuple(column.name for column in columns)


def _read_funnel_window(source: SourceText, call: Any) -> TimeWindow:
    """Return the window of a funnel: a microsecond longer, as ClickHouse includes its end and motet does not."""
    modes = [str(mode.this).lower() for mode in call.expressions[1:]]
    for mode in modes:
        if mode != "strict_increase":
            message = f"the mode '{mode}' has no equal"
            raise source.error_at(message, *find_offsets(call), "the default and 'strict_increase' have")
    if not isinstance(call.expressions[0], exp.Literal) or not str(call.expressions[0].this).isdigit():
        raise source.error_at("the window of a funnel must be a number of seconds", *find_offsets(call))
    return TimeWindow(int(call.expressions[0].this) * UNITS["s"] + 1)


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


def _translate_sequence(source: SourceText, text: str, steps: Sequence[FunnelStep], key: tuple[str, ...]) -> Query:
    """Translate `(?1).*(?2)` to a SEQ; without `.*` nothing that a condition describes may lie between."""
    offset = source.text.find(text)
    parts: list[Pattern] = []
    conditions: list[Expression] = []
    window: TimeWindow | None = None
    loose, at = True, 0
    while (found := _STEP.match(text, at)) is not None:
        at = found.end()
        if found["any"]:
            loose = True
        elif found["number"]:
            number = int(found["number"])
            if not 1 <= number <= len(steps):
                place = offset + found.start(), offset + found.end()
                raise source.error_at(f"there is no condition {number}", *place, f"there are {len(steps)}")
            if parts and not loose:
                parts.append(Not(Event(ANY_STEP, f"gap{len(parts)}")))
            variable = f"e{len(parts) + 1}"
            parts.append(Event(steps[number - 1].type, variable))
            conditions += (_rename(each, variable) for each in steps[number - 1].conditions)
            loose = False
        else:
            window = _read_gap_window(source, found, offset, len(parts))
    if at != len(text.rstrip()) or not parts:
        hint = "(?1), .* and one (?t<=seconds) between two events are"
        raise source.error_at("this pattern is not understood", offset + at, offset + len(text), hint)
    if window is not None and sum(isinstance(part, Event) for part in parts) != 2:
        message = "a time between two of several events has no equal: WITHIN spans all of a match"
        raise source.error_at(message, offset, offset + len(text), "bound the whole chain by WITHIN instead")
    return Query(source.name, build_sequence(parts), (Aggregate("COUNT"),), tuple(conditions), (), key, window)


def _read_gap_window(source: SourceText, found: re.Match[str], offset: int, before: int) -> TimeWindow:
    if found["operator"] not in ("<", "<=") or before != 1:
        message = f"'{found[0].strip()}' has no equal here"
        place = offset + found.start(), offset + found.end()
        raise source.error_at(message, *place, "(?t<=seconds) of two events has")
    return TimeWindow(int(found["seconds"]) * UNITS["s"] + (found["operator"] == "<="))


def _rename(condition: Expression, variable: str) -> Expression:
    return rewrite_leaves(condition, lambda leaf: Attribute(variable, leaf.name or ""))


def _define_any_step(source: SourceText, conditions: Sequence[Any]) -> EventDefinition:
    """Define the type of all rows that some condition describes: others are passed over."""
    described = tuple(translate_expression(node, resolve_column(""), source) for node in conditions)
    return EventDefinition(ANY_STEP, described[0] if len(described) == 1 else Logical("OR", described))
