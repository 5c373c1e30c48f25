"""Keep the state of a bucket: a change log in Spark's state store, and a copy on the local disk of its machine.

Spark's store is what counts: it is part of the checkpoint. Its values cross between Spark and Python in a way that
takes 16 ms per megabyte, so a micro-batch writes there only what it changed, and the whole state now and then, once
the changes outweigh it. The copy on disk holds the whole state under a name that is drawn anew for every write and is
noted in Spark's store; it is read where it is found, and where it is not, the log is put together.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import uuid
from pathlib import Path
from typing import NamedTuple

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from motet.engine.live import BranchOperator, SavedState, find_unknown_queries, replay_log, restore, save, save_changes
from motet.errors import RunError

# A log is written anew once its changes are larger than this, and than the whole state.
MIN_LOG_BYTES = 1 << 16
HEAD = "name STRING, whole BIGINT, changes BIGINT, timer BIGINT, waiting BIGINT, size BIGINT, start STRING"


class Head(NamedTuple):
    """What is stored beside the log: the name of the local copy, bytes of the whole state and of the changes in the
    log, the registered timer (-1: none), and the waiting rows and bytes of state that a start of the stream reported.
    """

    name: str = ""
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

    def load(self, operator: BranchOperator) -> None:
        """Restore the state that was last stored, if any."""
        stored = self.heads.get()
        self.head = Head() if stored is None else Head(*stored)
        if stored is None:
            return
        saved = _read_local(self.head.name)
        if saved is None:
            saved = replay_log([bytes(part[0]) for part in self.log.get()])
        if new := find_unknown_queries(operator, saved):
            raise RunError(
                f"{', '.join(new)}: new to this checkpoint, so give its folder as checkpoint= to motet.stream: "
                "since when each query sees the stream has to be noted there"
            )
        restore(operator, saved)

    def get_reported(self, start: str) -> tuple[int, int]:
        """Return the waiting rows and bytes of state that this start of the stream last reported; zero before."""
        return (self.head.waiting, self.head.size) if self.head.start == start else (0, 0)

    def save(self, operator: BranchOperator, timer: int, waiting: int, start: str) -> int:
        """Store the state and return its size."""
        whole, logged = self.head.whole, self.head.changes
        state, change = save(operator), save_changes(operator)
        if change is not None and change.size > max(state.size, MIN_LOG_BYTES):
            change = None  # all keys were active
        part = b"" if change is None else change.to_bytes(compressed=True)
        if change is None or logged + len(part) > max(whole, MIN_LOG_BYTES):
            part = state.to_bytes(compressed=True)
            self.log.put([(part,)])
            whole, logged = len(part), 0
        else:
            self.log.appendValue((part,))
            logged += len(part)
        name = uuid.uuid4().hex
        _write_local(name, state, before=self.head.name)
        self.heads.update(tuple(Head(name, whole, logged, timer, waiting, whole + logged, start)))
        return whole + logged

    def clear(self) -> None:
        """Remove the state of the bucket."""
        self.heads.clear()
        self.log.clear()


def _folder() -> Path:
    """Return a folder that Spark removes when it ends, if it has one."""
    roots = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return Path(roots[0] or tempfile.gettempdir()) / "motet-state"


def _read_local(name: str) -> SavedState | None:
    try:
        with (_folder() / name).open("rb") as file:
            return SavedState.from_bytes(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError:
        return None


def _write_local(name: str, state: SavedState, before: str) -> None:
    """Write the copy, as best effort: if the disk is full, the log is read."""
    folder = _folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{name}.part"
        try:
            with unfinished.open("wb") as file:
                file.writelines(state.parts())
            unfinished.rename(folder / name)
        except OSError:
            unfinished.unlink(missing_ok=True)
        if before:
            (folder / before).unlink(missing_ok=True)
