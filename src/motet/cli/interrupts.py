"""End at once when the user asks for it, say what was done, and leave nothing half-written behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from motet.cli.report import say

# Signals that end a process, and the status that shells expect.
STATUSES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
# How long a signal may wait for Python to hear it, which is not before a kernel returns.
PATIENCE = 1.0


class Terminated(BaseException):
    """The process was asked to end, by the user or by another process.

    No KeyboardInterrupt, of which the command line's library makes an end without a word.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.status = STATUSES[signal.Signals(number)]


# What to say; a command that has more to say sets it.
describe: Callable[[], str] = lambda: "interrupted"  # noqa: E731


@contextmanager
def handle_interrupts() -> Iterator[None]:
    """Raise `Terminated` for signals that end a process; where a kernel keeps Python from hearing one, end without it.

    A second signal ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = threading.Event()
    before = {each: signal.getsignal(each) for each in STATUSES}

    def stop(number: int, _: FrameType | None) -> None:
        heard.set()
        signal.signal(number, signal.SIG_DFL)
        raise Terminated(number)

    reading, writing = socket.socketpair()
    writing.setblocking(False)
    watcher = threading.Thread(target=_watch, args=(reading, heard), daemon=True)
    watcher.start()
    previous = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    for each in STATUSES:
        if before[each] is not signal.SIG_IGN:  # as nohup asks
            signal.signal(each, stop)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        for each, handler in before.items():
            signal.signal(each, handler)
        writing.close()
        watcher.join()


def _watch(reading: socket.socket, heard: threading.Event) -> None:
    """End the process for a signal that Python does not hear in time: the main thread is in a kernel."""
    with reading:
        numbers = reading.recv(1)
        while numbers:
            if numbers[0] in STATUSES and not heard.wait(PATIENCE):
                _end(STATUSES[signal.Signals(numbers[0])])
            numbers = reading.recv(1)


def _end(status: int) -> None:
    from motet.io.writers import remove_temporary_files

    with contextlib.suppress(Exception):
        say(describe())
        remove_temporary_files()
    os._exit(status)
