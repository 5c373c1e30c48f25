"""Carry the totals of a unit per pane, window or start from one micro-batch to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.compile import Program
from motet.engine.context import RunContext
from motet.engine.encode import EncodedEvents, as_contiguous, select_keys, select_unit_events
from motet.engine.live.key_states import KeyIndex, KeyStates, StateLog, add_due_keys, pack_states
from motet.engine.live.reports import Report, make_report
from motet.engine.live.state_migration import SavedUnit, migrate_states
from motet.engine.run import SLOT_MODES
from motet.engine.ties import select_merged_events
from motet.kernels.resume import extend_states, resume_slots
from motet.kernels.tables import MAX_TIME, Events
from motet.kernels.totals import list_layouts
from motet.plans.units import Strategy, Unit

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def can_keep_totals(program: Program, unit: Unit) -> bool:
    """Return whether a unit's totals can be carried on.

    Ranks of texts mean nothing beside other texts, and slots tell nothing of how many events their keys had.
    """
    texts = {channel.column for compiled in unit.queries for channel in compiled.channels.extremes}
    is_counted = unit.strategy in SLOT_MODES and any(compiled.span.ranked for compiled in unit.queries)
    return not (texts & program.text_extremes or is_counted)


class UnitState:
    """The totals of a unit, by layout: a key whose counts exceed 64 bits continues with extended totals."""

    def __init__(self, context: RunContext, unit: Unit) -> None:
        self.context = context
        self.program = context.program
        self.unit = unit
        self.mode = SLOT_MODES[unit.strategy]
        self.layouts = list_layouts(*unit.queries[0].channels.shape, rarely_large=False)
        self.logs = [StateLog() for _ in self.layouts]
        self.changed_states = [(np.zeros(0, np.int64), KeyStates.empty()) for _ in self.layouts]  # by the last advance

    @property
    def states(self) -> list[KeyStates]:
        """All states, by layout."""
        return [log.states for log in self.logs]

    def advance(self, encoded: EncodedEvents, numbers: Ints, keys: KeyIndex, watermark: int) -> list[Report]:
        """Process new events (`numbers` are their keys) up to the watermark; return what is reported."""
        for log in self.logs:
            log.reserve(keys.count)
        events = select_merged_events(encoded, self.unit)
        due = np.concatenate([log.find_due(watermark) for log in self.logs])
        events, ids, active = add_due_keys(events, numbers, due)
        self.changed_states = [(np.zeros(0, np.int64), KeyStates.empty()) for _ in self.layouts]
        return self._run_levels(encoded, events, ids, active, watermark) if active.any() else []

    def _run_levels(
        self, encoded: EncodedEvents, events: Events, ids: Ints, active: Flags, watermark: int
    ) -> list[Report]:
        """Run the active keys, each with the layout of its totals; keys that overflow continue with the next layout."""
        machine, queries = self.context.machine(self.unit, encoded.classes)
        known = [active & (log.size[ids] > 0) for log in self.logs]
        own = active & ~np.logical_or.reduce(known[1:]) if len(known) > 1 else active
        overflowed = KeyStates.empty()
        reports: list[Report] = []
        for level, (log, layout) in enumerate(zip(self.logs, self.layouts, strict=True)):
            own = own | known[level]
            if len(overflowed.ids):
                own[overflowed.ids] = True
            elif not own.any():
                continue
            saved = log.take(ids, known[level])
            if len(overflowed.ids):
                pool = pack_states(np.arange(len(ids)), *saved, np.zeros(len(ids), np.int64)).concat(overflowed)
                saved = pool.take(pool.find(np.arange(len(ids)), len(ids)))
            labels, whole, real, over, *written = resume_slots(
                select_keys(events, own)[0], machine, queries, layout, self.mode,
                self.unit.width, watermark, *saved,
            )  # fmt: skip
            states = pack_states(ids, *written)
            reports += make_report(labels, whole, real, layout, self.unit.queries, ids)
            overflowed = self._extend_overflowed(level, saved, over)
            dropped = ids[known[level]]
            self.changed_states[level] = dropped, states
            log.write(dropped, states, 0)
            own = over
        return reports

    def _extend_overflowed(self, level: int, saved: tuple[Ints, Ints], overflowed: Flags) -> KeyStates:
        """Convert the previous totals of overflowed keys to the next layout, numbered by their index."""
        if not overflowed.any():
            return KeyStates.empty()
        old = KeyStates(np.arange(len(overflowed)), *saved, saved[0][1:]).filter(overflowed)
        starts = self.unit.strategy is Strategy.STARTS
        larger = extend_states(old.offsets, old.words, self.layouts[level], self.layouts[level + 1], starts)
        return pack_states(old.ids, *larger, old.wake)

    def early_results(self, encoded: EncodedEvents) -> list[Report]:
        """Return what open windows hold now, as if no further event came.

        Only for keys that the last call of `advance` changed, or for all where partitions are combined.
        """
        reports: list[Report] = []
        machine, queries = self.context.machine(self.unit, encoded.classes)
        events = select_unit_events(encoded, self.unit)[0]
        for level, layout in enumerate(self.layouts):
            states = self.logs[level].states if self.unit.queries[0].is_combined else self.changed_states[level][1]
            if len(states.ids):
                saved = as_contiguous(states.offsets, np.int64), as_contiguous(states.words, np.int64)
                labels, whole, real, *_ = resume_slots(
                    _without_events(events, len(states.ids)), machine, queries, layout, self.mode, self.unit.width,
                    int(MAX_TIME), *saved,
                )  # fmt: skip
                reports += make_report(labels, whole, real, layout, self.unit.queries, states.ids)
        return reports

    def renumber(self, numbers: Ints) -> None:
        """Give keys other numbers."""
        self.logs = [log.renumber(numbers) for log in self.logs]

    @cached_property
    def description(self) -> dict[str, Any]:
        """What the numbers in the states mean, for whoever restores them."""
        merged = self.unit.merged
        return {
            "strategy": str(self.unit.strategy),
            "width": self.unit.width,
            "shape": list(merged.queries[0].channels.shape),
            "queries": [self.program.fingerprints[compiled.number] for compiled in merged.queries],
            "nodes": [list(nodes) for nodes in merged.nodes],
            "negs": [repr(symbol) for symbol in merged.negs],
        }

    def restore(self, units: Sequence[SavedUnit], start_times: Mapping[str, int | None]) -> None:
        """Continue from the saved units that had the queries of this one, however they were grouped."""
        states = migrate_states(self.description, units, start_times, self.layouts, self.mode, self.unit.merged.starts)
        self.logs = [StateLog(each) for each in states]

    @property
    def wake(self) -> int:
        return min(log.next_wake for log in self.logs)

    @property
    def keys(self) -> Ints:
        """The keys that have state."""
        return np.concatenate([log.ids for log in self.logs])


def _without_events(events: Events, keys: int) -> Events:
    """Return events for this many keys, none of which has any."""
    columns: list[Any] = [np.ascontiguousarray(column[..., :0]) for column in events[1:]]
    return Events(np.zeros(keys + 1, np.int64), *columns)
