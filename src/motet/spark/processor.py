"""The stateful operator: one call of the engine for all keys of a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from motet.engine import Program
from motet.engine.detect.program import END, QUERY
from motet.engine.live import BranchOperator, MicroBatchResult, create_operator
from motet.kernels.tables import MIN_TIME
from motet.spark.buckets import hash_text
from motet.spark.packing import FIRST
from motet.spark.serialization import CachedPickle, table_from_ipc, table_to_ipc
from motet.spark.state_store import BucketStore
from motet.spark.tasks import ROWS_PER_BATCH

# What an output row carries.
RESULTS, PARTIALS, CONTRIBUTIONS, LATE = 0, 1, 2, 3
MERGE_PLACES = 16
OUTPUT = (
    "kind INT, place INT, body BINARY, late BIGINT, set_aside BIGINT, waiting BIGINT, state_bytes BIGINT, "
    "truncated STRING"
)

OUTPUT_NAMES = [part.split()[0] for part in OUTPUT.split(", ")]


class BucketProcessor(StatefulProcessor):
    """Feeds a bucket's rows to its branch; with no rows, a timer wakes it when the watermark makes results final."""

    def __init__(
        self, cached: CachedPickle[Program], branches: dict[str, int], start_times: dict[int, int], keep_late: bool
    ) -> None:
        self.cached = cached
        self.branches = branches
        self.start_times = start_times
        self.keep_late = keep_late

    @property
    def start(self) -> str:
        """What tells one start of the query from another."""
        return self.cached.name

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.store = BucketStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        blobs = [table_from_ipc(blob) for frame in rows for blob in frame["rows"]]
        yield from self._advance(key[0], blobs, timerValues.getCurrentWatermarkInMs(), fired=False)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        yield from self._advance(key[0], [], timerValues.getCurrentWatermarkInMs(), fired=True)

    def _advance(self, bucket: str, blobs: list[pa.Table], watermark_ms: int, *, fired: bool) -> Iterator[pd.DataFrame]:
        branch = self.branches.get(bucket.rpartition("/")[0])
        if branch is None:  # its queries are gone
            self.store.clear()
            return
        program = self.cached.value
        live = create_operator(program, branch, self.start_times)
        self.store.load(live)
        events = pa.concat_tables(blobs) if blobs else program.schema.columns.empty_table()
        # Spark's watermark is 0 before there is one.
        fed = live.feed(events, watermark_ms * 1000 if watermark_ms > 0 else int(MIN_TIME))
        timer = self._update_timer(live, watermark_ms, -1 if fired else self.store.timer)
        # Whoever watches adds up changes, from nothing at each start.
        waiting_before, size_before = self.store.get_reported(self.start)
        waiting = live.num_buffered_rows
        size = self.store.store(live, timer, waiting, self.start)
        yield self._build_output(bucket, fed, waiting - waiting_before, size - size_before)

    def _update_timer(self, live: BranchOperator, watermark_ms: int, registered: int) -> int:
        """Keep one timer: Spark calls it once the watermark has reached it, after the rows of that micro-batch.

        One that is due now is dropped, since all there was to do for it is done.
        """
        wake = live.wake
        wanted = -1 if wake is None else max(-(-wake // 1000), watermark_ms + 1)
        if wanted != registered:
            if registered >= 0:
                self.handle.deleteTimer(registered)
            if wanted >= 0:
                self.handle.registerTimer(wanted)
        return wanted

    def _build_output(self, bucket: str, fed: MicroBatchResult, waiting: int, state_bytes: int) -> pd.DataFrame:
        """Blobs with the place where those that belong together meet, and the counts in the first row."""
        late = fed.late.filter(fed.late[FIRST]) if FIRST in fed.late.column_names else fed.late
        own = hash_text(bucket.encode()) % MERGE_PLACES  # results belong to nobody else's
        bodies = [(RESULTS, own, part) for part in _split_results(fed.results)]
        bodies += [(PARTIALS, place, table) for place, table in _split_by_place(fed.partials, "query", "end")]
        bodies += [(CONTRIBUTIONS, place, table) for place, table in _split_by_place(fed.contributions, QUERY, END)]
        if self.keep_late:
            bodies.append((LATE, own, late))
        rows: list[tuple[Any, ...]] = [
            (kind, place, table_to_ipc(table), 0, 0, 0, 0, None) for kind, place, table in bodies if len(table)
        ]
        rows += [(RESULTS, 0, None, 0, 0, 0, 0, name) for name in sorted(fed.truncated)]
        counts = (None, len(late), fed.invalid_rows, waiting, state_bytes, None)
        return pd.DataFrame([(RESULTS, 0, *counts), *rows], columns=OUTPUT_NAMES)

    def close(self) -> None:
        pass


def _split_results(results: pa.Table) -> Iterator[pa.Table]:
    """Results in parts that fit in one value each: matches may be many."""
    for first in range(0, len(results), ROWS_PER_BATCH):
        yield results.slice(first, ROWS_PER_BATCH)


def _split_by_place(partials: pa.Table, query: str, end: str) -> Iterator[tuple[int, pa.Table]]:
    """Partial results by where they are combined: all of a query and window in one place."""
    place = (partials[query].to_numpy() + partials[end].to_numpy() // 1000) % MERGE_PLACES
    for number in np.unique(place).tolist():
        yield number, partials.filter(pa.array(place == number))
