"""Encode event tables as the arrays that kernels read: sorted by key and time, types and conditions replaced by event
classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.compile import Branch, DetectBranch, Program
from motet.engine.expressions import evaluate_condition
from motet.errors import DataError
from motet.kernels.numbering import TextIndex
from motet.kernels.order import order_by_key, rank_events, sort_disordered, sort_rows
from motet.kernels.ragged import offsets_from_counts
from motet.kernels.tables import Events
from motet.kernels.totals import NO_MINIMUM
from motet.model.expression import Expression
from motet.plans.units import Unit
from motet.schema import MAX_MICROS, TICKS, EventSchema, decimals_to_doubles, is_text, is_time, to_microseconds
from motet.template.symbols import Symbol

Ints = NDArray[np.int64]


@dataclass
class EncodedEvents:
    """Events sorted by key and time.

    `rows` are their row numbers in `table`. Events with the same set of symbols have the same class: `klass` numbers it
    and `classes` lists the symbols of each. `offsets` delimit the keys, whose partition values are in `keys`.
    """

    table: pa.Table
    rows: Ints
    offsets: Ints
    time: Ints
    klass: NDArray[np.int32]
    classes: list[frozenset[Symbol]]
    keys: dict[str, pa.Array]  # by partition attribute: the value of each key
    enter: Ints
    leave: Ints
    texts: dict[str, pa.Array] = field(default_factory=dict)  # by text column: its distinct values in order
    _columns: dict[str, pa.Array] = field(default_factory=dict)

    @cached_property
    def tied(self) -> int:
        """How many events are at the time of the one before."""
        return int(np.count_nonzero(self.time[1:] == self.time[:-1]))

    def column(self, name: str) -> pa.Array:
        """Return a column of the table in this order."""
        if name not in self._columns:
            rows = as_one_array(self.table.column(name)).take(pa.array(self.rows))
            self._columns[name] = read_array(rows, name)
        return self._columns[name]

    def int_values(self, name: str, kind: str) -> Any:
        """Return whether a column has a value ("count"), or its values as integers of the same order.

        A text becomes its rank among the distinct texts, which are kept in `texts`.
        """
        column = self.column(name)
        if kind == "count":
            return column.is_valid().to_numpy(zero_copy_only=False)
        if is_text(column.type):
            column, self.texts[name] = rank_values(column)
        return order_preserving_codes(column, kind)


def read_column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array: see `read_array`."""
    return read_array(as_one_array(table.column(name)), name)


def read_array(column: pa.Array, name: str) -> pa.Array:
    """Return a column with dictionaries decoded, decimals as doubles and NaN as null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type):
        column = decimals_to_doubles(column, name)
    if pa.types.is_floating(column.type):
        column = pc.add(column.cast(pa.float64()), 0.0)  # -0.0 is 0.0
        nan = pc.is_nan(column)
        if pc.any(nan).as_py():
            column = pc.if_else(pc.fill_null(nan, False), pa.scalar(None, column.type), column)
    return column


def as_one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy where it is one already."""
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def read_plain_times(table: pa.Table, schema: EventSchema) -> Ints | None:
    """Return the times of rows, in microseconds, without Arrow: it takes longer for a few rows.

    None where not all of them are there, in range, and whole numbers or timestamps.
    """
    plain = _view_plain_times(table, schema)
    return None if plain is None else plain[0] * np.int64(plain[1])


def _view_plain_times(table: pa.Table, schema: EventSchema) -> tuple[Ints, int] | None:
    """Return the times of rows as they are stored, and how many microseconds one is: see `read_plain_times`."""
    column = table.column(schema.time)
    unit = schema.time_unit if column.type == pa.int64() else getattr(column.type, "unit", "ns")
    if unit == "ns" or column.type.bit_width != 64 or column.num_chunks != 1 or column.null_count:
        return None
    whole, most = column.chunk(0).view(pa.int64()).to_numpy(), MAX_MICROS // TICKS[unit]
    if len(whole) and not (whole.min() > -most and whole.max() < most):
        return None
    return whole, TICKS[unit]


def read_times(table: pa.Table, schema: EventSchema) -> Ints:
    """Return the times of rows, in microseconds; 0 where there is none."""
    plain = read_plain_times(table, schema)
    if plain is not None:
        return plain
    found: Ints = to_numpy(schema.to_microseconds(read_column(table, schema.time)))
    return found.astype(np.int64, copy=False)


def count_invalid_rows(table: pa.Table, schema: EventSchema) -> int:
    """Count the rows without a type, or without a time that is in range."""
    if not table.column(schema.type).null_count and _view_plain_times(table, schema) is not None:
        return 0
    missing = pc.or_(
        pc.is_null(schema.to_microseconds(table.column(schema.time))), pc.is_null(table.column(schema.type))
    )
    return int(pc.sum(missing).as_py() or 0)


def encode_branch(program: Program, branch: Branch | DetectBranch, events: pa.Table) -> EncodedEvents:
    """Encode the events of a branch: see `encode`."""
    return encode(events, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)


def encode(
    table: pa.Table,
    schema: EventSchema,
    partition: Sequence[str],
    symbols: Sequence[Symbol],
    definitions: Mapping[str, Expression],
    ranked: bool,
) -> EncodedEvents:
    """Sort a table by key and time, and replace types and conditions by event classes.

    Rows without time, type or a partition value are left out. So are rows without any symbol, unless windows count
    events.
    """
    time = schema.to_microseconds(read_column(table, schema.time))
    types = encode_dictionary(table.column(schema.type))
    usable = pc.and_(pc.is_valid(time), pc.is_valid(types))
    klass, classes = classify_events(table, types, symbols, definitions)
    if ranked:
        classes.append(frozenset())
    keys = [encode_dictionary(table.column(name)) for name in partition]
    for key in keys:
        usable = pc.and_(usable, pc.is_valid(key))
    kept = usable.to_numpy(zero_copy_only=False)
    if not ranked:
        relevant = np.array([bool(found) for found in classes], np.bool_)
        kept = kept & relevant.take(klass) if len(classes) else np.zeros(len(table), np.bool_)
    rows: Ints | None = None if kept.all() else np.flatnonzero(kept)

    def pick(values: Any) -> Any:
        return values if rows is None else values.take(rows)

    times = pick(to_numpy(time)).astype(np.int64, copy=False)
    code, values, count = combine_keys([pick(to_numpy(key.indices)) for key in keys], keys, partition, len(times))
    order, offsets, disordered = order_by_key(as_contiguous(code, np.int32), as_contiguous(times, np.int64), count)
    if disordered.any():
        sort_disordered(order, offsets, disordered, as_contiguous(times, np.int64))
    times = times[order]
    enter, leave = rank_events(times, offsets) if ranked else (times, times)
    return EncodedEvents(
        table=table,
        rows=order if rows is None else rows.take(order),
        offsets=offsets,
        time=times,
        klass=pick(klass)[order].astype(np.int32, copy=False),
        classes=classes,
        keys=values,
        enter=enter,
        leave=leave,
    )


def encode_keys(table: pa.Table, partition: Sequence[str]) -> tuple[NDArray[np.int32], dict[str, pa.Array], int]:
    """Return the key of each row as a code, the partition values of each code, and the number of codes.

    No partition value may be null.
    """
    keys = [encode_dictionary(table.column(name)) for name in partition]
    return combine_keys([to_numpy(key.indices) for key in keys], keys, partition, len(table))


def encode_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Dictionary-encode a column; NaN becomes null."""
    if pa.types.is_dictionary(column.type):
        encoded = column.unify_dictionaries().combine_chunks()
    else:
        if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
            column = pa.chunked_array([read_column(pa.table({"": column}), "")])
        if not len(column):  # no chunks of which Arrow can combine for every type
            return pa.array([], column.type).dictionary_encode()
        encoded = column.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.array([], column.type).dictionary_encode() if encoded.num_chunks == 0 else encoded.chunk(0)
    return encoded


def number_texts(index: TextIndex, texts: pa.Array) -> Ints:
    """Return the number of each text, numbering new ones. Expected O(bytes)."""
    if not len(texts):
        return np.zeros(0, np.int64)
    _, offsets, data = texts.buffers()
    begin = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return index.number(begin, np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8))


class TypeIndex:
    """Numbers for the types of a stream, in order of appearance: `names` has the type of each."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._texts = TextIndex()
        self._masks: dict[frozenset[str], NDArray[np.bool_]] = {}

    def number(self, types: pa.ChunkedArray) -> Ints:
        """Return the number of each row's type, none of which is null. Python runs once for each new type."""
        if pa.types.is_string(types.type) and types.num_chunks == 1:
            found = number_texts(self._texts, types.chunk(0))
        else:
            encoded = encode_dictionary(types)
            found = number_texts(self._texts, encoded.dictionary.cast(pa.string()))[to_numpy(encoded.indices)]
        self.names += self._texts.list_texts(len(self.names))
        return found

    def mask(self, types: frozenset[str]) -> NDArray[np.bool_]:
        """Return, for each type's number, whether it is one of some types."""
        known = self._masks.get(types, np.zeros(0, np.bool_))
        if len(known) < len(self.names):
            new = np.array([name in types for name in self.names[len(known) :]], np.bool_)
            known = self._masks[types] = np.concatenate((known, new))
        return known


def to_numpy(array: pa.Array) -> Any:
    """Convert numbers to numpy, with 0 for null."""
    filled = pc.fill_null(array, 0) if array.null_count else array
    return filled.to_numpy(zero_copy_only=False)


def combine_keys(
    codes: list[Any], keys: list[pa.DictionaryArray], partition: Sequence[str], size: int
) -> tuple[NDArray[np.int32], dict[str, pa.Array], int]:
    """Return one code per combination of partition values that occurs, and the values of each code."""
    if not codes:
        return np.zeros(size, np.int32), {}, 1
    if len(codes) == 1:
        dictionary = keys[0].dictionary
        return codes[0].astype(np.int32, copy=False), {partition[0]: dictionary}, len(dictionary)
    both = codes[0].astype(np.int64)
    for code, key in zip(codes[1:], keys[1:], strict=True):
        both = _densify(both)[0] * np.int64(len(key.dictionary)) + code
    dense, firsts = _densify(both)
    values = {
        name: key.dictionary.take(pa.array(code[firsts].astype(np.int64)))
        for name, key, code in zip(partition, keys, codes, strict=True)
    }
    return dense.astype(np.int32), values, len(firsts)


def _densify(values: Ints) -> tuple[Ints, Ints]:
    """Assign numbers from 0 to distinct integers, and find where each first occurs."""
    encoded = pa.array(values).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    firsts = np.full(len(encoded.dictionary), len(values), np.int64)
    np.minimum.at(firsts, codes, np.arange(len(values)))
    return codes, firsts


def classify_events(
    table: pa.Table, types: pa.DictionaryArray, symbols: Sequence[Symbol], definitions: Mapping[str, Expression]
) -> tuple[NDArray[np.int32], list[frozenset[Symbol]]]:
    """Return the class of each row and the symbols of each class. Every distinct condition is evaluated once."""
    demands = {symbol: symbol.all_conditions(definitions) for symbol in symbols}
    distinct = dict.fromkeys(condition for conditions in demands.values() for condition in conditions)
    index = {condition: number for number, condition in enumerate(distinct)}

    @cache
    def read(name: str) -> pa.Array:
        return read_column(table, name)

    names = types.dictionary.to_pylist()
    code = to_numpy(types.indices).astype(np.int64 if index else np.int32, copy=False)
    # Meaning of each code so far: the type's number and the conditions that hold.
    meanings: list[tuple[int, frozenset[int]]] = [(number, frozenset()) for number in range(max(len(names), 1))]
    for condition, number in index.items():
        code = code * 2 + evaluate_condition(condition, lambda attribute: read(attribute.name), len(table))
        meanings = [meaning for at, held in meanings for meaning in ((at, held), (at, held | {number}))]
        seen = np.bincount(code, minlength=len(meanings)) > 0
        code = (np.cumsum(seen) - 1)[code]
        meanings = [meaning for meaning, occurs in zip(meanings, seen, strict=True) if occurs]
    by_type: dict[str, list[Symbol]] = {}
    for symbol in symbols:
        # A defined type may be any of the data's.
        for name in names if symbol.type in definitions else [symbol.type]:
            by_type.setdefault(name, []).append(symbol)
    classes = [
        frozenset(
            symbol
            for name in names[at : at + 1]
            for symbol in by_type.get(name, ())
            if all(index[condition] in held for condition in demands[symbol])
        )
        for at, held in meanings
    ]
    return code.astype(np.int32, copy=False), classes


def numeric_values(column: pa.Array, kind: str) -> Any:
    """Return the values to sum, or their squares; 0 for null."""
    numbers = to_numpy(column.cast(pa.float64(), safe=False))  # to the nearest double
    with np.errstate(over="ignore"):
        return numbers * numbers if kind == "square" else numbers


def order_preserving_codes(column: pa.Array, kind: str) -> Any:
    """Map values to integers of the same order (reversed for a maximum), null to `NO_MINIMUM`."""
    if pa.types.is_floating(column.type):
        bits = (to_numpy(column).astype(np.float64) + 0.0).view(np.int64)
        places = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    else:
        check_extremes(column, kind)
        whole = to_microseconds(column, "us") if is_time(column.type) else column
        places = to_numpy(whole if whole.type == pa.int64() else whole.cast(pa.int64()))
    if kind == "max":
        places = ~places
    if column.null_count:
        places = np.where(pc.is_null(column).to_numpy(zero_copy_only=False), NO_MINIMUM, places)
    return places


def check_extremes(column: pa.Array, kind: str) -> None:
    """Raise an error if whole numbers have no code: they need 64 bits and a sign, and one code stands for null."""
    if column.type not in (pa.int64(), pa.uint64()):
        return
    if column.null_count == len(column):
        return
    if column.null_count:
        least, most = pc.min_max(column).as_py().values()
    else:
        values = column.to_numpy()
        least, most = int(values.min()), int(values.max())
    has_null_code = least == ~int(NO_MINIMUM) if kind == "max" else most == NO_MINIMUM
    if has_null_code or most > NO_MINIMUM:
        worst = most if most >= NO_MINIMUM else least
        raise DataError(
            f"MIN and MAX compare whole numbers of 64 bits with a sign, and a column has {worst}: cast it, as in "
            "--select '* REPLACE (CAST(x AS DOUBLE) AS x)'"
        )


def rank_values(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the rank of each value among the distinct values, null for null, and the distinct values in order."""
    encoded = column.dictionary_encode()
    ascending = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(ascending), np.int64)
    rank[ascending.to_numpy()] = np.arange(len(ascending))
    return pa.array(rank).take(encoded.indices), encoded.dictionary.take(ascending)


def order_rows(columns: Sequence[pa.ChunkedArray]) -> Ints | None:
    """Return the stable order of rows by some columns, nulls last; None where they are in order. O(n log n)."""
    return None if _are_increasing(columns) else sort_rows([_rank_keys(column) for column in columns])


def _are_increasing(columns: Sequence[pa.ChunkedArray]) -> bool:
    """Return whether each row comes after the one before by the first columns, as far as these are numbers or times."""
    size = max(len(columns[0]) - 1, 0)
    later, equal = np.zeros(size, np.bool_), np.ones(size, np.bool_)
    for column in columns:
        if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type)):
            return False
        values = column.to_numpy()
        later |= equal & (values[1:] > values[:-1])
        equal &= values[1:] == values[:-1]
        if later.all():
            return True
    return False


def _rank_keys(column: pa.ChunkedArray) -> tuple[Ints, int]:
    """Return the rank of each value, those that are null last, and a bound of the ranks."""
    if column.null_count == len(column):
        return np.zeros(len(column), np.int64), 1
    ranks, values = rank_values(as_one_array(column))
    return pc.fill_null(ranks, len(values)).to_numpy(), len(values) + 1


def decode_text_codes(places: Ints, kind: str, words: pa.Array) -> pa.Array:
    """Return the texts that `rank_values` and `order_preserving_codes` mapped to integers."""
    missing = places == NO_MINIMUM
    return words.take(pa.array(np.where(missing, 0, ~places if kind == "max" else places), mask=missing))


def decode_codes(places: Ints, kind: str, data_type: pa.DataType) -> pa.Array:
    """Return the values that `order_preserving_codes` mapped to integers."""
    missing = places == NO_MINIMUM
    if kind == "max":
        places = ~places
    if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        bits = places ^ ((places >> 63) & np.int64(2**63 - 1))
        return pa.array(bits.view(np.float64), mask=missing)
    whole = pa.array(places, mask=missing)
    if is_time(data_type):
        whole = whole.cast(pa.timestamp("us", tz=getattr(data_type, "tz", None)))
    return whole.cast(data_type, safe=False)


def select_unit_events(encoded: EncodedEvents, unit: Unit) -> tuple[Events, Ints | None]:
    """Return the events that matter to a unit with the attribute columns it reads, and their indices (None: all
    events).
    """
    merged, first = unit.merged, unit.queries[0]
    ranked = first.span.ranked
    relevant = np.array([bool(found & merged.symbols) for found in encoded.classes], np.bool_)
    if ranked and first.is_combined:
        relevant[:] = True  # any event may let a match expire
    klass = encoded.klass
    if ranked:
        # An event whose own time holds more events than the window can be in no match: it gets the last class, which
        # has no symbols.
        fits = encoded.leave - encoded.enter < first.span.within
        klass = np.where(fits, klass, len(encoded.classes) - 1).astype(np.int32)
    kept = relevant[klass]
    at = None if kept.all() else np.flatnonzero(kept)
    events = make_unit_events(encoded, unit, klass, at)
    if at is not None:
        events = events._replace(offsets=offsets_from_counts(kept)[encoded.offsets])
    return events, at


def make_unit_events(encoded: EncodedEvents, unit: Unit, klass: NDArray[np.int32], at: Ints | None = None) -> Events:
    """Return events with these classes and the attribute columns that a unit reads: all of them, or those at some
    places, whose offsets are to be set.
    """

    def pick(values: Any) -> Any:
        return values if at is None else values[at]

    def table(columns: list[Any], dtype: type[np.generic]) -> Any:
        size = len(klass) if at is None else len(at)
        return as_contiguous(np.stack([pick(c) for c in columns]), dtype) if columns else np.zeros((0, size), dtype)

    merged, ranked = unit.merged, unit.queries[0].span.ranked
    time = pick(encoded.time)
    return Events(
        offsets=encoded.offsets,
        time=time,
        enter=pick(encoded.enter) if ranked else time,
        leave=pick(encoded.leave) if ranked else time,
        klass=pick(klass),
        int_values=table([encoded.int_values(c, kind) for c, kind in merged.whole], np.int64),
        float_values=table([numeric_values(encoded.column(c), kind) for c, kind in merged.real], np.float64),
        multiplicity=np.zeros(0, np.int64),
    )


def select_keys(events: Events, keys: NDArray[np.bool_]) -> tuple[Events, NDArray[np.bool_]]:
    """Keep the events of some keys; the other keys stay without events. Also return the mask of kept events."""
    counts = np.diff(events.offsets)
    kept = np.repeat(keys, counts)
    if kept.all():
        return events, kept
    offsets = offsets_from_counts(np.where(keys, counts, 0))
    columns: list[Any] = [as_contiguous(c[..., kept] if c.shape[-1] else c, c.dtype) for c in events[1:]]
    return Events(offsets, *columns), kept


def as_contiguous(array: Any, dtype: Any) -> Any:
    """Return a contiguous, writable array: the only kind that kernels are compiled for."""
    return np.require(array, dtype, ["C", "W"])


def group_rows(numbers: NDArray[Any]) -> tuple[NDArray[np.int64], list[tuple[int, int, int]]]:
    """Return an order that groups rows of equal numbers, and (number, first row, row count) for each number that
    occurs.

    The order is stable. Numbers count from 0. O(rows + numbers).
    """
    counts = np.bincount(numbers)
    # Numpy sorts numbers of two bytes by counting them.
    order = np.argsort(numbers.astype(np.uint16) if len(counts) <= 1 << 16 else numbers, kind="stable")
    found = np.flatnonzero(counts)
    starts = np.cumsum(counts) - counts
    return order, list(zip(found.tolist(), starts[found].tolist(), counts[found].tolist(), strict=True))


def count_by_symbol(klass: NDArray[np.int32], classes: Sequence[frozenset[Symbol]]) -> Counter[Symbol]:
    """Count the events of each symbol, given the class of each event."""
    counts: Counter[Symbol] = Counter()
    for symbols, number in zip(classes, np.bincount(klass, minlength=len(classes)).tolist(), strict=True):
        counts.update(dict.fromkeys(symbols, number))
    return counts
