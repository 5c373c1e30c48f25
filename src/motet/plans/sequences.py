"""Plain sequences: queries whose positions form a line, and what two of them must agree on to compute a run once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from motet.plans.channels import Channels
from motet.plans.compiled import CompiledQuery
from motet.template.positions import OPEN, build_positions
from motet.template.symbols import Symbol

SequenceT = TypeVar("SequenceT")

# What one position adds to totals: (table, channel in it, column) of every channel it feeds.
Contribution = tuple[tuple[int, int, str | None], ...]


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """One position of a plain sequence: its symbol, what it adds to totals, and what must be absent before it."""

    symbol: Symbol
    adds: Contribution
    absent: frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class PlainSequence:
    """A query as a line of positions. Only sequences of equal `kind` can compute anything together.

    `kind` is what `build_sharing_kind` says.
    """

    number: int
    steps: tuple[SequenceStep, ...]
    kind: tuple[object, ...]

    def __len__(self) -> int:
        return len(self.steps)


def find_plain_sequences(queries: Iterable[CompiledQuery]) -> tuple[list[PlainSequence], dict[int, str]]:
    """Return the queries that are plain sequences, and by number why the others are not."""
    return classify_queries(queries, read_plain_sequence)


def classify_queries(
    queries: Iterable[CompiledQuery], read: Callable[[CompiledQuery], SequenceT | str]
) -> tuple[list[SequenceT], dict[int, str]]:
    """Split queries into the sequences that `read` makes of them and, by number, the reasons why others are none."""
    sequences: list[SequenceT] = []
    others: dict[int, str] = {}
    for compiled in queries:
        result = read(compiled)
        if isinstance(result, str):
            others[compiled.number] = result
        else:
            sequences.append(result)
    return sequences, others


def explain_unshareable(compiled: CompiledQuery) -> str | None:
    """Return why a query can compute nothing together with others, whatever its pattern; None where it can."""
    if compiled.adjacent:
        return "a condition compares neighbours"
    if compiled.needs_window_close or compiled.automaton.leading_guard:
        return "something must be absent at an end of its pattern or from all of its window"
    if compiled.span.is_continuous:
        return "its window has no slide"
    return None


def build_sharing_kind(compiled: CompiledQuery) -> tuple[object, ...]:
    """Return what totals look like wherever they are kept: the partition, the width of a pane, and the channels."""
    channels = compiled.channels
    kinds = tuple(tuple(c.kind for c in table) for table in (channels.counts, channels.sums, channels.extremes))
    return compiled.partition, math.gcd(compiled.span.within, compiled.span.slide), kinds


def read_plain_sequence(compiled: CompiledQuery) -> PlainSequence | str:
    """Return a query as a line of positions, or why it is none that could share a run with others."""
    if (reason := explain_unshareable(compiled)) is not None:
        return reason
    positions = build_positions(compiled.query.pattern)
    graph, size = positions.graph, len(positions.events)
    in_line = {(at, at + 1) for at in range(size - 1)}
    if positions.items != list(range(size)) or set(graph.follow) != in_line or graph.empty is not None:
        return "its pattern is not a plain sequence"
    if set(graph.first) != {0} or set(graph.last) != {size - 1}:
        return "its pattern is not a plain sequence"
    guards = [OPEN, *(graph.follow[at, at + 1] for at in range(size - 1))]
    steps = tuple(
        SequenceStep(
            symbol,
            build_contribution(compiled.channels, at),
            frozenset(compiled.absences[absence] for absence in guards[at]),
        )
        for at, symbol in enumerate(compiled.symbols)
    )
    return PlainSequence(compiled.number, steps, build_sharing_kind(compiled))


def build_contribution(channels: Channels, position: int) -> Contribution:
    """Return what an event at a position adds to totals."""
    tables = (channels.counts, channels.sums, channels.extremes)
    return tuple(
        (number, at, channel.column)
        for number, table in enumerate(tables)
        for at, channel in enumerate(table)
        if position in channel.positions
    )
