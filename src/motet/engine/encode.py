"""Event tables as the arrays kernels read: by key and time, with classes of events in place of types and conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.engine.expressions import holds
from motet.engine.schema import TICKS, EventSchema, is_text
from motet.errors import DataError
from motet.kernels.order import order_by_key, ranks, sort_disordered
from motet.kernels.tables import Events
from motet.kernels.totals import NOTHING
from motet.model.expression import Attribute, Expression
from motet.plan.units import Unit
from motet.template.symbols import Symbol

Ints = NDArray[np.int64]


@dataclass
class Encoded:
    """Events in order of key and time. `rows` are their places in the table they came from."""

    table: pa.Table
    rows: Ints
    offsets: Ints
    time: Ints
    klass: NDArray[np.int32]
    classes: list[frozenset[Symbol]]
    keys: dict[str, pa.Array]  # by partition attribute: the value of each key
    enter: Ints
    leave: Ints
    words: dict[str, pa.Array] = field(default_factory=dict)  # by text column: its distinct values in order
    _columns: dict[str, pa.Array] = field(default_factory=dict)

    def column(self, name: str) -> pa.Array:
        """A column of the table in this order."""
        if name not in self._columns:
            self._columns[name] = read_column(self.table, name).take(pa.array(self.rows))
        return self._columns[name]

    def wholes(self, name: str, kind: str) -> Any:
        """Whether a column has a value, or its values as whole numbers of the same order; a text's is its place
        among `words`.
        """
        column = self.column(name)
        if kind == "count":
            return column.is_valid().to_numpy(zero_copy_only=False)
        if is_text(column.type):
            column, self.words[name] = ranked_words(column)
        return place_column(column, kind)


def read_column(table: pa.Table, name: str) -> pa.Array:
    """A column as one array: dictionaries decoded, decimals as doubles, NaN as null."""
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if pa.types.is_floating(column.type):
        column = pc.add(column.cast(pa.float64()), 0.0)  # -0.0 is 0.0
        nan = pc.is_nan(column)
        if pc.any(nan).as_py():
            column = pc.if_else(pc.fill_null(nan, False), pa.scalar(None, column.type), column)
    return column


def microseconds(column: pa.Array, schema: EventSchema) -> pa.Array:
    """A time column as whole microseconds, nulls kept."""
    try:
        if schema.is_whole:
            whole = column.cast(pa.int64())
            if schema.time_unit == "ns":
                return pa.array(_numbers(whole) // 1000, mask=pc.is_null(whole).to_numpy(zero_copy_only=False))
            return pc.multiply_checked(whole, TICKS[schema.time_unit])
        return column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
    except pa.ArrowInvalid as problem:
        raise DataError(
            f"the time column {schema.time!r} holds a value out of range: {problem}; "
            "is the unit of its whole numbers right (time_unit)?"
        ) from None


def times_of(table: pa.Table, schema: EventSchema) -> Ints:
    """The times of rows that all have one."""
    found: Ints = microseconds(read_column(table, schema.time), schema).to_numpy(zero_copy_only=False)
    return found.astype(np.int64, copy=False)


def set_aside(table: pa.Table, schema: EventSchema) -> int:
    """How many rows have no time or no type."""
    missing = pc.or_(pc.is_null(table.column(schema.time)), pc.is_null(table.column(schema.type)))
    return int(pc.sum(missing).as_py() or 0)


def encode(
    table: pa.Table,
    schema: EventSchema,
    partition: Sequence[str],
    symbols: Sequence[Symbol],
    definitions: Mapping[str, Expression],
    ranked: bool,
) -> Encoded:
    """Bring a table into the engine's order and alphabet.

    Rows without time, type or a partition value are left out, and, unless windows count events, so are those with
    no symbol.
    """
    time = microseconds(read_column(table, schema.time), schema)
    types = codes_of(table.column(schema.type))
    usable = pc.and_(pc.is_valid(time), pc.is_valid(types))
    klass, classes = classes_of(table, types, symbols, definitions)
    if ranked:
        classes.append(frozenset())
    keys = [codes_of(table.column(name)) for name in partition]
    for key in keys:
        usable = pc.and_(usable, pc.is_valid(key))
    kept = usable.to_numpy(zero_copy_only=False)
    if not ranked:
        relevant = np.array([bool(found) for found in classes], np.bool_)
        kept = kept & relevant[klass] if len(classes) else np.zeros(len(table), np.bool_)
    rows: Ints | None = None if kept.all() else np.flatnonzero(kept)

    def picked(values: Any) -> Any:
        return values if rows is None else values[rows]

    times = picked(_numbers(time)).astype(np.int64, copy=False)
    code, values, count = _combined([picked(_numbers(key.indices)) for key in keys], keys, partition, len(times))
    order, offsets, disordered = order_by_key(_own(code, np.int32), _own(times, np.int64), count)
    if disordered.any():
        sort_disordered(order, offsets, disordered, _own(times, np.int64))
    times = times[order]
    enter, leave = ranks(times, offsets) if ranked else (times, times)
    return Encoded(
        table=table,
        rows=order if rows is None else rows[order],
        offsets=offsets,
        time=times,
        klass=picked(klass)[order].astype(np.int32, copy=False),
        classes=classes,
        keys=values,
        enter=enter,
        leave=leave,
    )


def key_codes(table: pa.Table, partition: Sequence[str]) -> tuple[NDArray[np.int32], dict[str, pa.Array], int]:
    """The key of each row as a code, the partition values of each code, and how many there are; no value is null."""
    keys = [codes_of(table.column(name)) for name in partition]
    return _combined([_numbers(key.indices) for key in keys], keys, partition, len(table))


def codes_of(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """A column as codes of its distinct values; NaN is null here too."""
    if pa.types.is_dictionary(column.type):
        encoded = column.unify_dictionaries().combine_chunks()
    else:
        if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
            column = pa.chunked_array([read_column(pa.table({"": column}), "")])
        encoded = column.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.array([], column.type).dictionary_encode() if encoded.num_chunks == 0 else encoded.chunk(0)
    return encoded


def _numbers(array: pa.Array) -> Any:
    """Whole numbers as numpy, with 0 where there is none."""
    filled = pc.fill_null(array, 0) if array.null_count else array
    return filled.to_numpy(zero_copy_only=False)


def _combined(
    codes: list[Any], keys: list[pa.DictionaryArray], partition: Sequence[str], size: int
) -> tuple[NDArray[np.int32], dict[str, pa.Array], int]:
    """One code per combination of partition values that occurs, and the values of each code."""
    if not codes:
        return np.zeros(size, np.int32), {}, 1
    if len(codes) == 1:
        dictionary = keys[0].dictionary
        return codes[0].astype(np.int32, copy=False), {partition[0]: dictionary}, len(dictionary)
    together = codes[0].astype(np.int64)
    for code, key in zip(codes[1:], keys[1:], strict=True):
        together = _dense(together)[0] * np.int64(len(key.dictionary)) + code
    dense, firsts = _dense(together)
    values = {
        name: key.dictionary.take(pa.array(code[firsts].astype(np.int64)))
        for name, key, code in zip(partition, keys, codes, strict=True)
    }
    return dense.astype(np.int32), values, len(firsts)


def _dense(values: Ints) -> tuple[Ints, Ints]:
    """Codes from 0 for whole numbers, and where each code first occurs."""
    encoded = pa.array(values).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    firsts = np.full(len(encoded.dictionary), len(values), np.int64)
    np.minimum.at(firsts, codes, np.arange(len(values)))
    return codes, firsts


def classes_of(
    table: pa.Table, types: pa.DictionaryArray, symbols: Sequence[Symbol], definitions: Mapping[str, Expression]
) -> tuple[NDArray[np.int32], list[frozenset[Symbol]]]:
    """The class of each row, and the symbols of each class. Every distinct condition is evaluated once."""
    conditions = list(
        dict.fromkeys(
            [definitions[symbol.type] for symbol in symbols if symbol.type in definitions]
            + [condition for symbol in symbols for condition in symbol.conditions]
        )
    )
    columns: dict[str, pa.Array] = {}

    def column(attribute: Attribute) -> pa.Array:
        if attribute.name not in columns:
            columns[attribute.name] = read_column(table, attribute.name)
        return columns[attribute.name]

    names = types.dictionary.to_pylist()
    code = _numbers(types.indices).astype(np.int64)
    # Meaning of each code so far: the type's number and the conditions that hold.
    meanings: list[tuple[int, frozenset[int]]] = [(number, frozenset()) for number in range(max(len(names), 1))]
    for number, condition in enumerate(conditions):
        code = code * 2 + holds(condition, column, len(table))
        meanings = [meaning for at, held in meanings for meaning in ((at, held), (at, held | {number}))]
        seen = np.bincount(code, minlength=len(meanings)) > 0 if len(code) else np.zeros(len(meanings), np.bool_)
        renumbered = np.cumsum(seen) - 1
        code = renumbered[code] if len(code) else code
        meanings = [meaning for meaning, occurs in zip(meanings, seen, strict=True) if occurs]
    index = {condition: number for number, condition in enumerate(conditions)}
    classes = []
    for at, held in meanings:
        name = names[at] if at < len(names) else None
        classes.append(
            frozenset(
                symbol
                for symbol in symbols
                if (index[definitions[symbol.type]] in held if symbol.type in definitions else symbol.type == name)
                and all(index[condition] in held for condition in symbol.conditions)
            )
        )
    return code.astype(np.int32), classes


def value_column(column: pa.Array, kind: str) -> Any:
    """Values to sum, or their squares; 0 where there is none."""
    numbers = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    return numbers * numbers if kind == "square" else numbers


def place_column(column: pa.Array, kind: str) -> Any:
    """Values as whole numbers of the same order (reversed for a maximum); `NOTHING` where there is none."""
    if pa.types.is_floating(column.type):
        bits = (pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0).view(np.int64)
        places = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    else:
        places = pc.fill_null(_as_int64(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if kind == "max":
        places = ~places
    if column.null_count:
        places = np.where(pc.is_null(column).to_numpy(zero_copy_only=False), NOTHING, places)
    return places


def ranked_words(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The place of each text among the distinct ones in order, and those."""
    encoded = column.dictionary_encode()
    ascending = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(ascending), np.int64)
    rank[ascending.to_numpy()] = np.arange(len(ascending))
    return pa.array(rank).take(encoded.indices), encoded.dictionary.take(ascending)


def words_of_places(places: Ints, kind: str, words: pa.Array) -> pa.Array:
    """The texts that `ranked_words` and `place_column` made whole numbers of."""
    missing = places == NOTHING
    return words.take(pa.array(np.where(missing, 0, ~places if kind == "max" else places), mask=missing))


def values_of_places(places: Ints, kind: str, data_type: pa.DataType) -> pa.Array:
    """The values that `place_column` made whole numbers of."""
    missing = places == NOTHING
    if kind == "max":
        places = ~places
    if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        bits = places ^ ((places >> 63) & np.int64(2**63 - 1))
        return pa.array(bits.view(np.float64), mask=missing).cast(pa.float64())
    whole = pa.array(places, mask=missing)
    if pa.types.is_timestamp(data_type):
        return whole.cast(pa.timestamp("us", tz=data_type.tz)).cast(data_type, safe=False)
    if pa.types.is_date(data_type):
        return whole.cast(pa.timestamp("us")).cast(data_type, safe=False)
    return whole.cast(data_type)


def _as_int64(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return column.cast(pa.int64())


def unit_events(encoded: Encoded, unit: Unit) -> tuple[Events, Ints | None]:
    """The events that matter to a unit, with the attribute columns it reads, and their places among all (None: all
    of them).
    """
    merged, first = unit.merged, unit.queries[0]
    ranked = first.span.ranked
    relevant = np.array([bool(found & merged.symbols) for found in encoded.classes], np.bool_)
    if ranked and first.combined:
        relevant[:] = True  # any event may let a match expire
    klass = encoded.klass
    if ranked:
        # An event whose own time holds more events than the window can be in no match: it gets the last class, which
        # has no symbols.
        klass = np.where(encoded.leave - encoded.enter < first.span.within, klass, len(encoded.classes) - 1).astype(
            np.int32
        )
    kept = relevant[klass]
    everything = bool(kept.all())
    at = None if everything else np.flatnonzero(kept)

    def picked(values: Any) -> Any:
        return values if at is None else values[at]

    def table(columns: list[Any], dtype: type[np.generic]) -> Any:
        size = len(klass) if at is None else len(at)
        return _own(np.stack([picked(c) for c in columns]), dtype) if columns else np.zeros((0, size), dtype)

    offsets = encoded.offsets
    if at is not None:
        offsets = np.concatenate(([0], np.cumsum(kept)))[encoded.offsets].astype(np.int64)
    time = picked(encoded.time)
    events = Events(
        offsets=offsets,
        time=time,
        enter=picked(encoded.enter) if ranked else time,
        leave=picked(encoded.leave) if ranked else time,
        klass=picked(klass),
        whole=table([encoded.wholes(c, kind) for c, kind in merged.whole], np.int64),
        real=table([value_column(encoded.column(c), kind) for c, kind in merged.real], np.float64),
        many=np.zeros(0, np.int64),
    )
    return events, at


def only_keys(events: Events, keys: NDArray[np.bool_]) -> tuple[Events, NDArray[np.bool_]]:
    """The events of some keys, and which those are; the others stay as keys without events."""
    counts = np.diff(events.offsets)
    kept = np.repeat(keys, counts)
    offsets = np.concatenate(([0], np.cumsum(np.where(keys, counts, 0)))).astype(np.int64)
    columns: list[Any] = [_own(c[..., kept] if c.shape[-1] else c, c.dtype) for c in events[1:]]
    return Events(offsets, *columns), kept


def _own(array: Any, dtype: Any) -> Any:
    """The array in one piece of memory that may be written: the one kind that kernels are compiled for."""
    return np.require(array, dtype, ["C", "W"])
