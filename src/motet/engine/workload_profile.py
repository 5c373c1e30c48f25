"""Profile events for a workload: statistics of its symbols and partitions beside those of types."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.compile.times import lower_times
from motet.engine.encode import classify_events, count_by_symbol, encode_dictionary, read_times
from motet.errors import Diagnostic, require_columns
from motet.kernels.ragged import offsets_from_counts
from motet.model.expression import Expression, attributes
from motet.model.query import Workload
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.detect.query import DetectQuery, compile_detect
from motet.schema import EventSchema
from motet.statistics.cells import arrange_times, estimate_cells
from motet.statistics.model import Statistics, format_partition, format_symbol
from motet.statistics.profile import profile
from motet.statistics.sample import SampledRows
from motet.template.symbols import Symbol


@dataclass(frozen=True)
class StatisticsRequest:
    """What to count for a workload: the events of each symbol, and the partitions by each set of attributes, which is
    empty where events are not partitioned.
    """

    symbols: tuple[Symbol, ...]
    partitions: tuple[tuple[str, ...], ...]
    definitions: Mapping[str, Expression]

    @property
    def columns(self) -> list[str]:
        """Every column that the symbols read."""
        read = [condition for symbol in self.symbols for condition in symbol.all_conditions(self.definitions)]
        return list(dict.fromkeys(attribute.name for condition in read for attribute in attributes(condition)))


def statistics_request(workload: Workload, schema: EventSchema) -> StatisticsRequest:
    """Return what to count for a workload. Symbols that are a bare type of the data are counted anyway."""
    workload, tick = lower_times(workload, schema), schema.tick
    online = compile_online_queries(workload, tick)
    numbers = {query.number for query in online}
    detected = (compile_detect(at, workload, tick) for at in range(len(workload.queries)) if at not in numbers)
    return request_for_queries(workload, [*online, *(query for query in detected if not isinstance(query, Diagnostic))])


def request_for_queries(workload: Workload, compiled: Sequence[CompiledQuery | DetectQuery]) -> StatisticsRequest:
    """Return what to count for compiled queries of a workload."""
    definitions = {definition.name: definition.condition for definition in workload.definitions}
    symbols = dict.fromkeys(
        symbol
        for query in compiled
        for symbol in (*query.symbols, *(query.absences if isinstance(query, CompiledQuery) else query.absent))
    )
    # Of queries whose matches are found too: the more partitions, the fewer matches.
    others = (tuple(sorted(query.partition)) for query in workload.queries)
    partitions = dict.fromkeys((*(query.partition for query in compiled), *others))
    request = tuple(symbol for symbol in symbols if symbol.conditions or symbol.type in definitions)
    return StatisticsRequest(request, tuple(partitions), definitions)


def compile_online_queries(workload: Workload, tick: int | Fraction = 1) -> list[CompiledQuery]:
    """Compile the queries that can be aggregated online."""
    outcomes = (compile_query(number, workload, tick) for number in range(len(workload.queries)))
    return [outcome for outcome in outcomes if isinstance(outcome, CompiledQuery)]


def profile_workload(table: pa.Table, workload: Workload, schema: EventSchema, keys: Sequence[str] = ()) -> Statistics:
    """Return the statistics of a table of events, with those that a workload needs."""
    request = statistics_request(workload, schema)
    found = profile(table, schema.time, schema.type, keys, schema.time_unit)
    counted = estimate_statistics(SampledRows((table,), len(table)), request, schema)
    return replace(found, symbols=counted.symbols, partitionings=counted.partitionings, cells=counted.cells)


def estimate_statistics(sample: SampledRows, request: StatisticsRequest, schema: EventSchema) -> Statistics:
    """Estimate the statistics of all events from a sample of them; exact where it is the whole.

    O(rows of the sample * (symbols + partitionings) * log rows).
    """
    table = pa.concat_tables(sample.stretches).combine_chunks()
    lengths, read = np.array([len(each) for each in sample.stretches]), len(table)
    if table[schema.time].null_count or table[schema.type].null_count:
        valid = pc.and_(pc.is_valid(table[schema.time]), pc.is_valid(table[schema.type]))
        kept = offsets_from_counts(valid.to_numpy())
        lengths = np.diff(kept[offsets_from_counts(lengths)])
        table = table.filter(valid)
    if not len(table):
        unseen = {format_partition(by): 0 for by in request.partitions if by}
        return Statistics(symbols=name_counts(request, {}), partitionings=unseen, sampled=read)
    rows = sample.rows * len(table) / read
    time = read_times(table, schema)
    ends = (end if not end[schema.time].null_count else end.filter(end[schema.time].is_valid()) for end in sample.ends)
    reached = [time, *(read_times(end, schema) for end in ends if len(end))]
    first, last = int(min(map(np.min, reached))), int(max(map(np.max, reached)))
    # Each stretch stands for as many rows.
    lengths = lengths[lengths > 0]
    weights = np.repeat(rows / len(lengths) / lengths, lengths)
    types = encode_dictionary(table.column(schema.type))
    counts = np.bincount(types.indices.to_numpy(zero_copy_only=False), weights, len(types.dictionary))
    klass, classes = classify_events(table, types, request.symbols, request.definitions)
    symbols: defaultdict[Symbol, float] = defaultdict(float)
    for found, size in zip(classes, np.bincount(klass, weights, len(classes)).tolist(), strict=True):
        for symbol in found:
            symbols[symbol] += size
    times = arrange_times(time, lengths.tolist(), rows, last - first)
    keys = {format_partition(by): number_keys(table, by) if by else None for by in request.partitions}
    estimates = {name: estimate_cells(times, numbers) for name, numbers in keys.items()}
    named = zip(types.dictionary.to_pylist(), counts.tolist(), strict=True)
    return Statistics(
        counts={name: round(count) for name, count in sorted(named)},
        first=first,
        last=last,
        symbols=name_counts(request, {symbol: round(count) for symbol, count in symbols.items()}),
        partitionings={name: count for name, (_, count) in estimates.items() if name},
        cells={name: cells for name, (cells, _) in estimates.items()},
        sampled=read,
    )


def number_keys(table: pa.Table, partition: Sequence[str]) -> NDArray[np.int64]:
    """Assign numbers from 0 to the keys of rows, -1 where a row has none."""
    numbers = np.zeros(len(table), np.int64)
    for at, name in enumerate(partition):
        encoded = encode_dictionary(table.column(name))
        codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        if at == 0:
            numbers = codes
            continue
        both = np.where((codes < 0) | (numbers < 0), -1, numbers * len(encoded.dictionary) + codes)
        numbers = np.unique(both, return_inverse=True)[1] - (both.min(initial=0) < 0)
    return numbers


def columns_to_profile(workload: Workload, schema: EventSchema, keys: Sequence[str] = ()) -> list[str]:
    """Return the columns that a profile reads. Raises `DataError` if one is missing."""
    request = statistics_request(workload, schema)
    by = [name for partition in request.partitions for name in partition]
    names = list(dict.fromkeys((schema.time, schema.type, *keys, *by, *request.columns)))
    require_columns(schema.known_names, [name for name in names if name != schema.type])
    return names


def count_symbols(table: pa.Table, type: str, request: StatisticsRequest) -> Counter[Symbol]:
    """Count the rows of each symbol; every distinct condition is evaluated once, on whole columns."""
    klass, classes = classify_events(table, encode_dictionary(table.column(type)), request.symbols, request.definitions)
    return count_by_symbol(klass, classes)


def name_counts(request: StatisticsRequest, counts: Mapping[Symbol, int]) -> dict[str, int]:
    """Return counts by the names of symbols, in the order of the request."""
    return {format_symbol(symbol): counts.get(symbol, 0) for symbol in request.symbols}
