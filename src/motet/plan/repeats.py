"""Sequences with repetitions: queries whose positions form a line with ways back, and what they must agree on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from motet.plan.compiled import CompiledQuery
from motet.plan.sequences import Contribution, contribution, kind_of, sorted_out, why_alone
from motet.template.positions import OPEN, positions_of
from motet.template.symbols import Symbol

Absent = frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class RepeatedSequence:
    """A query as a line of positions, of which stretches may be repeated: `SEQ(C, SEQ(A, B)+, D)+`.

    `gaps` has what must be absent before each position, coming from the one before it. `ways_back` lead from the last
    position of a repeated stretch to its first: they lie inside one another or apart. Only sequences of equal `kind`
    can compute anything together: see `PlainSequence`.
    """

    number: int
    symbols: tuple[Symbol, ...]
    adds: tuple[Contribution, ...]
    gaps: tuple[Absent, ...]
    ways_back: tuple[tuple[int, int, Absent], ...]
    kind: tuple[object, ...]

    def __len__(self) -> int:
        return len(self.symbols)

    def stretches(self) -> tuple[tuple[int, int], ...]:
        """The outermost repeated stretches, by first and last position, in order."""
        found: list[tuple[int, int]] = []
        for last, first, _ in sorted(self.ways_back, key=lambda way: (way[1], -way[0])):
            if not found or first > found[-1][1]:
                found.append((first, last))
        return tuple(found)


def repeated_sequences(queries: Iterable[CompiledQuery]) -> tuple[list[RepeatedSequence], dict[int, str]]:
    """The queries that are sequences with repetitions, and by number why the others are not."""
    return sorted_out(queries, repeated_sequence)


def repeated_sequence(compiled: CompiledQuery) -> RepeatedSequence | str:
    """A query as a line of positions with ways back, or why it is none that could share a step with others."""
    if (reason := why_alone(compiled)) is not None:
        return reason
    positions = positions_of(compiled.query.pattern)
    line, size = positions.line, len(positions.events)
    follow = line.follow if line.empty is None and positions.items == list(range(size)) else {}
    back = {gap for gap in follow if gap[0] >= gap[1]}
    in_line = {(at, at + 1) for at in range(size - 1)}
    is_line = set(line.first) == {0} and set(line.last) == {size - 1} and set(follow) - back == in_line
    if (size > 1 and not follow) or not is_line or not _nested(back):
        return "its pattern is more than sequences and their repetitions"

    def absent(gap: tuple[int, int]) -> Absent:
        return frozenset(compiled.absences[absence] for absence in line.follow.get(gap, OPEN))

    return RepeatedSequence(
        number=compiled.number,
        symbols=compiled.symbols,
        adds=tuple(contribution(compiled.channels, at) for at in range(size)),
        gaps=tuple(absent((at - 1, at)) for at in range(size)),
        ways_back=tuple(sorted((*gap, absent(gap)) for gap in back)),
        kind=kind_of(compiled),
    )


def _nested(ways_back: Iterable[tuple[int, int]]) -> bool:
    """Whether the stretches lie inside one another or apart."""
    stretches = [(first, last) for last, first in ways_back]
    return all(b < c or d < a or (a <= c and d <= b) or (c <= a and b <= d) for a, b in stretches for c, d in stretches)
