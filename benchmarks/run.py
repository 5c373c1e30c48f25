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

from benchmarks.measure import Measurement, run_module
from benchmarks.registry import Experiment, Setting, load_experiments
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


def run_experiment(experiment: Experiment, setting: Setting) -> Result:
    """Run an experiment in a process of its own; the peak is that of the whole process tree."""
    missing = [module for module in experiment.needs if importlib.util.find_spec(module) is None]
    if missing:
        raise MotetError(f"{experiment.name} needs {', '.join(missing)}: pip install 'motet[spark]'")
    began = time.perf_counter()
    answer = run_module("benchmarks.child", experiment.name, setting.size, setting.repeats)
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
        describe_machine(),
    )


def run_in_child(name: str, setting: Setting) -> dict[str, Any]:
    """Run an experiment in this process and return its answer to the parent."""
    rows = load_experiments()[name].run(setting)
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "rows": [{column: to_json_value(value) for column, value in row.items()} for row in rows],
        "own_peak": own.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "cpu": own.ru_utime + own.ru_stime,
    }


def to_json_value(value: Any) -> Any:
    """Return a value as JSON has it."""
    return asdict(value) if isinstance(value, Measurement) else value


def get_median(value: Any) -> Any:
    """Return a value of JSON rows without its spread."""
    return value["median"] if isinstance(value, dict) else value


def describe_machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
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
