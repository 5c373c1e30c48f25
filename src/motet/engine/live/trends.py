"""Carry the totals of events under adjacent conditions from one micro-batch to the next.

All that is kept can be rebuilt from the events in the window, whose rows are retained. So nothing of it is saved: a
restored stream, or one that goes on with other queries, replays these rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.context import RunContext
from motet.engine.detect.windows import due_range
from motet.engine.encode import EncodedEvents, order_preserving_codes, select_unit_events
from motet.engine.live.key_states import KeyHeads, KeyIndex, add_due_keys, find_keys_with
from motet.engine.live.reports import Report, make_report
from motet.engine.trends import ListedEdges, build_edges, list_edges, slot_mode
from motet.kernels.slots import make_window
from motet.kernels.tables import MAX_TIME, MIN_TIME, Events
from motet.kernels.totals import list_layouts
from motet.kernels.trends import (
    NO_VALUE,
    RECORD_SIZE,
    SCAN,
    TREND_HEAD,
    UNEQUAL,
    WAKE,
    Edges,
    TrendRun,
    measure_capacity,
)
from motet.plans.units import Unit
from motet.schema import is_text

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class UnitOutgrown(Exception):
    """A count of some key exceeded 64 bits, or events have values that are new: the unit has to begin anew."""


def can_feed_trends(unit: Unit, nothing: EncodedEvents) -> bool:
    """Return whether the totals of a unit's events can be carried on; `nothing` are no events, encoded.

    Texts have no codes that hold beside other texts. Several conditions on one transition, and absences that move
    matches on, need the events themselves.
    """
    compiled = unit.queries[0]
    types: list[pa.DataType] = []

    def note_types(before: pa.Array, after: pa.Array) -> tuple[Ints, Ints]:
        types.extend((before.type, after.type))
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    edges = build_edges(list_edges(compiled), nothing, None, note_types)
    moved = {move.source for move in compiled.automaton.moves if move.target >= 0}
    needs_events = moved & set(edges.source.tolist()) or {SCAN, UNEQUAL} & set(edges.kind.tolist())
    return not needs_events and not any(map(is_text, types))


def select_trend_events(unit: Unit, listed: ListedEdges, encoded: EncodedEvents) -> tuple[Events, Edges]:
    """Return the events that matter to a unit, and the codes that its conditions compare."""
    events, at = select_unit_events(encoded, unit)
    return events, build_edges(listed, encoded, at, encode_both)


class TrendUnit(KeyHeads):
    """A unit of one query with adjacent conditions. `heads` has a row for each key: see `motet.kernels.trends.RECORD`.

    `level` is the layout of its totals: the next one once a count of any key exceeds 64 bits.
    """

    width, wake_word = TREND_HEAD, WAKE

    def __init__(self, context: RunContext, unit: Unit) -> None:
        self.context = context
        self.unit = unit
        self.span = unit.queries[0].span
        self.layouts = list_layouts(*unit.queries[0].channels.shape, rarely_large=False)
        self.level = 0
        self.edges = list_edges(unit.queries[0])
        self.clear()

    def clear(self) -> None:
        """Forget all events."""
        super().clear()
        self.run: TrendRun | None = None
        self._prepared: tuple[EncodedEvents, Events, Edges] | None = None

    def enlarge(self) -> TrendUnit:
        """Begin anew with the next layout of totals. Return the unit that goes on."""
        self.level += 1
        self.clear()
        return self

    def prepare(self, encoded: EncodedEvents) -> tuple[Events, Edges]:
        """Return the unit's events and the codes that its conditions compare.

        Raises `DataError`, with the state unchanged, if some row cannot be computed with.
        """
        if self._prepared is None or self._prepared[0] is not encoded:
            self._prepared = encoded, *select_trend_events(self.unit, self.edges, encoded)
        return self._prepared[1:]

    def advance(
        self, encoded: EncodedEvents, numbers: Ints, keys: KeyIndex, before: int, watermark: int
    ) -> list[Report]:
        """Process new events (`numbers` are their keys) as the watermark moves; return what is reported.

        Raises `UnitOutgrown` where totals have to be larger; there is no state then.
        """
        self.reserve(keys.count)
        events, edges = self.prepare(encoded)
        self._prepared = None
        events, rows, active = add_due_keys(events, numbers, self.find_due(watermark))
        if not active.any():
            return []
        reports = self._run(encoded, events, edges, rows, active, (before, watermark))
        self.note_wakes(rows[active])
        return reports

    def _run(
        self,
        encoded: EncodedEvents,
        events: Events,
        edges: Edges,
        rows: Ints,
        active: Flags,
        watermarks: tuple[int, int],
    ) -> list[Report]:
        compiled, layout = self.unit.queries[0], self.layouts[self.level]
        machine, queries = self.context.machine(self.unit, encoded.classes)
        merged = self.unit.merged
        if not (merged.negs or merged.shifts):  # what comes before a match can begin does nothing
            firsts = {edge.symbol for edge in merged.edges if edge.source in merged.starts}
            has_state = self.heads[rows, RECORD_SIZE] > 0
            active = active & (has_state | find_keys_with(events, firsts, encoded.classes))
        # At the watermark itself, an event may still come; no time lets a window pass that counts events.
        until = watermarks[1] if compiled.reports_at_close else watermarks[1] - 1
        until = int(MIN_TIME) if self.span.ranked else until
        bounds = due_range(compiled, watermarks)
        window = make_window(queries, slot_mode(compiled), self.unit.width, self.span.ranked, until, *bounds)
        capacity = measure_capacity(events, machine, edges, layout, compiled.span.within)
        if self.run is None:
            self.run = TrendRun(len(edges.source), layout)
        labels, whole, real, over = self.run.run(
            events, machine, queries, edges, capacity, window, active, rows, self.heads
        )
        if over.any():
            raise UnitOutgrown
        own = rows[active]
        if self.span.ranked:
            self.heads[own, WAKE] = MAX_TIME
        elif not compiled.reports_at_close:
            self.heads[own, WAKE] += self.heads[own, WAKE] < MAX_TIME
        if self.run.is_wasteful:
            self.run.compact(self.heads)
        return make_report(labels, whole, real, layout, self.unit.queries, rows)

    @property
    def wake(self) -> int:
        """When some key may have something to report by itself; to forget a key can wait."""
        compiled = self.unit.queries[0]
        return self.next_wake if compiled.reports_at_close or compiled.needs_sweep else int(MAX_TIME)

    @property
    def keys(self) -> Ints:
        """The keys that have state."""
        return np.flatnonzero(self.heads[:, RECORD_SIZE])

    @property
    def work(self) -> int:
        """How many values were written to sorted runs."""
        return 0 if self.run is None else self.run.work


def encode_both(before: pa.Array, after: pa.Array) -> tuple[Ints, Ints]:
    """Encode both sides of a comparison as integers of the same order, whatever others there are."""
    return _encode_side(before), _encode_side(after)


def _encode_side(values: pa.Array) -> Ints:
    codes: Ints = np.clip(order_preserving_codes(values, "min"), NO_VALUE + 1, -(NO_VALUE + 2))
    if values.null_count:
        codes[values.is_null().to_numpy(zero_copy_only=False)] = NO_VALUE
    return codes
