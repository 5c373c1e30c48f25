"""The state of a bucket in Spark's store: a log of changes, and a copy on the local disk of the machine that wrote it.

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

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from motet.engine.live import Live, Saved, changes, put_together, restore, save, unknown_queries
from motet.errors import RunError

# A log is written anew once its changes are larger than this, and than the whole state.
LEAST_LOG = 1 << 16
HEAD = "name STRING, whole BIGINT, changes BIGINT, timer BIGINT, waiting BIGINT, size BIGINT, start STRING"


class BucketStore:
    """Reads and writes the state of the bucket that is being processed."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self.head = handle.getValueState("head", HEAD)
        self.log = handle.getListState("log", "part BINARY")
        self._found: tuple[str, int, int, int, int, int, str] | None = None

    def load(self, live: Live) -> None:
        """Bring a branch to the state that was last stored, if any."""
        self._found = self.head.get()
        if self._found is None:
            return
        saved = _read_local(self._found[0])
        if saved is None:
            saved = put_together([bytes(part[0]) for part in self.log.get()])
        if new := unknown_queries(live, saved):
            raise RunError(
                f"{', '.join(new)}: new to this checkpoint, so give its folder as checkpoint= to motet.run: "
                "since when each query sees the stream has to be noted there"
            )
        restore(live, saved)

    @property
    def timer(self) -> int:
        """The timer that is registered, -1 for none."""
        return -1 if self._found is None else self._found[3]

    def counted(self, start: str) -> tuple[int, int]:
        """Rows waiting and bytes of state when this start of the stream last stored them; nothing before it did."""
        return (self._found[4], self._found[5]) if self._found is not None and self._found[6] == start else (0, 0)

    def store(self, live: Live, timer: int, waiting: int, start: str) -> int:
        """Store the state; its size."""
        _, whole, logged = self._found[:3] if self._found is not None else ("", 0, 0)
        state = save(live)
        change = changes(live)
        if change is not None and change.size > max(state.size, LEAST_LOG):
            change = None  # all keys were active
        part = b"" if change is None else change.to_bytes(compressed=True)
        if change is None or logged + len(part) > max(whole, LEAST_LOG):
            part = state.to_bytes(compressed=True)
            self.log.put([(part,)])
            whole, logged = len(part), 0
        else:
            self.log.appendValue((part,))
            logged += len(part)
        name = uuid.uuid4().hex
        _write_local(name, state, "" if self._found is None else self._found[0])
        self.head.update((name, whole, logged, timer, waiting, whole + logged, start))
        return whole + logged

    def clear(self) -> None:
        """Forget the bucket."""
        self.head.clear()
        self.log.clear()


def _folder() -> Path:
    """A folder that Spark removes when it ends, where it has one."""
    roots = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return Path(roots[0] or tempfile.gettempdir()) / "motet-state"


def _read_local(name: str) -> Saved | None:
    try:
        with (_folder() / name).open("rb") as file:
            return Saved.from_bytes(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError:
        return None


def _write_local(name: str, state: Saved, before: str) -> None:
    """Best effort: without room on the disk the log is read."""
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
