"""A query compiled for the aggregate engine: automaton, symbols, channels and window."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from motet.errors import Diagnostic
from motet.model.pattern import Event
from motet.model.query import AfterMatch, Policy, Query, Workload
from motet.model.window import CountWindow, TimeWindow
from motet.plans.channels import Channels, ResultColumn, build_channels, unite_channels, widen_channels
from motet.plans.sharing import Groups, group_all
from motet.template.automaton import Automaton, TooManyNodes, UnsupportedPattern, build_automaton
from motet.template.conditions import AdjacentCondition, classify_conditions, extract_equivalence
from motet.template.positions import build_positions
from motet.template.symbols import Symbol, make_symbol


@dataclass(frozen=True, slots=True)
class WindowSpan:
    """A window in the engine's own terms: microseconds, or events where `ranked`. `within` 0: the whole input."""

    within: int
    slide: int
    ranked: bool = False

    @property
    def is_continuous(self) -> bool:
        return self.within > 0 and self.slide == 0


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """All the aggregate engine needs to know of a query. `number` is its place in the workload.

    One that stands for others, which differ in what they return, has these as `members` and all their channels; it
    goes by the number of the first: see `unite_queries` and `pad_channels`.
    """

    number: int
    query: Query
    partition: tuple[str, ...]
    automaton: Automaton
    symbols: tuple[Symbol, ...]  # by position
    absences: tuple[Symbol, ...]  # by NOT
    negs: tuple[Symbol, ...]
    adjacent: tuple[AdjacentCondition, ...]
    channels: Channels
    outputs: tuple[ResultColumn, ...]
    span: WindowSpan
    members: tuple[CompiledQuery, ...] = ()

    @property
    def reported(self) -> tuple[CompiledQuery, ...]:
        """The queries whose results it gives: its members, or itself."""
        return self.members or (self,)

    @property
    def needs_window_close(self) -> bool:
        """Whether its matches are certain only when the window ends."""
        return bool(self.negs) or self.automaton.trailing_guard

    @property
    def is_combined(self) -> bool:
        """Whether results are combined over partitions."""
        return set(self.partition) != set(self.query.group_by)

    @property
    def reports_at_close(self) -> bool:
        """Whether it reports when a window ends, not when a match completes."""
        return not self.span.is_continuous or self.needs_window_close

    @property
    def needs_sweep(self) -> bool:
        """Whether combining its partitions needs a sweep over time: each has a value at every moment."""
        return self.is_combined and not self.reports_at_close


def compile_query(number: int, workload: Workload, tick: int | Fraction) -> CompiledQuery | Diagnostic:
    """Compile one query, or say why the aggregate engine cannot take it.

    `tick`: microseconds of a whole-number time's unit.
    """
    query = workload.queries[number]

    def refusal(message: str, hint: str | None = None) -> Diagnostic:
        return Diagnostic(message, query.span, query.name, hint)

    if not query.is_aggregate:
        return refusal("RETURN asks for the matches themselves, which the aggregate engine never builds")
    if query.policy is not Policy.SKIP_TILL_ANY:
        return refusal(f"the aggregate engine counts under SKIP TILL ANY, not {query.policy}")
    if query.after_match is not AfterMatch.ALL:
        return refusal(f"the aggregate engine counts all matches, not those of {query.after_match}")
    for item in query.aggregates:
        if item.distinct and not (item.variable is None and _is_counted_by_partition(query, str(item.name))):
            message = f"{item.label} counts values that are not those of its partitions, so it needs the matches"
            return Diagnostic(message, item.span or query.span, query.name)
    query = extract_equivalence(query)
    try:
        positions = build_positions(query.pattern)
        automaton = build_automaton(positions)
    except UnsupportedPattern as problem:
        return replace(problem.diagnostic, query=query.name, span=problem.diagnostic.span or query.span)
    except TooManyNodes:
        return refusal("its ANDs have too many interleavings to count", "use fewer or shorter parts in an AND")
    conditions = classify_conditions(query, positions)
    if conditions.needs_match:
        place = conditions.needs_match[0].span
        message = (
            "this condition compares events that are not neighbours in every match, or computes with two at once, "
            "so it needs the matches themselves"
        )
        return Diagnostic(message, place or query.span, query.name)
    channels, outputs = build_channels(query, positions)

    def symbol(event: Event, *names: str) -> Symbol:
        local = [condition for name in names for condition in conditions.local.get(name, [])]
        return make_symbol(event.type, [*local, *conditions.everywhere])

    def names_of(position: int) -> list[str]:
        """Return the names that conditions have for a position: its variable, or a type that it shares with others."""
        return [name for name in conditions.local if position in positions.find(name)]

    compiled = CompiledQuery(
        number=number,
        query=query,
        partition=tuple(sorted(query.partition)),
        automaton=automaton,
        symbols=tuple(symbol(event, *names_of(position)) for position, event in enumerate(positions.events)),
        absences=tuple(symbol(event, event.name) for event in positions.absences),
        negs=tuple(symbol(event, event.name) for event in positions.negated),
        adjacent=tuple(conditions.adjacent),
        channels=channels,
        outputs=outputs,
        span=build_window_span(query, tick),
    )
    return _check_limits(compiled) or compiled


def _is_counted_by_partition(query: Query, attribute: str) -> bool:
    """Return whether each value of an attribute is one partition of a group, or the group itself."""
    return attribute in query.group_by or {*query.partition} - {*query.group_by} == {attribute}


def unite_queries(queries: Sequence[CompiledQuery], groups: Groups = group_all) -> list[CompiledQuery]:
    """Let one query stand for all of a group that differ in nothing but their names and what they return.

    It keeps the totals of all of them, and so matches are counted once. The order is that of the first of each.
    """
    same: dict[Hashable, list[CompiledQuery]] = {}
    for compiled in queries:
        matching = (compiled.automaton, compiled.symbols, compiled.absences, compiled.negs, compiled.adjacent)
        key = (*matching, compiled.partition, compiled.span, compiled.is_combined, groups(compiled.number))
        same.setdefault(key, []).append(compiled)
    return [_unite(found) if len(found) > 1 else found[0] for found in same.values()]


def pad_channels(queries: Sequence[CompiledQuery]) -> list[CompiledQuery]:
    """Give all queries as many channels as any of them has of each kind, so that one machine can run them.

    Then they share beginnings of patterns before the events that channels read: there all totals are counts.
    """
    shapes = [compiled.channels.shape for compiled in queries]
    shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    return [
        compiled
        if compiled.channels.shape == shape
        else replace(compiled, channels=widen_channels(compiled.channels, shape), members=compiled.reported)
        for compiled in queries
    ]


def _unite(queries: Sequence[CompiledQuery]) -> CompiledQuery:
    channels = unite_channels(compiled.channels for compiled in queries)
    members = tuple(member for compiled in queries for member in compiled.reported)
    return replace(queries[0], channels=channels, outputs=(), members=members)


def build_window_span(query: Query, tick: int | Fraction) -> WindowSpan:
    """Return the window of a query in the terms of the engine."""
    match query.window:
        case None:
            return WindowSpan(0, 0)
        case CountWindow(size):
            return WindowSpan(size + 1, 0, ranked=True)
        case TimeWindow(size, slide, ticks):
            scale = tick if ticks else 1
            return WindowSpan(int(size * scale), int((slide or 0) * scale))


def _check_limits(compiled: CompiledQuery) -> Diagnostic | None:
    """Return a diagnostic where a query asks for things that cannot be had together."""
    if compiled.span.ranked and (compiled.needs_window_close or compiled.automaton.leading_guard):
        message = "an absence at the edge of a window of EVENTS, or anywhere in it, needs the matches"
        return Diagnostic(message, compiled.query.span, compiled.query.name)
    if not (compiled.span.is_continuous and compiled.automaton.leading_guard):
        return None
    if compiled.needs_window_close or compiled.adjacent:
        other = "a NOT at the end or NEG" if compiled.needs_window_close else "an adjacent condition"
        return Diagnostic(
            f"a NOT at the beginning together with {other} needs a sliding window",
            compiled.query.span,
            compiled.query.name,
            "add SLIDE to its WITHIN",
        )
    return None
