"""What goes to Spark's Python workers and stays there: a worker runs many tasks, and unpickling a program of a thousand
queries takes longer than running it over a few rows.
"""

from __future__ import annotations

import pickle
import uuid
from functools import cached_property
from typing import Any, Generic, TypeVar

T = TypeVar("T")
# Values that a worker keeps, those that came last: as many runs as are likely to take turns.
MOST_KEPT = 4

_kept: dict[str, Shipped[Any]] = {}


class Shipped(Generic[T]):
    """A value that is pickled once, and unpickled once in a worker, with all that tasks have made of it since."""

    def __init__(self, value: T, name: str | None = None) -> None:
        self.value = value
        self.name = name or uuid.uuid4().hex

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.name, self._pickled)

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps(self.value)


def _arrived(name: str, pickled: bytes) -> Shipped[Any]:
    if name not in _kept:
        while len(_kept) >= MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[name] = Shipped(pickle.loads(pickled), name)
    return _kept[name]
