"""Statistics of events for a workload: beside those of types, of the symbols and partitions that its queries have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from motet.engine.encode import classes_of, codes_of, read_column
from motet.engine.schema import EventSchema
from motet.errors import DataError, Diagnostic, did_you_mean
from motet.model.expression import Expression, attributes
from motet.model.query import Workload
from motet.plan.compiled import CompiledQuery, compile_query
from motet.plan.detect.query import compile_detect
from motet.statistics.model import Statistics, partition_text
from motet.statistics.profile import profile
from motet.statistics.symbols import symbol_text
from motet.template.symbols import Symbol


@dataclass(frozen=True)
class Questions:
    """What a workload asks of its events: how many have each symbol, and how many partitions there are by what."""

    symbols: tuple[Symbol, ...]
    partitions: tuple[tuple[str, ...], ...]
    definitions: Mapping[str, Expression]

    @property
    def columns(self) -> list[str]:
        """Every column that the symbols read."""
        read = [condition for symbol in self.symbols for condition in symbol.conditions]
        read += [self.definitions[symbol.type] for symbol in self.symbols if symbol.type in self.definitions]
        return list(dict.fromkeys(attribute.name for condition in read for attribute in attributes(condition)))


def questions_of(workload: Workload, tick: int = 1) -> Questions:
    """What to count for a workload. Symbols that are a bare type of the data are counted anyway."""
    compiled = compiled_queries(workload, tick)
    definitions = {definition.name: definition.condition for definition in workload.definitions}
    symbols = dict.fromkeys(symbol for query in compiled for symbol in (*query.symbols, *query.absences))
    online = {query.number for query in compiled}
    detected = (compile_detect(at, workload, tick) for at in range(len(workload.queries)) if at not in online)
    for query in detected:
        symbols |= {} if isinstance(query, Diagnostic) else dict.fromkeys((*query.symbols, *query.absent))
    # Of queries whose matches are found too: the more partitions, the fewer matches.
    others = (tuple(sorted(query.partition)) for query in workload.queries)
    partitions = dict.fromkeys(by for by in (*(query.partition for query in compiled), *others) if by)
    asked = tuple(symbol for symbol in symbols if symbol.conditions or symbol.type in definitions)
    return Questions(asked, tuple(partitions), definitions)


def compiled_queries(workload: Workload, tick: int = 1) -> list[CompiledQuery]:
    """The queries that the aggregate engine can take."""
    outcomes = (compile_query(number, workload, tick) for number in range(len(workload.queries)))
    return [outcome for outcome in outcomes if isinstance(outcome, CompiledQuery)]


def survey(table: pa.Table, workload: Workload, schema: EventSchema, keys: Sequence[str] = ()) -> Statistics:
    """The statistics of a table of events, with what a workload asks."""
    asked = questions_of(workload, schema.tick)
    found = profile(table, schema.time, schema.type, keys, schema.time_unit)
    usable = table.filter(_has(table, (schema.time, schema.type)))
    return replace(
        found,
        symbols=named(asked, count_symbols(usable, schema.type, asked)),
        partitionings={partition_text(by): _distinct(usable, by) for by in asked.partitions},
    )


def columns_asked(workload: Workload, schema: EventSchema, keys: Sequence[str] = ()) -> list[str]:
    """The columns that a survey reads; all of them must be there."""
    asked = questions_of(workload, schema.tick)
    by = [name for partition in asked.partitions for name in partition]
    names = list(dict.fromkeys((schema.time, schema.type, *keys, *by, *asked.columns)))
    for name in names:
        if name not in schema.columns.names:
            hint = did_you_mean(name, schema.columns.names)
            raise DataError(f"the events have no column {name!r}" + (f"; {hint}" if hint else ""))
    return names


def count_symbols(table: pa.Table, type: str, asked: Questions) -> Counter[Symbol]:
    """How many rows have each symbol; every distinct condition is evaluated once, on whole columns."""
    klass, classes = classes_of(table, codes_of(table.column(type)), asked.symbols, asked.definitions)
    rows = np.bincount(klass, minlength=len(classes))
    counts: Counter[Symbol] = Counter()
    for symbols, count in zip(classes, rows.tolist(), strict=True):
        for symbol in symbols:
            counts[symbol] += count
    return counts


def named(asked: Questions, counts: Mapping[Symbol, int]) -> dict[str, int]:
    """Counts under the names of symbols, in the order asked."""
    return {symbol_text(symbol): counts.get(symbol, 0) for symbol in asked.symbols}


def _has(table: pa.Table, names: Iterable[str]) -> pa.Array:
    present = np.ones(len(table), np.bool_)
    for name in names:
        present &= read_column(table, name).is_valid().to_numpy(zero_copy_only=False)
    return pa.array(present)


def _distinct(table: pa.Table, names: Sequence[str]) -> int:
    keys = pa.table(
        {name: codes_of(column).indices for name, column in zip(names, table.select(list(names)), strict=True)}
    )
    return len(keys.drop_null().group_by(list(names)).aggregate([]))
