"""Replan a stream on Spark when its rates drift: decided on the driver between micro-batches, applied by a restart.

The driver sees how many rows of each type a micro-batch had, as Spark counts them on the way; types with conditions are
taken to be as frequent as their types.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from motet.compile import Program
from motet.engine.replan import WORD_COST, PlanChange, Replanner
from motet.spark.monitor import StreamMetrics
from motet.statistics.model import Statistics, format_partition

RESTART_COST = 5.0  # seconds that a stream stands still when its query is stopped and started again
WORD_BYTES = 8


@dataclass
class StreamReplanner(Replanner):
    """The choice of a plan for a running stream, by the metrics of its micro-batches."""

    rows_seen: dict[str, int] = field(default_factory=dict)
    newest: datetime | None = None

    def propose_change(self, metrics: StreamMetrics) -> tuple[PlanChange, Program] | None:
        """Return another plan and whether to move to it, if rates have drifted since the last call that found so."""
        self._observe_rates(metrics)
        if metrics.watermark is None:
            return None
        cost = RESTART_COST + WORD_COST * metrics.state_bytes / WORD_BYTES
        at = int(metrics.watermark.timestamp() * 1e6)
        proposal = self.propose(lambda: (self.get_statistics(metrics), cost), at)
        if proposal is None:
            return None
        change, found = proposal
        # Joins stay as they are: rates of types alone say too little about them.
        return change, replace(found, options=self.program.options, detect=self.program.detect)

    def get_statistics(self, metrics: StreamMetrics) -> Statistics:
        """Return the recent rates and how many keys are alive, over all buckets."""
        keys = {format_partition(each.partition): metrics.count_keys(each.name) for each in self.program.branches}
        return Statistics(
            given=self.tracker.rates, partitionings={name: count for name, count in keys.items() if count}
        )

    def _observe_rates(self, metrics: StreamMetrics) -> None:
        """Observe the rows since the last call, over the time by which the newest row moved on."""
        since = self.newest or metrics.oldest
        if metrics.newest is None or since is None or metrics.newest <= since:
            return
        counts = {name: float(count - self.rows_seen.get(name, 0)) for name, count in metrics.types.items()}
        self.tracker.observe(counts, (metrics.newest - since).total_seconds())
        self.rows_seen, self.newest = dict(metrics.types), metrics.newest
