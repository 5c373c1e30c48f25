"""A query compiled for detection: its readings, symbols, and conditions by where they can be tested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from motet.errors import Diagnostic
from motet.model.expression import (
    At,
    Attribute,
    Expression,
    KleeneAggregate,
    attributes,
    conjuncts,
    variables,
    walk,
)
from motet.model.names import with_variables
from motet.model.pattern import Event, Or, Pattern, Repeat, children
from motet.model.query import Computed, Policy, Query, Workload
from motet.model.window import CountWindow
from motet.plan.compiled import Span, span_of
from motet.template.conditions import equivalence_of
from motet.template.readings import (
    Block,
    Loop,
    Reading,
    TooManyReadings,
    is_ambiguous,
    line_of,
    readings_of,
    whole_line,
)
from motet.template.symbols import Symbol, make_symbol
from motet.template.written import (
    Beside,
    Chain,
    Either,
    Gap,
    Maybe,
    Place,
    Progress,
    Rounds,
    TooManyStates,
    Tree,
    Written,
    most_bound,
    progress_of,
    write_out,
)


@dataclass(frozen=True)
class DetectQuery:
    """All the detection engine needs to know of a query. `number` is its place in the workload.

    `absent` holds the symbols of all absences, those of NOT and then those of NEG, `absent_conditions` what else an
    event must satisfy to be one. Conditions in `whole` speak of several events; `slots` are the positions that each
    name stands for. `reason` says why it is not aggregated online.
    """

    number: int
    query: Query
    partition: tuple[str, ...]
    written: Written
    readings: tuple[Reading, ...]
    compact: bool
    ambiguous: bool
    symbols: tuple[Symbol, ...]
    absent: tuple[Symbol, ...]
    absent_conditions: tuple[tuple[Expression, ...], ...]
    whole: tuple[Expression, ...]
    names: dict[str, int]
    slots: tuple[frozenset[int], ...]
    span: Span
    certain_at_close: bool
    progress: Progress | None
    adjacent: tuple[Expression, ...]
    reason: str

    @property
    def negs(self) -> range:
        """The absences that may occur nowhere in the window."""
        return range(len(self.written.absences), len(self.absent))

    @property
    def ranked(self) -> bool:
        """Whether all events of a partition count, not only those it speaks of."""
        return self.span.ranked or self.query.policy is not Policy.SKIP_TILL_ANY

    @property
    def combined(self) -> bool:
        """Whether results are combined over partitions."""
        return set(self.partition) != set(self.query.group_by)

    @property
    def closes(self) -> bool:
        """Whether it reports when a window ends rather than when a match completes."""
        return self.certain_at_close or (self.query.is_aggregate and not self.span.continuous)

    @property
    def swept(self) -> bool:
        """Whether combining its partitions needs all of them at every moment."""
        return self.query.is_aggregate and self.combined and not self.closes

    def is_free(self, absence: int) -> bool:
        """Whether an absence depends on no bound event."""
        return not self.absent_conditions[absence]


def compile_detect(
    number: int, workload: Workload, tick: int, reason: str = "", joins: bool = False
) -> DetectQuery | Diagnostic:
    """Compile one query for detection, or say why that cannot be. `reason` says why it is not aggregated online;
    `joins`: sequences are read as items to join, so that queries can share them, even where nothing compares them.
    """
    query = _with_keys(with_variables(workload.queries[number]))
    written = write_out(query.pattern)

    def refusal(message: str, hint: str | None = None) -> Diagnostic:
        return Diagnostic(message, query.span, query.name, hint)

    absent_events = (*written.absences, *written.negated)
    sorted_ = _sort(query, written, absent_events)
    try:
        readings, compact = _readings(written.tree, sorted_.whole, joins)
        certain_at_close = _closes(written.tree) or bool(written.negated)
    except TooManyReadings:
        return refusal("an AND of this pattern has too many alternatives", "write some of them as queries of their own")
    if _defers_in_blocks(readings, sorted_.absent):
        message = "a NOT in a repeated AND cannot have conditions on other events"
        return refusal(message, "take the AND out of the repetition, or the condition off the NOT")
    progress = None
    if query.policy is Policy.SKIP_TILL_NEXT:
        try:
            progress = progress_of(written.tree)
        except TooManyStates:
            return refusal("this pattern has too many interleavings for SKIP TILL NEXT", "use fewer parts in an AND")
    slots, names = _slots(written, (*sorted_.whole, *(c for group in sorted_.absent for c in group)), query)
    symbols = [make_symbol(event.type, _local(sorted_.local, written, p)) for p, event in enumerate(written.events)]
    return DetectQuery(
        number=number,
        query=query,
        partition=tuple(sorted(query.partition)),
        written=written,
        readings=readings,
        compact=compact,
        ambiguous=is_ambiguous(readings),
        symbols=tuple(symbols),
        absent=tuple(
            make_symbol(event.type, local) for event, local in zip(absent_events, sorted_.absent_local, strict=True)
        ),
        absent_conditions=tuple(map(tuple, sorted_.absent)),
        whole=tuple(sorted_.whole),
        names=names,
        slots=slots,
        span=span_of(query, tick),
        certain_at_close=certain_at_close,
        progress=progress,
        adjacent=tuple(c for c in sorted_.whole if progress is not None and _is_adjacent(c, written, progress)),
        reason=reason,
    )


def _with_keys(query: Query) -> Query:
    """`a.x = b.x = c.x` over all variables as `[x]`: only where all are always bound and only the match counts."""
    if isinstance(query.window, CountWindow) or query.policy is not Policy.SKIP_TILL_ANY or _may_omit(query.pattern):
        return query
    found, conditions = equivalence_of(query)
    return replace(query, equivalence=(*query.equivalence, *found), conditions=conditions)


def _may_omit(pattern: Pattern) -> bool:
    """Whether a match may leave some event of a pattern unbound."""
    if isinstance(pattern, Or) or (isinstance(pattern, Repeat) and pattern.low == 0):
        return True
    return any(map(_may_omit, children(pattern)))


@dataclass
class _Sorted:
    local: dict[str, list[Expression]]
    whole: list[Expression]
    absent: list[list[Expression]]
    absent_local: list[list[Expression]]


def _sort(query: Query, written: Written, absent_events: Sequence[Event]) -> _Sorted:
    """Put each conjunct where it belongs: with one position, with an absence, or with the match."""
    found = _Sorted({}, [], [[] for _ in absent_events], [[] for _ in absent_events])
    for condition in conjuncts(*query.conditions):
        names = variables(condition)
        missing = [name for name in names if not written.of_name(name)]
        if missing:
            at = next(n for n, event in enumerate(absent_events) if missing[0] in (event.variable, event.type))
            (found.absent_local if _is_local(condition) else found.absent)[at].append(condition)
        elif _is_local(condition) and names:
            found.local.setdefault(next(iter(names)), []).append(condition)
        else:
            found.whole.append(condition)
    return found


def _is_local(condition: Expression) -> bool:
    return len(variables(condition)) <= 1 and all(
        not isinstance(node, KleeneAggregate) and (not isinstance(node, Attribute) or node.at is At.EACH)
        for node in walk(condition)
    )


def _local(local: dict[str, list[Expression]], written: Written, position: int) -> list[Expression]:
    own = [conditions for name, conditions in local.items() if position in written.of_name(name)]
    return [condition for conditions in own for condition in conditions]


def _slots(
    written: Written, conditions: Iterable[Expression], query: Query
) -> tuple[tuple[frozenset[int], ...], dict[str, int]]:
    """The positions of each name that conditions and RETURN speak of; a last slot, with none, is for absent events."""
    slots: dict[frozenset[int], int] = {}
    names: dict[str, int] = {}
    spoken = [name for condition in conditions for name in sorted(variables(condition))]
    spoken += [
        name for item in query.returns if isinstance(item, Computed) for name in sorted(variables(item.expression))
    ]
    for name in spoken:
        positions = frozenset(written.of_name(name))
        if positions:
            names[name] = slots.setdefault(positions, len(slots))
    for name in spoken:
        names.setdefault(name, len(slots))
    return (*slots, frozenset()), names


def _readings(tree: Tree, whole: Sequence[Expression], joins: bool) -> tuple[tuple[Reading, ...], bool]:
    """The readings of a pattern, and whether they are paths of one shared graph.

    Where no condition compares events, a query alone gains nothing by joining: all matches are paths of the automaton.
    """
    compared = _has_and(tree) or any(len(variables(condition)) > 1 for condition in whole)
    if not compared and not (joins and _is_plain(tree)):
        return whole_line(tree), True
    try:
        return readings_of(tree), False
    except TooManyReadings:
        return whole_line(tree), True


def _is_plain(tree: Tree) -> bool:
    """Whether a pattern is a sequence of events, perhaps with absences in between."""
    return isinstance(tree, Chain) and all(isinstance(part, Place | Gap) for part in tree.parts)


def _has_and(tree: Tree) -> bool:
    match tree:
        case Beside():
            return True
        case Chain(parts) | Either(parts):
            return any(map(_has_and, parts))
        case Rounds(part) | Maybe(part):
            return _has_and(part)
    return False


def _closes(tree: Tree) -> bool:
    """Whether some match has a NOT after all it binds, however it is read."""
    return any(frozenset() not in ways for ways in line_of(tree).last.values())


def _defers_in_blocks(readings: Iterable[Reading], conditions: Sequence[Sequence[Expression]]) -> bool:
    """Whether an absence with conditions guards a gap where only rounds of a repeated AND are known, not events."""
    for reading in readings:
        for item in reading.items:
            if isinstance(item, Loop) and any(isinstance(inner, Block) for inner in item.line.items):
                gaps = {a for ways in item.line.follow.values() for guards in ways for a in guards}
                blocks = [inner for inner in item.line.items if isinstance(inner, Block)]
                inner_readings = [inside for block in blocks for inside in block.readings]
                gaps |= {guard.absence for inside in inner_readings for guard in inside.guards}
                if any(conditions[a] for a in gaps) or _defers_in_blocks(inner_readings, conditions):
                    return True
                if any(_loop_gaps(inside, conditions) for inside in inner_readings):
                    return True
    return False


def _loop_gaps(reading: Reading, conditions: Sequence[Sequence[Expression]]) -> bool:
    """Whether a loop within a block has absences with conditions."""
    return any(
        conditions[absence]
        for item in reading.items
        if isinstance(item, Loop)
        for ways in item.line.follow.values()
        for guards in ways
        for absence in guards
    )


def _is_adjacent(condition: Expression, written: Written, progress: Progress) -> bool:
    """Whether a condition only ever compares events that directly follow each other."""
    if any(
        isinstance(node, KleeneAggregate) or (isinstance(node, Attribute) and node.at in (At.FIRST, At.LAST))
        for node in walk(condition)
    ):
        return False
    positions = [frozenset(written.of_name(name)) for name in sorted(variables(condition))]
    uses_next = any(attribute.at is At.NEXT for attribute in attributes(condition))
    later = _later(progress)

    def passed_over(starts: frozenset[int], ends: frozenset[int], own: frozenset[int]) -> bool:
        return any(
            middle in later[start] and end in later[middle]
            for start in starts
            for end in ends
            for middle in later
            if middle not in own
        )

    match positions:
        case [only] if uses_next:
            return not passed_over(only, only, only)
        case [left, right] if not uses_next:
            if most_bound(written.tree, left) > 1 or most_bound(written.tree, right) > 1:
                return False
            nobody: frozenset[int] = frozenset()
            return not (passed_over(left, right, nobody) or passed_over(right, left, nobody))
    return False


def _later(progress: Progress) -> dict[int, set[int]]:
    """For each position the positions that may be bound at any later step."""
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
