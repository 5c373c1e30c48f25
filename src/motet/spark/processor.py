"""The stateful operator of a stream: one call of the engine for all keys of a bucket."""

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

from motet.compile.contributions import END, QUERY
from motet.engine.context import RunContext
from motet.engine.live import MicroBatchResult, create_operator
from motet.kernels.tables import MIN_TIME
from motet.spark.buckets import hash_text
from motet.spark.serialization import CachedPickle, table_from_ipc, table_to_ipc
from motet.spark.shuffle import FIRST
from motet.spark.state_store import BucketStore
from motet.spark.tasks import ROWS_PER_BATCH

# What the body of an output row holds.
RESULTS, PARTIALS, CONTRIBUTIONS, LATE = 0, 1, 2, 3
MERGE_PLACES = 16
OUTPUT = (
    "kind INT, place INT, body BINARY, late BIGINT, set_aside BIGINT, waiting BIGINT, state_bytes BIGINT, "
    "truncated STRING"
)

OUTPUT_NAMES = [part.split()[0] for part in OUTPUT.split(", ")]


class BucketProcessor(StatefulProcessor):
    """An operator that feeds a bucket's rows to its branch; a timer wakes it when the watermark makes results final.

    `start_times` says since when queries that were added to a checkpoint see the stream, by their number.
    """

    def __init__(self, cached: CachedPickle[RunContext], start_times: dict[int, int]) -> None:
        self.cached = cached
        self.start_times = start_times

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.store = BucketStore(handle)
        self.branches = {branch.name: index for index, branch in enumerate(self.cached.value.program.all_branches)}

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
        context = self.cached.value
        operator = create_operator(context, branch, self.start_times)
        self.store.load(operator)
        events = pa.concat_tables(blobs) if blobs else context.program.schema.columns.empty_table()
        # Spark's watermark is 0 before there is one.
        result = operator.feed(events, watermark_ms * 1000 if watermark_ms > 0 else int(MIN_TIME))
        timer = self._update_timer(operator.wake, watermark_ms, -1 if fired else self.store.head.timer)
        # Metrics are changes, which a monitor adds up from zero at each start of the query.
        waiting_before, size_before = self.store.get_reported(self.cached.name)
        waiting = operator.num_buffered_rows
        size = self.store.save(operator, timer, waiting, self.cached.name)
        yield self._build_output(bucket, result, waiting - waiting_before, size - size_before)

    def _update_timer(self, wake_at: int | None, watermark_ms: int, registered: int) -> int:
        """Keep one timer: Spark calls it once the watermark has reached it, after the rows of that micro-batch.

        One that is due now is dropped, since all there was to do for it is done.
        """
        wanted = -1 if wake_at is None else max(-(-wake_at // 1000), watermark_ms + 1)
        if wanted != registered:
            if registered >= 0:
                self.handle.deleteTimer(registered)
            if wanted >= 0:
                self.handle.registerTimer(wanted)
        return wanted

    def _build_output(self, bucket: str, result: MicroBatchResult, waiting: int, state_bytes: int) -> pd.DataFrame:
        """Build rows of blobs, with the place where parts of a result meet, and one row with the metrics."""
        late = result.late.filter(result.late[FIRST]) if FIRST in result.late.column_names else result.late
        own = hash_text(bucket) % MERGE_PLACES  # results are combined with no others
        bodies = [(RESULTS, own, part) for part in _split_results(result.results)]
        bodies += [(PARTIALS, place, table) for place, table in _split_by_place(result.partials, "query", "end")]
        bodies += [(CONTRIBUTIONS, place, table) for place, table in _split_by_place(result.contributions, QUERY, END)]
        if self.cached.value.program.options.keep_late:
            bodies.append((LATE, own, late))
        rows: list[tuple[Any, ...]] = [
            (RESULTS, 0, None, len(late), result.invalid_rows, waiting, state_bytes, None),
            *((kind, place, table_to_ipc(table), 0, 0, 0, 0, None) for kind, place, table in bodies if len(table)),
            *((RESULTS, 0, None, 0, 0, 0, 0, name) for name in sorted(result.truncated)),
        ]
        return pd.DataFrame(rows, columns=OUTPUT_NAMES)

    def close(self) -> None:
        pass


def _split_results(results: pa.Table) -> Iterator[pa.Table]:
    """Split results into parts that fit in one value each: matches may be many."""
    for first in range(0, len(results), ROWS_PER_BATCH):
        yield results.slice(first, ROWS_PER_BATCH)


def _split_by_place(partials: pa.Table, query: str, end: str) -> Iterator[tuple[int, pa.Table]]:
    """Split partial results by where they are combined: all of a query and window in one place."""
    place = (partials[query].to_numpy() + partials[end].to_numpy() // 1000) % MERGE_PLACES
    for number in np.unique(place).tolist():
        yield number, partials.filter(pa.array(place == number))
