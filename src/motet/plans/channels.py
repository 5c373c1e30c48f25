"""Channels: the totals an aggregate needs beside the count of matches, and how its value comes out of them."""

from __future__ import annotations

from dataclasses import dataclass

from motet.model.query import Aggregate, Query
from motet.template.positions import Positions


@dataclass(frozen=True, slots=True)
class Channel:
    """Events bound to `positions` add something to each match: one (no column), one per value, the value, its
    square, or its rank.

    `kind` is 'count', 'sum', 'square', 'min' or 'max'.
    """

    kind: str
    positions: frozenset[int]
    column: str | None


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of a query by the table they live in, each in one fixed order."""

    counts: tuple[Channel, ...]
    sums: tuple[Channel, ...]
    extremes: tuple[Channel, ...]

    @property
    def tables(self) -> tuple[tuple[Channel, ...], tuple[Channel, ...], tuple[Channel, ...]]:
        return self.counts, self.sums, self.extremes

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.counts), len(self.sums), len(self.extremes)


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One result column: the function and the channels (by index in their table) its value comes from."""

    label: str
    function: str
    column: str | None
    count: int = -1
    total: int = -1
    square: int = -1
    extreme: int = -1


def build_channels(query: Query, positions: Positions) -> tuple[Channels, tuple[ResultColumn, ...]]:
    """Build the channels that a query's aggregates need, without repetition, and its result columns."""
    tables = _ChannelLists([], [], [])
    outputs = tuple(_build_column(item, positions, tables) for item in query.aggregates)
    return Channels(tuple(tables.counts), tuple(tables.sums), tuple(tables.extremes)), outputs


@dataclass(slots=True)
class _ChannelLists:
    counts: list[Channel]
    sums: list[Channel]
    extremes: list[Channel]


def _index_of(table: list[Channel], channel: Channel) -> int:
    if channel not in table:
        table.append(channel)
    return table.index(channel)


def _build_column(item: Aggregate, positions: Positions, tables: _ChannelLists) -> ResultColumn:
    if item.variable is None:
        return ResultColumn(item.label, "COUNT", None)
    bound = frozenset(positions.of_name(item.variable))
    if item.function in ("MIN", "MAX"):
        extreme = _index_of(tables.extremes, Channel(item.function.lower(), bound, item.name))
        return ResultColumn(item.label, item.function, item.name, extreme=extreme)
    count = _index_of(tables.counts, Channel("count", bound, item.name))
    if item.function == "COUNT":
        return ResultColumn(item.label, "COUNT", item.name, count=count)
    total = _index_of(tables.sums, Channel("sum", bound, item.name))
    if item.function in ("SUM", "AVG"):
        return ResultColumn(item.label, item.function, item.name, count=count, total=total)
    square = _index_of(tables.sums, Channel("square", bound, item.name))
    return ResultColumn(item.label, item.function, item.name, count=count, total=total, square=square)
