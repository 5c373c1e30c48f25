"""Monitor a stream: add up what its micro-batches report, for a status line, Prometheus, a page and warnings."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
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
from motet.spark.stream import COUNTS, METRICS, RESULT_METRICS, ROWS_METRICS, TYPE_COUNT_PREFIX

STALLED_AFTER = 60.0
PROGRESS_SECONDS = 30.0  # how long to wait for the last progress
MAX_SAMPLES = 600  # micro-batches that are remembered one by one
MAX_CHANGES = 200


@dataclass
class StreamMetrics:
    """Totals of a running stream; `rows_per_second` and `batch_ms` are those of the last micro-batch."""

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
    plan_changes: int = 0
    results: Counter[str] = field(default_factory=Counter)  # by query
    types: Counter[str] = field(default_factory=Counter)  # rows by type
    keys: dict[tuple[str, str], int] = field(default_factory=dict)  # with state, by branch and bucket, now
    unit_seconds: Counter[str] = field(default_factory=Counter)  # by unit, in all
    unit_bytes: dict[tuple[str, str], int] = field(default_factory=dict)  # by bucket and unit, now
    executed: dict[str, Any] = field(default_factory=dict)  # as workers told it, by signature, since this start
    truncated: Counter[str] = field(default_factory=Counter)  # micro-batches in which a limit cut matches off, by query

    def count_keys(self, branch: str) -> int:
        """Return how many keys of a branch have state, in all buckets."""
        return sum(count for (name, _), count in self.keys.items() if name == branch)

    @property
    def unit_costs(self) -> dict[str, tuple[float, int]]:
        """Seconds so far and bytes of state now of each unit that runs, the most expensive one first."""
        sizes: Counter[str] = Counter()
        for (_, unit), size in self.unit_bytes.items():
            sizes[unit] += size
        return {unit: (seconds, sizes[unit]) for unit, seconds in self.unit_seconds.most_common() if unit in sizes}

    @property
    def lag(self) -> float | None:
        """Seconds by which the watermark is behind the newest event."""
        if self.watermark is None or self.newest is None:
            return None
        return (self.newest - self.watermark).total_seconds()


class StreamMonitor(StreamingQueryListener):
    """A listener that adds up the progress of one stream, and warns if its watermark stalls while rows wait."""

    def __init__(
        self,
        queries: Sequence[str],
        warn: Callable[[str], None] = lambda message: None,
        stalled_after: float = STALLED_AFTER,
        clock: Callable[[], float] = time.monotonic,
        run_id: str | None = None,
    ) -> None:
        self.metrics = StreamMetrics(tuple(queries), results=Counter(dict.fromkeys(queries, 0)))
        self.run_id = run_id  # of the query to follow; None: any
        self.warn = warn
        self.stalled_after = stalled_after
        self.clock = clock
        self.moved_at = clock()
        self.warned = False
        self.samples: deque[dict[str, Any]] = deque(maxlen=MAX_SAMPLES)  # metrics of each micro-batch
        self.changes: deque[dict[str, Any]] = deque(maxlen=MAX_CHANGES)  # when queries or plans changed, and how
        self.lock = threading.Lock()
        self.ended = threading.Event()  # the run that is followed, and all its progress is here
        self.begun = threading.Event()  # the run has done a micro-batch, or there is none to do

    def follow_run(self, queries: tuple[str, ...], run_id: str, change: str | None = None) -> None:
        """Follow a new run of the stream, with other queries or with another plan."""
        with self.lock:
            change = change or _describe_change(self.metrics.queries, queries, first=not self.changes)
            self.changes.append({"at": time.time(), "words": change})
            self.run_id = run_id
            self.ended.clear()
            self.begun.clear()
            self.metrics.queries = queries
            self.metrics.waiting = self.metrics.state_bytes = 0
            self.metrics.unit_bytes.clear()
            self.metrics.executed.clear()
            self.metrics.keys.clear()
            self.metrics.results.update(dict.fromkeys(queries, 0))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        if self.run_id in (None, str(event.runId)):
            self.begun.set()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        if self.run_id in (None, str(event.runId)):
            self.ended.set()

    def wait_for_progress(self, seconds: float = PROGRESS_SECONDS) -> None:
        """Wait until the progress of a run that has ended is here: Spark reports it later, and the end last."""
        self.ended.wait(seconds)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = json.loads(event.progress.json)
        if self.run_id in (None, progress["runId"]):
            self.add(progress)
            self.begun.set()

    def add(self, progress: dict[str, Any]) -> None:
        """Add what one micro-batch reports."""
        with self.lock:
            metrics = self.metrics
            observed = progress.get("observedMetrics", {})
            state, read, results = (observed.get(name, {}) for name in (METRICS, ROWS_METRICS, RESULT_METRICS))
            rows, late = read.get("rows", progress.get("numInputRows", 0)) or 0, state.get("late") or 0
            given = Counter(dict.fromkeys(metrics.queries, 0))
            for counts in _parse_lines(results.get(COUNTS)):
                given.update(counts)
            metrics.batches += 1
            metrics.rows += rows
            metrics.rows_per_second = float(progress.get("processedRowsPerSecond", 0.0) or 0.0)
            metrics.batch_ms = progress.get("durationMs", {}).get("triggerExecution", 0)
            metrics.late += late
            metrics.set_aside += (state.get("set_aside") or 0) + (read.get("set_aside") or 0)
            metrics.waiting += state.get("waiting") or 0
            metrics.state_bytes += state.get("state_bytes") or 0
            metrics.overflows += results.get("overflows") or 0
            metrics.results.update(given)
            self._add_costs(_parse_lines(state.get("units")))
            for name, count in read.items():
                if name.startswith(TYPE_COUNT_PREFIX):
                    metrics.types[name.removeprefix(TYPE_COUNT_PREFIX)] += count or 0
            metrics.oldest = min(filter(None, (metrics.oldest, _parse_time(read.get("oldest")))), default=None)
            metrics.newest = max(filter(None, (metrics.newest, _parse_time(read.get("newest")))), default=None)
            self._add_truncations(filter(None, (state.get("truncated") or "").split(",")))
            self._move_watermark(_parse_time(progress.get("eventTime", {}).get("watermark")))
            self.samples.append(
                {
                    "number": metrics.batches,
                    "at": time.time(),
                    "rows": rows,
                    "rows_per_second": metrics.rows_per_second,
                    "batch_ms": metrics.batch_ms,
                    "late": late,
                    "waiting": metrics.waiting,
                    "state_bytes": metrics.state_bytes,
                    "lag": metrics.lag,
                    "results": {name: number for name, number in given.items() if number},
                }
            )

    def _add_costs(self, costs: Iterable[dict[str, Any]]) -> None:
        for bucket in costs:
            self.metrics.keys[bucket["branch"], bucket["bucket"]] = bucket["keys"]
            for unit, (seconds, size) in bucket["units"].items():
                self.metrics.unit_seconds[unit] += seconds
                self.metrics.unit_bytes[bucket["bucket"], unit] = size
            for note in bucket.get("executed", ()):
                self.metrics.executed[note if isinstance(note, str) else note["signature"]] = note

    def _add_truncations(self, names: Iterable[str]) -> None:
        for name in names:
            self.metrics.truncated[name] += 1
            if self.metrics.truncated[name] == 1:
                self.warn(f"not all matches of {name} are found: a limit was reached (further times are only counted)")

    def _move_watermark(self, watermark: datetime | None) -> None:
        metrics = self.metrics
        if metrics.batches == 1:
            self.moved_at = self.clock()  # Spark may have taken long to start
        if watermark is not None and watermark != metrics.watermark:
            metrics.watermark = watermark
            self.moved_at, self.warned = self.clock(), False
        stalled_for = self.clock() - self.moved_at
        if metrics.waiting > 0 and stalled_for >= self.stalled_after and not self.warned:
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
            busiest = ", ".join(f"{name} {results:,}" for name, results in metrics.results.most_common(3) if results)
            return (
                f"batch {metrics.batches}: {metrics.rows:,} rows "
                f"({metrics.rows_per_second:,.0f}/s, {metrics.batch_ms} ms), {metrics.waiting:,} waiting, "
                f"{metrics.late:,} late, {metrics.set_aside:,} set aside, "
                f"state {metrics.state_bytes / 1e6:,.1f} MB, watermark {lag}; {metrics.results.total():,} results"
                + (f" ({busiest})" if busiest else "")
                + (f"; plan changed {metrics.plan_changes} times" if metrics.plan_changes else "")
            )

    def to_json(self, since: int = 0) -> dict[str, Any]:
        """Return the metrics as plain data, with the micro-batches after a number."""
        with self.lock:
            metrics = self.metrics
            return {
                "now": time.time(),
                "queries": list(metrics.queries),
                **{name: getattr(metrics, name) for name in ("batches", "rows", "late", "set_aside", "overflows")},
                "watermark": None if metrics.watermark is None else metrics.watermark.isoformat(),
                "newest": None if metrics.newest is None else metrics.newest.isoformat(),
                "results": dict(metrics.results),
                "units": [
                    {"unit": unit, "seconds": seconds, "state_bytes": size}
                    for unit, (seconds, size) in metrics.unit_costs.items()
                ],
                "samples": [sample for sample in self.samples if sample["number"] > since],
                "changes": list(self.changes),
            }

    def list_executed(self) -> list[Any]:
        """Return what workers said they executed since queries or plan last changed, as `find_records` reads it."""
        with self.lock:
            return list(self.metrics.executed.values())

    def to_prometheus(self) -> str:
        """Return the metrics as Prometheus text; of queries and units, those that run."""
        with self.lock:
            metrics = self.metrics
            values = {
                ("batches_total", "counter"): metrics.batches,
                ("rows_total", "counter"): metrics.rows,
                ("late_rows_total", "counter"): metrics.late,
                ("set_aside_rows_total", "counter"): metrics.set_aside,
                ("overflowed_counts_total", "counter"): metrics.overflows,
                ("plan_changes_total", "counter"): metrics.plan_changes,
                ("rows_per_second", "gauge"): metrics.rows_per_second,
                ("batch_seconds", "gauge"): metrics.batch_ms / 1000,
                ("waiting_rows", "gauge"): metrics.waiting,
                ("state_bytes", "gauge"): metrics.state_bytes,
                ("watermark_lag_seconds", "gauge"): metrics.lag,
            }
            lines = []
            for (name, kind), value in values.items():
                if value is not None:
                    lines += [f"# TYPE motet_{name} {kind}", f"motet_{name} {value!r}"]
            for name, by_query in (("results_total", metrics.results), ("truncated_batches_total", metrics.truncated)):
                lines.append(f"# TYPE motet_{name} counter")
                counted = (query for query in metrics.queries if query in by_query)
                lines += [f'motet_{name}{{query="{_escape(query)}"}} {by_query[query]}' for query in counted]
            costs = metrics.unit_costs
            for at, (name, kind) in enumerate((("unit_seconds_total", "counter"), ("unit_state_bytes", "gauge"))):
                lines.append(f"# TYPE motet_{name} {kind}")
                lines += [f'motet_{name}{{unit="{_escape(unit)}"}} {cost[at]!r}' for unit, cost in costs.items()]
            return "\n".join(lines) + "\n"


def _escape(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _parse_lines(lines: str | None) -> list[dict[str, Any]]:
    """Parse what workers reported, one JSON object to a line."""
    return [json.loads(line) for line in (lines or "").splitlines()]


def _describe_change(before: tuple[str, ...], after: tuple[str, ...], first: bool) -> str:
    """Describe how the queries changed."""
    number = format_count(len(after), "query")
    if first:
        return f"started with {number}"
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    changes = [f"{verb} {', '.join(names)}" for verb, names in (("added", added), ("removed", removed)) if names]
    return f"{'; '.join(changes) or 'changed'}: {number} now"


def _parse_time(text: str | None) -> datetime | None:
    """Parse a time as Spark writes it; its watermark is 1970 before there is one."""
    if not text:
        return None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None if moment.timestamp() == 0 else moment
