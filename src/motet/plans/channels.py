"""Channels: the totals an aggregate needs beside the count of matches, and how its value comes out of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

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
    """One result column: the function and the channels (by index in their table) its value comes from.

    `distinct` columns count partitions with a match: after the channels, partials have a column for each of them.
    """

    label: str
    function: str
    column: str | None
    distinct: bool = False
    count: int = -1
    total: int = -1
    square: int = -1
    extreme: int = -1


def build_channels(query: Query, positions: Positions) -> tuple[Channels, tuple[ResultColumn, ...]]:
    """Build the channels that a query's aggregates need, without repetition, and its result columns."""
    counts: list[Channel] = []
    sums: list[Channel] = []
    extremes: list[Channel] = []

    def build_column(item: Aggregate) -> ResultColumn:
        column = ResultColumn(item.label, item.function, item.name, item.distinct)
        if item.variable is None:
            return column
        bound = positions.find(item.variable)
        if item.function in ("MIN", "MAX"):
            return replace(column, extreme=_index_of(extremes, Channel(item.function.lower(), bound, item.name)))
        column = replace(column, count=_index_of(counts, Channel("count", bound, item.name)))
        if item.function != "COUNT":
            column = replace(column, total=_index_of(sums, Channel("sum", bound, item.name)))
        if item.function in ("VAR", "STDDEV"):
            column = replace(column, square=_index_of(sums, Channel("square", bound, item.name)))
        return column

    columns = tuple(map(build_column, query.aggregates))
    columns = tuple(
        replace(column, count=len(counts)) if column.distinct and column.column not in query.group_by else column
        for column in columns
    )
    return Channels(tuple(counts), tuple(sums), tuple(extremes)), columns


def unite_channels(all_channels: Iterable[Channels]) -> Channels:
    """Return the channels that any of these has, each once."""
    tables = zip(*(channels.tables for channels in all_channels), strict=True)
    counts, sums, extremes = (tuple(dict.fromkeys(channel for table in kind for channel in table)) for kind in tables)
    return Channels(counts, sums, extremes)


def widen_channels(channels: Channels, shape: tuple[int, ...]) -> Channels:
    """Return channels of a shape: these, and such as no event adds anything to."""
    counts, sums, extremes = (
        (*table, *(Channel(kind, frozenset(), None) for _ in range(size - len(table))))
        for table, size, kind in zip(channels.tables, shape, ("count", "sum", "min"), strict=True)
    )
    return Channels(counts, sums, extremes)


def locate_channels(own: Channels, united: Channels) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return where each channel is among others, by table."""
    counts, sums, extremes = (
        tuple(table.index(channel) for channel in channels)
        for channels, table in zip(own.tables, united.tables, strict=True)
    )
    return counts, sums, extremes


def _index_of(table: list[Channel], channel: Channel) -> int:
    if channel not in table:
        table.append(channel)
    return table.index(channel)
