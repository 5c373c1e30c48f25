"""Queries whose positions form a line, perhaps with repetitions, and what they must agree on to compute a part once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from motet.plans.channels import Channels
from motet.plans.compiled import CompiledQuery
from motet.template.positions import FREE, build_positions
from motet.template.symbols import Symbol

SequenceT = TypeVar("SequenceT")

# What one position adds to totals: (table, channel in it, column) of every channel it feeds.
Contribution = tuple[tuple[int, int, str | None], ...]

Absent = frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """One position of a plain sequence: its symbol, what it adds to totals, and what must be absent before it."""

    symbol: Symbol
    adds: Contribution
    absent: Absent


@dataclass(frozen=True, slots=True)
class PlainSequence:
    """A query as a line of positions. Only sequences of equal `kind` can compute anything together."""

    number: int
    steps: tuple[SequenceStep, ...]
    kind: tuple[object, ...]

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, slots=True)
class RepeatedSequence:
    """A query as a line of positions, of which ranges may be repeated: `SEQ(C, SEQ(A, B)+, D)+`.

    `gaps` has what must be absent before each position, coming from the one before it. `back_edges` lead from the last
    position of a repeated range to its first: they lie inside one another or apart. Only sequences of equal `kind` can
    compute anything together.
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
        """Return the outermost repeated ranges, by first and last position, in order."""
        found: list[tuple[int, int]] = []
        for last, first, _ in sorted(self.back_edges, key=lambda edge: (edge[1], -edge[0])):
            if not found or first > found[-1][1]:
                found.append((first, last))
        return tuple(found)


def find_plain_sequences(queries: Iterable[CompiledQuery]) -> tuple[list[PlainSequence], dict[int, str]]:
    """Return the queries that are plain sequences, and by number why the others are not."""
    return _classify_queries(queries, _read_plain_sequence)


def find_repeated_sequences(queries: Iterable[CompiledQuery]) -> tuple[list[RepeatedSequence], dict[int, str]]:
    """Return the queries that are sequences with repetitions, and by number why the others are not."""
    return _classify_queries(queries, _read_repeated_sequence)


def _classify_queries(
    queries: Iterable[CompiledQuery], read: Callable[[CompiledQuery], SequenceT | str]
) -> tuple[list[SequenceT], dict[int, str]]:
    """Split queries into the sequences that `read` makes of them and, by number, the reasons why others are none."""
    sequences: list[SequenceT] = []
    others: dict[int, str] = {}
    for compiled in queries:
        result = _explain_unshareable(compiled) or read(compiled)
        if isinstance(result, str):
            others[compiled.number] = result
        else:
            sequences.append(result)
    return sequences, others


def _explain_unshareable(compiled: CompiledQuery) -> str | None:
    """Return why a query can compute nothing together with others, whatever its pattern; None where it can."""
    if compiled.adjacent:
        return "a condition compares neighbours"
    if compiled.needs_window_close or compiled.automaton.leading_guard:
        return "something must be absent at an end of its pattern or from all of its window"
    if compiled.span.is_continuous:
        return "its window has no slide"
    return None


def _read_plain_sequence(compiled: CompiledQuery) -> PlainSequence | str:
    """Read a query as a line of positions, or say why it is none."""
    sequence = _read_repeated_sequence(compiled)
    if isinstance(sequence, str) or sequence.back_edges:
        return "its pattern is not a plain sequence"
    steps = map(SequenceStep, sequence.symbols, sequence.adds, sequence.gaps)
    return PlainSequence(sequence.number, tuple(steps), sequence.kind)


def _read_repeated_sequence(compiled: CompiledQuery) -> RepeatedSequence | str:
    """Read a query as a line of positions with ways back, or say why it is none."""
    graph = build_positions(compiled.query.pattern).graph
    if not graph.is_line or not _are_nested(graph.back_edges):
        return "its pattern is more than sequences and their repetitions"

    def absent(gap: tuple[int, int]) -> Absent:
        (guard,) = graph.follow.get(gap, FREE)
        return frozenset(compiled.absences[absence] for absence in guard)

    size = len(graph.items)
    return RepeatedSequence(
        number=compiled.number,
        symbols=compiled.symbols,
        adds=tuple(_build_contribution(compiled.channels, at) for at in range(size)),
        gaps=tuple(absent((at - 1, at)) for at in range(size)),
        back_edges=tuple(sorted((*gap, absent(gap)) for gap in graph.back_edges)),
        kind=_build_sharing_kind(compiled),
    )


def _are_nested(back_edges: Iterable[tuple[int, int]]) -> bool:
    """Return whether the repeated ranges lie inside one another or apart."""
    ranges = [(first, last) for last, first in back_edges]
    return all(b < c or d < a or (a <= c and d <= b) or (c <= a and b <= d) for a, b in ranges for c, d in ranges)


def _build_contribution(channels: Channels, position: int) -> Contribution:
    """Return what an event at a position adds to totals."""
    return tuple(
        (number, at, channel.column)
        for number, table in enumerate(channels.tables)
        for at, channel in enumerate(table)
        if position in channel.positions
    )


def _build_sharing_kind(compiled: CompiledQuery) -> tuple[object, ...]:
    """Return what totals look like wherever they are kept: the partition, the width of a pane, and the channels."""
    kinds = tuple(tuple(channel.kind for channel in table) for table in compiled.channels.tables)
    return compiled.partition, math.gcd(compiled.span.within, compiled.span.slide), kinds
