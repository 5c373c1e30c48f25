"""The stateful operator: one call of the engine for all keys of a bucket."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from motet.engine import Program
from motet.engine.live import Fed, LiveBranch
from motet.kernels.tables import LONG_AGO
from motet.spark.packing import FIRST, from_blob, to_blob
from motet.spark.store import BucketStore

# What an output row carries.
RESULTS, PARTIALS, LATE = 0, 1, 2
OUTPUT = "kind INT, body BINARY, late BIGINT, set_aside BIGINT, waiting BIGINT, state_bytes BIGINT"


_programs: dict[str, Program] = {}


def _processor(start: str, program: bytes, *rest: Any) -> BucketProcessor:
    if start not in _programs:
        _programs.clear()
        _programs[start] = pickle.loads(program)
    return BucketProcessor(_programs[start], *rest)


class BucketProcessor(StatefulProcessor):
    """Feeds a bucket's rows to its branch; with no rows, a timer wakes it when the watermark makes results final."""

    def __init__(
        self, program: Program, branches: dict[str, int], births: dict[int, int], keep_late: bool, start: str
    ) -> None:
        self.program = program
        self.branches = branches
        self.births = births
        self.keep_late = keep_late
        self.start = start  # tells one start of the query from another

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers are used again: what they made of the program for earlier micro-batches is still good.
        rest = (self.branches, self.births, self.keep_late, self.start)
        return _processor, (self.start, pickle.dumps(self.program), *rest)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.store = BucketStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        blobs = [from_blob(blob) for frame in rows for blob in frame["rows"]]
        yield from self._advance(key[0], blobs, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        yield from self._advance(key[0], [], timerValues.getCurrentWatermarkInMs())

    def _advance(self, bucket: str, blobs: list[pa.Table], watermark_ms: int) -> Iterator[pd.DataFrame]:
        branch = self.branches.get(bucket.rpartition("/")[0])
        if branch is None:  # its queries are gone
            self.store.clear()
            return
        live = LiveBranch(self.program, branch, self.births)
        self.store.load(live)
        events = pa.concat_tables(blobs) if blobs else self.program.schema.columns.empty_table()
        # Spark's watermark is 0 before there is one.
        fed = live.feed(events, watermark_ms * 1000 if watermark_ms > 0 else int(LONG_AGO))
        timer = self._wake_at(live, watermark_ms, self.store.timer)
        # Whoever watches adds up changes, from nothing at each start.
        waiting_before, size_before = self.store.counted(self.start)
        waiting = live.waiting
        size = self.store.store(live, timer, waiting, self.start)
        yield self._output(fed, waiting - waiting_before, size - size_before)

    def _wake_at(self, live: LiveBranch, watermark_ms: int, registered: int) -> int:
        """Keep one timer: Spark calls it once the watermark has reached it."""
        wake = live.wake
        wanted = -1 if wake is None else max(-(-wake // 1000), watermark_ms + 1)
        if wanted != registered:
            if registered > watermark_ms:
                self.handle.deleteTimer(registered)
            if wanted >= 0:
                self.handle.registerTimer(wanted)
        return wanted

    def _output(self, fed: Fed, waiting: int, state_bytes: int) -> pd.DataFrame:
        late = fed.late.filter(fed.late[FIRST]) if FIRST in fed.late.column_names else fed.late
        bodies = [(RESULTS, fed.results), (PARTIALS, fed.partials)]
        if self.keep_late:
            bodies.append((LATE, late))
        full: list[tuple[int, bytes | None]] = [(kind, to_blob(table)) for kind, table in bodies if len(table)]
        full = full or [(RESULTS, None)]
        counts = [(len(late), fed.set_aside, waiting, state_bytes)] + [(0, 0, 0, 0)] * (len(full) - 1)
        rows = [(kind, body, *numbers) for (kind, body), numbers in zip(full, counts, strict=True)]
        return pd.DataFrame(rows, columns=["kind", "body", "late", "set_aside", "waiting", "state_bytes"])

    def close(self) -> None:
        pass
