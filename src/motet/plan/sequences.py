"""Plain sequences: queries whose positions form a line, and what two of them must agree on to compute a run once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from motet.plan.channels import Channels
from motet.plan.compiled import CompiledQuery
from motet.template.positions import OPEN, positions_of
from motet.template.symbols import Symbol

S = TypeVar("S")

# What one position adds to totals: (table, channel in it, column) of every channel it feeds.
Contribution = tuple[tuple[int, int, str | None], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One position of a plain sequence: its symbol, what it adds to totals, and what must be absent before it."""

    symbol: Symbol
    adds: Contribution
    absent: frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class PlainSequence:
    """A query as a line of positions. Only sequences of equal `kind` can compute anything together.

    `kind` is what `kind_of` says.
    """

    number: int
    steps: tuple[Step, ...]
    kind: tuple[object, ...]

    def __len__(self) -> int:
        return len(self.steps)


def plain_sequences(queries: Iterable[CompiledQuery]) -> tuple[list[PlainSequence], dict[int, str]]:
    """The queries that are plain sequences, and by number why the others are not."""
    return sorted_out(queries, plain_sequence)


def sorted_out(
    queries: Iterable[CompiledQuery], read: Callable[[CompiledQuery], S | str]
) -> tuple[list[S], dict[int, str]]:
    """Queries as what they are read for, and by number why others are not that."""
    sequences: list[S] = []
    others: dict[int, str] = {}
    for compiled in queries:
        outcome = read(compiled)
        if isinstance(outcome, str):
            others[compiled.number] = outcome
        else:
            sequences.append(outcome)
    return sequences, others


def why_alone(compiled: CompiledQuery) -> str | None:
    """Why a query can compute nothing together with others, whatever its pattern; None where it can."""
    if compiled.adjacent:
        return "a condition compares neighbours"
    if compiled.certain_at_close or compiled.automaton.leading_guard:
        return "something must be absent at an end of its pattern or from all of its window"
    if compiled.span.continuous:
        return "its window has no slide"
    return None


def kind_of(compiled: CompiledQuery) -> tuple[object, ...]:
    """What totals look like wherever they are kept: the partition, the width of a pane, and the channels."""
    channels = compiled.channels
    kinds = tuple(tuple(c.kind for c in table) for table in (channels.counts, channels.sums, channels.extremes))
    return compiled.partition, math.gcd(compiled.span.within, compiled.span.slide), kinds


def plain_sequence(compiled: CompiledQuery) -> PlainSequence | str:
    """A query as a line of positions, or why it is none that could share a run with others."""
    if (reason := why_alone(compiled)) is not None:
        return reason
    positions = positions_of(compiled.query.pattern)
    line, size = positions.line, len(positions.events)
    in_line = {(at, at + 1) for at in range(size - 1)}
    if positions.items != list(range(size)) or set(line.follow) != in_line or line.empty is not None:
        return "its pattern is not a plain sequence"
    if set(line.first) != {0} or set(line.last) != {size - 1}:
        return "its pattern is not a plain sequence"
    guards = [OPEN, *(line.follow[at, at + 1] for at in range(size - 1))]
    steps = tuple(
        Step(
            symbol, contribution(compiled.channels, at), frozenset(compiled.absences[absence] for absence in guards[at])
        )
        for at, symbol in enumerate(compiled.symbols)
    )
    return PlainSequence(compiled.number, steps, kind_of(compiled))


def contribution(channels: Channels, position: int) -> Contribution:
    """What an event at a position adds to totals."""
    tables = (channels.counts, channels.sums, channels.extremes)
    return tuple(
        (number, at, channel.column)
        for number, table in enumerate(tables)
        for at, channel in enumerate(table)
        if position in channel.positions
    )
