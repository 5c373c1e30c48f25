"""Runs an experiment in a process of its own, so that its memory is its own and what it loads is gone afterwards."""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import platform
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from motet.bench.measure import Measured, alone
from motet.bench.registry import Experiment, Setting, known
from motet.errors import MotetError


@dataclass(frozen=True, slots=True)
class Result:
    """What an experiment gave: rows as they are in JSON, where a measured value is its median, low and high."""

    name: str
    paper: str
    figure: str
    measures: str
    size: str
    repeats: int
    rows: list[dict[str, Any]]
    stated: list[dict[str, str]]
    notes: list[str]
    seconds: float
    cpu_seconds: float
    peak_mb: float
    date: str
    machine: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Result:
        return cls(**found)


def run(experiment: Experiment, setting: Setting) -> Result:
    """Run it; the peak is that of all its processes together."""
    missing = [module for module in experiment.needs if importlib.util.find_spec(module) is None]
    if missing:
        raise MotetError(f"{experiment.name} needs {', '.join(missing)}: pip install 'motet[spark]'")
    began = time.perf_counter()
    answer = alone("motet.bench.child", experiment.name, setting.size, setting.repeats)
    rows = answer["rows"]
    return Result(
        experiment.name,
        experiment.paper,
        experiment.figure,
        experiment.measures,
        setting.size,
        setting.repeats,
        rows,
        [{"what": one.what, "paper": one.paper, "ours": one.ours(rows)} for one in experiment.stated],
        list(experiment.notes),
        time.perf_counter() - began,
        answer["cpu"],
        answer["peak"] / 2**20,
        dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        machine(),
    )


def in_child(name: str, setting: Setting) -> dict[str, Any]:
    """What the process of an experiment does and answers."""
    rows = known()[name].run(setting)
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "rows": [{column: plain(value) for column, value in row.items()} for row in rows],
        "own_peak": own.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "cpu": own.ru_utime + own.ru_stime,
    }


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    return asdict(value) if isinstance(value, Measured) else value


def middle(value: Any) -> Any:
    """A value of JSON rows without its spread."""
    return value["median"] if isinstance(value, dict) else value


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = ""
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {
        "cpu": cpu or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "system": platform.system(),
    }
