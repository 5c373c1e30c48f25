"""Hosts of operators as processes beside Spark's Python workers.

Spark gives a task to any worker that is idle, so what a worker keeps is seldom where the next micro-batch comes. A
worker therefore hands the rows of a state partition to the host of that partition, a process that lives on. Hosts are
forked by a process that the daemon of the workers forks first, so they have the kernels loaded.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from motet.errors import MotetError, RunError
from motet.spark.host_messages import Ask, FeedReply, FeedRequest
from motet.spark.operator_host import OperatorHost

FOLDER = "MOTET_HOSTS"  # the variable of the environment that tells workers where hosts listen
SPAWNER = "spawner"
CHECK_SECONDS = 2.0  # how often a host looks whether it is still needed
# A host ends after so many seconds, or so many times the longest interval between micro-batches, up to a limit.
IDLE_SECONDS, IDLE_INTERVALS, MAX_IDLE_SECONDS = 60.0, 20.0, 7200.0

_local_host = OperatorHost()  # of this worker, where there are no others


def feed_bucket(slot: str, request: FeedRequest, ask: Ask) -> FeedReply:
    """Feed a bucket in the host of its slot; in this process if there is none."""
    for _ in range(2):  # a host that has ended is started again
        connection = _connect(slot)
        if connection is None:
            break
        with contextlib.suppress(EOFError, OSError), connection:
            return _call(connection, request, ask)
    return _local_host.feed(request, ask)


def _call(connection: Connection, request: FeedRequest, ask: Ask) -> FeedReply:
    connection.send(request)
    while True:
        kind, value = connection.recv()
        if kind == "reply":
            return FeedReply(*value)
        if kind == "error":
            raise value
        connection.send(ask(value))


def _connect(slot: str) -> Connection | None:
    """Connect to the host of a slot, which is started if need be; None if that is impossible."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return None
    with contextlib.suppress(OSError):
        return _open(f"{folder}/{slot}")
    with contextlib.suppress(OSError, EOFError), _open(f"{folder}/{SPAWNER}") as spawner:
        spawner.send(slot)
        spawner.recv()
        return _open(f"{folder}/{slot}")
    return None


def _open(path: str) -> Connection:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(path)
        return Connection(client.detach())


def start_spawner() -> None:
    """Fork the process that forks hosts, and tell workers of it. It ends with this process, and so do its hosts."""
    os.setpgid(0, 0)  # as Spark's daemon does next: what it sends to its group reaches hosts too
    folder = tempfile.mkdtemp(prefix="motet-hosts-")
    try:
        listener = _listen(f"{folder}/{SPAWNER}")
    except OSError:  # a path that is too long for a socket
        shutil.rmtree(folder, ignore_errors=True)
        return
    daemon = os.getpid()
    if os.fork():
        listener.close()
        os.environ[FOLDER] = folder
        return
    _leave_pipes()
    signal.signal(signal.SIGHUP, lambda *_: os._exit(_remove(folder)))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with contextlib.suppress(Exception):
        for connection in _accept(listener, daemon):
            with contextlib.suppress(EOFError, OSError), connection:
                _fork_host(f"{folder}/{connection.recv()}", listener)
                connection.send(True)
    os._exit(_remove(folder))


def _fork_host(path: str, spawner: socket.socket) -> None:
    """Fork the host that listens on a path, unless there is one."""
    with contextlib.suppress(OSError):
        _open(path).close()
        return
    Path(path).unlink(missing_ok=True)
    listener = _listen(path)
    parent = os.getpid()
    if os.fork():
        listener.close()
        return
    spawner.close()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        _serve(listener, parent)
    finally:
        Path(path).unlink(missing_ok=True)
        os._exit(0)


def _serve(listener: socket.socket, parent: int) -> None:
    """Serve workers one after the other until the parent has ended, or nobody has come for long."""
    host = OperatorHost()
    for connection in _accept(listener, parent, ends_idle=True):
        with contextlib.suppress(EOFError, OSError), connection:
            request = connection.recv()
            try:
                answer: tuple[str, Any] = "reply", tuple(host.feed(request, partial(_ask, connection)))
            except (EOFError, OSError):  # the worker is gone
                raise
            except MotetError as error:
                answer = "error", RunError(str(error))
            except Exception:  # noqa: BLE001 - the worker tells Spark
                answer = "error", RuntimeError(traceback.format_exc())
            connection.send(answer)


def _ask(connection: Connection, what: str) -> Any:
    connection.send(("ask", what))
    return connection.recv()


def _accept(listener: socket.socket, parent: int, *, ends_idle: bool = False) -> Iterator[Connection]:
    """Yield connections while the parent lives or, if it `ends_idle`, until none has come for long: for a multiple of
    the longest time between two so far.
    """
    listener.settimeout(CHECK_SECONDS)
    used, idle = time.monotonic(), IDLE_SECONDS
    while os.getppid() == parent and (not ends_idle or time.monotonic() - used < idle):
        with contextlib.suppress(TimeoutError):
            client, _ = listener.accept()
            client.setblocking(True)
            idle = min(max(idle, IDLE_INTERVALS * (time.monotonic() - used)), MAX_IDLE_SECONDS)
            yield Connection(client.detach())
            used = time.monotonic()


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(64)
    return listener


def _leave_pipes() -> None:
    """Let go of the pipes between the daemon and Spark."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)


def _remove(folder: str) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    return 0
