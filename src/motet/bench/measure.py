"""How experiments measure: repeated, in turn, by medians and with the spread; memory of whole families of processes."""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_TO_END = 10.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The median of what was measured several times, and the least and the most of it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Measured:
        return cls(statistics.median(values), min(values), max(values))

    def scaled(self, factor: float) -> Measured:
        return Measured(self.median * factor, self.low * factor, self.high * factor)

    def rate(self, amount: float) -> Measured:
        """So much in the time measured, for each unit of it."""
        return Measured(amount / self.median, amount / self.high, amount / self.low)


Taken = dict[str, list[float]]


def in_turn(
    cases: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
    warm: bool = True,
) -> Taken:
    """Seconds of each case, the cases taking turns so that a noisy moment hits them alike; once before it counts,
    unless they have nothing to `warm`."""
    seconds: Taken = {name: [] for name in cases}
    for case in cases.values() if warm else ():
        case()
    for _ in range(repeats):
        for name, case in cases.items():
            began = clock()
            case()
            seconds[name].append(clock() - began)
    return seconds


def ratio(above: Sequence[float], below: Sequence[float]) -> Measured:
    """How many times as long the one took as the other, turn by turn: what slows a turn slows both."""
    return Measured.of([one / other for one, other in zip(above, below, strict=True)])


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The power of the size with which a cost grows: the slope of a line through both logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    return statistics.linear_regression(x, y).slope


class Watch:
    """Looks at the memory of a process and of all that it started, until told to stop; `peak` in bytes."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_LOOKS):
            self.peak = max(self.peak, family_memory(self.process))

    def stop(self) -> int:
        """The most that was seen."""
        self._over.set()
        self._thread.join()
        return self.peak


def family_memory(process: int) -> int:
    """Bytes of a process and all that it started; what they share counts once. Nothing where there is no /proc."""
    return sum(map(_memory_of, _family(process)))


def family_cpu(process: int) -> float:
    """CPU seconds of a process and all that it started, those that have ended included."""
    # User and system time, of the process itself and of children that have ended.
    ticks = sum(int(value) for fields in _family(process).values() for value in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _family(process: int) -> dict[int, list[str]]:
    """A process and its descendants, each with what /proc says of it from its state on."""
    told: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if folder.name.isdigit():
            try:
                told[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
    family = {process} & told.keys()
    while more := {child for child, fields in told.items() if int(fields[1]) in family} - family:
        family |= more
    return {member: told[member] for member in family}


def _memory_of(process: int) -> int:
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def alone(module: str, *arguments: Any) -> dict[str, Any]:
    """Run a module in a process of its own with arguments and the name of a file for its answer, which is JSON; beside
    the answer, `peak` is the most memory in bytes that the process and all that it started held."""
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", module, *map(str, arguments), str(answer)]
        paths = os.pathsep.join(path for path in sys.path if path)
        with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}) as process:
            watch = Watch(process.pid)
            try:
                status = process.wait()
            except KeyboardInterrupt:
                _interrupt(process)
                raise
            finally:
                peak = watch.stop()
        if status != 0 or not answer.exists():
            raise ChildError(f"{module} {' '.join(map(str, arguments))} ended with status {status}")
        found: dict[str, Any] = json.loads(answer.read_text())
    return {**found, "peak": max(peak, found.get("own_peak", 0))}


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Let a process end what it started, and end it itself if it does not."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()


class ChildError(Exception):
    """A process of an experiment did not end well; it has said why."""
