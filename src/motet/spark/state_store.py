"""Keep the state of a bucket in Spark's state store, as a log: a whole state, and the rows of later micro-batches.

Values cross between Spark and Python in a way that takes 16 ms per megabyte, so a micro-batch writes there only the
rows that came, and the whole state now and then: see `motet.spark.operator_host.HostedOperator.write_part`.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

LOST_PARTS = "parts of the state of a bucket are missing"
HEAD = "name STRING, whole BIGINT, changes BIGINT, timer BIGINT, waiting BIGINT, size BIGINT, start STRING"


class Head(NamedTuple):
    """What is stored beside the log: the token of the state, bytes of the whole state and of the changes in the log,
    the registered timer (-1: none), and the waiting rows and bytes of state that a start of the stream reported.
    """

    token: str = ""
    whole: int = 0
    changes: int = 0
    timer: int = -1
    waiting: int = 0
    size: int = 0
    start: str = ""


class BucketStore:
    """The state of the bucket that is being processed."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self.heads = handle.getValueState("head", HEAD)
        self.log = handle.getListState("log", "part BINARY")
        self.head = Head()

    def read_head(self) -> Head:
        """Read what is stored beside the log."""
        stored = self.heads.get()
        self.head = Head() if stored is None else Head(*stored)
        return self.head

    def read_log(self, partition: int) -> list[bytes]:
        """Read all parts of the log.

        Raises:
            RuntimeError: Parts are missing: a changed byte in the store may have made the key of another bucket of
                theirs, which Spark does not notice. The partition is named as Spark names it.
        """
        parts = [bytes(part[0]) for part in self.log.get()]
        if sum(map(len, parts)) != self.head.whole + self.head.changes:
            raise RuntimeError(f"StateStoreId(opId=0,partId={partition}): {LOST_PARTS}")
        return parts

    def get_reported(self, start: str) -> tuple[int, int]:
        """Return the waiting rows and bytes of state that this start of the stream last reported; zero before."""
        return (self.head.waiting, self.head.size) if self.head.start == start else (0, 0)

    def write(self, part: bytes, is_whole: bool, token: str, timer: int, waiting: int, start: str) -> int:
        """Append a part to the log, or begin it anew; return the size of the log."""
        if is_whole:
            self.log.put([(part,)])
            whole, changes = len(part), 0
        else:
            self.log.appendValue((part,))
            whole, changes = self.head.whole, self.head.changes + len(part)
        self.heads.update(tuple(Head(token, whole, changes, timer, waiting, whole + changes, start)))
        return whole + changes

    def clear(self) -> None:
        """Remove the state of the bucket."""
        self.heads.clear()
        self.log.clear()
