"""Run a query with adjacent conditions: encode its conditions as comparable codes, then call the kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.compile import Program
from motet.engine.encode import EncodedEvents, rank_values, select_keys, select_unit_events
from motet.engine.expressions import evaluate
from motet.engine.partials import build_partials
from motet.errors import RunError
from motet.kernels.arrays import MAX_TIME
from motet.kernels.ragged import offsets_of
from motet.kernels.slots import PANES, STARTS, WINDOWS, make_window, slot_capacity
from motet.kernels.tables import Events
from motet.kernels.totals import list_layouts
from motet.kernels.trends import (
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    NO_VALUE,
    SCAN,
    UNEQUAL,
    Edges,
    count_live_events,
    measure_capacity,
    run_trends,
)
from motet.model.expression import Attribute, Expression
from motet.plans.compiled import CompiledQuery
from motet.plans.machine import build_machine, build_queries_table
from motet.plans.units import Unit
from motet.template.conditions import AdjacentCondition

OPERATORS = {"<": LESS, "<=": LESS_EQUAL, ">": GREATER, ">=": GREATER_EQUAL, "=": EQUAL, "!=": UNEQUAL}
MEMORY_LIMIT = 4 << 30

Codes = NDArray[np.int64]
EncodeBoth = Callable[[pa.Array, pa.Array], tuple[Codes, Codes]]
ListedEdges = tuple[Edges, tuple[AdjacentCondition, ...]]


def run_trend_query(program: Program, unit: Unit, encoded: EncodedEvents, bounds: tuple[int, int]) -> list[pa.Table]:
    """Return the partial results of a unit of one query with adjacent conditions."""
    merged = unit.merged
    compiled = unit.queries[0]
    events, at = select_unit_events(encoded, unit)
    if not len(events.time):
        return []
    machine = build_machine(merged, encoded.classes)
    queries = build_queries_table(merged)
    edges = build_edges(list_edges(compiled), encoded, at, _rank_both)
    mode = slot_mode(compiled)
    layouts = list_layouts(*compiled.channels.shape, rarely_large=False)
    capacity = measure_capacity(events, machine, edges, layouts[0], compiled.span.within)
    window = make_window(queries, mode, unit.width, compiled.span.ranked, int(MAX_TIME), *bounds)
    totals = capacity.rows(len(machine.fold)) * slot_capacity(events, machine, window)
    _check_memory(compiled, events, totals)
    tables = []
    for layout in layouts:
        labels, whole, real, overflowed = run_trends(events, machine, queries, edges, layout, capacity, window)
        tables.append(build_partials(program, labels, whole, real, layout, unit.queries, encoded))
        if not overflowed.any():
            break
        events, kept = select_keys(events, overflowed)
        edges = edges._replace(
            before=np.ascontiguousarray(edges.before[:, kept]), after=np.ascontiguousarray(edges.after[:, kept])
        )
    return tables


def slot_mode(compiled: CompiledQuery) -> int:
    """Return what a slot holds."""
    return STARTS if compiled.span.is_continuous else WINDOWS if compiled.span.within else PANES


def build_edges(
    listed: ListedEdges, encoded: EncodedEvents, rows: NDArray[np.int64] | None, encode: EncodeBoth
) -> Edges:
    """Build transitions that are under conditions over the events in these rows, or all; `encode` codes both sides."""
    edges, conditions = listed
    codes = [encode(*_evaluate_sides(encoded, rows, a.before, a.after)) for a in conditions]
    before, after = np.empty((2, len(codes), len(encoded.time) if rows is None else len(rows)), np.int64)
    for at, sides in enumerate(codes):
        before[at], after[at] = sides
    return edges._replace(before=before, after=after)


def list_edges(compiled: CompiledQuery) -> ListedEdges:
    """Return the transitions that are under conditions, for no events, and their conditions."""
    at = _node_positions(compiled)
    node_edges: dict[tuple[int, int], list[AdjacentCondition]] = {}
    for step in compiled.automaton.transitions:
        found = [a for a in compiled.adjacent if (a.source, a.target) == (at.get(step.source), step.position)]
        if found:
            node_edges[step.source, step.target] = found
    conditions = tuple(a for found in node_edges.values() for a in found)
    nothing = np.zeros((len(conditions), 0), np.int64)
    edges = Edges(
        source=np.array([source for source, _ in node_edges], np.int32),
        target=np.array([target for _, target in node_edges], np.int32),
        kind=np.array(
            [OPERATORS[found[0].operator] if len(found) == 1 else SCAN for found in node_edges.values()], np.int32
        ),
        offsets=offsets_of(node_edges.values()),
        operator=np.array([OPERATORS[a.operator] for a in conditions], np.int32),
        before=nothing,
        after=nothing,
    )
    return edges, conditions


def _node_positions(compiled: CompiledQuery) -> dict[int, int]:
    """Return the position last bound in each settled node."""
    automaton = compiled.automaton
    at = {automaton.fold[step.target]: step.position for step in automaton.transitions}
    while True:
        more = {
            m.target: at[m.source] for m in automaton.moves if m.source in at and m.target >= 0 and m.target not in at
        }
        if not more:
            return at
        at |= more


def _evaluate_sides(
    encoded: EncodedEvents, rows: NDArray[np.int64] | None, before: Expression, after: Expression
) -> tuple[pa.Array, pa.Array]:
    """Evaluate both sides of a comparison, as values of one type."""
    chosen = None if rows is None else pa.array(rows)

    def read(attribute: Attribute) -> pa.Array:
        column = encoded.column(attribute.name)
        return column if chosen is None else column.take(chosen)

    return unify_sides(*(evaluate(side, read) for side in (before, after)))


def unify_sides(before: pa.Array, after: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return both sides of a comparison as values of one type."""
    if before.type != after.type:
        before, after = before.cast(pa.float64(), safe=False), after.cast(pa.float64(), safe=False)
    if pa.types.is_floating(before.type):
        before, after = pc.add(before, 0.0), pc.add(after, 0.0)  # -0.0 is 0.0
    return before, after


def _rank_both(before: pa.Array, after: pa.Array) -> tuple[Codes, Codes]:
    """Encode both sides of a comparison as their ranks, `NO_VALUE` for null."""
    codes = pc.fill_null(rank_values(pa.concat_arrays([before, after]))[0], NO_VALUE).to_numpy()
    return codes[: len(before)], codes[len(before) :]


def _check_memory(compiled: CompiledQuery, events: Events, totals: int) -> None:
    """Refuse a query whose totals would not fit in memory: so many are kept, by event and start or window."""
    needed = totals * 8 * (1 + sum(compiled.channels.shape))
    if needed > MEMORY_LIMIT:
        live, _ = count_live_events(events, compiled.span.within)
        raise RunError(
            f"query {compiled.query.name}: its adjacent condition over {live:,} events in a window needs about "
            f"{needed / 2**30:.0f} GiB; use a shorter window, a longer SLIDE, or partition by an attribute"
        )
