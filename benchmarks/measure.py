"""How experiments measure: repeated, in turn, medians with the spread, and the memory of whole process trees."""

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
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 0.25
GRACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """The median of what was measured several times, and the least and the most of it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Measurement:
        return cls(statistics.median(values), min(values), max(values))

    def scale(self, factor: float) -> Measurement:
        return Measurement(self.median * factor, self.low * factor, self.high * factor)

    def rate(self, amount: float) -> Measurement:
        """Return the rate at which an amount was processed in the measured time."""
        return Measurement(amount / self.median, amount / self.high, amount / self.low)


Timings = dict[str, list[float]]


def run_interleaved(
    cases: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
    warm: bool = True,
) -> Timings:
    """Return the seconds of each case, the cases taking turns so that a noisy moment hits them alike.

    Each case runs once before it counts, unless there is nothing to `warm`.
    """
    seconds: Timings = {name: [] for name in cases}
    for case in cases.values() if warm else ():
        case()
    for _ in range(repeats):
        for name, case in cases.items():
            began = clock()
            case()
            seconds[name].append(clock() - began)
    return seconds


def compute_ratio(above: Sequence[float], below: Sequence[float]) -> Measurement:
    """Return how many times as long the one took as the other, turn by turn: what slows a turn slows both."""
    return Measurement.of([one / other for one, other in zip(above, below, strict=True)])


def measure_peak(function: Callable[[], object]) -> float:
    """Return the most that Python allocates while a function runs, in MiB."""
    tracemalloc.start()
    function()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


def fit_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the power of the size with which a cost grows: the slope of a line through both logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    return statistics.linear_regression(x, y).slope


class MemoryMonitor:
    """Samples the memory of a process and its descendants until stopped; `peak` in bytes."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.peak = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stopped.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, read_tree_memory(self.process))

    def stop(self) -> int:
        """Stop, and return the peak."""
        self._stopped.set()
        self._thread.join()
        return self.peak


def read_tree_memory(process: int) -> int:
    """Return the bytes of a process and its descendants, shared ones counted once; 0 where there is no /proc."""
    return sum(map(_read_memory, _read_process_tree(process)))


def read_tree_cpu(process: int) -> float:
    """Return the CPU seconds of a process and its descendants, those that have ended included."""
    # User and system time, of the process itself and of children that have ended.
    ticks = sum(int(value) for fields in _read_process_tree(process).values() for value in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _read_process_tree(process: int) -> dict[int, list[str]]:
    """Return a process and its descendants, each with what /proc says of it from its state on."""
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


def _read_memory(process: int) -> int:
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def run_module(module: str, *arguments: Any) -> dict[str, Any]:
    """Run a module in a process of its own and return its answer.

    The module gets the arguments and the name of a file for its answer, which is JSON. `peak` in the result is the most
    memory in bytes that the process and its descendants held.
    """
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", module, *map(str, arguments), str(answer)]
        paths = os.pathsep.join(path for path in sys.path if path)
        with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}) as process:
            watch = MemoryMonitor(process.pid)
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
    """Interrupt a process so that it ends what it started, and kill it if it does not."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


class ChildError(Exception):
    """A process of an experiment did not end well; it has said why."""
