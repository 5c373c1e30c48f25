"""Statistics of a set of events: how many of each type and symbol, over how long, in how many partitions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
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
    text: `A e1, B e2: e1.x < e2.x`. `given` are rates per second that were stated rather than counted.
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

    def to_json(self) -> str:
        """Return these statistics as JSON, rates included for the reader."""
        return json.dumps({**asdict(self), "rates": self.rates}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Statistics:
        """Read what `to_json` wrote, or what was written by hand; missing numbers are 0.

        By hand, `{"rates": {"A": 2.5, "B[x > 3]": 0.1}}` is enough: events per second.
        """
        try:
            found: dict[str, Any] = json.loads(text)
            known = {each.name: found[each.name] for each in fields(cls) if each.name in found}
            if "counts" not in found and "given" not in found:
                known["given"] = {str(name): _rate(rate) for name, rate in found.get("rates", {}).items()}
            return cls(**{**known, "keys": tuple(known.get("keys", ()))})
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"these are no statistics such as `motet profile --format json` writes: {error}") from error


def _rate(value: Any) -> float:
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
