"""Spreads events over tasks: by their key, and where one key holds too many of them, by slices of its time.

A slice [a, b) of a hot key is given to a task with the events of [a - halo, b), and the task reports only what falls
due in [a, b). The slices of a key cover all time, so the first has no lower bound and the last no upper one.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from motet.spark.tables import column

ROWS, TIME, CHANCE = "__rows", "__time", "__chance"
LOWER, START, UPPER, SLICE, TASK, PLACE = "__lower", "__start", "__upper", "__slice", "__task", "__place"
# What a key that is not cut has for a slice.
WHOLE = -1
# Fewer rows than this are not worth a task of their own.
ROWS_PER_TASK = 20_000
# Finding slices and repeating their halos costs about as much as running the rows, so a key must hold this many times
# the rows of a fair task before the wait for it is longer.
HOT = 3
# A slice must be this many times as long as the events before it that it repeats.
SLICE_PER_HALO = 2
# More rows of a sample than these say no more.
MOST_SAMPLED = 1_000_000
# Up to this many slices, rows find theirs by conditions written out; beyond, by a join.
WRITTEN_OUT = 32
_BEFORE_ALL, _AFTER_ALL = -(2**63), 2**63 - 1

Bounds = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class BigKey:
    """A key with many rows: its place in the table of such keys, about how many rows, and times of some, in order."""

    index: int
    rows: float
    times: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a big key that one task works on, without bounds where it is all of it."""

    key: int
    bounds: Bounds
    rows: float
    task: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """Where rows go: `tasks` of them (None: Spark's choice), by key, save the slices of hot keys that a table lists.

    The table has the key, LOWER and UPPER bound of the times a slice needs, its own START, its SLICE number and its
    TASK. `bounds` has the times it reports, by number.
    """

    tasks: int | None
    slices: pa.Table | None = None
    bounds: dict[int, Bounds] = field(default_factory=dict)


def even_layout(rows: float, largest: float, session: SparkSession, partitions: int | None) -> Layout | None:
    """A layout by key for so many rows, of which one key seems to hold at most a share; None where that is hot, or so
    near to it that one had better look closer.
    """
    limit = partitions or _shuffle_partitions(session)
    if limit <= HOT:
        return Layout(partitions)
    tasks = _tasks(rows, limit, partitions)
    return Layout(tasks) if largest * tasks < HOT / 2 else None


def find_layout(
    sample: DataFrame, fraction: float, keys: tuple[str, ...], time: Column, halo: int, partitions: int | None
) -> Layout:
    """Tell from a fraction of the rows which keys hold too many for one task, and cut those."""
    limit = partitions or _shuffle_partitions(sample.sparkSession)
    if limit <= HOT:
        return Layout(partitions)
    found = _collected(sample, keys, time)
    rows = found.num_rows / fraction
    tasks = _tasks(rows, limit, partitions)
    share = rows / tasks
    names, big = _big_keys(found, fraction, share / 2)
    if not any(key.rows > HOT * share for key in big):
        return Layout(tasks)
    pieces = [piece for key in big for piece in _slices(key, share, halo)]
    slices = _assign(pieces, max(0, rows - sum(key.rows for key in big)) / tasks, tasks)
    bounds = {number: piece.bounds for number, piece in enumerate(slices) if piece.bounds != (None, None)}
    return Layout(tasks, _slice_table(slices, bounds, names, halo), bounds)


def _tasks(rows: float, limit: int, partitions: int | None) -> int:
    return partitions or max(1, min(limit, int(rows / ROWS_PER_TASK)))


def _shuffle_partitions(session: SparkSession) -> int:
    return int(session.conf.get("spark.sql.shuffle.partitions") or 1)


def arrange(events: DataFrame, keys: tuple[str, ...], time: Column, layout: Layout) -> DataFrame:
    """Events in the partitions that a layout says; with a last column SLICE where it has bounds."""
    if layout.slices is None or layout.tasks is None:
        return by_key(events, keys, layout.tasks)
    joined = _beside_slices(events, keys, layout.slices, time)
    home = sf.pmod(sf.hash(*(column(key) for key in keys)), sf.lit(layout.tasks)) if keys else sf.lit(0)
    kept = [column(name) for name in events.columns]
    if layout.bounds:
        kept.append(sf.coalesce(sf.col(SLICE), sf.lit(WHOLE)).alias(SLICE))
    placed = joined.select(*kept, sf.coalesce(sf.col(TASK), home).alias(TASK))
    return placed.repartitionById(layout.tasks, TASK).drop(TASK)


def by_key(events: DataFrame, keys: tuple[str, ...], partitions: int | None) -> DataFrame:
    """Rows of equal keys in one partition."""
    if not keys:
        return events.repartition(1)
    by = [column(key) for key in keys]
    # Without a number, Spark may join small partitions into one task.
    return events.repartition(*by) if partitions is None else events.repartition(partitions, *by)


def _collected(sample: DataFrame, keys: tuple[str, ...], time: Column) -> pa.Table:
    """A sample as columns __key0, ..., __time; an even part of it where it is too large."""
    named = [column(key).alias(name) for key, name in zip(keys, _key_names(keys), strict=True)]
    rows = sample.select(*named, time.alias(TIME), sf.rand(seed=1).alias(CHANCE))
    return rows.orderBy(CHANCE).limit(MOST_SAMPLED).drop(CHANCE).toArrow()


def _big_keys(sample: pa.Table, fraction: float, least: float) -> tuple[pa.Table, list[BigKey]]:
    """The keys that hold more rows than the least, as far as a sample tells; and a table of them."""
    names = [name for name in sample.column_names if name != TIME]
    if not sample.num_rows:
        return sample.select(names), []
    # A constant beside the keys, for where there are none.
    together = sample.append_column(ROWS, pa.nulls(sample.num_rows, pa.int8()))
    grouped = together.group_by([*names, ROWS]).aggregate([(TIME, "list")])
    counts = pc.list_value_length(grouped[f"{TIME}_list"]).cast(pa.float64())
    big = grouped.filter(pc.greater(pc.divide(counts, fraction), least))
    times = [np.sort(found.values.to_numpy()) for found in big[f"{TIME}_list"]]
    return big.select(names), [BigKey(index, len(own) / fraction, own) for index, own in enumerate(times)]


def _slices(key: BigKey, share: float, halo: int) -> list[Slice]:
    """One slice for each fair share of rows, unless they would be short beside the halo they repeat."""
    first, last = int(key.times[0]), int(key.times[-1])
    shortest = max(1, SLICE_PER_HALO * halo)
    wanted = min(math.ceil(key.rows / share), (last - first) // shortest)
    cuts: list[int] = []
    for part in range(1, wanted):
        cut = int(key.times[round(part * (len(key.times) - 1) / wanted)])
        if cut - (cuts[-1] if cuts else first) >= shortest:
            cuts.append(cut)
    edges = [None, *cuts, None]
    return [Slice(key.index, bounds, key.rows / (len(edges) - 1)) for bounds in pairwise(edges)]


def _assign(slices: list[Slice], others: float, tasks: int) -> list[Slice]:
    """Give the largest slices first, each to the task with the fewest rows; every task has some `others` already."""
    loads = [(others, task) for task in range(tasks)]
    assigned = []
    for piece in sorted(slices, key=lambda piece: -piece.rows):
        load, task = heapq.heappop(loads)
        heapq.heappush(loads, (load + piece.rows, task))
        assigned.append(replace(piece, task=task))
    return assigned


def _slice_table(slices: list[Slice], bounds: dict[int, Bounds], keys: pa.Table, halo: int) -> pa.Table:
    """What `Layout.slices` holds. Keys that are not cut share one number, so that a task runs them in one call."""
    lower = [_BEFORE_ALL if piece.bounds[0] is None else piece.bounds[0] - halo for piece in slices]
    start = [_BEFORE_ALL if piece.bounds[0] is None else piece.bounds[0] for piece in slices]
    upper = [_AFTER_ALL if piece.bounds[1] is None else piece.bounds[1] for piece in slices]
    numbers = [number if number in bounds else WHOLE for number in range(len(slices))]
    return pa.table(
        {
            **{name: keys[name].take(pa.array([piece.key for piece in slices])) for name in keys.column_names},
            LOWER: pa.array(lower, pa.int64()),
            START: pa.array(start, pa.int64()),
            UPPER: pa.array(upper, pa.int64()),
            SLICE: pa.array(numbers, pa.int32()),
            TASK: pa.array([piece.task for piece in slices], pa.int32()),
        }
    )


def _beside_slices(events: DataFrame, keys: tuple[str, ...], table: pa.Table, time: Column) -> DataFrame:
    """Events with the SLICE and TASK of each slice of a table that needs them; with nulls where their key has none."""
    plain = all(isinstance(value, int | str) for name in _key_names(keys) for value in table[name].to_pylist())
    if not plain or table.num_rows > WRITTEN_OUT:
        return _join(events, keys, table, time)
    own, again = sf.lit(None).cast("int"), sf.lit(None).cast("int")
    for number, row in enumerate(table.to_pylist()):
        matches = sf.lit(True)
        for key, name in zip(keys, _key_names(keys), strict=True):
            matches = matches & (column(key) == sf.lit(row[name]))
        own = sf.when(matches & (time >= row[START]) & (time < row[UPPER]), sf.lit(number)).otherwise(own)
        if row[LOWER] < row[START]:
            again = sf.when(matches & (time >= row[LOWER]) & (time < row[START]), sf.lit(number)).otherwise(again)
    placed = events.withColumn(PLACE, own)
    if (table[LOWER].to_numpy() < table[START].to_numpy()).any():
        # Reading the few rows of halos once more costs less than making a list of places for every row.
        placed = placed.union(events.withColumn(PLACE, again).filter(sf.col(PLACE).isNotNull()))
    return placed.select(
        *(column(name) for name in events.columns),
        *(sf.get(sf.array(*map(sf.lit, table[name].to_pylist())), sf.col(PLACE)).alias(name) for name in (SLICE, TASK)),
    )


def _join(events: DataFrame, keys: tuple[str, ...], table: pa.Table, time: Column) -> DataFrame:
    """Events beside each slice of a table that needs them; beside nothing where their key has none."""
    small = sf.broadcast(events.sparkSession.createDataFrame(table))
    condition = (time >= sf.col(LOWER)) & (time < sf.col(UPPER))
    for key, name in zip(keys, _key_names(keys), strict=True):
        condition = (column(key) == sf.col(name)) & condition
    return events.join(small, condition, "left")


def _key_names(keys: tuple[str, ...]) -> list[str]:
    return [f"__key{place}" for place in range(len(keys))]
