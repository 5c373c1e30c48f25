"""What the units of an operator cost: seconds of the last micro-batch, and bytes that they keep."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from motet.engine.context import RunContext
from motet.plans.units import Unit


class UnitTimes:
    """Seconds of this thread that went into each unit since the last call of `take`, by the name of its first query."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def charge(self, unit: Unit) -> Iterator[None]:
        """Charge a unit for the time until this ends."""
        began = time.thread_time()
        try:
            yield
        finally:
            name = name_unit(unit)
            self.seconds[name] = self.seconds.get(name, 0.0) + time.thread_time() - began

    def take(self) -> dict[str, float]:
        """Return the seconds so far, and begin anew."""
        taken, self.seconds = self.seconds, {}
        return taken


def name_unit(unit: Unit) -> str:
    """Return the name of a unit: that of its first query."""
    return unit.queries[0].query.name


def count_bytes(value: Any, seen: set[int] | None = None) -> int:
    """Return the bytes of all arrays and tables that an object keeps, each once; not those of its program."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, RunContext | Unit):
        return 0
    seen.add(id(value))
    match value:
        case np.ndarray():
            return int(value.nbytes) if value.base is None else count_bytes(value.base, seen)
        case pa.Table():
            return int(value.nbytes)
        case dict():
            return sum(count_bytes(part, seen) for part in value.values())
        case list() | tuple():
            return sum(count_bytes(part, seen) for part in value)
        case _ if type(value).__module__.startswith("motet."):
            return count_bytes(getattr(value, "__dict__", {}), seen)
    return 0
