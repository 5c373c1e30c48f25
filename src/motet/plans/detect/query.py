"""Compile queries for detection: their alternatives, symbols, and conditions by where they can be tested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from motet.errors import Diagnostic
from motet.model.expression import At, Expression, attributes, conjuncts, has_aggregate, is_local, variables
from motet.model.names import resolve_variables
from motet.model.pattern import Event, Or, Pattern, Repeat, children
from motet.model.query import Computed, Policy, Query, Workload
from motet.model.window import CountWindow
from motet.plans.compiled import WindowSpan, build_window_span
from motet.template.alternatives import (
    Alternative,
    Choice,
    Loop,
    TooManyAlternatives,
    as_single_loop,
    is_ambiguous,
    list_alternatives,
)
from motet.template.automaton import Progress, TooManyNodes, build_progress
from motet.template.conditions import extract_equivalence
from motet.template.positions import PositionGraph, Positions, build_positions, max_bindings
from motet.template.symbols import Symbol, make_symbol


@dataclass(frozen=True)
class DetectQuery:
    """A query compiled for detection. `number` is its index in the workload.

    `absent` holds the symbols of all absences, those of NOT and then those of NEG; `absence_conditions` the conditions
    that compare an absent event with bound ones. `match_conditions` compare bound events. `slots` are the positions
    that each name in a condition stands for. `reason` says why the query is not aggregated online.
    """

    number: int
    query: Query
    partition: tuple[str, ...]
    positions: Positions
    readings: tuple[Alternative, ...]
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

    @property
    def negs(self) -> range:
        """The numbers of the absences that may occur nowhere in the window."""
        return range(len(self.positions.absences), len(self.absent))

    @property
    def ranked(self) -> bool:
        """Whether all events of a partition count, not only those of its symbols."""
        return self.span.ranked or self.query.policy is not Policy.SKIP_TILL_ANY

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

    def is_free(self, absence: int) -> bool:
        """Return whether an absence has no condition on bound events."""
        return not self.absence_conditions[absence]


def compile_detect(
    number: int, workload: Workload, tick: int, reason: str = "", joins: bool = False
) -> DetectQuery | Diagnostic:
    """Compile a query for detection, or return a diagnostic that says why that cannot be.

    `reason` says why the query is not aggregated online. With `joins`, a plain sequence is split into items to join, so
    that queries can share them, even where no condition compares its events.
    """
    query = _extract_equivalence(resolve_variables(workload.queries[number]))
    positions = build_positions(query.pattern)

    def refusal(message: str, hint: str | None = None) -> Diagnostic:
        return Diagnostic(message, query.span, query.name, hint)

    absent_events = (*positions.absences, *positions.negated)
    sorted_ = _place_conditions(query, positions, absent_events)
    try:
        readings, compact = _derive_readings(positions.graph, sorted_.match_conditions, joins)
    except TooManyAlternatives:
        return refusal("an AND of this pattern has too many alternatives", "write some of them as queries of their own")
    if _has_conditional_gap_in_block(readings, sorted_.absent):
        message = "a NOT in a repeated AND cannot have conditions on other events"
        return refusal(message, "take the AND out of the repetition, or the condition off the NOT")
    progress = None
    if query.policy is Policy.SKIP_TILL_NEXT:
        try:
            progress = build_progress(positions.graph)
        except TooManyNodes:
            return refusal("this pattern has too many interleavings for SKIP TILL NEXT", "use fewer parts in an AND")
    slots, names = _assign_slots(
        positions, (*sorted_.match_conditions, *(c for group in sorted_.absent for c in group)), query
    )
    symbols = [
        make_symbol(event.type, _local_conditions(sorted_.local, positions, p))
        for p, event in enumerate(positions.events)
    ]
    return DetectQuery(
        number=number,
        query=query,
        partition=tuple(sorted(query.partition)),
        positions=positions,
        readings=readings,
        is_compact=compact,
        is_ambiguous=is_ambiguous(readings),
        symbols=tuple(symbols),
        absent=tuple(
            make_symbol(event.type, local) for event, local in zip(absent_events, sorted_.absent_local, strict=True)
        ),
        absence_conditions=tuple(map(tuple, sorted_.absent)),
        match_conditions=tuple(sorted_.match_conditions),
        names=names,
        slots=slots,
        span=build_window_span(query, tick),
        needs_window_close=positions.graph.ends_with_guard or bool(positions.negated),
        progress=progress,
        adjacent=tuple(
            c for c in sorted_.match_conditions if progress is not None and _is_adjacent(c, positions, progress)
        ),
        reason=reason,
    )


def _extract_equivalence(query: Query) -> Query:
    """Turn `a.x = b.x = c.x` over all variables into `[x]`, where every match binds all of them and only the match
    counts.
    """
    if (
        isinstance(query.window, CountWindow)
        or query.policy is not Policy.SKIP_TILL_ANY
        or _can_omit_events(query.pattern)
    ):
        return query
    found, conditions = extract_equivalence(query)
    return replace(query, equivalence=(*query.equivalence, *found), conditions=conditions)


def _can_omit_events(pattern: Pattern) -> bool:
    """Return whether a match may leave some event of a pattern unbound."""
    if isinstance(pattern, Or) or (isinstance(pattern, Repeat) and pattern.low == 0):
        return True
    return any(map(_can_omit_events, children(pattern)))


@dataclass
class _PlacedConditions:
    local: dict[str, list[Expression]]
    match_conditions: list[Expression]
    absent: list[list[Expression]]
    absent_local: list[list[Expression]]


def _place_conditions(query: Query, positions: Positions, absent_events: Sequence[Event]) -> _PlacedConditions:
    """Put each conjunct where it belongs: with one position, with an absence, or with the match."""
    found = _PlacedConditions({}, [], [[] for _ in absent_events], [[] for _ in absent_events])
    for condition in conjuncts(*query.conditions):
        names = variables(condition)
        missing = [name for name in names if not positions.find(name)]
        if missing:
            at = next(n for n, event in enumerate(absent_events) if missing[0] in (event.variable, event.type))
            (found.absent_local if is_local(condition) else found.absent)[at].append(condition)
        elif is_local(condition) and names:
            found.local.setdefault(next(iter(names)), []).append(condition)
        else:
            found.match_conditions.append(condition)
    return found


def _local_conditions(local: dict[str, list[Expression]], positions: Positions, position: int) -> list[Expression]:
    own = [conditions for name, conditions in local.items() if position in positions.find(name)]
    return [condition for conditions in own for condition in conditions]


def _assign_slots(
    positions: Positions, conditions: Iterable[Expression], query: Query
) -> tuple[tuple[frozenset[int], ...], dict[str, int]]:
    """Number the sets of positions that names in conditions and RETURN stand for.

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


def _derive_readings(
    graph: PositionGraph, match_conditions: Sequence[Expression], joins: bool
) -> tuple[tuple[Alternative, ...], bool]:
    """Return the alternatives of a pattern, and whether they are paths of one compact graph.

    Where no condition compares events, a query gains nothing by joining: all its matches are paths of the automaton.
    """
    compared = graph.has_block or any(len(variables(condition)) > 1 for condition in match_conditions)
    is_sequence = graph.is_line and not graph.back_edges and len(graph.items) > 1
    if not compared and not (joins and is_sequence):
        return as_single_loop(graph), True
    try:
        return list_alternatives(graph), False
    except TooManyAlternatives:
        return as_single_loop(graph), True


def _has_conditional_gap_in_block(readings: Iterable[Alternative], conditions: Sequence[Sequence[Expression]]) -> bool:
    """Return whether an absence with conditions guards a gap inside a repeated AND.

    There only rounds are known, not their events, so the conditions cannot be tested.
    """
    for reading in readings:
        for item in reading.items:
            if isinstance(item, Loop) and any(isinstance(inner, Choice) for inner in item.items):
                gaps = {a for ways in item.follow.values() for guards in ways for a in guards}
                blocks = [inner for inner in item.items if isinstance(inner, Choice)]
                inner_readings = [inside for block in blocks for inside in block.alternatives]
                gaps |= {guard.absence for inside in inner_readings for guard in inside.guards}
                if any(conditions[a] for a in gaps) or _has_conditional_gap_in_block(inner_readings, conditions):
                    return True
                if any(_has_conditional_loop_gap(inside, conditions) for inside in inner_readings):
                    return True
    return False


def _has_conditional_loop_gap(reading: Alternative, conditions: Sequence[Sequence[Expression]]) -> bool:
    """Return whether a loop within a block has absences with conditions."""
    return any(
        conditions[absence]
        for item in reading.items
        if isinstance(item, Loop)
        for ways in item.follow.values()
        for guards in ways
        for absence in guards
    )


def _is_adjacent(condition: Expression, positions: Positions, progress: Progress) -> bool:
    """Return whether a condition only ever compares events that directly follow each other."""
    if has_aggregate(condition) or any(attribute.at in (At.FIRST, At.LAST) for attribute in attributes(condition)):
        return False
    named = [positions.find(name) for name in sorted(variables(condition))]
    uses_next = any(attribute.at is At.NEXT for attribute in attributes(condition))
    later = _reachable_positions(progress)

    def can_be_separated(starts: frozenset[int], ends: frozenset[int], own: frozenset[int]) -> bool:
        return any(
            middle in later[start] and end in later[middle]
            for start in starts
            for end in ends
            for middle in later
            if middle not in own
        )

    match named:
        case [only] if uses_next:
            return not can_be_separated(only, only, only)
        case [left, right] if not uses_next:
            if max_bindings(positions.graph, left) > 1 or max_bindings(positions.graph, right) > 1:
                return False
            nobody: frozenset[int] = frozenset()
            return not (can_be_separated(left, right, nobody) or can_be_separated(right, left, nobody))
    return False


def _reachable_positions(progress: Progress) -> dict[int, set[int]]:
    """Map each position to the positions that may be bound at any later step."""
    later: dict[int, set[int]] = {}
    for moves in progress.moves:
        for position, state in moves.items():
            later.setdefault(position, set()).update(progress.moves[state])
    changed = True
    while changed:
        changed = False
        for after in later.values():
            more = set().union(*(later.get(position, set()) for position in after)) - after
            changed = changed or bool(more)
            after |= more
    return later
