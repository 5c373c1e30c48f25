"""Plans that follow the rates of a stream on Spark: judged on the driver between micro-batches, taken up by a restart.

The driver sees how many rows of each type a micro-batch had, as Catalyst counts them on the way; types with conditions
are taken to be as frequent as their types.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from motet.engine import Program
from motet.engine.live import Adapting, PlanChange
from motet.engine.live.replan import WORD_COST, Drifting, longest_window, replanned
from motet.spark.watch import Gauges
from motet.statistics.drift import RateWatch
from motet.statistics.model import Statistics

RESTART_COST = 5.0  # seconds that a stream stands still when its query is stopped and started again
WORD = 8


@dataclass
class Adapter:
    """Judges the plan of a running stream by what its micro-batches have told."""

    adapting: Adapting
    program: Program
    planned: dict[str, float] | None = None
    seen: dict[str, int] = field(default_factory=dict)
    newest: datetime | None = None
    watch: RateWatch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = RateWatch(longest_window(self.program))

    def go_on(self, program: Program) -> None:
        """The stream runs other queries, or by another plan."""
        self.program = program
        self.watch.half_life = longest_window(program)

    def look(self, gauges: Gauges) -> tuple[PlanChange, Program] | None:
        """Another plan and whether to move to it, where rates have drifted since the last look that found so."""
        self._take_in(gauges)
        drifting = Drifting(self.adapting, self.planned)
        reason = drifting.reason(self.watch)
        if reason is None or gauges.watermark is None:
            return None
        known = Statistics(given=self.watch.rates)
        self.planned = self.watch.rates
        found = replanned(self.program, known)
        cost = RESTART_COST + WORD_COST * gauges.state_bytes / WORD
        at = int(gauges.watermark.timestamp() * 1e6)
        return drifting.judged(reason, self.program, found, known, cost, at), found

    def _take_in(self, gauges: Gauges) -> None:
        """What came since the last look, over the time by which the newest row moved on."""
        since = self.newest or gauges.oldest
        if gauges.newest is None or since is None or gauges.newest <= since:
            return
        counts = {name: float(count - self.seen.get(name, 0)) for name, count in gauges.types.items()}
        self.watch.observe(counts, (gauges.newest - since).total_seconds())
        self.seen, self.newest = dict(gauges.types), gauges.newest
