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

from motet.explain.words import count
from motet.spark.stream import METRICS, RESULT_METRICS, ROWS_METRICS, ROWS_OF

STALLED_AFTER = 60.0
MOST_SAMPLES = 600  # micro-batches that are remembered one by one
MOST_CHANGES = 200


@dataclass
class Gauges:
    """What is known of a running stream."""

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
class Sample:
    """What one micro-batch did; `results` has the queries that gave any."""

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
class Change:
    """When the queries or their plan changed, and how."""

    at: float
    words: str


class Watcher(StreamingQueryListener):
    """Adds up the progress of one stream, and warns where its watermark stands still while rows wait."""

    def __init__(
        self,
        queries: tuple[str, ...],
        warn: Callable[[str], None] | None = None,
        stalled_after: float = STALLED_AFTER,
        clock: Callable[[], float] = time.monotonic,
        run_id: str | None = None,
    ) -> None:
        self.gauges = Gauges(queries, results=dict.fromkeys(queries, 0))
        self.run_id = run_id  # of the query to watch; None: any
        self.warn = warn
        self.stalled_after = stalled_after
        self.clock = clock
        self.moved = clock()
        self.warned = False
        self.samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)
        self.changes: deque[Change] = deque(maxlen=MOST_CHANGES)
        self.lock = threading.Lock()

    def note_change(self, words: str) -> None:
        """Remember that the plan changed."""
        self.changes.append(Change(time.time(), words))

    def restarted(self, queries: tuple[str, ...], run_id: str, words: str | None = None) -> None:
        """The same stream goes on with other queries, or with another plan, as `words` say."""
        with self.lock:
            self.note_change(words or _changed(self.gauges.queries, queries, first=not self.changes))
            self.run_id = run_id
            self.gauges.queries = queries
            self.gauges.waiting = self.gauges.state_bytes = 0
            for name in queries:
                self.gauges.results.setdefault(name, 0)

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
        """Take in what one micro-batch reports."""
        with self.lock:
            gauges = self.gauges
            observed = progress.get("observedMetrics", {})
            gauges.batches += 1
            gauges.rows += progress.get("numInputRows", 0)
            gauges.rows_per_second = float(progress.get("processedRowsPerSecond", 0.0) or 0.0)
            gauges.batch_ms = progress.get("durationMs", {}).get("triggerExecution", 0)
            inside, outside = observed.get(METRICS, {}), observed.get(ROWS_METRICS, {})
            late = inside.get("late") or 0
            gauges.late += late
            gauges.set_aside += (inside.get("set_aside") or 0) + (outside.get("set_aside") or 0)
            gauges.waiting += inside.get("waiting") or 0
            gauges.state_bytes += inside.get("state_bytes") or 0
            for name, rows in outside.items():
                if name.startswith(ROWS_OF):
                    kind = name.removeprefix(ROWS_OF)
                    gauges.types[kind] = gauges.types.get(kind, 0) + (rows or 0)
            self._note_truncated([name for name in (inside.get("truncated") or "").split(",") if name])
            results = observed.get(RESULT_METRICS, {})
            gauges.overflows += results.get("overflows") or 0
            given = {name: results.get(f"q{at}") or 0 for at, name in enumerate(gauges.queries)}
            for name, number in given.items():
                gauges.results[name] += number
            oldest, newest = _moment(outside.get("oldest")), _moment(outside.get("newest"))
            if oldest is not None and (gauges.oldest is None or oldest < gauges.oldest):
                gauges.oldest = oldest
            if newest is not None and (gauges.newest is None or newest > gauges.newest):
                gauges.newest = newest
            self._note_watermark(_moment(progress.get("eventTime", {}).get("watermark")))
            self.samples.append(
                Sample(
                    gauges.batches,
                    time.time(),
                    progress.get("numInputRows", 0),
                    gauges.rows_per_second,
                    gauges.batch_ms,
                    late,
                    gauges.waiting,
                    gauges.state_bytes,
                    gauges.lag,
                    {name: number for name, number in given.items() if number},
                )
            )

    def _note_truncated(self, names: list[str]) -> None:
        truncated = self.gauges.truncated
        for name in names:
            truncated[name] = truncated.get(name, 0) + 1
            if truncated[name] == 1 and self.warn is not None:
                self.warn(f"not all matches of {name} are found: a limit was reached (further times are only counted)")

    def _note_watermark(self, watermark: datetime | None) -> None:
        gauges = self.gauges
        if watermark is not None and watermark != gauges.watermark:
            gauges.watermark = watermark
            self.moved, self.warned = self.clock(), False
        stood = self.clock() - self.moved
        if gauges.waiting > 0 and stood >= self.stalled_after and not self.warned and self.warn is not None:
            self.warned = True
            self.warn(
                f"the watermark has not moved for {stood:.0f} s while {gauges.waiting:,} rows wait for it: results "
                "come only when newer events do (is the source idle, or the delay longer than the data?)"
            )

    def status(self) -> str:
        """One line: rate, rows waiting, late rows, state, watermark lag, results."""
        with self.lock:
            gauges = self.gauges
            lag = "none yet" if gauges.lag is None else f"{gauges.lag:,.0f} s behind"
            total = sum(gauges.results.values())
            busiest = sorted(gauges.results.items(), key=lambda item: -item[1])[:3]
            shown = ", ".join(f"{name} {given:,}" for name, given in busiest if given)
            return (
                f"batch {gauges.batches}: {gauges.rows:,} rows "
                f"({gauges.rows_per_second:,.0f}/s, {gauges.batch_ms} ms), {gauges.waiting:,} waiting, "
                f"{gauges.late:,} late, {gauges.set_aside:,} set aside, "
                f"state {gauges.state_bytes / 1e6:,.1f} MB, watermark {lag}; {total:,} results"
                + (f" ({shown})" if shown else "")
                + (f"; plan changed {gauges.plan_changes} times" if gauges.plan_changes else "")
            )

    def told(self, since: int = 0) -> dict[str, Any]:
        """All that is known as plain data, with the micro-batches after a number."""
        with self.lock:
            gauges = self.gauges
            return {
                "now": time.time(),
                "queries": list(gauges.queries),
                "batches": gauges.batches,
                "rows": gauges.rows,
                "late": gauges.late,
                "set_aside": gauges.set_aside,
                "overflows": gauges.overflows,
                "watermark": None if gauges.watermark is None else gauges.watermark.isoformat(),
                "newest": None if gauges.newest is None else gauges.newest.isoformat(),
                "results": dict(gauges.results),
                "samples": [asdict(sample) for sample in self.samples if sample.number > since],
                "changes": [asdict(change) for change in self.changes],
            }

    def prometheus(self) -> str:
        """The same as Prometheus text."""
        with self.lock:
            gauges = self.gauges
            counters = {"batches": gauges.batches, "rows": gauges.rows, "late_rows": gauges.late}
            counters |= {"set_aside_rows": gauges.set_aside, "overflowed_counts": gauges.overflows}
            counters["plan_changes"] = gauges.plan_changes
            values: dict[str, float] = {
                "rows_per_second": gauges.rows_per_second,
                "batch_seconds": gauges.batch_ms / 1000,
                "waiting_rows": gauges.waiting,
                "state_bytes": gauges.state_bytes,
            }
            if gauges.lag is not None:
                values["watermark_lag_seconds"] = gauges.lag
            lines = []
            for kind, metrics in (("counter", counters), ("gauge", values)):
                for name, value in metrics.items():
                    full = f"motet_{name}_total" if kind == "counter" else f"motet_{name}"
                    lines += [f"# TYPE {full} {kind}", f"{full} {value:g}"]
            for metric, by_query in (("results", gauges.results), ("truncated_batches", gauges.truncated)):
                lines.append(f"# TYPE motet_{metric}_total counter")
                for name, given in by_query.items():
                    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
                    lines.append(f'motet_{metric}_total{{query="{escaped}"}} {given}')
            return "\n".join(lines) + "\n"


def _changed(before: tuple[str, ...], after: tuple[str, ...], first: bool) -> str:
    """How queries changed, in words."""
    if first:
        return f"started with {count(len(after), 'query')}"
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    told = [f"{words} {', '.join(names)}" for words, names in (("added", added), ("removed", removed)) if names]
    return f"{'; '.join(told) or 'changed'}: {count(len(after), 'query')} now"


def _moment(text: str | None) -> datetime | None:
    """A time as Spark writes it; its watermark is 1970 before there is one."""
    if not text:
        return None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None if moment.timestamp() == 0 else moment
