"""Replan a stream on Spark when its rates drift: decided on the driver between micro-batches, applied by a restart.

The driver sees how many rows of each type a micro-batch had, as Spark counts them on the way; types with conditions are
taken to be as frequent as their types.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from motet.engine import Program
from motet.engine.live import PlanChange, ReplanPolicy
from motet.engine.live.replan import WORD_COST, DriftMonitor, longest_window, replan
from motet.spark.monitor import StreamMetrics
from motet.statistics.drift import RateTracker
from motet.statistics.model import Statistics

RESTART_COST = 5.0  # seconds that a stream stands still when its query is stopped and started again
WORD_BYTES = 8


@dataclass
class StreamReplanner:
    """The choice of a plan for a running stream, by the metrics of its micro-batches."""

    policy: ReplanPolicy
    program: Program
    planned_rates: dict[str, float] | None = None
    rows_seen: dict[str, int] = field(default_factory=dict)
    newest: datetime | None = None
    tracker: RateTracker = field(init=False)

    def __post_init__(self) -> None:
        self.tracker = RateTracker(longest_window(self.program))

    def set_program(self, program: Program) -> None:
        """Set the program that the stream runs now."""
        self.program = program
        self.tracker.half_life = longest_window(program)

    def propose_change(self, metrics: StreamMetrics) -> tuple[PlanChange, Program] | None:
        """Return another plan and whether to move to it, if rates have drifted since the last call that found so."""
        self._observe_rates(metrics)
        drift = DriftMonitor(self.policy, self.planned_rates)
        reason = drift.reason(self.tracker)
        if reason is None or metrics.watermark is None:
            return None
        statistics = Statistics(given=self.tracker.rates)
        self.planned_rates = self.tracker.rates
        found = replan(self.program, statistics)
        cost = RESTART_COST + WORD_COST * metrics.state_bytes / WORD_BYTES
        at = int(metrics.watermark.timestamp() * 1e6)
        change = drift.assess(reason, self.program, found, statistics, cost, at)
        # Joins stay as they are: rates of types alone say too little about them.
        return change, replace(found, options=self.program.options, detect=self.program.detect)

    def _observe_rates(self, metrics: StreamMetrics) -> None:
        """Observe the rows since the last call, over the time by which the newest row moved on."""
        since = self.newest or metrics.oldest
        if metrics.newest is None or since is None or metrics.newest <= since:
            return
        counts = {name: float(count - self.rows_seen.get(name, 0)) for name, count in metrics.types.items()}
        self.tracker.observe(counts, (metrics.newest - since).total_seconds())
        self.rows_seen, self.newest = dict(metrics.types), metrics.newest
