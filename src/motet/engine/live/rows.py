"""Classify and retain the rows of a stream, and tell when results fall due without a further one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.compile import Branch
from motet.compile.detect import DetectBranch
from motet.engine.encode import TypeIndex, encode_keys, read_column, read_plain_times
from motet.errors import DataError
from motet.kernels.ragged import offsets_from_counts
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.plans.compiled import CompiledQuery
from motet.plans.detect.query import DetectQuery
from motet.schema import EventSchema

Times = NDArray[np.int64]
Flags = NDArray[np.bool_]
FEWEST_TIMES = 4  # that a piece of retained rows is as large as the next: each of them takes time to read, ...
LARGE_PIECE = 1 << 15  # ... but little beside what it takes to copy so many rows


@dataclass(frozen=True)
class ReadRows:
    """The rows of a micro-batch that have a time and a type, and their times.

    `types` has the types of the stream. `invalid_rows` counts the others, `oldest` is the least time of any row and
    `newest` the greatest.
    """

    table: pa.Table
    times: Times
    type_column: str
    types: TypeIndex
    invalid_rows: int
    oldest: int
    newest: int

    @cached_property
    def type_numbers(self) -> Times:
        """Which of the types is that of each row."""
        return self.types.number(self.table[self.type_column])


@dataclass(frozen=True)
class ClassifiedRows:
    """The rows of a micro-batch by what happens to them, and the times of the usable ones."""

    usable: pa.Table
    times: Times
    late: pa.Table


def read_rows(table: pa.Table, schema: EventSchema, types: TypeIndex) -> ReadRows:
    """Read the times of the rows of a micro-batch, and set those aside that have none, or no type."""
    before = len(table)
    if table[schema.type].null_count:
        table = table.filter(pc.is_valid(table[schema.type]))
    times = read_plain_times(table, schema)
    if times is None:
        micros = schema.to_microseconds(read_column(table, schema.time))
        if micros.null_count:
            table, micros = table.filter(pc.is_valid(micros)), micros.drop_null()
        times = micros.to_numpy(zero_copy_only=False)
    ends = (int(times.min()), int(times.max())) if len(times) else (int(MAX_TIME), int(MIN_TIME))
    return ReadRows(table, times, schema.type, types, before - len(table), *ends)


def classify_rows(read: ReadRows, branch: Branch | DetectBranch, schema: EventSchema, watermark: int) -> ClassifiedRows:
    """Split the rows of a micro-batch into usable and late ones.

    Rows that no query of the branch reads are in none of them.
    """
    table, times = read.table, read.times
    relevant: Flags | None = None
    for name in branch.partition:
        column = table[name]
        if column.null_count or not pa.types.is_integer(column.type):
            known = read_column(table, name)
            if known.null_count:
                valid = known.is_valid().to_numpy(zero_copy_only=False)
                relevant = valid if relevant is None else relevant & valid
    if branch.types is not None:
        numbers = read.type_numbers
        known = read.types.mask(branch.types)
        if not known.all():
            known = known[numbers]
            relevant = known if relevant is None else relevant & known
    if read.oldest >= watermark:
        if relevant is not None:
            table, times = table.filter(pa.array(relevant)), times[relevant]
        return ClassifiedRows(table, times, table.slice(0, 0))
    late = times < watermark
    usable = ~late if relevant is None else relevant & ~late
    late = late if relevant is None else relevant & late
    return ClassifiedRows(table.filter(pa.array(usable)), times[usable], table.filter(pa.array(late)))


def find_bad_rows(table: pa.Table, read: Callable[[pa.Table], object]) -> Flags:
    """Return a mask of the rows that cannot be read, found by bisection.

    O(bad rows * log rows) attempts, one if there are none.
    """
    bad = np.zeros(len(table), np.bool_)
    pending = [(0, len(table))]
    while pending:
        start, size = pending.pop()
        try:
            read(table.slice(start, size))
        except DataError:
            if size == 1:
                bad[start] = True
            else:
                pending += [(start, size // 2), (start + size // 2, size - size // 2)]
    return bad


def select_rows(table: pa.Table, mask: Flags) -> pa.Table:
    """Return the rows where a mask is set: without a copy where they are next to each other."""
    count = int(np.count_nonzero(mask))
    if count == len(mask):
        return table
    first = int(mask.argmax()) if count else 0
    if mask[first : first + count].all():
        return table.slice(first, count)
    return table.filter(pa.array(mask)).combine_chunks()


def select_same_keys(table: pa.Table, some: Flags, partition: Sequence[str]) -> Flags:
    """Return a mask of all rows whose key is that of one of some rows."""
    codes, _, keys = encode_keys(table, partition)
    selected = np.zeros(keys, np.bool_)
    selected[codes[some]] = True
    return selected[codes]


def retention_mask(
    table: pa.Table, times: Times, partition: Sequence[str], watermark: int, retention: int, last: int
) -> Flags:
    """Return which rows to keep: those at or after the watermark or the retention time, and the last so many of each
    key.
    """
    kept = (times >= watermark) | (times >= retention)
    if last and not kept.all():
        codes = encode_keys(table, partition)[0]
        passed = np.flatnonzero(times < watermark)
        order = passed[np.lexsort((-times[passed], codes[passed]))]
        kept[order[_count_later(codes[order], times[order]) < last]] = True
    return kept


class RetainedRows:
    """Rows that the watermark has passed and that a restored or changed stream will need.

    They are kept in pieces, each far larger than the next or large: a row is copied a few times, however many there
    are. Rows that are not needed any more are dropped once they may be half of all.
    """

    def __init__(self, rows: pa.Table, newest: int) -> None:
        self.pieces = [rows]
        self.newest = newest  # the greatest time of any of them
        self.size = len(rows)
        self.limit = 2 * self.size + 1024  # from which on to look for rows to drop

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables(self.pieces)

    def take(self, places: Times, added: pa.Table) -> pa.Table:
        """Return the rows at some places, in ascending order; those of `added` come after all others. O(places)."""
        pieces = [*self.pieces, added]
        begins = offsets_from_counts([len(piece) for piece in pieces])
        cuts = np.searchsorted(places, begins).tolist()
        parts = [
            piece.take(pa.array(places[first:last] - begin))
            for piece, begin, (first, last) in zip(pieces, begins.tolist(), pairwise(cuts), strict=False)
            if last > first
        ]
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts).combine_chunks()

    def append(self, rows: pa.Table, newest: int) -> None:
        """Add rows, the greatest time of which is `newest`."""
        if len(rows):
            self.newest = max(self.newest, newest)
            self.size += len(rows)
            while len(self.pieces) > 1 and len(self.pieces[-1]) <= min(FEWEST_TIMES * len(rows), LARGE_PIECE):
                rows = pa.concat_tables([self.pieces.pop(), rows]).combine_chunks()
            self.pieces.append(rows)


def _count_later(codes: NDArray[np.int32], times: Times) -> Times:
    """Count, for rows sorted by key and descending time, the rows of the same key that are strictly later."""
    place = np.arange(len(codes))
    first_of_key = np.maximum.accumulate(np.where(np.diff(codes, prepend=-1) != 0, place, 0))
    new = (np.diff(codes, prepend=-1) != 0) | (np.diff(times, prepend=0) != 0)
    if len(new):
        new[0] = True
    first_of_tie = np.maximum.accumulate(np.where(new, place, 0))
    return first_of_tie - first_of_key


class Timer(NamedTuple):
    """How long after an event a query may report because of it alone.

    That is when each window with the event ends or, without SLIDE, when the event leaves the window; `lag` later.
    """

    within: int
    slide: int
    lag: int


def timers_for(query: CompiledQuery | DetectQuery) -> set[Timer]:
    """Return the timers of a query; none if it only reports when a match completes."""
    # Detection looks for changes of swept values itself.
    needs_sweep = isinstance(query, CompiledQuery) and query.needs_sweep
    if query.span.ranked or not (query.reports_at_close or needs_sweep):
        return set()
    # A change of a value at some time counts once the watermark has passed that time.
    lag = 0 if query.reports_at_close else 1
    delay = query.report_delay if isinstance(query, DetectQuery) else 0
    return {Timer(query.span.within, query.span.slide, lag + delay)}


def next_timers(timers: Iterable[Timer], times: Times, watermark: int) -> Times:
    """Return, for each event, the smallest later watermark at which some query may report because of it alone."""
    soonest = np.full(len(times), MAX_TIME, np.int64)
    for within, slide, lag in timers:
        if slide:
            first = np.maximum((times - within) // slide, (watermark - within) // slide) + 1
            ends = np.where(first <= times // slide, first * slide + within, MAX_TIME)
        else:
            ends = times + within + lag
            ends = np.where(ends > watermark, ends, MAX_TIME)
        soonest = np.minimum(soonest, ends)
    return soonest
