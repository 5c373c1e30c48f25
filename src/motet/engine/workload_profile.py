"""Profile events for a workload: statistics of its symbols and partitions beside those of types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.encode import classify_events, count_by_symbol, encode_dictionary
from motet.errors import Diagnostic, require_columns
from motet.model.expression import Expression, attributes
from motet.model.query import Workload
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.detect.query import compile_detect
from motet.schema import EventSchema
from motet.statistics.model import Statistics, format_partition, format_symbol
from motet.statistics.profile import profile
from motet.template.symbols import Symbol


@dataclass(frozen=True)
class StatisticsRequest:
    """What to count for a workload: the events of each symbol, and the partitions by each set of attributes."""

    symbols: tuple[Symbol, ...]
    partitions: tuple[tuple[str, ...], ...]
    definitions: Mapping[str, Expression]

    @property
    def columns(self) -> list[str]:
        """Every column that the symbols read."""
        read = [condition for symbol in self.symbols for condition in symbol.all_conditions(self.definitions)]
        return list(dict.fromkeys(attribute.name for condition in read for attribute in attributes(condition)))


def statistics_request(workload: Workload, tick: int = 1) -> StatisticsRequest:
    """Return what to count for a workload. Symbols that are a bare type of the data are counted anyway."""
    compiled = compile_online_queries(workload, tick)
    definitions = {definition.name: definition.condition for definition in workload.definitions}
    symbols = dict.fromkeys(symbol for query in compiled for symbol in (*query.symbols, *query.absences))
    online = {query.number for query in compiled}
    detected = (compile_detect(at, workload, tick) for at in range(len(workload.queries)) if at not in online)
    for query in detected:
        symbols |= {} if isinstance(query, Diagnostic) else dict.fromkeys((*query.symbols, *query.absent))
    # Of queries whose matches are found too: the more partitions, the fewer matches.
    others = (tuple(sorted(query.partition)) for query in workload.queries)
    partitions = dict.fromkeys(by for by in (*(query.partition for query in compiled), *others) if by)
    request = tuple(symbol for symbol in symbols if symbol.conditions or symbol.type in definitions)
    return StatisticsRequest(request, tuple(partitions), definitions)


def compile_online_queries(workload: Workload, tick: int = 1) -> list[CompiledQuery]:
    """Compile the queries that can be aggregated online."""
    outcomes = (compile_query(number, workload, tick) for number in range(len(workload.queries)))
    return [outcome for outcome in outcomes if isinstance(outcome, CompiledQuery)]


def profile_workload(table: pa.Table, workload: Workload, schema: EventSchema, keys: Sequence[str] = ()) -> Statistics:
    """Return the statistics of a table of events, with those that a workload needs."""
    request = statistics_request(workload, schema.tick)
    found = profile(table, schema.time, schema.type, keys, schema.time_unit)
    usable = table.filter(pc.and_(pc.is_valid(table[schema.time]), pc.is_valid(table[schema.type])))
    return replace(
        found,
        symbols=name_counts(request, count_symbols(usable, schema.type, request)),
        partitionings={format_partition(by): _count_distinct(usable, by) for by in request.partitions},
    )


def columns_to_profile(workload: Workload, schema: EventSchema, keys: Sequence[str] = ()) -> list[str]:
    """Return the columns that a profile reads. Raises `DataError` if one is missing."""
    request = statistics_request(workload, schema.tick)
    by = [name for partition in request.partitions for name in partition]
    names = list(dict.fromkeys((schema.time, schema.type, *keys, *by, *request.columns)))
    require_columns(schema.columns.names, names)
    return names


def count_symbols(table: pa.Table, type: str, request: StatisticsRequest) -> Counter[Symbol]:
    """Count the rows of each symbol; every distinct condition is evaluated once, on whole columns."""
    klass, classes = classify_events(table, encode_dictionary(table.column(type)), request.symbols, request.definitions)
    return count_by_symbol(klass, classes)


def name_counts(request: StatisticsRequest, counts: Mapping[Symbol, int]) -> dict[str, int]:
    """Return counts by the names of symbols, in the order of the request."""
    return {format_symbol(symbol): counts.get(symbol, 0) for symbol in request.symbols}


def _count_distinct(table: pa.Table, names: Sequence[str]) -> int:
    keys = pa.table(
        {name: encode_dictionary(column).indices for name, column in zip(names, table.select(list(names)), strict=True)}
    )
    return len(keys.drop_null().group_by(list(names)).aggregate([]))
