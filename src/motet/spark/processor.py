"""The stateful operator of a stream: one call of the engine for all keys of a bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from motet.spark.buckets import find_branch
from motet.spark.host_messages import PROGRAM, RESULTS, FeedReply, FeedRequest
from motet.spark.serialization import CachedPickle
from motet.spark.state_store import BucketStore

OUTPUT = (
    "kind INT, place INT, body BINARY, late BIGINT, set_aside BIGINT, waiting BIGINT, state_bytes BIGINT, "
    "truncated STRING, units STRING"
)

OUTPUT_NAMES = [part.split()[0] for part in OUTPUT.split(", ")]


class BucketProcessor(StatefulProcessor):
    """An operator that feeds a bucket's rows to its branch; a timer wakes it when the watermark makes results final.

    `branches` are the names of the program's branches. `start_times` says since when queries that were added to a
    checkpoint see the stream, by their number. `stream` is the same name in all starts of a stream.

    Spark also makes one in a process of its own at each start, to learn what state there is: this module loads little.
    """

    def __init__(
        self, cached: CachedPickle[Any], branches: Sequence[str], start_times: dict[int, int], stream: str
    ) -> None:
        self.cached = cached
        self.branches = {name: index for index, name in enumerate(branches)}
        self.start_times = start_times
        self.stream = stream

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.store = BucketStore(handle)
        context = TaskContext.get()
        self.partition = 0 if context is None else context.partitionId()

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        blobs = [blob for frame in rows for blob in frame["rows"]]
        yield from self._advance(key[0], blobs, timerValues.getCurrentWatermarkInMs(), fired=False)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        yield from self._advance(key[0], [], timerValues.getCurrentWatermarkInMs(), fired=True)

    def _advance(self, bucket: str, blobs: list[bytes], watermark_ms: int, *, fired: bool) -> Iterator[pd.DataFrame]:
        branch = self.branches.get(find_branch(bucket))
        if branch is None:  # its queries are gone
            self.store.clear()
            return
        from motet.spark.host_process import feed_bucket

        head = self.store.read_head()
        request = FeedRequest(
            self.cached.name,
            branch,
            bucket,
            self.start_times,
            head.token,
            head.whole,
            head.changes,
            watermark_ms,
            blobs,
        )
        reply = feed_bucket(f"{self.stream}-{self.partition}", request, self._answer)
        timer = self._update_timer(reply.wake, watermark_ms, -1 if fired else head.timer)
        # Metrics are changes, which a monitor adds up from zero at each start of the query.
        waiting_before, size_before = self.store.get_reported(self.cached.name)
        size = self.store.write(reply.part, reply.is_whole, reply.token, timer, reply.waiting, self.cached.name)
        yield _build_output(reply, reply.waiting - waiting_before, size - size_before)

    def _answer(self, asked: str) -> Any:
        """Return what a host lacks."""
        return self.cached if asked == PROGRAM else self.store.read_log(self.partition)

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

    def close(self) -> None:
        pass


def _build_output(reply: FeedReply, waiting: int, state_bytes: int) -> pd.DataFrame:
    """Build rows of blobs, with the place where parts of a result meet, and one row with the metrics."""
    rows: list[tuple[Any, ...]] = [
        (RESULTS, 0, None, reply.late, reply.invalid_rows, waiting, state_bytes, None, reply.units),
        *((kind, place, body, 0, 0, 0, 0, None, None) for kind, place, body in reply.bodies),
        *((RESULTS, 0, None, 0, 0, 0, 0, name, None) for name in reply.truncated),
    ]
    return pd.DataFrame(rows, columns=OUTPUT_NAMES)
