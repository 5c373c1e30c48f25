"""Sequences with repetitions: queries whose positions form a line with ways back, and what they must agree on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from motet.plans.compiled import CompiledQuery
from motet.plans.sequences import (
    Contribution,
    build_contribution,
    build_sharing_kind,
    classify_queries,
    explain_unshareable,
)
from motet.template.positions import OPEN, build_positions
from motet.template.symbols import Symbol

Absent = frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class RepeatedSequence:
    """A query as a line of positions, of which stretches may be repeated: `SEQ(C, SEQ(A, B)+, D)+`.

    `gaps` has what must be absent before each position, coming from the one before it. `back_edges` lead from the last
    position of a repeated stretch to its first: they lie inside one another or apart. Only sequences of equal `kind`
    can compute anything together: see `PlainSequence`.
    """

    number: int
    symbols: tuple[Symbol, ...]
    adds: tuple[Contribution, ...]
    gaps: tuple[Absent, ...]
    back_edges: tuple[tuple[int, int, Absent], ...]
    kind: tuple[object, ...]

    def __len__(self) -> int:
        return len(self.symbols)

    def find_repeated_ranges(self) -> tuple[tuple[int, int], ...]:
        """Return the outermost repeated stretches, by first and last position, in order."""
        found: list[tuple[int, int]] = []
        for last, first, _ in sorted(self.back_edges, key=lambda way: (way[1], -way[0])):
            if not found or first > found[-1][1]:
                found.append((first, last))
        return tuple(found)


def find_repeated_sequences(queries: Iterable[CompiledQuery]) -> tuple[list[RepeatedSequence], dict[int, str]]:
    """Return the queries that are sequences with repetitions, and by number why the others are not."""
    return classify_queries(queries, read_repeated_sequence)


def read_repeated_sequence(compiled: CompiledQuery) -> RepeatedSequence | str:
    """Return a query as a line of positions with ways back, or why it is none that could share a step with others."""
    if (reason := explain_unshareable(compiled)) is not None:
        return reason
    positions = build_positions(compiled.query.pattern)
    graph, size = positions.graph, len(positions.events)
    follow = graph.follow if graph.empty is None and positions.items == list(range(size)) else {}
    back = {gap for gap in follow if gap[0] >= gap[1]}
    in_line = {(at, at + 1) for at in range(size - 1)}
    is_line = set(graph.first) == {0} and set(graph.last) == {size - 1} and set(follow) - back == in_line
    if (size > 1 and not follow) or not is_line or not _are_nested(back):
        return "its pattern is more than sequences and their repetitions"

    def absent(gap: tuple[int, int]) -> Absent:
        return frozenset(compiled.absences[absence] for absence in graph.follow.get(gap, OPEN))

    return RepeatedSequence(
        number=compiled.number,
        symbols=compiled.symbols,
        adds=tuple(build_contribution(compiled.channels, at) for at in range(size)),
        gaps=tuple(absent((at - 1, at)) for at in range(size)),
        back_edges=tuple(sorted((*gap, absent(gap)) for gap in back)),
        kind=build_sharing_kind(compiled),
    )


def _are_nested(back_edges: Iterable[tuple[int, int]]) -> bool:
    """Return whether the stretches lie inside one another or apart."""
    stretches = [(first, last) for last, first in back_edges]
    return all(b < c or d < a or (a <= c and d <= b) or (c <= a and b <= d) for a, b in stretches for c, d in stretches)
