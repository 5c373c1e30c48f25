"""Measure a run, to compare it with what was expected: events, instances, time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from motet.engine.encode import EncodedEvents, count_by_symbol
from motet.optimizer.joins import JoinPlan
from motet.plans.detect.build import PlannedQuery
from motet.plans.detect.nodes import Node
from motet.template.symbols import Symbol


@dataclass
class BranchMetrics:
    """What a run observed of one branch: events by symbol, and seconds by unit (detection has one unit).

    A branch that detects also has the plan that ran last, the join trees chosen for it, and the instances that each
    node produced; with several chunks, some are produced twice.
    """

    rows: int = 0
    events: Counter[Symbol] = field(default_factory=Counter)
    seconds: dict[int, float] = field(default_factory=dict)
    planned: Sequence[PlannedQuery] = ()
    chosen: JoinPlan | None = None
    instance_counts: Counter[Node] = field(default_factory=Counter)

    def count_events(self, encoded: EncodedEvents, since: int | None, until: int | None) -> None:
        """Count the events in [since, until): the rest of a chunk is counted with its neighbours."""
        counted = np.ones(len(encoded.time), np.bool_)
        if since is not None:
            counted &= encoded.time >= since
        if until is not None:
            counted &= encoded.time < until
        klass = encoded.klass[counted]
        self.rows += len(klass)
        self.events.update(count_by_symbol(klass, encoded.classes))

    def time_tables(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Pass on the tables of a run, timing each."""
        rest = iter(tables)
        while True:
            with self.timer(0):
                table = next(rest, None)
            if table is None:
                return
            yield table

    @contextmanager
    def timer(self, unit: int) -> Iterator[None]:
        """Add the duration of a `with` block to a unit's seconds."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[unit] = self.seconds.get(unit, 0.0) + time.perf_counter() - begun
