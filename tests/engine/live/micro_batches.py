"""Streams cut into micro-batches, and the queries that can run on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from motet.errors import Diagnostic
from motet.kernels.tables import MIN_TIME
from motet.model.query import Aggregate, Workload
from motet.model.window import TimeWindow
from motet.plans.compiled import compile_query
from motet.plans.detect.query import DetectQuery, compile_detect
from tests.detect.test_against_oracle import is_valid

Rows = list[dict[str, Any]]
SECOND = 1_000_000


def endless(workload: Workload) -> Workload:
    """The queries that can run on a stream: those with a window, of a kind that an engine takes."""
    workload = replace(workload, queries=tuple(query for query in workload.queries if is_valid(query, workload)))
    engines = (compile_query, compile_detect)
    kept = [
        query
        for number, query in enumerate(workload.queries)
        if query.window is not None
        and not all(isinstance(compiles(number, workload, SECOND), Diagnostic) for compiles in engines)
    ]
    return replace(workload, queries=tuple(kept))


def select_streamed(workload: Workload) -> Workload:
    """The queries that can run on a stream, and whose matches can be taken before a window of events is full."""
    workload = endless(workload)
    compiled = [compile_detect(number, workload, SECOND) for number in range(len(workload.queries))]
    kept = zip(workload.queries, compiled, strict=True)
    taken = [
        query for query, each in kept if not (isinstance(each, DetectQuery) and each.waits_to_skip and each.span.ranked)
    ]
    return replace(workload, queries=tuple(taken))


@st.composite
def kindred(draw: st.DrawFn, workload: Workload) -> Workload:
    """The same patterns with few kinds of windows, groups and values: queries that can run on one machine."""
    grid = [TimeWindow(size * SECOND, 2 * SECOND) for size in (4, 6, 10)]
    chosen = draw(st.sampled_from([grid, grid, [TimeWindow(4 * SECOND)]]))
    group = draw(st.sampled_from([("k",), ()]))
    return replace(
        workload,
        queries=tuple(
            replace(
                query,
                window=draw(st.sampled_from(chosen)),
                group_by=group,
                equivalence=(),
                returns=query.aggregates if draw(st.sampled_from([False, False, True])) else (Aggregate("COUNT"),),
            )
            for query in workload.queries
        ),
    )


@st.composite
def micro_batches(draw: st.DrawFn, rows: Rows) -> list[tuple[Rows, int]]:
    """Rows in batches, each with the watermark it comes with: no row is before the watermark of its batch."""
    delay = draw(st.integers(0, 6))
    jitter = draw(st.lists(st.integers(0, delay), min_size=len(rows), max_size=len(rows)))
    arrival = sorted(range(len(rows)), key=lambda at: (rows[at]["time"] or 0) + jitter[at])
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=8)))
    batches = []
    newest: int | None = None
    for first, last in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        batch = [rows[at] for at in arrival[first:last]]
        watermark = int(MIN_TIME) if newest is None else (newest - delay) * SECOND
        batches.append((batch, watermark))
        times = [row["time"] for row in batch if row["time"] is not None]
        newest = max([*times, *([newest] if newest is not None else [])], default=None)
    return batches
