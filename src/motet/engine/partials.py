"""Partial results: totals of each query, key and window, on their way to being combined over partitions and finished."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.engine.encode import Encoded, place_column, ranked_words, values_of_places, words_of_places
from motet.engine.program import Program
from motet.engine.schema import TICKS
from motet.kernels.combine import sum_groups, sweep_groups
from motet.kernels.tables import Rows
from motet.kernels.totals import COUNT_OVER, COUNT_SURE, NOTHING, Totals
from motet.plan.channels import Output
from motet.plan.compiled import CompiledQuery

Words = dict[int, pa.Array]  # by extreme channel of text: the words its places refer to
OVERFLOWS = b"motet.overflows"  # metadata of a finished table: how many counts exceeded 64 bits


def partials_of(
    program: Program, rows: Rows, queries: Sequence[CompiledQuery], encoded: Encoded, extended: bool
) -> pa.Table:
    """A kernel's rows as a table. `queries` are those of the unit."""
    size = int(rows.size[0])
    keys = encoded.keys
    numbers = np.array([compiled.number for compiled in queries], np.int32)
    of_key = pa.array(rows.key[:size])
    columns: dict[str, pa.Array] = {"query": pa.array(numbers[rows.query[:size]])}
    for at, name in enumerate(program.partition):
        data_type = program.partial_schema.field(f"k{at}").type
        columns[f"k{at}"] = keys[name].take(of_key).cast(data_type) if name in keys else pa.nulls(size, data_type)
    columns["start"] = pa.array(rows.start[:size])
    columns["end"] = pa.array(rows.end[:size])
    columns["seq"] = pa.array(np.arange(size))
    columns["done"] = pa.array(rows.done[:size])
    columns |= _totals_columns(program, rows.totals, size, extended)
    if program.texts:
        words = [_encoded_words(program, compiled, encoded) for compiled in queries]
        columns |= _text_columns(program, queries, rows.query[:size], rows.totals.m[0, :size], words)
    return pa.table(columns, schema=program.partial_schema)


def _encoded_words(program: Program, compiled: CompiledQuery, encoded: Encoded) -> Words:
    extremes = enumerate(compiled.channels.extremes)
    return {c: encoded.words[str(channel.column)] for c, channel in extremes if channel.column in program.texts}


def _text_columns(
    program: Program,
    queries: Sequence[CompiledQuery],
    query: NDArray[np.int32],
    places: NDArray[np.int64],
    words: Sequence[Words],
) -> dict[str, pa.Array]:
    """Minima and maxima of text as text: places among the words at hand mean nothing elsewhere."""
    columns = {}
    for c in range(program.shape[2]):
        texts = pa.nulls(len(query), pa.string())
        for number, compiled in enumerate(queries):
            if c in words[number]:
                found = words_of_places(places[:, c], compiled.channels.extremes[c].kind, words[number][c])
                texts = pc.if_else(pa.array(query == number), found.cast(pa.string()), texts)
        columns[f"s{c}"] = texts
    return columns


def _totals_columns(program: Program, t: Totals, size: int, extended: bool) -> dict[str, pa.Array]:
    ni, nf, nm = program.shape
    zeros = np.zeros(size, np.int32)
    none = np.zeros(size, np.int64)
    columns = {"n": pa.array(t.n[0, :size])}
    columns["nm"] = pa.array(t.nm[0, :size] if extended else t.n[0, :size].astype(np.float64))
    columns["ne"] = pa.array(t.ne[0, :size] if extended else zeros)
    for c in range(ni):
        has = c < t.i.shape[2]
        whole = t.i[0, :size, c] if has else none
        columns[f"i{c}"] = pa.array(whole)
        columns[f"im{c}"] = pa.array(t.im[0, :size, c] if has and extended else whole.astype(np.float64))
        columns[f"ie{c}"] = pa.array(t.ie[0, :size, c] if has and extended else zeros)
    for c in range(nf):
        has = c < t.f.shape[2]
        columns[f"f{c}"] = pa.array(t.f[0, :size, c] if has else none.astype(np.float64))
        columns[f"fe{c}"] = pa.array(t.fe[0, :size, c] if has and extended else zeros)
    for c in range(nm):
        columns[f"m{c}"] = pa.array(t.m[0, :size, c] if c < t.m.shape[2] else np.full(size, NOTHING))
    return columns


def _totals_of(program: Program, compiled: CompiledQuery, table: pa.Table) -> tuple[Totals, Words]:
    """The totals of one query's partials, always extended, and the words that its places of text refer to."""
    ni, nf, nm = program.shape
    size = len(table)
    words: Words = {}
    for c, channel in enumerate(compiled.channels.extremes):
        if channel.column in program.texts:
            column, words[c] = ranked_words(_array(table, f"s{c}"))
            places = pa.array(place_column(column, channel.kind))
            table = table.set_column(table.column_names.index(f"m{c}"), f"m{c}", places)

    def stacked(prefix: str, count: int, dtype: type[np.generic]) -> NDArray[np.generic]:
        columns = [_numpy(table, f"{prefix}{c}") for c in range(count)]
        return np.stack(columns, axis=1)[None].astype(dtype) if columns else np.zeros((1, size, 0), dtype)

    totals = Totals(
        _numpy(table, "n")[None].astype(np.int64),
        stacked("i", ni, np.int64),  # type: ignore[arg-type]
        stacked("f", nf, np.float64),  # type: ignore[arg-type]
        stacked("m", nm, np.int64),  # type: ignore[arg-type]
        _numpy(table, "nm")[None].astype(np.float64),
        _numpy(table, "ne")[None].astype(np.int32),
        stacked("im", ni, np.float64),  # type: ignore[arg-type]
        stacked("ie", ni, np.int32),  # type: ignore[arg-type]
        stacked("fe", nf, np.int32),  # type: ignore[arg-type]
    )
    return totals, words


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _numpy(table: pa.Table, name: str) -> NDArray[np.generic]:
    return table.column(name).to_numpy()


def merge(program: Program, partials: pa.Table) -> pa.Table:
    """Combine the rows of partitions that results do not tell apart.

    All rows with equal `program.merge_keys` must be here together.
    """
    kept: list[pa.Table] = []
    query = _numpy(partials, "query")
    for number, compiled in program.queries.items():
        rows = np.flatnonzero(query == number)
        if not len(rows):
            continue
        if not compiled.combined:
            kept.append(partials.take(pa.array(rows)))
        elif compiled.span.continuous and not compiled.certain_at_close:
            kept.append(_swept(program, compiled, partials.take(pa.array(rows))))
        else:
            kept.append(_summed(program, compiled, partials.take(pa.array(rows))))
    return pa.concat_tables(kept) if kept else partials


def merge_within(program: Program, partials: pa.Table) -> pa.Table:
    """Combine what one task has of each result; rows that a sweep over time will need are left as they are."""
    swept = [c.number for c in program.queries.values() if c.combined and c.span.continuous and not c.certain_at_close]
    if not swept:
        return merge(program, partials)
    waits = pc.is_in(partials.column("query"), pa.array(swept, pa.int32()))
    return pa.concat_tables([partials.filter(waits), merge(program, partials.filter(pc.invert(waits)))])


def _group_codes(program: Program, compiled: CompiledQuery, table: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """One code per combination of the named attributes."""
    code = np.zeros(len(table), np.int64)
    for name in names:
        column = table.column(f"k{program.partition.index(name)}").combine_chunks()
        encoded = column.dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        code = code * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy(zero_copy_only=False)
        code = np.unique(code, return_inverse=True)[1].astype(np.int64)
    return code


def _summed(program: Program, compiled: CompiledQuery, table: pa.Table) -> pa.Table:
    group = _group_codes(program, compiled, table, compiled.query.group_by)
    end = _numpy(table, "end")
    order = np.lexsort((end, group))
    new = np.flatnonzero(np.diff(group[order], prepend=-1).astype(bool) | np.diff(end[order], prepend=0).astype(bool))
    if not len(new) or new[0] != 0:
        new = np.concatenate(([0], new))
    offsets = np.concatenate((new, [len(order)])).astype(np.int64)
    totals, words = _totals_of(program, compiled, table)
    summed = sum_groups(order.astype(np.int64), offsets, totals)
    return _with_totals(program, compiled, table.take(pa.array(order[new])), summed, words)


def _swept(program: Program, compiled: CompiledQuery, table: pa.Table) -> pa.Table:
    group = _group_codes(program, compiled, table, compiled.query.group_by)
    rest = [name for name in compiled.partition if name not in compiled.query.group_by]
    part = _group_codes(program, compiled, table, rest)
    end = _numpy(table, "end").astype(np.int64)
    order = np.lexsort((_numpy(table, "seq"), end, group)).astype(np.int64)
    new = np.flatnonzero(np.diff(group[order], prepend=-1))
    offsets = np.concatenate((new, [len(order)])).astype(np.int64)
    # Number the partitions of each group from 0.
    pair, inverse = np.unique(np.stack((group, part)), axis=1, return_inverse=True)
    first = np.searchsorted(pair[0], np.arange(group.max() + 1))
    local = (inverse.ravel() - first[group]).astype(np.int64)
    parts = np.bincount(pair[0]).astype(np.int64)[group[order[new]]]
    done = _numpy(table, "done").astype(np.bool_)
    totals, words = _totals_of(program, compiled, table)
    shown, swept = sweep_groups(order, offsets, local, parts, end, done, totals)
    return _with_totals(program, compiled, table.take(pa.array(shown)), swept, words)


def _with_totals(
    program: Program, compiled: CompiledQuery, labels: pa.Table, totals: Totals, words: Words
) -> pa.Table:
    size = len(labels)
    columns = {name: labels.column(name) for name in labels.column_names}
    columns |= _totals_columns(program, totals, size, True)
    if program.texts:
        columns |= _text_columns(program, [compiled], np.zeros(size, np.int32), totals.m[0, :size], [words])
    return pa.table(columns, schema=program.partial_schema)


def finish(program: Program, partials: pa.Table) -> pa.Table:
    """Results from totals: one row each, all queries in one table. Its metadata tells how many counts overflowed."""
    query = _numpy(partials, "query")
    tables = []
    overflows = 0
    for number, compiled in program.queries.items():
        rows = np.flatnonzero((query == number) & _numpy(partials, "done").astype(np.bool_))
        if len(rows):
            table, over = _finished(program, compiled, partials.take(pa.array(rows)))
            tables.append(table)
            overflows += over
    result = pa.concat_tables(tables) if tables else program.result_schema.empty_table()
    return result.replace_schema_metadata({OVERFLOWS: str(overflows).encode()})


def _finished(program: Program, compiled: CompiledQuery, table: pa.Table) -> tuple[pa.Table, int]:
    size = len(table)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {"query": pa.array([compiled.query.name] * size)}
    columns |= _times(program, compiled, table)
    for name in compiled.query.group_by:
        columns[name] = table.column(f"k{program.partition.index(name)}")
    totals, words = _totals_of(program, compiled, table)
    overflows = 0
    for output in compiled.outputs:
        values, over = _value(program, output, totals, words)
        columns[output.label] = values
        overflows += over
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(size, field.type)
        for field in program.result_schema
    ]
    return pa.Table.from_arrays(arrays, schema=program.result_schema), overflows


def _times(program: Program, compiled: CompiledQuery, table: pa.Table) -> dict[str, pa.Array]:
    def given_back(name: str) -> pa.Array:
        us = _numpy(table, name).astype(np.int64)
        if program.schema.is_whole:
            unit = program.schema.time_unit
            return pa.array(us * 1000 if unit == "ns" else us // TICKS[unit])
        return pa.array(us).cast(program.schema.result_time_type)

    if compiled.span.within == 0:
        return {}
    if compiled.span.continuous:
        return {"time": given_back("end")}
    return {"window_start": given_back("start"), "window_end": given_back("end")}


def _value(program: Program, output: Output, t: Totals, words: Words) -> tuple[pa.Array, int]:
    """The values of one result column, and how many counts overflowed."""
    if output.extreme >= 0:
        assert output.column is not None
        if output.extreme in words:
            return words_of_places(t.m[0, :, output.extreme], output.function.lower(), words[output.extreme]), 0
        data_type = program.schema.columns.field(output.column).type
        return values_of_places(t.m[0, :, output.extreme], output.function.lower(), data_type), 0
    if output.count < 0:
        return _count(program, t.n[0], t.nm[0], t.ne[0])
    c = output.count
    if output.function == "COUNT":
        return _count(program, t.i[0, :, c], t.im[0, :, c], t.ie[0, :, c])
    count, exponent = t.im[0, :, c], t.ie[0, :, c]
    total, shift = t.f[0, :, output.total], t.fe[0, :, output.total]
    none = count == 0
    with np.errstate(all="ignore"):
        if output.function == "SUM":
            return pa.array(_ldexp(total, shift), mask=none), 0
        mean = _ldexp(total / count, shift - exponent)
        if output.function == "AVG":
            return pa.array(mean, mask=none), 0
        square = _ldexp(t.f[0, :, output.square] / count, t.fe[0, :, output.square] - exponent)
        several = (exponent > 0) | (count >= 2)
        correction = np.where(exponent > 0, 1.0, count / np.where(count > 1, count - 1, 1))
        variance = np.maximum(square - mean * mean, 0.0) * correction
        value = np.sqrt(variance) if output.function == "STDDEV" else variance
    return pa.array(value, mask=~several), 0


def _ldexp(mantissa: NDArray[np.float64], exponent: NDArray[np.int32]) -> NDArray[np.float64]:
    return np.ldexp(mantissa, np.clip(exponent, -8, 8) * 480)


def _count(
    program: Program, whole: NDArray[np.int64], mantissa: NDArray[np.float64], exponent: NDArray[np.int32]
) -> tuple[pa.Array, int]:
    if program.options.counts == "double":
        exact = (exponent == 0) & (mantissa < COUNT_SURE)
        with np.errstate(all="ignore"):
            return pa.array(np.where(exact, whole.astype(np.float64), _ldexp(mantissa, exponent))), 0
    over = (exponent > 0) | (mantissa >= COUNT_OVER) | ((mantissa >= COUNT_SURE) & (whole < 0))
    return pa.array(whole, mask=over), int(over.sum())


def overflows_of(result: pa.Table) -> int:
    """How many counts of a finished table exceeded 64 bits."""
    return int((result.schema.metadata or {}).get(OVERFLOWS, b"0"))


