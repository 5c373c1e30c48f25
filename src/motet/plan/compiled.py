"""A query compiled for the aggregate engine: automaton, symbols, channels and window."""

from __future__ import annotations

from dataclasses import dataclass, replace

from motet.errors import Diagnostic
from motet.model.expression import Expression
from motet.model.query import Policy, Query, Workload
from motet.model.window import CountWindow, TimeWindow
from motet.plan.channels import Channels, Output, channels_of
from motet.template.automaton import Automaton, TooManyNodes, build_automaton
from motet.template.conditions import Adjacent, equivalence_of, sort_conditions
from motet.template.positions import Unsupported, positions_of
from motet.template.symbols import Symbol, make_symbol


@dataclass(frozen=True, slots=True)
class Span:
    """A window in the engine's own terms: microseconds, or events where `ranked`. `within` 0: the whole input."""

    within: int
    slide: int
    ranked: bool = False

    @property
    def continuous(self) -> bool:
        return self.within > 0 and self.slide == 0


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """All the aggregate engine needs to know of a query. `number` is its place in the workload."""

    number: int
    query: Query
    partition: tuple[str, ...]
    automaton: Automaton
    symbols: tuple[Symbol, ...]  # by position
    absences: tuple[Symbol, ...]  # by NOT
    negs: tuple[Symbol, ...]
    adjacent: tuple[Adjacent, ...]
    channels: Channels
    outputs: tuple[Output, ...]
    span: Span

    @property
    def certain_at_close(self) -> bool:
        """Whether its matches are certain only when the window ends."""
        return bool(self.negs) or self.automaton.trailing_guard

    @property
    def combined(self) -> bool:
        """Whether results are combined over partitions."""
        return set(self.partition) != set(self.query.group_by)

    @property
    def swept(self) -> bool:
        """Whether combining its partitions needs a sweep over time: each has a value at every moment."""
        return self.combined and self.span.continuous and not self.certain_at_close


def compile_query(number: int, workload: Workload, tick: int) -> CompiledQuery | Diagnostic:
    """Compile one query, or say why the aggregate engine cannot take it.

    `tick`: microseconds of a whole-number time's unit.
    """
    query = workload.queries[number]

    def refusal(message: str, hint: str | None = None) -> Diagnostic:
        return Diagnostic(message, query.span, query.name, hint)

    if not query.is_aggregate:
        return refusal("RETURN asks for the matches themselves, which the aggregate engine never builds", ORACLE)
    if query.policy is not Policy.SKIP_TILL_ANY:
        return refusal(f"the aggregate engine counts under SKIP TILL ANY, not {query.policy}", ORACLE)
    attributes, conditions = equivalence_of(query)
    query = replace(query, equivalence=(*query.equivalence, *attributes), conditions=conditions)
    try:
        positions = positions_of(query.pattern)
        automaton = build_automaton(positions)
    except Unsupported as problem:
        return replace(problem.diagnostic, query=query.name, span=problem.diagnostic.span or query.span)
    except TooManyNodes:
        return refusal("its ANDs have too many interleavings to count", "use fewer or shorter parts in an AND")
    sorted_ = sort_conditions(query, positions)
    if sorted_.on_matches:
        place = sorted_.on_matches[0].span
        message = (
            "this condition compares events that are not neighbours in every match, so it needs the matches themselves"
        )
        return Diagnostic(message, place or query.span, query.name, ORACLE)
    channels, outputs = channels_of(query, positions)

    def symbol(type_name: str, name: str) -> Symbol:
        local: list[Expression] = [*sorted_.local.get(name, []), *sorted_.everywhere]
        return make_symbol(type_name, local)

    compiled = CompiledQuery(
        number=number,
        query=query,
        partition=tuple(sorted(query.partition)),
        automaton=automaton,
        symbols=tuple(symbol(event.type, event.name) for event in positions.events),
        absences=tuple(symbol(event.type, event.name) for event in positions.absences),
        negs=tuple(symbol(event.type, event.name) for event in positions.negated),
        adjacent=tuple(sorted_.adjacent),
        channels=channels,
        outputs=outputs,
        span=span_of(query, tick),
    )
    return _limits(compiled) or compiled


ORACLE = "the oracle (--engine oracle) answers it on small data"


def span_of(query: Query, tick: int) -> Span:
    """The window of a query in the terms of the engine."""
    match query.window:
        case None:
            return Span(0, 0)
        case CountWindow(size):
            return Span(size + 1, 0, ranked=True)
        case TimeWindow(size, slide, ticks):
            scale = tick if ticks else 1
            return Span(size * scale, (slide or 0) * scale)


def _limits(compiled: CompiledQuery) -> Diagnostic | None:
    """What cannot be had together."""
    if not (compiled.span.continuous and compiled.automaton.leading_guard):
        return None
    if compiled.certain_at_close or compiled.adjacent:
        other = "a NOT at the end or NEG" if compiled.certain_at_close else "an adjacent condition"
        return Diagnostic(
            f"a NOT at the beginning together with {other} needs a sliding window",
            compiled.query.span,
            compiled.query.name,
            "add SLIDE to its WITHIN",
        )
    return None
