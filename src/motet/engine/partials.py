"""Partial results: the totals of each query, key and window, to be merged over partitions and finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.compile import Program
from motet.engine.encode import (
    EncodedEvents,
    as_one_array,
    decode_codes,
    decode_text_codes,
    group_rows,
    order_preserving_codes,
    order_rows,
    rank_values,
    read_column,
)
from motet.engine.expressions import evaluate_condition
from motet.errors import DataError
from motet.kernels.combine import sum_groups, sweep_groups
from motet.kernels.tables import END, START, decode_owners
from motet.kernels.totals import COUNT_OVER, COUNT_SURE, NO_MINIMUM, Layout, make_layout
from motet.model.expression import Attribute
from motet.plans.channels import ResultColumn, locate_channels
from motet.plans.compiled import CompiledQuery
from motet.plans.detect.query import DetectQuery
from motet.schema import as_type, build_table

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]
Located = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # where channels are: see `locate_channels`
MAX_EXACT_SUM = 2**53 - 1  # a double holds all whole numbers up to here, and a rounded one is larger
Texts = dict[int, pa.Array]  # by extreme channel of text: the words its places refer to


def build_partials(
    program: Program,
    labels: Ints,
    whole: Ints,
    real: Reals,
    layout: Layout,
    queries: Sequence[CompiledQuery],
    encoded: EncodedEvents,
) -> pa.Table:
    """Build a table of partials from a kernel's output; `queries` are those of the unit.

    The rows of a query that stands for several become those of each.
    """
    keys = encoded.keys
    members = [member for compiled in queries for member in compiled.reported]
    numbers = np.array([member.number for member in members], np.int32)
    query, key, completes = decode_owners(labels)
    words, reals = whole.reshape(len(labels), layout.words), real.reshape(len(labels), layout.words)
    if any(compiled.members for compiled in queries):
        counts = np.array([len(compiled.reported) for compiled in queries])
        rows = np.repeat(np.arange(len(labels)), counts[query])
        first = (np.cumsum(counts) - counts)[query[rows]]
        member = first + np.arange(len(rows)) - np.searchsorted(rows, rows)
        labels, key, completes = labels[rows], key[rows], completes[rows]
        located = tuple(
            locate_channels(each.channels, united.channels) for united in queries for each in united.reported
        )
        totals = _gather_totals(program, words, reals, layout, located, rows, member)
        query = member
    else:
        totals = _totals_columns(program, words, reals, layout)
    size = len(labels)
    of_key = pa.array(key)
    columns: dict[str, pa.Array] = {"query": pa.array(numbers[query])}
    for at, name in enumerate(program.partition):
        data_type = program.partial_schema.field(f"k{at}").type
        columns[f"k{at}"] = as_type(keys[name].take(of_key), data_type) if name in keys else pa.nulls(size, data_type)
    columns["start"] = pa.array(labels[:, START])
    columns["end"] = pa.array(labels[:, END])
    columns["seq"] = pa.array(np.arange(size))
    columns["done"] = pa.array(completes)
    columns |= totals | _count_partitions(members, query, totals)
    if program.text_extremes:
        texts = [_channel_texts(program, compiled, encoded) for compiled in members]
        columns |= _text_columns(program, members, query, columns, texts)
    return pa.table(columns, schema=program.partial_schema)


def _count_partitions(
    members: Sequence[CompiledQuery], query: Ints, totals: Mapping[str, pa.Array]
) -> dict[str, pa.Array]:
    """Return the columns that count partitions with a match: 1 for each, so that sums are right."""
    owners: dict[int, list[int]] = {}
    for number, compiled in enumerate(members):
        for output in compiled.outputs:
            if output.distinct and output.count >= 0:
                owners.setdefault(output.count, []).append(number)
    found: dict[str, pa.Array] = {}
    for channel, numbers in owners.items():
        own = np.isin(query, numbers)
        has_match = totals["nm"].to_numpy() != 0
        for name in (f"i{channel}", f"im{channel}"):
            values = np.where(own, has_match, totals[name].to_numpy())
            found[name] = pa.array(values).cast(totals[name].type, safe=False)
    return found


def _channel_texts(program: Program, compiled: CompiledQuery, encoded: EncodedEvents) -> Texts:
    extremes = enumerate(compiled.channels.extremes)
    return {c: encoded.texts[str(channel.column)] for c, channel in extremes if channel.column in program.text_extremes}


def _text_columns(
    program: Program,
    queries: Sequence[CompiledQuery],
    query: Ints,
    columns: Mapping[str, pa.Array],
    words: Sequence[Texts],
) -> dict[str, pa.Array]:
    """Return minima and maxima of text as text, since ranks mean nothing outside this table."""
    found = {}
    for c in range(program.shape[2]):
        places = columns[f"m{c}"].to_numpy()
        texts = pa.nulls(len(query), pa.string())
        for number, compiled in enumerate(queries):
            if c in words[number]:
                own = query == number
                read = decode_text_codes(
                    np.where(own, places, NO_MINIMUM), compiled.channels.extremes[c].kind, words[number][c]
                )
                texts = pc.if_else(pa.array(own), read.cast(pa.string()), texts)
        found[f"s{c}"] = texts
    return found


@cache
def _word_places(layout: Layout) -> dict[str, tuple[int, bool]]:
    """Return which word of a layout holds each column of totals, and whether as a float."""
    ni, nf, nm, x = layout.ni, layout.nf, layout.nm, layout.x
    places = {"n": (0, False), **{f"i{c}": (1 + c, False) for c in range(ni)}}
    places |= {f"m{c}": (1 + ni + c, False) for c in range(nm)}
    places |= {f"f{c}": (1 + ni + nm + c, True) for c in range(nf)}
    if layout.extended:
        for c, name in enumerate(["", *map(str, range(ni))]):
            letter = "i" if name else "n"
            places |= {f"{letter}m{name}": (x + 2 * c, True), f"{letter}e{name}": (x + 2 * c + 1, False)}
        places |= {f"fe{c}": (x + 2 + 2 * ni + c, False) for c in range(nf)}
    return places | ({"nm": (0, True)} if layout.has_shadows else {})


def _totals_columns(program: Program, words: Ints, reals: Reals, layout: Layout) -> dict[str, pa.Array]:
    """Return totals, a row of words each, as columns; those of channels that this layout lacks are empty."""
    places = _word_places(layout)

    def read(name: str) -> Any:
        at, is_float = places.get(name, (-1, False))
        return None if at < 0 else (reals if is_float else words)[:, at]

    return _build_totals_columns(program, len(words), read)


def _gather_totals(
    program: Program, words: Ints, reals: Reals, layout: Layout, located: tuple[Located, ...], rows: Ints, member: Ints
) -> dict[str, pa.Array]:
    """Return totals as columns, in these rows each member's own channels: see `locate_channels`."""
    places = [_place_channels(layout, each) for each in located]

    def read(name: str) -> Any:
        found = [own.get(name, (-1, False)) for own in places]
        at = np.array([place for place, _ in found])
        if at.max() < 0:
            return None
        values = (reals if any(is_float for _, is_float in found) else words)[rows, at[member]]
        if at.min() < 0:
            values[at[member] < 0] = NO_MINIMUM if name.startswith("m") else 0
        return values

    return _build_totals_columns(program, len(rows), read)


@cache
def _place_channels(layout: Layout, located: Located) -> dict[str, tuple[int, bool]]:
    """Return which word holds each column of the totals of a query whose channels are so located in a layout."""
    places = _word_places(layout)
    counts, sums, extremes = located
    names = {name: name for name in ("n", "nm", "ne")}
    for letters, channels in ((("i", "im", "ie"), counts), (("f", "fe"), sums), (("m",), extremes)):
        names |= {f"{letter}{c}": f"{letter}{at}" for letter in letters for c, at in enumerate(channels)}
    return {own: places[name] for own, name in names.items() if name in places}


def _build_totals_columns(program: Program, size: int, read: Callable[[str], Any]) -> dict[str, pa.Array]:
    """Return all columns of totals, of `size` rows; `read` gives the values of one, or None where there are none."""
    columns: dict[str, pa.Array] = {}
    for name in _word_places(make_layout(*program.shape, True)):
        values = read(name)
        if values is None and name.startswith(("nm", "im")):  # a count that is not extended is its own mantissa
            values = columns[name.replace("m", "", 1)].to_numpy()
        elif values is None:
            values = np.full(size, NO_MINIMUM if name.startswith("m") else 0)
        columns[name] = as_type(pa.array(values), program.partial_schema.field(name).type, safe=False)
    return columns


def _read_totals(program: Program, compiled: CompiledQuery, table: pa.Table) -> tuple[Ints, Layout, Texts]:
    """Read the totals of one query's partials, always extended, and the texts that its ranks refer to."""
    words: Texts = {}
    for c, channel in enumerate(compiled.channels.extremes):
        if channel.column in program.text_extremes:
            column, words[c] = rank_values(read_column(table, f"s{c}"))
            places = pa.array(order_preserving_codes(column, channel.kind))
            table = table.set_column(table.column_names.index(f"m{c}"), f"m{c}", places)
    layout = make_layout(*program.shape, True)
    totals = np.empty((len(table), layout.words), np.int64)
    reals = totals.view(np.float64)
    for name, (at, is_float) in _word_places(layout).items():
        (reals if is_float else totals)[:, at] = _numpy(table, name)
    return totals.ravel(), layout, words


def _numpy(table: pa.Table, name: str) -> Any:
    return table.column(name).to_numpy()


def merge(program: Program, partials: pa.Table) -> pa.Table:
    """Merge the rows of partitions that results do not tell apart.

    All rows with equal `program.merge_keys` must be present.
    """
    kept: list[pa.Table] = []
    groups = _split_by_merge_group(program, partials)
    if len(groups) > 1:  # or every take would join them
        partials = partials.combine_chunks()
    for group, numbers in groups:
        rows = partials if numbers is None else partials.take(pa.array(numbers))
        if not group[0].is_combined:
            kept.append(rows)
        elif group[0].needs_sweep:
            kept.append(sweep_partitions(program, group[0], rows))
        else:
            kept.append(_sum_partitions(program, group[0], rows))
    return pa.concat_tables(kept) if kept else partials


def _split_by_merge_group(
    program: Program, partials: pa.Table, rows: Ints | None = None
) -> list[tuple[tuple[CompiledQuery, ...], Ints | None]]:
    """Return the rows of queries that are merged in the same way, None for all: a hundred small tables would cost more
    than one. They are in the order of the table, or of `rows`. O(rows + queries).
    """
    if len(program.merge_groups) == 1 and len(partials):
        return [(program.merge_groups[0], rows)]
    kind = np.empty(len(program.workload.queries), np.int64)
    for number, group in enumerate(program.merge_groups):
        for compiled in group:
            kind[compiled.number] = number
    kinds = kind[_numpy(partials, "query")]
    order, found = group_rows(kinds if rows is None else kinds[rows])
    if len(found) == 1:
        return [(program.merge_groups[found[0][0]], rows)]
    order = order if rows is None else rows[order]
    return [(program.merge_groups[number], order[first : first + count]) for number, first, count in found]


def merge_within_task(program: Program, partials: pa.Table) -> pa.Table:
    """Merge what one task has of each result, except rows that a sweep over time will need."""
    to_sweep = [compiled.number for compiled in program.queries.values() if compiled.needs_sweep]
    if not to_sweep:
        return merge(program, partials)
    waits = pc.is_in(partials.column("query"), pa.array(to_sweep, pa.int32()))
    return pa.concat_tables([partials.filter(waits), merge(program, partials.filter(pc.invert(waits)))])


def encode_groups(program: Program, table: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """Return one code per combination of query and named attributes."""
    query = _numpy(table, "query").astype(np.int64)
    code = _number_codes(query, len(program.workload.queries))[0]
    for name in names:
        column = table.column(f"k{program.partition.index(name)}").combine_chunks()
        encoded = column.dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        null = len(encoded.dictionary)
        code = code * (null + 1) + pc.fill_null(encoded.indices, null).to_numpy()
        code = _number_codes(code, int(code.max(initial=0)) + 1)[0]
    return code


def _number_codes(codes: Ints, bound: int) -> tuple[Ints, Ints]:
    """Assign numbers to the codes in use, which are below `bound`, from 0 on in their order; also list them.

    O(codes + bound), unless there are far fewer codes than that.
    """
    if bound > 8 * len(codes) + 1024:
        used, numbers = np.unique(codes, return_inverse=True)
        return numbers.astype(np.int64), used
    is_used = np.zeros(bound, np.bool_)
    is_used[codes] = True
    return (np.cumsum(is_used) - 1)[codes], np.flatnonzero(is_used)


def _sum_partitions(program: Program, compiled: CompiledQuery, table: pa.Table) -> pa.Table:
    group = encode_groups(program, table, compiled.query.group_by)
    end = _numpy(table, "end")
    order = np.lexsort((end, group))
    new = np.flatnonzero(np.diff(group[order], prepend=-1).astype(bool) | np.diff(end[order], prepend=0).astype(bool))
    if not len(new) or new[0] != 0:
        new = np.concatenate(([0], new))
    offsets = np.concatenate((new, [len(order)])).astype(np.int64)
    totals, layout, words = _read_totals(program, compiled, table)
    summed = sum_groups(order.astype(np.int64), offsets, totals, layout)
    return _replace_totals(program, compiled, table.take(pa.array(order[new])), summed, layout, words)


def sweep_partitions(program: Program, compiled: CompiledQuery, table: pa.Table) -> pa.Table:
    """Sum a query's partitions at each time at which one of them completes a match."""
    group = encode_groups(program, table, compiled.query.group_by)
    rest = [name for name in compiled.partition if name not in compiled.query.group_by]
    part = encode_groups(program, table, rest)
    end = _numpy(table, "end").astype(np.int64)
    order = np.lexsort((_numpy(table, "seq"), end, group)).astype(np.int64)
    new = np.flatnonzero(np.diff(group[order], prepend=-1))
    offsets = np.concatenate((new, [len(order)])).astype(np.int64)
    # Number the partitions of each group from 0.
    most = int(part.max()) + 1
    number, pairs = _number_codes(group * most + part, (int(group.max()) + 1) * most)
    parts = np.bincount(pairs // most)
    local = number - (np.cumsum(parts) - parts)[group]
    parts = parts[group[order[new]]]
    done = _numpy(table, "done").astype(np.bool_)
    totals, layout, words = _read_totals(program, compiled, table)
    shown, sums = sweep_groups(order, offsets, local, parts, end, done, totals, layout)
    return _replace_totals(program, compiled, table.take(pa.array(shown)), sums, layout, words)


def _replace_totals(
    program: Program, compiled: CompiledQuery, labels: pa.Table, totals: Ints, layout: Layout, texts: Texts
) -> pa.Table:
    size = len(labels)
    columns = {name: labels.column(name) for name in labels.column_names}
    words = totals.reshape(size, layout.words)
    columns |= _totals_columns(program, words, words.view(np.float64), layout)
    if program.text_extremes:
        columns |= _text_columns(program, [compiled], np.zeros(size, np.int64), columns, [texts])
    return pa.table(columns, schema=program.partial_schema)


class _PartialRows:
    """Some rows of partials, whose columns are read when they are asked for. `columns` has those of all rows."""

    def __init__(self, partials: pa.Table, rows: Ints | None, columns: dict[str, pa.Array]) -> None:
        self.partials, self.rows, self.columns = partials, rows, columns
        self.size = len(partials) if rows is None else len(rows)

    def column(self, name: str) -> pa.Array:
        if name not in self.columns:
            self.columns[name] = as_one_array(self.partials.column(name))
        return self.columns[name] if self.rows is None else self.columns[name].take(pa.array(self.rows))

    def numpy(self, name: str) -> Any:
        return self.column(name).to_numpy(zero_copy_only=False)


def finish(program: Program, partials: pa.Table, in_order: bool = False) -> pa.Table:
    """Compute results from totals, all queries in one table: `in_order`, the rows of each are sorted by time and
    group.
    """
    done = partials.column("done")
    if not pc.all(done).as_py():
        partials = partials.filter(done)
    columns: dict[str, pa.Array] = {}
    order = None
    if in_order:
        groups = [
            partials.column(f"k{program.partition.index(name)}") for name in program.groups if name in program.partition
        ]
        order = order_rows([partials.column("query"), partials.column("end"), *groups])
    tables = [
        _finish_group(program, group[0], _PartialRows(partials, rows, columns))
        for group, rows in _split_by_merge_group(program, partials, order)
    ]
    return pa.concat_tables([program.result_schema.empty_table(), *tables])


def settle_overflows(program: Program, result: pa.Table) -> tuple[pa.Table, int]:
    """Make sums that are not exact null; return how many these are, with the counts that exceeded 64 bits.

    Exact counts are null there, and only there. A sum of whole numbers comes here as NaN where it is not exact, since
    null stands for a sum of nothing.
    """
    if not (program.count_columns or program.whole_sums):
        return result, 0
    settled = [_settle_batch(program, batch) for batch in result.to_batches()]
    return pa.Table.from_batches([batch for batch, _ in settled], result.schema), sum(count for _, count in settled)


def _settle_batch(program: Program, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    overflows = 0

    def count(missing: pa.Array, names: Sequence[str]) -> int:
        return pc.sum(pc.is_in(batch.column("query").filter(missing), pa.array(names))).as_py() or 0

    for label, names in program.count_columns.items():
        column = batch.column(label)
        if column.null_count:
            overflows += count(column.is_null(), names)
    for label, names in program.whole_sums.items():
        column = batch.column(label)
        if column.null_count < len(batch):  # most queries have no value in a column that another asked for
            inexact = pc.fill_null(pc.is_nan(column), False)
            if inexact.true_count:
                overflows += count(inexact, names)
                column = pc.if_else(inexact, pa.scalar(None, pa.float64()), column)
                batch = batch.set_column(batch.schema.get_field_index(label), label, column)
    return batch, overflows


def mark_inexact(sums: Reals) -> Reals:
    """Return sums of whole numbers with NaN for those that a double may not hold exactly."""
    return np.where(np.abs(sums) <= MAX_EXACT_SUM, sums, np.nan)


def _finish_group(program: Program, compiled: CompiledQuery, rows: _PartialRows) -> pa.Table:
    """Compute the results of queries that are merged like this one."""
    queries = pa.array([query.name for query in program.workload.queries], pa.string())
    columns: dict[str, pa.Array] = {"query": queries.take(rows.column("query"))}
    if compiled.span.is_continuous:
        columns["time"] = program.schema.from_microseconds(rows.numpy("end"))
    elif compiled.span.within:
        columns["window_start"] = program.schema.from_microseconds(rows.numpy("start"))
        columns["window_end"] = program.schema.from_microseconds(rows.numpy("end"))
    names = program.column_names[compiled.number]
    for name in compiled.query.group_by:
        columns[names[name]] = rows.column(f"k{program.partition.index(name)}")
    for output in compiled.outputs:
        columns[names[output.label]] = _compute_output(program, output, rows)
    return filter_having(program, compiled, build_table(columns, program.result_schema, rows.size))


def filter_having(program: Program, compiled: CompiledQuery | DetectQuery, results: pa.Table) -> pa.Table:
    """Return the results of a query that satisfy its HAVING.

    Where whole numbers leave 64 bits, which is an error, those of a stream are computed as doubles: it must go on.
    """
    condition = compiled.query.having
    if condition is None:
        return results
    names = program.column_names[compiled.number]

    def find_kept(rows: pa.Table, as_double: bool = False) -> Any:
        def read(attribute: Attribute) -> pa.ChunkedArray:
            column = rows.column(names.get(attribute.name, attribute.name))
            return column.cast(pa.float64(), safe=False) if as_double and pa.types.is_integer(column.type) else column

        try:
            return evaluate_condition(condition, read, len(rows))
        except DataError:
            if as_double or not program.options.mode:
                raise
            half = len(rows) // 2
            if not half:
                return find_kept(rows, as_double=True)
            return np.concatenate((find_kept(rows.slice(0, half)), find_kept(rows.slice(half))))

    return results.filter(pa.array(find_kept(results)))


def _compute_output(program: Program, output: ResultColumn, rows: _PartialRows) -> pa.Array:
    """Return the values of one result column."""
    if output.extreme >= 0:
        assert output.column is not None
        if output.column in program.text_extremes:
            return rows.column(f"s{output.extreme}")
        data_type = program.schema.columns.field(output.column).type
        return decode_codes(rows.numpy(f"m{output.extreme}"), output.function.lower(), data_type)
    if output.distinct and output.count < 0:
        return pa.array(np.ones(rows.size, np.int64))  # the group's own value
    if output.count < 0:
        return _compute_count(program, rows.numpy("n"), rows.numpy("nm"), rows.numpy("ne"))
    count, exponent = rows.numpy(f"im{output.count}"), rows.numpy(f"ie{output.count}")
    if output.function == "COUNT":
        return _compute_count(program, rows.numpy(f"i{output.count}"), count, exponent)
    total, shift = rows.numpy(f"f{output.total}"), rows.numpy(f"fe{output.total}")
    with np.errstate(all="ignore"):
        if output.function == "SUM":
            summed = _ldexp(total, shift)
            if program.sums_exactly(output.column):
                return pa.array(mark_inexact(summed), mask=count == 0)
            return pa.array(summed, mask=(count == 0) | np.isnan(summed))
        mean = _ldexp(total / count, shift - exponent)
        if output.function == "AVG":
            return pa.array(mean, mask=(count == 0) | np.isnan(mean))
        squares, square_shift = rows.numpy(f"f{output.square}"), rows.numpy(f"fe{output.square}")
        square = _ldexp(squares / count, square_shift - exponent)
        correction = np.where(exponent > 0, 1.0, count / np.where(count > 1, count - 1, 1))
        variance = np.maximum(square - mean * mean, 0.0) * correction
        value = np.sqrt(variance) if output.function == "STDDEV" else variance
    return pa.array(value, mask=((exponent <= 0) & (count < 2)) | np.isnan(value))


def _compute_count(program: Program, whole: Ints, mantissa: Reals, exponent: NDArray[np.int32]) -> pa.Array:
    """Return counts as doubles, or as integers that are null where they exceed 64 bits."""
    if program.options.counts == "double":
        exact = (exponent == 0) & (mantissa < COUNT_SURE)
        with np.errstate(all="ignore"):
            return pa.array(np.where(exact, whole.astype(np.float64), _ldexp(mantissa, exponent)))
    return pa.array(whole, mask=(exponent > 0) | (mantissa >= COUNT_OVER) | ((mantissa >= COUNT_SURE) & (whole < 0)))


def _ldexp(mantissa: Reals, exponent: NDArray[np.int32]) -> Reals:
    return np.ldexp(mantissa, np.clip(exponent, -8, 8) * 480)
