"""What is known of a set of events: how many of each type, over how long, in how many partitions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from motet.errors import DataError

MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Statistics:
    """Counts of events; times are in microseconds since the epoch.

    `counts` has the events of each type; rows set aside for a null time or type are in none of the other numbers.
    `keys` are the attributes that events are partitioned by; an event with a null key is in no partition. `ties` counts
    events beyond the first of their partition and time. `selectivities` has the share of pairs of events that satisfy
    a condition, by its text: `A e1, B e2: e1.x < e2.x`.
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
    selectivities: Mapping[str, float] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """How many events there are."""
        return sum(self.counts.values())

    @property
    def seconds(self) -> float:
        """How long they take; a second where all fall on one time, so that rates are finite."""
        if self.first is None or self.last is None or self.first == self.last:
            return 1.0
        return (self.last - self.first) / MICROSECONDS

    @property
    def rates(self) -> dict[str, float]:
        """Events of each type per second."""
        return {type: count / self.seconds for type, count in self.counts.items()}

    def to_json(self) -> str:
        """These statistics as JSON, rates included for the reader."""
        return json.dumps({**asdict(self), "rates": self.rates}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Statistics:
        """Statistics from what `to_json` wrote; numbers that are left out are taken as 0."""
        try:
            found: dict[str, Any] = json.loads(text)
            known = {each.name: found[each.name] for each in fields(cls) if each.name in found}
            return cls(**{**known, "keys": tuple(known.get("keys", ()))})
        except (ValueError, TypeError) as error:
            raise DataError(f"these are no statistics: {error}") from error
