"""Carry two stacks from one micro-batch to the next: each costs what its own events do, whatever the window holds.

All that is kept can be rebuilt from the events in the window, whose rows are retained. So nothing of it is saved: a
restored stream, or one that goes on with other queries, replays these rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.engine.context import RunContext
from motet.engine.detect.windows import due_range
from motet.engine.encode import EncodedEvents, select_unit_events
from motet.engine.live.event_log import EventLog
from motet.engine.live.key_states import KeyHeads, KeyIndex, add_due_keys
from motet.engine.live.reports import Report, make_report
from motet.engine.live.trends import TrendUnit
from motet.kernels.resume_stacks import (
    FIRST_BACK,
    FIRST_LIVE,
    FRONT_BOTTOM,
    FRONT_TO_SAVE,
    FRONT_TOP,
    HEAD,
    LENGTH,
    LEVEL,
    NEXT_EVENT,
    ORIGIN,
    RECORD_SIZE,
    WAKE,
    StackRun,
)
from motet.kernels.slots import make_window
from motet.kernels.tables import MAX_TIME, MIN_TIME, Events, Machine, Queries
from motet.kernels.totals import list_layouts
from motet.plans.units import Unit

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class StackUnit(KeyHeads):
    """A unit that runs by two stacks. `heads` has a row for each key: see `motet.kernels.resume_stacks.ORIGIN`.

    `newest` is the greatest time of its events, and `work` how many were applied and swept.
    """

    width, wake_word = HEAD, WAKE

    def __init__(self, context: RunContext, unit: Unit) -> None:
        self.context = context
        self.unit = unit
        self.merged = unit.merged
        self.span = unit.queries[0].span
        self.layouts = list_layouts(*unit.queries[0].channels.shape, rarely_large=True)
        self.clear()

    def clear(self) -> None:
        """Forget all events."""
        super().clear()
        self.runs: dict[int, StackRun] = {}  # by layout, those in use
        self.log = EventLog()
        self.newest = int(MIN_TIME)
        self.next_check = int(MIN_TIME)  # when to look for keys to be forgotten

    def enlarge(self) -> StackUnit | TrendUnit:
        """Begin anew: keys have larger totals each by itself. Return the unit that goes on."""
        self.clear()
        return self

    def prepare(self, encoded: EncodedEvents) -> None:
        """Check that all rows can be computed with: encoded ones can."""

    def advance(
        self, encoded: EncodedEvents, numbers: Ints, keys: KeyIndex, before: int, watermark: int
    ) -> list[Report]:
        """Process new events (`numbers` are their keys) as the watermark moves; return what is reported."""
        self.reserve(keys.count)
        events = self._select_events(encoded)
        counts = np.diff(events.offsets)
        _, rows, active = add_due_keys(events, numbers, self.find_due(watermark))
        reports: list[Report] = []
        if active.any():
            if len(events.time):
                self.newest = max(self.newest, int(events.time.max()))
                self.log.append(self.heads, numbers[counts > 0], counts[counts > 0], events)
            reports = self._run_levels(encoded, rows, active, before, watermark)
            self.note_wakes(rows[active])
        self._forget_idle_keys(watermark)
        return reports

    def _select_events(self, encoded: EncodedEvents) -> Events:
        events = select_unit_events(encoded, self.unit)[0]
        if self.span.ranked:
            # The last class is where events without a class of this micro-batch are: it has another number later.
            last = len(encoded.classes) - 1
            none = encoded.classes.index(frozenset())
            events = events._replace(klass=np.where(events.klass == last, none, events.klass).astype(np.int32))
        return events

    def _build_tables(self, encoded: EncodedEvents) -> tuple[Machine, Queries]:
        """Return the machine and its queries, for the classes of the events processed so far."""
        return self.context.machine(self.unit, encoded.classes)

    def _run_levels(
        self, encoded: EncodedEvents, rows: Ints, active: Flags, before: int, watermark: int
    ) -> list[Report]:
        """Run the active keys, each with the layout of its totals; those that overflow run anew with the next one."""
        machine, queries = self._build_tables(encoded)
        reports_at_close = self.unit.queries[0].reports_at_close
        # At the watermark itself, an event may still come.
        until = watermark if reports_at_close else watermark - 1
        bounds = due_range(self.unit.queries[0], (before, watermark))
        window = make_window(queries, 0, 0, self.span.ranked, until, *bounds)
        heads, reports = self.heads, list[Report]()
        for level, layout in enumerate(self.layouts):
            own = active & (heads[rows, LEVEL] == level)
            if not own.any():
                continue
            if level not in self.runs:
                self.runs[level] = StackRun(machine, queries, self.merged.stack_table, layout)
            run = self.runs[level]
            run.set_machine(machine)
            first = heads[rows, ORIGIN] + heads[rows, NEXT_EVENT]
            after = heads[rows, ORIGIN] + heads[rows, LENGTH]
            labels, whole, real, over = run.run(self.log.events, window, first, after, own, rows, heads)
            reports += make_report(labels, whole, real, layout, self.unit.queries, rows)
            if over.any():
                _begin_anew(heads, rows[over])
                heads[rows[over], LEVEL] = level + 1
            self._compact(level)
        return reports

    def _compact(self, level: int) -> None:
        if self.runs[level].is_wasteful:
            own = np.flatnonzero(self.heads[:, LEVEL] == level)
            heads = self.heads[own]
            self.runs[level].compact(heads)
            self.heads[own] = heads

    @property
    def forget_at(self) -> int:
        """The watermark at which all events have left their windows; never, where windows count events."""
        if self.span.ranked or self.newest == MIN_TIME:
            return int(MAX_TIME)
        return self.newest + self.span.within + 1

    def _forget_idle_keys(self, watermark: int) -> None:
        """Forget keys whose events have all left their windows: all at once, or now and then.

        O(keys), but only twice in a window, in which each of them had an event.
        """
        if watermark >= self.forget_at:
            count = len(self.heads)
            self.clear()
            self.reserve(count)
        elif watermark >= self.next_check and self.log.columns and not self.span.ranked:
            rows = self.keys
            idle = rows[self.log.last_times(self.heads, rows) + self.span.within < watermark]
            self.heads[idle] = self.new_heads(len(idle))
            self.next_check = watermark + self.span.within // 2

    @property
    def wake(self) -> int:
        """When some key may have something to report by itself."""
        return self.next_wake

    @property
    def keys(self) -> Ints:
        """The keys that have state."""
        return np.flatnonzero(self.heads[:, LENGTH] > self.heads[:, FIRST_LIVE])

    @property
    def work(self) -> int:
        return sum(run.work for run in self.runs.values())


def _begin_anew(heads: Ints, rows: Ints) -> None:
    """Let keys begin with the first event that they have, as if none were processed."""
    heads[rows, NEXT_EVENT] = heads[rows, FIRST_BACK] = heads[rows, FIRST_LIVE]
    for field in (FRONT_BOTTOM, FRONT_TOP, FRONT_TO_SAVE, RECORD_SIZE):
        heads[rows, field] = 0
