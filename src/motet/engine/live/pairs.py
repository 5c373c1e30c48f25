"""Carry the totals of pairs and of open windows from one micro-batch to the next.

The state of a key is that of `motet.kernels.pairs.resume_pairs`, as packed words in a `StateLog`. It can be rebuilt
from the events in the window, whose rows are retained. So nothing of it is saved: a restored stream replays these rows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from motet.engine.context import RunContext
from motet.engine.encode import EncodedEvents
from motet.engine.live.key_states import KeyIndex, StateLog, add_due_keys, pack_states
from motet.engine.live.reports import Report, make_report
from motet.engine.live.trends import UnitOutgrown
from motet.engine.run import build_pair_tables
from motet.engine.ties import select_merged_events
from motet.kernels.pairs import PairMachine, WindowRows, resume_pairs
from motet.kernels.resume import view_states
from motet.kernels.tables import Events, Queries
from motet.kernels.totals import list_pair_layouts
from motet.plans.units import Unit

Ints = NDArray[np.int64]


class PairUnit:
    """A unit that runs by pairs. `level` is the layout of its totals: the next one once a count exceeds 64 bits."""

    def __init__(self, context: RunContext, unit: Unit) -> None:
        assert unit.pairs is not None
        self.context = context
        self.unit = unit
        self.pairs = unit.pairs
        self.span = unit.queries[0].span
        self.layouts = list_pair_layouts(*unit.queries[0].channels.shape)
        self.level = 0
        self._tables: tuple[int, tuple[PairMachine, WindowRows, Queries]] | None = None
        self.clear()

    def clear(self) -> None:
        """Forget all events."""
        self.log = StateLog()

    def enlarge(self) -> PairUnit:
        """Begin anew with the next layout of totals. Return the unit that goes on."""
        self.level += 1
        self.clear()
        return self

    def prepare(self, encoded: EncodedEvents) -> None:
        """Check that all rows can be computed with: encoded ones can."""

    def advance(
        self, encoded: EncodedEvents, numbers: Ints, keys: KeyIndex, before: int, watermark: int
    ) -> list[Report]:
        """Process new events (`numbers` are their keys) as the watermark moves; return what is reported.

        Raises `UnitOutgrown` where totals have to be larger; there is no state then.
        """
        self.log.reserve(keys.count)
        events = select_merged_events(encoded, self.unit)
        events, ids, active = add_due_keys(events, numbers, self.log.find_due(watermark))
        return self._run(encoded, events, ids, active, watermark) if active.any() else []

    def _run(
        self, encoded: EncodedEvents, events: Events, ids: Ints, active: NDArray[np.bool_], watermark: int
    ) -> list[Report]:
        if self._tables is None or self._tables[0] != len(encoded.classes):
            self._tables = len(encoded.classes), build_pair_tables(self.unit, self.pairs, encoded)
        machine, rows, queries = self._tables[1]
        layouts = self.layouts[self.level]
        step = math.gcd(*queries.slide.tolist())
        (labels, whole, real, over), written, wake = resume_pairs(
            events, machine, rows, queries, layouts, self.pairs.pane, step, watermark,
            view_states(*self.log.take(ids, active)),
        )  # fmt: skip
        if over.any():
            raise UnitOutgrown
        states = pack_states(ids, written.offsets, written.words[: written.offsets[-1]], wake)
        self.log.write(ids[active], states, 0)
        return make_report(labels, whole, real, layouts[1], self.unit.queries, ids)

    @property
    def wake(self) -> int:
        """When some key may have something to report by itself."""
        return self.log.next_wake

    @property
    def keys(self) -> Ints:
        """The keys that have state."""
        return self.log.ids

    def renumber(self, numbers: Ints) -> None:
        """Give keys other numbers; those without state may have none."""
        self.log = self.log.renumber(numbers)

    @property
    def work(self) -> int:
        """How many words of state are in use."""
        return int(self.log.size.sum())
