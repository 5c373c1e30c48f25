"""Statistics of a set of events: how many of each type and symbol, over how long, in how many partitions."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from motet.errors import DataError
from motet.language.printer import expression_text
from motet.template.symbols import Symbol

MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Statistics:
    """Counts of events; times are in microseconds since the epoch.

    `counts` has the events of each type; rows set aside for a null time or type are in none of the other numbers.
    `keys` are the attributes that events are partitioned by; an event with a null key is in no partition. `ties` counts
    events beyond the first of their partition and time. If a workload was profiled, `symbols` has the events of each
    type with local conditions, and `partitionings` the number of partitions by each list of attributes that it
    partitions by, written `a, b`; `selectivities` has the share of pairs of events that satisfy a condition, by its
    text: `A e1, B e2: e1.x < e2.x`. `given` are rates per second that were stated rather than counted. `cells` has, by
    partitioning (the empty text where there are no attributes) and by width in microseconds, how many pairs of a key
    and a pane of that width hold at least one event, per second of event time. `sampled` is the number of rows from
    which these statistics were estimated, 0 if all were counted.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    first: int | None = None
    last: int | None = None
    keys: tuple[str, ...] = ()
    partitions: int = 0
    largest_partition: int = 0
    ties: int = 0
    null_times: int = 0
    null_types: int = 0
    set_aside: int = 0
    symbols: Mapping[str, int] = field(default_factory=dict)
    partitionings: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, float] = field(default_factory=dict)
    selectivities: Mapping[str, float] = field(default_factory=dict)
    cells: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    sampled: int = 0

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(self.counts.values())

    @property
    def seconds(self) -> float:
        """The time span; one second if all events have the same time, so that rates are finite."""
        if self.first is None or self.last is None or self.first == self.last:
            return 1.0
        return (self.last - self.first) / MICROSECONDS

    @cached_property
    def rates(self) -> dict[str, float]:
        """Events per second of each type, and of each type with local conditions."""
        counted = {name: count / self.seconds for name, count in {**self.counts, **self.symbols}.items()}
        return {**counted, **self.given}

    def events_per_window(self, symbol: str, type: str, within: int, partition: Sequence[str] = ()) -> float:
        """Return the average number of events of a symbol in a window of one partition.

        `within` is in microseconds (0: the whole input). The rate of the type is used if that of its conditions is
        unknown.
        """
        rate = self.rates.get(symbol, self.rates.get(type, 0.0))
        return rate * (within / MICROSECONDS or self.seconds) / self.count_partitions(partition)

    def count_partitions(self, partition: Sequence[str]) -> int:
        """Return the number of partitions by these attributes, 1 if unknown."""
        if not partition:
            return 1
        if set(partition) == set(self.keys):
            return max(self.partitions, 1)
        return max(self.partitionings.get(format_partition(partition), 1), 1)

    def cells_per_second(self, partition: Sequence[str], width: int) -> float:
        """Return how many pairs of a key and a pane hold at least one event, per second of event time.

        The number of keys that are live at a time, in windows of a width up to the time span, is this times the width
        in seconds. It falls with the width, and lies between one cell in all and one for each event. Where `cells` does
        not know the partitioning, events are taken as independent and keys as equally frequent.

        Args:
            partition: Attributes whose values make the key.
            width: Of a pane, in microseconds; 0 stands for the whole time span.
        """
        width = width or round(self.seconds * MICROSECONDS)
        points = self._cell_points.get(format_partition(partition))
        if points is not None:
            return min(_interpolate(points, math.log(width)), self._event_rate)
        if not self._event_rate:
            return 0.0
        keys, seconds = self.count_partitions(partition), width / MICROSECONDS
        return min(-keys * math.expm1(-self._event_rate / keys * seconds) / seconds, self._event_rate)

    @cached_property
    def _event_rate(self) -> float:
        """Events of all types per second."""
        types = (name for name in self.rates if name in self.counts or (name in self.given and "[" not in name))
        return sum(self.rates[name] for name in types)

    @cached_property
    def _cell_points(self) -> dict[str, list[tuple[float, float]]]:
        """By partitioning, the logarithms of widths, ascending, each with that of the cells per second."""
        return {
            partition: [(math.log(width), math.log(count)) for width, count in sorted(cells.items()) if count > 0]
            for partition, cells in self.cells.items()
        }

    def to_json(self) -> str:
        """Return these statistics as JSON, rates included for the reader."""
        return json.dumps({**asdict(self), "rates": self.rates}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Statistics:
        """Read what `to_json` wrote, or what was written by hand; missing numbers are 0.

        By hand, `{"rates": {"A": 2.5, "B[x > 3]": 0.1}}` is enough: events per second.
        """
        try:
            found = json.loads(text)
            if not isinstance(found, dict):
                raise TypeError(f"an object {{...}} is expected, not {str(found)[:40]}")
            known = {each.name: _read_field(each.name, found[each.name]) for each in fields(cls) if each.name in found}
            if "counts" not in found and "given" not in found:
                known["given"] = _read_numbers("rates", found.get("rates", {}), _read_rate)
            return cls(**known)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"these are no statistics such as `motet profile --format json` writes: {error}") from error


def _read_field(name: str, value: Any) -> Any:
    """Return a field of statistics as JSON has it, with its type. Raises `ValueError` or `TypeError`."""
    match name:
        case "counts" | "symbols" | "partitionings":
            return _read_numbers(name, value, _read_count)
        case "given" | "selectivities":
            return _read_numbers(name, value, _read_rate)
        case "first" | "last":
            return None if value is None else int(value)
        case "keys":
            if not isinstance(value, list):
                raise TypeError(f"keys is {value!r}, not a list of names")
            return tuple(map(str, value))
        case "cells":
            cells = value.items() if isinstance(value, dict) else ()
            return {
                format_partition(by.split(", ")) if by else "": {
                    int(width): count for width, count in _read_numbers("cells", each, _read_rate).items()
                }
                for by, each in cells
            }
    return _read_count(value)


def _read_numbers(name: str, value: Any, read: Callable[[Any], Any]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} is {value!r}, not an object of names and numbers")
    return {str(key): read(number) for key, number in value.items()}


def _read_count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _interpolate(points: Sequence[tuple[float, float]], at: float) -> float:
    """Return the value at a place between points of logarithms; beyond them the nearest, 0 if there are none."""
    if not points:
        return 0.0
    after = bisect_left(points, (at,))
    if after in (0, len(points)):
        return math.exp(points[min(after, len(points) - 1)][1])
    (left, low), (right, high) = points[after - 1 : after + 1]
    return math.exp(low + (high - low) * (at - left) / (right - left))


def _read_rate(value: Any) -> float:
    rate = float(value)
    if not 0 <= rate < math.inf:
        raise ValueError(f"a rate of {value} events per second")
    return rate


def format_partition(partition: Sequence[str]) -> str:
    """Format partition attributes as one name, whatever their order."""
    return ", ".join(sorted(partition))


def format_symbol(symbol: Symbol) -> str:
    """Format a type with its local conditions: `A[x > 3]`."""
    if not symbol.conditions:
        return symbol.type
    return f"{symbol.type}[{' AND '.join(map(expression_text, symbol.conditions))}]"
