"""Compile every kernel, or load it from the cache: `python -m motet.engine.warm`.

Two processes that compile the same kernel at once may corrupt the cache on disk, so it is best done once, before others
start. Two processes share the work, each with kernels of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from motet.engine import EventSchema, compile_workload
from motet.engine.live import Stream
from motet.engine.local import run_table
from motet.kernels.jit import KERNELS, on_each_compilation
from motet.kernels.order import order_by_key
from motet.kernels.resume import extend_states, renumber_states
from motet.kernels.state_migration import NodeSources, merge_states
from motet.kernels.totals import make_layout
from motet.model.expression import At, Attribute, Comparison, KleeneAggregate
from motet.model.pattern import And, Event, Not, Repeat, Seq
from motet.model.query import Aggregate, AllVariables, Computed, Policy, Query, Workload
from motet.model.window import CountWindow, TimeWindow
from motet.options import Options

_EVENTS = pa.table({"time": [1, 2, 3, 4], "type": ["A", "A", "B", "B"], "k": ["p"] * 4, "x": [1.0, 2.0, 3.0, 4.0]})

_PAIR = (Event("A", "a"), Event("B", "b"))
_PATTERN = Seq((Repeat(Event("A"), 1, None), Event("B")))
_RETURNS = (Aggregate("COUNT"), Aggregate("SUM", "A", "x"), Aggregate("MIN", "A", "x"))
_SLIDING, _CONTINUOUS = TimeWindow(4_000_000, 2_000_000), TimeWindow(4_000_000)


def warm() -> None:
    """Run each kind of query once."""
    for part in _PARTS:
        part()


def warm_in_parallel() -> None:
    """Compile all kernels in two processes, and show how far they are."""
    order_by_key(np.zeros(1, np.int32), np.zeros(1, np.int64), 1)  # both parts need it
    context = multiprocessing.get_context("spawn")
    compiled = context.SimpleQueue()
    processes = [context.Process(target=_warm_part, args=(number, compiled)) for number in range(len(_PARTS))]
    for process in processes:
        process.start()
    done, ended = 1, 0
    while ended < len(processes):
        if compiled.get():
            done += 1
            sys.stderr.write(f"\rcompiling kernels {done}/{len(KERNELS)} ...")
            sys.stderr.flush()
        else:
            ended += 1
    sys.stderr.write("\n")
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("kernels could not be compiled")


def _warm_part(number: int, compiled: multiprocessing.queues.SimpleQueue[bool]) -> None:
    """Run one part; put True for each kernel that was compiled, and False at the end."""
    on_each_compilation(lambda: compiled.put(True))
    try:
        _PARTS[number]()
    finally:
        compiled.put(False)


def _run(queries: tuple[Query, ...], options: Options) -> None:
    run_table(compile_workload(Workload(queries), EventSchema(_EVENTS.schema), options), _EVENTS)


def _warm_slots_and_stacks() -> None:
    """Run sliding, continuous and count windows, partitions combined or not, in batch and as a stream."""
    queries = (
        Query("sliding", _PATTERN, _RETURNS, group_by=("k",), window=_SLIDING),
        Query("combined", _PATTERN, _RETURNS, equivalence=("k",), window=_SLIDING),
        Query("continuous", _PATTERN, _RETURNS, equivalence=("k",), window=_CONTINUOUS),
        Query("counted", _PATTERN, _RETURNS, group_by=("k",), window=CountWindow(3)),
    )
    _run(queries, Options())
    stream = Stream(compile_workload(Workload(queries), EventSchema(_EVENTS.schema), Options(mode="append")))
    stream.feed(_EVENTS, 3_000_000)
    stream.finish()
    nothing, none = np.zeros(1, np.int64), np.zeros(0, np.int64)
    numbers, flags = np.zeros(1, np.int32), np.zeros(1, np.bool_)
    layout = make_layout(0, 0, 0)
    extend_states(nothing, none, layout, make_layout(0, 0, 0, extended=True), False)
    renumber_states(nothing, none, layout, False, numbers, numbers, numbers)
    merge_states(nothing, none, nothing, none, layout, 0, NodeSources(numbers, flags), numbers, 1, 0)


def _warm_detection_pairs_and_trends() -> None:
    """Run matches by joins and by paths, with an absence at the end and one that depends on what is bound; shared
    parts of patterns; and a condition on neighbours.
    """
    joined = Seq((Event("A", "a"), Not(Event("B", "n")), Event("B", "b"), Not(Event("A", "last"))))
    apart = Comparison("<", Attribute("a", "x"), Attribute("b", "x"))
    depends = Comparison("=", Attribute("n", "x"), Attribute("a", "x"))
    most = Computed(KleeneAggregate("MAX", "A", "x"), "most")
    detected = (
        Query("paths", _PATTERN, (AllVariables(), most), window=_CONTINUOUS),
        Query("joins", joined, (AllVariables(),), (apart, depends), window=_CONTINUOUS, policy=Policy.SKIP_TILL_NEXT),
    )
    loop = Seq((Event("A", "a"), Repeat(Event("B"), 1, None), Event("B", "b")))
    _run((*detected, Query("loop", loop, (AllVariables(),), (apart,), window=_CONTINUOUS)), Options())
    # A sequence is filtered out of a conjunction where they are planned together.
    related = tuple(
        Query(name, pattern, (AllVariables(),), window=_CONTINUOUS)
        for name, pattern in (("any order", And(_PAIR)), ("in order", Seq(_PAIR)))
    )
    _run(related, Options(optimizer="motto"))
    _run((Query("sliding", _PATTERN, _RETURNS, group_by=("k",), window=_SLIDING),), Options(windows="pairs"))
    rising = Comparison("<", Attribute("A", "x"), Attribute("A", "x", At.NEXT))
    _run((Query("rising", _PATTERN, _RETURNS, (rising,), group_by=("k",), window=_CONTINUOUS),), Options())


_PARTS: tuple[Callable[[], None], ...] = (_warm_slots_and_stacks, _warm_detection_pairs_and_trends)


if __name__ == "__main__":
    if (os.cpu_count() or 1) > 1:
        warm_in_parallel()
    else:
        warm()
