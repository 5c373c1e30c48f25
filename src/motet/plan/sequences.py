"""Plain sequences: queries whose positions form a line, and what two of them must agree on to compute a run once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from motet.plan.channels import Channels
from motet.plan.compiled import CompiledQuery
from motet.template.positions import OPEN, positions_of
from motet.template.symbols import Symbol

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

    `kind` is what totals look like wherever they are kept: the partition, the width of a pane, and the channels.
    """

    number: int
    steps: tuple[Step, ...]
    kind: tuple[object, ...]

    def __len__(self) -> int:
        return len(self.steps)


def plain_sequences(queries: Iterable[CompiledQuery]) -> tuple[list[PlainSequence], dict[int, str]]:
    """The queries that are plain sequences, and by number why the others are not."""
    sequences: list[PlainSequence] = []
    others: dict[int, str] = {}
    for compiled in queries:
        match plain_sequence(compiled):
            case PlainSequence() as sequence:
                sequences.append(sequence)
            case str() as reason:
                others[compiled.number] = reason
    return sequences, others


def plain_sequence(compiled: CompiledQuery) -> PlainSequence | str:
    """A query as a line of positions, or why it is none that could share a run with others."""
    positions = positions_of(compiled.query.pattern)
    line, size = positions.line, len(positions.events)
    if compiled.adjacent:
        return "a condition compares neighbours"
    if compiled.certain_at_close or compiled.automaton.leading_guard:
        return "something must be absent at an end of its pattern or from all of its window"
    if compiled.span.continuous:
        return "its window has no slide"
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
    span = compiled.span
    pane = math.gcd(span.within, span.slide)
    return PlainSequence(compiled.number, steps, (compiled.partition, pane, channel_kinds(compiled.channels)))


def contribution(channels: Channels, position: int) -> Contribution:
    """What an event at a position adds to totals."""
    tables = (channels.counts, channels.sums, channels.extremes)
    return tuple(
        (number, at, channel.column)
        for number, table in enumerate(tables)
        for at, channel in enumerate(table)
        if position in channel.positions
    )


def channel_kinds(channels: Channels) -> tuple[tuple[str, ...], ...]:
    """What totals look like: the kinds of all channels, by table."""
    return tuple(
        tuple(channel.kind for channel in table) for table in (channels.counts, channels.sums, channels.extremes)
    )
