"""Aggregate after detection: compute what each match adds, and results over all matches of a group and window.

A *contribution* is a number of matches, in one window where windows slide, with what they add to each aggregate.
Contributions of all partitions of a group make a result, so they may come from different tasks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.compile import Program
from motet.compile.contributions import DUE, END, FROM, NUMBER, PARTS, QUERY, UNTIL, partial_columns
from motet.engine.detect.bindings import entries_at
from motet.engine.detect.instances import PlanRunner
from motet.engine.detect.windows import Bounds
from motet.engine.encode import EncodedEvents, Ints, read_column
from motet.engine.partials import filter_having, mark_inexact
from motet.kernels.match_filter import Matches
from motet.kernels.ragged import expand_ranges
from motet.model.query import Aggregate
from motet.plans.detect.query import DetectQuery
from motet.schema import EventSchema, build_table


def build_contributions(
    query: DetectQuery, found: Matches, which: Ints, times: dict[str, Any], runner: PlanRunner, program: Program
) -> pa.Table:
    """Build the contributions of matches: a row for each of `which`, with its times."""
    encoded = runner.encoded
    columns: dict[str, Any] = {QUERY: pa.array(np.full(len(which), query.number, np.int32))}
    columns[NUMBER] = pa.array(np.ones(len(which), np.int64))
    columns |= {name: pa.array(values) for name, values in times.items()}
    for name in query.query.group_by:
        columns[name] = encoded.keys[name].take(pa.array(found.key[which]))
    for at, item in enumerate(query.query.aggregates):
        if item.distinct:
            columns[f"#{query.number}_{at}_values"] = _list_values(query, item, found, encoded).take(pa.array(which))
        elif item.variable is not None:
            values = _compute_values(query, item, found, encoded)
            columns |= {f"#{query.number}_{at}_{part}": value.take(pa.array(which)) for part, value in values.items()}
    return build_table(columns, program.contribution_schema, len(which))


def _list_values(query: DetectQuery, item: Aggregate, found: Matches, encoded: EncodedEvents) -> pa.Array:
    """Return the values that each match adds to a COUNT(DISTINCT ...): of its partition, or of events it binds."""
    assert item.name is not None
    if item.variable is None:
        keys = encoded.keys[item.name].take(pa.array(found.key))
        return pa.ListArray.from_arrays(pa.array(np.arange(len(keys) + 1, dtype=np.int32)), keys)
    entries, match_of = entries_at(found, query.positions.find(item.variable))
    column = read_column(encoded.table, item.name).take(pa.array(encoded.rows[found.event[entries]]))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        valid &= ~np.isnan(column.to_numpy(zero_copy_only=False))
    counts = np.bincount(match_of[valid], minlength=len(found.key))
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), column.filter(pa.array(valid)))


def _compute_values(query: DetectQuery, item: Aggregate, found: Matches, encoded: EncodedEvents) -> dict[str, pa.Array]:
    """Compute the parts of what each match adds to one aggregate, over the events it binds to its variable."""
    assert item.variable is not None
    size = len(found.key)
    entries, match_of = entries_at(found, query.positions.find(item.variable))
    if item.name is None:
        return {"count": pa.array(np.bincount(match_of, minlength=size).astype(np.int64))}
    column = read_column(encoded.table, item.name).take(pa.array(encoded.rows[found.event[entries]]))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    match_of, column = match_of[valid], column.filter(pa.array(valid))
    values = {"count": pa.array(np.bincount(match_of, minlength=size).astype(np.int64))}
    parts = PARTS[item.function]
    if "sum" in parts:
        numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        values["sum"] = pa.array(np.bincount(match_of, numbers, size))
        if "squares" in parts:
            with np.errstate(over="ignore"):
                values["squares"] = pa.array(np.bincount(match_of, numbers * numbers, size))
    if "extreme" in parts:
        order = pc.sort_indices(column, sort_keys=[("", "descending" if item.function == "MIN" else "ascending")])
        places = order.to_numpy()
        best = np.full(size, -1, np.int64)
        best[match_of[places]] = places  # the last to be put is the extreme
        values["extreme"] = column.take(pa.array(best, mask=best < 0))
    return values


def build_results(query: DetectQuery, rows: pa.Table, program: Program, bounds: Bounds) -> pa.Table:
    """Build the results of one query from all of its contributions, those that are due in [from, to)."""
    groups = list(query.query.group_by)
    swept = query.span.is_continuous and not query.needs_window_close
    only_counts = all(item.function == "COUNT" and not item.distinct for item in query.query.aggregates)
    if swept and only_counts:
        grouped = summed = _select_within(_count_until_expiry(query, rows, groups), bounds)
    else:
        grouped = _repeat_until_expiry(rows, groups) if swept else rows
        grouped = _select_within(grouped, bounds) if query.span.within else grouped
        summed = _sum_by(query, grouped, [*groups, END])
    if not len(grouped):
        return program.result_schema.empty_table()
    size = len(summed)
    columns: dict[str, Any] = {"query": pa.repeat(query.query.name, size)}
    columns |= _read_times(query, summed.column(END).to_numpy().astype(np.int64), program.schema)
    names = program.column_names[query.number]
    columns |= {names[name]: summed.column(name) for name in groups}
    for at, item in enumerate(query.query.aggregates):
        prefix = f"#{query.number}_{at}_"
        if item.distinct:
            columns[names[item.label]] = _count_distinct(grouped, [*groups, END], f"{prefix}values")
        else:
            columns[names[item.label]] = _finish_result(item, summed, prefix, program)
    return filter_having(program, query, build_table(columns, program.result_schema, size))


def _select_within(rows: pa.Table, bounds: Bounds) -> pa.Table:
    """Return the rows that end within bounds."""
    end = rows.column(END).to_numpy()
    return rows.filter(pa.array((bounds[0] <= end) & (end < bounds[1])))


def merge_contributions(query: DetectQuery, rows: pa.Table) -> pa.Table:
    """Merge contributions of one query that count in the same results; none where they have values to tell apart."""
    if any(item.distinct for item in query.query.aggregates):
        return rows
    keys = [*query.query.group_by, END, FROM, UNTIL, DUE]
    summed = _sum_by(query, rows, keys)
    made = {name: summed.column(f"{name}_{how}") for name, how in _list_mergers(query).items()}
    made |= {QUERY: pa.repeat(query.number, len(summed))} | {name: summed.column(name) for name in keys}
    return build_table(made, rows.schema, len(summed))


def _sum_by(query: DetectQuery, rows: pa.Table, keys: list[str]) -> pa.Table:
    asked = _list_mergers(query)
    return rows.select([*keys, *asked]).group_by(keys, use_threads=False).aggregate(list(asked.items()))


def _count_distinct(rows: pa.Table, keys: list[str], name: str) -> pa.ChunkedArray:
    """Count the distinct values in lists by group, in the order in which groups first appear, as `_sum_by` has them."""
    lists = rows.column(name).combine_chunks()
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    sizes = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    kept = np.maximum(sizes, 1)  # a group without values counts none, but is there
    owner = np.repeat(np.arange(len(lists)), kept)
    places = np.repeat(np.cumsum(sizes) - sizes, kept) + np.arange(len(owner)) - np.repeat(np.cumsum(kept) - kept, kept)
    values = lists.flatten().take(pa.array(places, mask=(sizes == 0)[owner]))
    values = values.cast(pa.int8()) if pa.types.is_null(values.type) else values  # of which Arrow counts one
    flat = rows.select(keys).take(pa.array(owner)).append_column(name, values)
    counted = flat.group_by(keys, use_threads=False).aggregate([(name, "count_distinct")])
    return counted.column(f"{name}_count_distinct")


def _list_mergers(query: DetectQuery) -> dict[str, str]:
    """Map each value column to the function that merges it."""
    columns = [(name, item, part) for name, (item, part) in partial_columns(query).items() if not item.distinct]
    return {NUMBER: "sum"} | {
        name: item.function.lower() if part == "extreme" else "sum" for name, item, part in columns
    }


def _read_times(query: DetectQuery, end: Ints, schema: EventSchema) -> dict[str, pa.Array]:
    if query.span.within == 0:
        return {}
    if query.span.is_continuous:
        return {"time": schema.from_microseconds(end)}
    return {
        "window_start": schema.from_microseconds(end - query.span.within),
        "window_end": schema.from_microseconds(end),
    }


def _finish_result(item: Aggregate, table: pa.Table, prefix: str, program: Program) -> Any:
    if item.function == "COUNT":
        number = table.column(f"{NUMBER}_sum" if item.variable is None else f"{prefix}count_sum")
        return number.cast(pa.float64()) if program.options.counts == "double" else number
    if item.function in ("MIN", "MAX"):
        return table.column(f"{prefix}extreme_{item.function.lower()}")
    count = table.column(f"{prefix}count_sum").to_numpy().astype(np.float64)
    total = table.column(f"{prefix}sum_sum").to_numpy()
    with np.errstate(all="ignore"):
        if item.function == "SUM" and program.sums_exactly(item.name):
            return pa.array(mark_inexact(total), mask=count == 0)
        if item.function == "SUM":
            return _mask_unknown(total, count > 0)
        if item.function == "AVG":
            return _mask_unknown(total / count, count > 0)
        squares = table.column(f"{prefix}squares_sum").to_numpy()
        variance = np.maximum(squares - total * total / count, 0.0) / (count - 1)
        return _mask_unknown(np.sqrt(variance) if item.function == "STDDEV" else variance, count > 1)


def _mask_unknown(values: Any, known: Any) -> pa.Array:
    return pa.array(values, mask=~known | np.isnan(values))


class _AliveRows(NamedTuple):
    """Contributions of continuous queries: row i counts in the results of moments low[i] to high[i] of all groups."""

    group: Ints  # of each moment, by a row of it
    time: Ints  # of each moment
    low: Ints
    high: Ints


def _find_moments(rows: pa.Table, groups: list[str]) -> _AliveRows:
    """Find the times at which a result of a group is due, and at which of them each contribution counts.

    O(rows * log rows).
    """
    codes = np.zeros(len(rows), np.int64)
    for name in groups:
        encoded = rows.column(name).combine_chunks().dictionary_encode()
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        codes = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    end, since, until = (rows.column(name).to_numpy().astype(np.int64) for name in (END, FROM, UNTIL))
    due = np.flatnonzero(rows.column(DUE).to_numpy(zero_copy_only=False).astype(np.bool_))
    times = np.unique(end)
    size = len(times) + 1

    def place(time: Ints) -> Ints:
        """Return a number that orders groups and, within one, times."""
        return codes * size + np.searchsorted(times, time)

    moments, first = np.unique(place(end)[due], return_index=True)
    low = np.searchsorted(moments, place(np.maximum(since, end)))
    high = np.maximum(np.searchsorted(moments, place(until)), low)
    return _AliveRows(due[first], times[moments % size], low, high)


def _repeat_until_expiry(rows: pa.Table, groups: list[str]) -> pa.Table:
    """Repeat contributions for every time at which a result of their group is due while they count."""
    alive = _find_moments(rows, groups)
    counts = alive.high - alive.low
    taken = rows.take(pa.array(np.repeat(np.arange(len(rows)), counts)))
    at = alive.time[expand_ranges(alive.low, counts)]
    return taken.set_column(taken.schema.get_field_index(END), END, pa.array(at.astype(np.int64)))


def _count_until_expiry(query: DetectQuery, rows: pa.Table, groups: list[str]) -> pa.Table:
    """Sum contributions that are whole numbers at every time at which a result of their group is due.

    What comes in and what expires is added up once, so that the cost does not grow with what a window holds.
    O(rows * log rows).
    """
    alive = _find_moments(rows, groups)
    size = len(alive.time)

    def add(name: str) -> pa.Array:
        values = rows.column(name).to_numpy()
        change = np.zeros(size + 1, np.int64)
        np.add.at(change, alive.low, values)
        np.subtract.at(change, alive.high, values)
        return pa.array(np.cumsum(change)[:size])

    found = {name: rows.column(name).take(pa.array(alive.group)) for name in groups}
    sums = {f"{name}_sum": add(name) for name in _list_mergers(query)}
    return pa.table({**found, END: pa.array(alive.time), **sums}).filter(pc.greater(sums[f"{NUMBER}_sum"], 0))
