"""A unit whose totals per pane, window or start are kept between micro-batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.encode import Encoded, only_keys, unit_events
from motet.engine.live.keys import Keys
from motet.engine.live.reunion import SavedUnit, restored
from motet.engine.live.runs import Runs, runs_of, writable
from motet.engine.partials import partials_of
from motet.engine.program import Program
from motet.engine.run import SLOT_MODES
from motet.engine.ties import without_ties
from motet.kernels.resume import extend_runs, run_slots_on
from motet.kernels.tables import FOREVER, Events, Machine, Queries
from motet.kernels.totals import layouts_of
from motet.plan.machine import machine_for, queries_table
from motet.plan.units import Strategy, Unit

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def keeps_totals(program: Program, unit: Unit) -> bool:
    """Whether a unit's totals can be carried on; places of texts in order mean nothing beside other texts."""
    texts = {channel.column for compiled in unit.queries for channel in compiled.channels.extremes}
    return unit.strategy in SLOT_MODES and not (texts & program.texts)


class LiveSlots:
    """The totals of a unit, by layout: a key whose counts exceed 64 bits goes on with extended totals."""

    def __init__(self, program: Program, unit: Unit) -> None:
        self.program = program
        self.unit = unit
        self.mode = SLOT_MODES[unit.strategy]
        self.layouts = layouts_of(*unit.queries[0].channels.shape, rarely_large=False)
        self.held = [Runs.none() for _ in self.layouts]
        self.changed = [(np.zeros(0, np.int64), Runs.none()) for _ in self.layouts]  # by the last advance

    def advance(self, encoded: Encoded, numbers: Ints, keys: Keys, watermark: int) -> list[pa.Table]:
        """Run on over new events (`numbers` are their keys') and to the watermark; the partial results."""
        due = self._due(watermark)
        idle = due[~np.isin(due, numbers)]
        events = without_ties(unit_events(encoded, self.unit)[0], self.unit, encoded.classes)
        events = _with_idle_keys(events, len(idle))
        ids = np.concatenate((numbers, idle))
        if len(idle):
            more = keys.take(idle)
            encoded = replace(
                encoded,
                keys={
                    name: pa.concat_arrays([values.cast(more[name].type), more[name]])
                    for name, values in encoded.keys.items()
                },
            )
        concerned = (np.diff(events.offsets) > 0) | np.isin(ids, due)
        self.changed = [(np.zeros(0, np.int64), Runs.none()) for _ in self.layouts]
        return self._run_levels(encoded, events, ids, concerned, keys.count, watermark) if concerned.any() else []

    def _run_levels(
        self, encoded: Encoded, events: Events, ids: Ints, concerned: Flags, known: int, watermark: int
    ) -> list[pa.Table]:
        """Run the keys that are concerned, each with the layout of its totals; those that overflow go on with the
        next.
        """
        machine, queries = self._machine(encoded)
        places = [np.where(concerned, runs.places(ids, known), -1) for runs in self.held]
        own = concerned & ~np.any([at >= 0 for at in places[1:]], axis=0)
        overflowed = Runs.none()
        tables = []
        for level, layout in enumerate(self.layouts):
            saved = self.held[level].take(places[level])
            own |= places[level] >= 0
            if len(overflowed.ids):
                pool = runs_of(np.arange(len(ids)), *saved, np.zeros(len(ids), np.int64)).plus(overflowed)
                saved = pool.take(pool.places(np.arange(len(ids)), len(ids)))
                own[overflowed.ids] = True
            runs, overflowed = Runs.none(), Runs.none()
            if own.any():
                labels, whole, real, over, *written = run_slots_on(
                    events if own.all() else only_keys(events, own)[0], machine, queries, len(self.unit.merged.negs),
                    layout, self.mode, self.unit.width, watermark, *saved,
                )  # fmt: skip
                runs = runs_of(ids, *written)
                tables.append(partials_of(self.program, labels, whole, real, layout, self.unit.queries, encoded))
                overflowed = self._extended(level, saved, over)
                own = over
            gone = places[level][places[level] >= 0]
            self.changed[level] = self.held[level].ids[gone], runs
            self.held[level] = self.held[level].without(gone).plus(runs)
        return tables

    def _extended(self, level: int, saved: tuple[Ints, Ints], overflowed: Flags) -> Runs:
        """What keys that overflowed held before, in the next layout, numbered by their place."""
        if not overflowed.any():
            return Runs.none()
        old = Runs(np.arange(len(overflowed)), *saved, saved[0][1:]).where(overflowed)
        starts = self.unit.strategy is Strategy.STARTS
        larger = extend_runs(old.offsets, old.words, self.layouts[level], self.layouts[level + 1], starts)
        return runs_of(old.ids, *larger, old.wake)

    def early(self, encoded: Encoded, keys: Keys) -> list[pa.Table]:
        """What the windows that are still open hold now, as if no further event came; of the keys that the last
        advance changed, or of all where partitions are combined.
        """
        tables = []
        machine, queries = self._machine(encoded)
        events = unit_events(encoded, self.unit)[0]
        for level, layout in enumerate(self.layouts):
            runs = self.held[level] if self.unit.queries[0].combined else self.changed[level][1]
            if len(runs.ids):
                labels, whole, real, *_ = run_slots_on(
                    _without_events(events, len(runs.ids)), machine, queries, len(self.unit.merged.negs), layout,
                    self.mode, self.unit.width, int(FOREVER), *map(writable, (runs.offsets, runs.words)),
                )  # fmt: skip
                named = replace(encoded, keys=keys.take(runs.ids))
                tables.append(partials_of(self.program, labels, whole, real, layout, self.unit.queries, named))
        return tables

    def _machine(self, encoded: Encoded) -> tuple[Machine, Queries]:
        """The machine for these classes of events, and its queries; the last one made is kept for all buckets."""
        number, made = self.unit.queries[0].number, self.program.machines
        if number not in made or made[number][0] != encoded.classes:
            machine = machine_for(self.unit.merged, encoded.classes)
            made[number] = encoded.classes, machine, queries_table(self.unit.merged)
        return made[number][1:]

    def renumber(self, numbers: Ints) -> None:
        """Keys have other numbers now."""
        self.held = [runs.renamed(numbers) for runs in self.held]

    def _due(self, watermark: int) -> Ints:
        """Keys that have something to report by now."""
        return np.concatenate([runs.ids[runs.wake <= watermark] for runs in self.held])

    @cached_property
    def description(self) -> dict[str, Any]:
        """What the numbers in the runs mean, for whoever restores them."""
        merged = self.unit.merged
        return {
            "strategy": str(self.unit.strategy),
            "width": self.unit.width,
            "shape": list(merged.queries[0].channels.shape),
            "queries": [self.program.fingerprints[compiled.number] for compiled in merged.queries],
            "nodes": [list(nodes) for nodes in merged.nodes],
            "negs": [repr(symbol) for symbol in merged.negs],
        }

    def restore(self, units: Sequence[SavedUnit], births: Mapping[str, int | None]) -> None:
        """Go on from what was saved of the units that had the queries of this one, whichever ran together then."""
        self.held = restored(self.description, units, births, self.layouts, self.mode, self.unit.merged.starts)

    @property
    def wake(self) -> int:
        return min(runs.soonest for runs in self.held)

    @property
    def keys(self) -> Ints:
        """The keys of which anything is kept."""
        return np.concatenate([runs.ids for runs in self.held])


def _without_events(events: Events, keys: int) -> Events:
    """So many keys, none of which has any event."""
    columns: list[Any] = [np.ascontiguousarray(column[..., :0]) for column in events[1:]]
    return Events(np.zeros(keys + 1, np.int64), *columns)


def _with_idle_keys(events: Events, count: int) -> Events:
    """The same events with further keys that have none."""
    return events._replace(offsets=np.concatenate((events.offsets, np.full(count, events.offsets[-1]))))
