"""Compile queries for detection: their alternatives, symbols, and conditions by where they can be tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from motet.errors import Diagnostic
from motet.model.expression import Expression, variables
from motet.model.names import resolve_variables
from motet.model.query import AfterMatch, Computed, Policy, Query, Workload
from motet.plans.compiled import WindowSpan, build_window_span
from motet.plans.detect.conditions import PlacedConditions, is_adjacent, place_conditions
from motet.template.alternatives import (
    Alternative,
    Choice,
    Loop,
    TooManyAlternatives,
    as_run_steps,
    as_single_loop,
    is_ambiguous,
    list_alternatives,
)
from motet.template.automaton import Progress, Readings, TooManyNodes, build_progress, build_readings
from motet.template.conditions import extract_equivalence
from motet.template.positions import PositionGraph, Positions, build_positions
from motet.template.symbols import Symbol, make_symbol


@dataclass(frozen=True)
class DetectQuery:
    """A query compiled for detection. `number` is its index in the workload.

    `absent` holds the symbols of all absences, those of NOT and then those of NEG; `absence_conditions` the conditions
    that compare an absent event with bound ones. `match_conditions` compare bound events. `slots` are the positions
    that each name in a condition stands for. `reason` says why the query is not aggregated online;
    `finds_occurrences`, whether the matches that AFTER MATCH SKIP takes are found, and no other. With `readings`, what
    must be absent in the gaps of a match is tested on the whole match: the rounds of a repeated AND are found without
    it.
    """

    number: int
    query: Query
    partition: tuple[str, ...]
    positions: Positions = field(compare=False)  # the query says all of it; graphs compare by identity
    alternatives: tuple[Alternative, ...]
    is_compact: bool
    is_ambiguous: bool
    symbols: tuple[Symbol, ...]
    absent: tuple[Symbol, ...]
    absence_conditions: tuple[tuple[Expression, ...], ...]
    match_conditions: tuple[Expression, ...]
    names: dict[str, int]
    slots: tuple[frozenset[int], ...]
    span: WindowSpan
    needs_window_close: bool
    progress: Progress | None
    adjacent: tuple[Expression, ...]
    reason: str
    finds_occurrences: bool = False
    readings: Readings | None = field(default=None, compare=False)  # the query says all of it
    has_run_steps: bool = False  # the steps of its AND are written out

    @property
    def is_run(self) -> bool:
        """Whether its policy is obeyed step by step, and the last step is the position that was bound last."""
        return self.query.policy is not Policy.SKIP_TILL_ANY and not self.positions.graph.has_block

    @property
    def obeys_policy(self) -> bool:
        """Whether its policy is obeyed step by step; with an AND, by steps that know all that is bound."""
        return self.is_run or self.has_run_steps

    @property
    def negs(self) -> range:
        """The numbers of the absences that may occur nowhere in the window."""
        return range(len(self.positions.absences), len(self.absent))

    @property
    def ranked(self) -> bool:
        """Whether all events of a partition count, not only those of its symbols."""
        return self.span.ranked or self.query.policy is Policy.CONTIGUOUS

    @property
    def skips_across_windows(self) -> bool:
        """Whether a match may be left out because of any other before it, however long ago."""
        return self.query.after_match is not AfterMatch.ALL and not self.span.slide

    @property
    def looks_back(self) -> bool:
        """Whether something must be absent before a match."""
        return self.positions.graph.starts_with_guard

    @property
    def takes_by_window(self) -> bool:
        """Whether each window takes matches of its own."""
        return self.query.after_match is AfterMatch.PAST_LAST_EVENT and bool(self.span.slide)

    @property
    def waits_to_skip(self) -> bool:
        """Whether a match may be left out because of another that is not certain yet when both are complete."""
        past_last = self.query.after_match is AfterMatch.PAST_LAST_EVENT
        return past_last and self.skips_across_windows and self.needs_window_close

    @property
    def report_delay(self) -> int:
        """How long after a window has ended its matches are reported, in microseconds.

        All matches that begin in the window are certain one window later, and with them which of these are taken.
        """
        return self.span.within if self.waits_to_skip else 0

    @property
    def is_combined(self) -> bool:
        """Whether results are combined over partitions."""
        return set(self.partition) != set(self.query.group_by)

    @property
    def reports_at_close(self) -> bool:
        """Whether it reports when a window ends, not when a match completes."""
        return self.needs_window_close or (self.query.is_aggregate and not self.span.is_continuous)

    @property
    def needs_sweep(self) -> bool:
        """Whether combining its partitions needs all of them at every point in time."""
        return self.query.is_aggregate and self.is_combined and not self.reports_at_close

    @property
    def window(self) -> tuple[int, int]:
        """The length of its window in microseconds, or else 0 and how many events it holds before the last."""
        return (0, self.span.within - 1) if self.span.ranked else (self.span.within, 0)

    @property
    def name_positions(self) -> dict[str, frozenset[int]]:
        """The positions that each name in a condition stands for."""
        return {name: self.slots[slot] for name, slot in self.names.items()}

    @property
    def name_symbols(self) -> dict[str, frozenset[Symbol]]:
        """The symbols of the events that each name in a condition stands for; of absent ones none."""
        return {
            name: frozenset(self.symbols[position] for position in positions)
            for name, positions in self.name_positions.items()
        }

    def is_free(self, absence: int) -> bool:
        """Return whether an absence has no condition on bound events."""
        return not self.absence_conditions[absence]


def compile_detect(number: int, workload: Workload, tick: int | Fraction, reason: str = "") -> DetectQuery | Diagnostic:
    """Compile a query for detection, or return a diagnostic that says why that cannot be.

    `reason` says why the query is not aggregated online.
    """
    query = extract_equivalence(resolve_variables(workload.queries[number]))
    positions = build_positions(query.pattern)

    def refusal(message: str, hint: str | None = None) -> Diagnostic:
        return Diagnostic(message, query.span, query.name, hint)

    absent_events = (*positions.absences, *positions.negated)
    placed = place_conditions(query, positions, absent_events)
    run_steps = _write_run_steps(query, positions)
    try:
        if run_steps is not None:
            alternatives, compact = run_steps, True
        elif _finds_occurrences(query, positions, placed):
            alternatives, compact = as_single_loop(positions.graph), True
        else:
            alternatives, compact = _derive_alternatives(positions.graph, placed.match, query.policy)
    except TooManyAlternatives:
        return refusal("an AND of this pattern has too many alternatives", "write some of them as queries of their own")
    readings = None
    if any(placed.absent[absence] for absence in _gaps_inside_blocks(alternatives)):
        try:
            readings = build_readings(positions.graph)
        except TooManyNodes:
            return refusal(
                "a repeated AND has too many interleavings for a NOT with conditions on other events",
                "use fewer or shorter parts in an AND",
            )
    progress = None
    if query.policy is Policy.SKIP_TILL_NEXT or (query.policy is Policy.CONTIGUOUS and not positions.graph.has_block):
        try:
            progress = build_progress(positions.graph)
        except TooManyNodes:
            return refusal("this pattern has too many interleavings for SKIP TILL NEXT", "use fewer parts in an AND")
    slots, names = _assign_slots(positions, (*placed.match, *(c for group in placed.absent for c in group)), query)
    symbols = [
        make_symbol(event.type, _local_conditions(placed.local, positions, p))
        for p, event in enumerate(positions.events)
    ]
    return DetectQuery(
        number=number,
        query=query,
        partition=tuple(sorted(query.partition)),
        positions=positions,
        alternatives=alternatives,
        is_compact=compact,
        is_ambiguous=is_ambiguous(alternatives),
        symbols=tuple(symbols),
        absent=tuple(
            make_symbol(event.type, local) for event, local in zip(absent_events, placed.absent_local, strict=True)
        ),
        absence_conditions=tuple(map(tuple, placed.absent)),
        match_conditions=tuple(placed.match),
        names=names,
        slots=slots,
        span=build_window_span(query, tick),
        needs_window_close=positions.graph.ends_with_guard or bool(positions.negated),
        progress=progress,
        adjacent=tuple(c for c in placed.match if progress is not None and is_adjacent(c, positions, progress)),
        reason=reason,
        finds_occurrences=_finds_occurrences(query, positions, placed),
        readings=readings,
        has_run_steps=run_steps is not None,
    )


def _write_run_steps(query: Query, positions: Positions) -> tuple[Alternative, ...] | None:
    """Return the steps of an AND under a policy as one alternative, where there are few and nothing is absent."""
    is_wanted = query.policy is not Policy.SKIP_TILL_ANY and positions.graph.has_block and not positions.absences
    try:
        return as_run_steps(positions.graph) if is_wanted else None
    except TooManyNodes:
        return None


def _finds_occurrences(query: Query, positions: Positions, placed: PlacedConditions) -> bool:
    """Return whether one pass over the events finds the matches that are taken of a sequence, and no other: see
    `motet.kernels.after_match.take_occurrences`.

    Repeated parts are no hindrance: of the matches that are alike otherwise, the one taken repeats none.
    """
    graph = positions.graph
    return (
        query.after_match is not AfterMatch.ALL
        and query.policy is Policy.SKIP_TILL_ANY
        and graph.is_line
        and len(graph.items) < 63
        and not (positions.absences or positions.negated or placed.match)
    )


def _local_conditions(local: dict[str, list[Expression]], positions: Positions, position: int) -> list[Expression]:
    own = [conditions for name, conditions in local.items() if position in positions.find(name)]
    return [condition for conditions in own for condition in conditions]


def _assign_slots(
    positions: Positions, conditions: Iterable[Expression], query: Query
) -> tuple[tuple[frozenset[int], ...], dict[str, int]]:
    """Assign numbers to the sets of positions that names in conditions and RETURN stand for.

    The last slot has no positions: it holds absent events.
    """
    slots: dict[frozenset[int], int] = {}
    names: dict[str, int] = {}
    spoken = [name for condition in conditions for name in sorted(variables(condition))]
    spoken += [
        name for item in query.returns if isinstance(item, Computed) for name in sorted(variables(item.expression))
    ]
    for name in spoken:
        named = positions.find(name)
        if named:
            names[name] = slots.setdefault(named, len(slots))
    for name in spoken:
        names.setdefault(name, len(slots))
    return (*slots, frozenset()), names


def _derive_alternatives(
    graph: PositionGraph, match_conditions: Sequence[Expression], policy: Policy
) -> tuple[tuple[Alternative, ...], bool]:
    """Return the alternatives of a pattern, and whether they are paths of one compact graph.

    Where no condition compares events, a query gains nothing by joining: all its matches are paths of the automaton.
    But a plain sequence is split into its events, so that plans can choose: paths, joins, or parts that other queries
    have too. A policy is run from step to step on the automaton.
    """
    if policy is not Policy.SKIP_TILL_ANY and not graph.has_block:
        return as_single_loop(graph), True
    compared = graph.has_block or any(len(variables(condition)) > 1 for condition in match_conditions)
    is_sequence = graph.is_line and not graph.back_edges and len(graph.items) > 1
    if compared or is_sequence:
        try:
            found = list_alternatives(graph)
        except TooManyAlternatives:
            return as_single_loop(graph), True
        if compared or len(found) == 1:
            return found, False
    return as_single_loop(graph), True


def _gaps_inside_blocks(alternatives: Iterable[Alternative]) -> Iterator[int]:
    """Yield the absences that guard gaps inside a repeated AND, where only rounds are known, not their events."""
    for loop in _list_loops(alternatives):
        blocks = [item for item in loop.items if isinstance(item, Choice)]
        if blocks:
            inside = [alternative for block in blocks for alternative in block.alternatives]
            yield from (guard.absence for alternative in inside for guard in alternative.guards)
            for each in (loop, *_list_loops(inside)):
                yield from (absence for ways in each.follow.values() for guards in ways for absence in guards)
            yield from _gaps_inside_blocks(inside)


def _list_loops(alternatives: Iterable[Alternative]) -> list[Loop]:
    return [item for alternative in alternatives for item in alternative.items if isinstance(item, Loop)]
