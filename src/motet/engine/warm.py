"""Compile every kernel, or load it from the cache: `motet warm`. Two processes share the work."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import numpy as np
import pyarrow as pa

from motet.compile import compile_workload
from motet.engine.encode import number_texts
from motet.engine.live import Stream
from motet.engine.live.detect import DetectOperator
from motet.engine.local import run_table
from motet.errors import RunError
from motet.kernels.cache import FOLDER, fill_first_folder, load_only
from motet.kernels.compiler import KERNELS, on_each_compilation
from motet.kernels.numbering import FEWEST, RowIndex, TextIndex
from motet.kernels.order import order_by_key, sort_disordered
from motet.kernels.resume import extend_states, renumber_states
from motet.kernels.state_migration import NodeSources, merge_states
from motet.kernels.totals import list_layouts, make_layout
from motet.kernels.trend_runs import copy_runs, create_runs
from motet.language import parse
from motet.options import Options
from motet.row_patterns.clauses import parse_clause
from motet.row_patterns.compiler import draft_clause, finish_program
from motet.row_patterns.matching import match_rows
from motet.row_patterns.tokens import SqlText
from motet.schema import EventSchema

PROCESSES = 2
_EVENTS = pa.table({"time": [1, 2, 3, 4], "type": ["A", "A", "B", "B"], "k": ["p"] * 4, "x": [1.0, 2.0, 3.0, 4.0]})

# Sliding, continuous and count windows, partitions combined or not.
_SLOTS_AND_STACKS = """
    QUERY sliding RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 4 s SLIDE 2 s
    QUERY combined RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) WHERE [k] WITHIN 4 s SLIDE 2 s
    QUERY continuous RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) WHERE [k] WITHIN 4 s
    QUERY counted RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 3 EVENTS
"""
_PAIRS = "RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 4 s SLIDE 2 s"
_TRENDS = "RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) WHERE A.x < NEXT(A).x GROUP BY k WITHIN 4 s"
# Matches by paths and by joins, with an absence at the end and one that depends on what is bound.
_DETECTION = """
    QUERY paths RETURN *, (MAX(A.x)) AS most PATTERN SEQ(A+, B) WITHIN 4 s
    QUERY joins RETURN * PATTERN SEQ(A a, NOT B n, B b, NOT A last) WHERE a.x < b.x AND n.x = a.x WITHIN 4 s
        SKIP TILL NEXT
    QUERY loop RETURN * PATTERN SEQ(A a, B+, B b) WHERE a.x < b.x WITHIN 4 s
    QUERY apart RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 4 s AFTER MATCH SKIP PAST LAST EVENT
    QUERY first RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 4 s AFTER MATCH SKIP TO NEXT EVENT
    QUERY occurrences RETURN COUNT(*) PATTERN SEQ(A a, B b) WITHIN 4 s AFTER MATCH SKIP PAST LAST EVENT
    QUERY occurrences_in_windows RETURN COUNT(*) PATTERN SEQ(A a, B b) WITHIN 4 s SLIDE 2 s
        AFTER MATCH SKIP PAST LAST EVENT
    QUERY first_occurrences RETURN COUNT(*) PATTERN SEQ(A a, B b) WITHIN 4 s AFTER MATCH SKIP TO NEXT EVENT
"""
# Matches that a stream finds event by event.
_FED = "RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 4 s"
# A sequence is filtered out of a conjunction where they are planned together.
_RELATED = """
    QUERY unordered RETURN * PATTERN AND(A a, B b) WITHIN 4 s
    QUERY ordered RETURN * PATTERN SEQ(A a, B b) WITHIN 4 s
"""
# One condition is a mask, the other speaks of the match so far.
_ROW_PATTERN = """events MATCH_RECOGNIZE (PARTITION BY k ORDER BY time MEASURES SUM(B.x) AS x
    PATTERN (A B+) DEFINE A AS x > PREV(x), B AS x > A.x)"""


def load_kernels() -> bool:
    """Load all kernels that were compiled before, and compile none; return whether that was all of them."""
    loaded = [load_only(part) for part in _PARTS]
    return all(loaded)


def compile_kernels(folder: Path | None = None, processor: str | None = None) -> None:
    """Compile all kernels that are not in the cache, and show how far it is.

    Args:
        folder: Where to write them; by default into the package, or where that cannot be written to, the user's cache.
        processor: What to compile for, of `list_baselines`; by default for this machine alone.
    """
    if folder is not None:
        os.environ[FOLDER] = str(folder.resolve())
    if processor is not None:
        os.environ |= {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    context = multiprocessing.get_context("spawn")
    compiled = context.SimpleQueue()
    shares = [_PARTS[number::PROCESSES] for number in range(PROCESSES)]
    processes = [context.Process(target=_compile_parts, args=(share, compiled)) for share in shares]
    for process in processes:
        process.start()
    done = ended = 0
    while ended < len(processes):
        if compiled.get():
            done = min(done + 1, len(KERNELS))  # one may be compiled for several types
            sys.stderr.write(f"\rcompiling kernels {done}/{len(KERNELS)} ...")
            sys.stderr.flush()
        else:
            ended += 1
    sys.stderr.write("\n" if done else "all kernels are there\n")
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RunError("kernels could not be compiled")


def _compile_parts(parts: Sequence[Callable[[], None]], compiled: SimpleQueue[bool]) -> None:
    """Run some parts; put True for each kernel that was compiled, and False at the end."""
    fill_first_folder()
    on_each_compilation(lambda _: compiled.put(True))
    try:
        for part in parts:
            part()
    finally:
        compiled.put(False)


def _run(queries: str, options: Options) -> None:
    run_table(compile_workload(parse(queries), EventSchema(_EVENTS.schema), options), _EVENTS)


def _warm_slots_and_stacks() -> None:
    """Run totals by slots and by stacks, in batch and as a stream, and what migrates them."""
    _run(_SLOTS_AND_STACKS, Options())
    schema = EventSchema(_EVENTS.schema)
    stream = Stream(compile_workload(parse(_SLOTS_AND_STACKS), schema, Options(mode="append")))
    stream.feed(_EVENTS, 3_000_000)
    stream.finish()
    # More than an index holds at first, so that it grows.
    number_texts(TextIndex(), pa.array([str(number) for number in range(2 * FEWEST)]))
    RowIndex(1).number(np.zeros((2 * FEWEST, 1), np.int64))
    keys, times = np.zeros(2, np.int32), np.array([2, 1])
    sort_disordered(*order_by_key(keys, times, 1), times)
    nothing, none = np.zeros(1, np.int64), np.zeros(0, np.int64)
    numbers, flags, layout = np.zeros(1, np.int32), np.zeros(1, np.bool_), make_layout(0, 0, 0)
    extend_states(nothing, none, layout, make_layout(0, 0, 0, extended=True), False)
    renumber_states(nothing, none, layout, False, numbers, numbers, numbers)
    merge_states(nothing, none, nothing, none, layout, 0, NodeSources(numbers, flags), numbers, 1, 0)


def _warm_detection_and_pairs() -> None:
    """Run matches by joins and by paths, and totals between pairs."""
    _run(_DETECTION, Options())
    _run(_RELATED, Options(optimizer="motto"))
    _run(_PAIRS, Options(windows="pairs"))


def _warm_trends_and_feeds() -> None:
    """Run a condition on neighbours, and matches that a stream finds event by event."""
    _run(_TRENDS, Options())
    for queries in (_TRENDS, _FED):
        stream = Stream(compile_workload(parse(queries), EventSchema(_EVENTS.schema), Options(mode="append")))
        stream.feed(_EVENTS, 3_000_000)
        stream.finish()
        for live in stream.branches:
            if isinstance(live, DetectOperator) and live.fed is not None:
                live.fed.make_room(np.zeros(len(live.fed.builder.spans), np.int64))
    for layout in list_layouts(0, 0, 0, rarely_large=False):
        runs = create_runs(1, layout, 1)
        copy_runs(np.zeros(1, np.int64), np.zeros(0, np.int64), 1, runs, runs)


def _warm_row_patterns() -> None:
    """Match a SQL row pattern."""
    draft = draft_clause(parse_clause(SqlText(_ROW_PATTERN, "", "duckdb"), 0, 1), _EVENTS.schema)
    inputs = _EVENTS.select([column.name for column in draft.inputs])
    list(match_rows(finish_program(draft, inputs.schema.types), inputs, None, 1000))


# In an order by which two processes have about as much to do.
_PARTS: tuple[Callable[[], None], ...] = (
    _warm_slots_and_stacks,
    _warm_detection_and_pairs,
    _warm_row_patterns,
    _warm_trends_and_feeds,
)
