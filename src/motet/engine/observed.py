"""What a run sees on its way, for whoever wants to compare it with what was expected: events, instances, time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from motet.engine.encode import Encoded
from motet.optimizer.detect.choices import ChosenTrees
from motet.plan.detect.build import PlannedQuery
from motet.plan.detect.nodes import Node
from motet.template.symbols import Symbol


@dataclass
class Observed:
    """What was seen of one branch: events that took part, by symbol, and seconds by unit (one that detects has one).

    A branch that detects also has the plan it ran last, the trees that were chosen for it, and the instances that each
    node made; over several chunks, some are made again.
    """

    rows: int = 0
    events: Counter[Symbol] = field(default_factory=Counter)
    seconds: dict[int, float] = field(default_factory=dict)
    planned: Sequence[PlannedQuery] = ()
    chosen: ChosenTrees | None = None
    made: Counter[Node] = field(default_factory=Counter)

    def see(self, encoded: Encoded, since: int | None, until: int | None) -> None:
        """Count events from a time on and before another: the rest of a chunk is counted with its neighbours."""
        counted = np.ones(len(encoded.time), np.bool_)
        if since is not None:
            counted &= encoded.time >= since
        if until is not None:
            counted &= encoded.time < until
        klass = encoded.klass[counted]
        self.rows += len(klass)
        for symbols, number in zip(encoded.classes, np.bincount(klass, minlength=len(encoded.classes)), strict=True):
            self.events.update(dict.fromkeys(symbols, int(number)))

    def timing(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The tables of a run, with the time that each takes."""
        rest = iter(tables)
        while True:
            with self.timed(0):
                table = next(rest, None)
            if table is None:
                return
            yield table

    @contextmanager
    def timed(self, unit: int) -> Iterator[None]:
        """Add how long something takes to the time of a unit."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[unit] = self.seconds.get(unit, 0.0) + time.perf_counter() - begun
