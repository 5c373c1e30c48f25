"""Watching a stream: what each micro-batch did, added up, as a status line, as Prometheus text, as plain data, and as
warnings.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from motet.explain.formatting import format_count
from motet.spark.stream import METRICS, RESULT_METRICS, ROWS_METRICS, TYPE_COUNT_PREFIX

STALLED_AFTER = 60.0
MAX_SAMPLES = 600  # micro-batches that are remembered one by one
MAX_CHANGES = 200


@dataclass
class StreamMetrics:
    """Totals of a running stream."""

    queries: tuple[str, ...] = ()
    batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    late: int = 0
    set_aside: int = 0
    overflows: int = 0
    waiting: int = 0
    state_bytes: int = 0
    watermark: datetime | None = None
    oldest: datetime | None = None
    newest: datetime | None = None
    results: dict[str, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)  # rows by type
    plan_changes: int = 0
    truncated: dict[str, int] = field(default_factory=dict)  # micro-batches in which a limit cut matches off, by query

    @property
    def lag(self) -> float | None:
        """Seconds by which the watermark is behind the newest event."""
        if self.watermark is None or self.newest is None:
            return None
        return (self.newest - self.watermark).total_seconds()


@dataclass(frozen=True)
class BatchMetrics:
    """The metrics of one micro-batch; `results` has the queries that gave any."""

    number: int
    at: float  # seconds since the epoch
    rows: int
    rows_per_second: float
    batch_ms: int
    late: int
    waiting: int
    state_bytes: int
    lag: float | None
    results: dict[str, int]


@dataclass(frozen=True)
class ChangeNote:
    """A change of the queries or of their plan."""

    at: float
    words: str


class StreamMonitor(StreamingQueryListener):
    """A listener that adds up the progress of one stream, and warns if its watermark stalls while rows wait."""

    def __init__(
        self,
        queries: tuple[str, ...],
        warn: Callable[[str], None] | None = None,
        stalled_after: float = STALLED_AFTER,
        clock: Callable[[], float] = time.monotonic,
        run_id: str | None = None,
    ) -> None:
        self.metrics = StreamMetrics(queries, results=dict.fromkeys(queries, 0))
        self.run_id = run_id  # of the query to watch; None: any
        self.warn = warn
        self.stalled_after = stalled_after
        self.clock = clock
        self.moved_at = clock()
        self.warned = False
        self.samples: deque[BatchMetrics] = deque(maxlen=MAX_SAMPLES)
        self.changes: deque[ChangeNote] = deque(maxlen=MAX_CHANGES)
        self.lock = threading.Lock()

    def record_change(self, words: str) -> None:
        """Record that the queries or their plan changed."""
        self.changes.append(ChangeNote(time.time(), words))

    def follow_run(self, queries: tuple[str, ...], run_id: str, words: str | None = None) -> None:
        """Follow a new run of the stream, with other queries or with another plan, as `words` say."""
        with self.lock:
            self.record_change(words or _describe_change(self.metrics.queries, queries, first=not self.changes))
            self.run_id = run_id
            self.metrics.queries = queries
            self.metrics.waiting = self.metrics.state_bytes = 0
            for name in queries:
                self.metrics.results.setdefault(name, 0)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = json.loads(event.progress.json)
        if self.run_id in (None, progress["runId"]):
            self.add(progress)

    def add(self, progress: dict[str, Any]) -> None:
        """Add what one micro-batch reports."""
        with self.lock:
            metrics = self.metrics
            observed = progress.get("observedMetrics", {})
            metrics.batches += 1
            metrics.rows += progress.get("numInputRows", 0)
            metrics.rows_per_second = float(progress.get("processedRowsPerSecond", 0.0) or 0.0)
            metrics.batch_ms = progress.get("durationMs", {}).get("triggerExecution", 0)
            inside, outside = observed.get(METRICS, {}), observed.get(ROWS_METRICS, {})
            late = inside.get("late") or 0
            metrics.late += late
            metrics.set_aside += (inside.get("set_aside") or 0) + (outside.get("set_aside") or 0)
            metrics.waiting += inside.get("waiting") or 0
            metrics.state_bytes += inside.get("state_bytes") or 0
            for name, rows in outside.items():
                if name.startswith(TYPE_COUNT_PREFIX):
                    kind = name.removeprefix(TYPE_COUNT_PREFIX)
                    metrics.types[kind] = metrics.types.get(kind, 0) + (rows or 0)
            self._record_truncation([name for name in (inside.get("truncated") or "").split(",") if name])
            results = observed.get(RESULT_METRICS, {})
            metrics.overflows += results.get("overflows") or 0
            results_by_query = {name: results.get(f"q{at}") or 0 for at, name in enumerate(metrics.queries)}
            for name, number in results_by_query.items():
                metrics.results[name] += number
            oldest, newest = _parse_time(outside.get("oldest")), _parse_time(outside.get("newest"))
            if oldest is not None and (metrics.oldest is None or oldest < metrics.oldest):
                metrics.oldest = oldest
            if newest is not None and (metrics.newest is None or newest > metrics.newest):
                metrics.newest = newest
            self._record_watermark(_parse_time(progress.get("eventTime", {}).get("watermark")))
            self.samples.append(
                BatchMetrics(
                    metrics.batches,
                    time.time(),
                    progress.get("numInputRows", 0),
                    metrics.rows_per_second,
                    metrics.batch_ms,
                    late,
                    metrics.waiting,
                    metrics.state_bytes,
                    metrics.lag,
                    {name: number for name, number in results_by_query.items() if number},
                )
            )

    def _record_truncation(self, names: list[str]) -> None:
        truncated = self.metrics.truncated
        for name in names:
            truncated[name] = truncated.get(name, 0) + 1
            if truncated[name] == 1 and self.warn is not None:
                self.warn(f"not all matches of {name} are found: a limit was reached (further times are only counted)")

    def _record_watermark(self, watermark: datetime | None) -> None:
        metrics = self.metrics
        if watermark is not None and watermark != metrics.watermark:
            metrics.watermark = watermark
            self.moved_at, self.warned = self.clock(), False
        stalled_for = self.clock() - self.moved_at
        if metrics.waiting > 0 and stalled_for >= self.stalled_after and not self.warned and self.warn is not None:
            self.warned = True
            self.warn(
                f"the watermark has not moved for {stalled_for:.0f} s while {metrics.waiting:,} rows wait for it: "
                "results come only when newer events do (is the source idle, or the delay longer than the data?)"
            )

    def status(self) -> str:
        """Return one line: rate, rows waiting, late rows, state, watermark lag, results."""
        with self.lock:
            metrics = self.metrics
            lag = "none yet" if metrics.lag is None else f"{metrics.lag:,.0f} s behind"
            total = sum(metrics.results.values())
            busiest = sorted(metrics.results.items(), key=lambda item: -item[1])[:3]
            shown = ", ".join(f"{name} {results:,}" for name, results in busiest if results)
            return (
                f"batch {metrics.batches}: {metrics.rows:,} rows "
                f"({metrics.rows_per_second:,.0f}/s, {metrics.batch_ms} ms), {metrics.waiting:,} waiting, "
                f"{metrics.late:,} late, {metrics.set_aside:,} set aside, "
                f"state {metrics.state_bytes / 1e6:,.1f} MB, watermark {lag}; {total:,} results"
                + (f" ({shown})" if shown else "")
                + (f"; plan changed {metrics.plan_changes} times" if metrics.plan_changes else "")
            )

    def to_json(self, since: int = 0) -> dict[str, Any]:
        """Return all metrics as plain data, with the micro-batches after a number."""
        with self.lock:
            metrics = self.metrics
            return {
                "now": time.time(),
                "queries": list(metrics.queries),
                "batches": metrics.batches,
                "rows": metrics.rows,
                "late": metrics.late,
                "set_aside": metrics.set_aside,
                "overflows": metrics.overflows,
                "watermark": None if metrics.watermark is None else metrics.watermark.isoformat(),
                "newest": None if metrics.newest is None else metrics.newest.isoformat(),
                "results": dict(metrics.results),
                "samples": [asdict(sample) for sample in self.samples if sample.number > since],
                "changes": [asdict(change) for change in self.changes],
            }

    def to_prometheus(self) -> str:
        """Return the metrics as Prometheus text."""
        with self.lock:
            metrics = self.metrics
            counters = {"batches": metrics.batches, "rows": metrics.rows, "late_rows": metrics.late}
            counters |= {"set_aside_rows": metrics.set_aside, "overflowed_counts": metrics.overflows}
            counters["plan_changes"] = metrics.plan_changes
            values: dict[str, float] = {
                "rows_per_second": metrics.rows_per_second,
                "batch_seconds": metrics.batch_ms / 1000,
                "waiting_rows": metrics.waiting,
                "state_bytes": metrics.state_bytes,
            }
            if metrics.lag is not None:
                values["watermark_lag_seconds"] = metrics.lag
            lines = []
            for kind, values_by_name in (("counter", counters), ("gauge", values)):
                for name, value in values_by_name.items():
                    full = f"motet_{name}_total" if kind == "counter" else f"motet_{name}"
                    lines += [f"# TYPE {full} {kind}", f"{full} {value:g}"]
            for metric, by_query in (("results", metrics.results), ("truncated_batches", metrics.truncated)):
                lines.append(f"# TYPE motet_{metric}_total counter")
                for name, value in by_query.items():
                    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
                    lines.append(f'motet_{metric}_total{{query="{escaped}"}} {value}')
            return "\n".join(lines) + "\n"


def _describe_change(before: tuple[str, ...], after: tuple[str, ...], first: bool) -> str:
    """Describe how the queries changed."""
    if first:
        return f"started with {format_count(len(after), 'query')}"
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    changes = [f"{words} {', '.join(names)}" for words, names in (("added", added), ("removed", removed)) if names]
    return f"{'; '.join(changes) or 'changed'}: {format_count(len(after), 'query')} now"


def _parse_time(text: str | None) -> datetime | None:
    """Parse a time as Spark writes it; its watermark is 1970 before there is one."""
    if not text:
        return None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None if moment.timestamp() == 0 else moment
