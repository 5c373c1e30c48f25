"""Track the rates of a stream, and tell when they have drifted from those that a plan was made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MIN_EVENTS = 30.0  # events of a symbol below which its rate says little


@dataclass
class RateTracker:
    """Events of each symbol per second of event time; what is older than `half_life` seconds counts half."""

    half_life: float
    counts: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def observe(self, counts: Mapping[str, float], seconds: float) -> None:
        """Add the event counts of a stretch of the stream."""
        kept = 0.5 ** (seconds / self.half_life)
        self.seconds = self.seconds * kept + seconds
        for name in self.counts:
            self.counts[name] *= kept
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count

    @property
    def events(self) -> float:
        """How many events the rates are based on."""
        return sum(self.counts.values())

    @property
    def rates(self) -> dict[str, float]:
        return {name: count / self.seconds for name, count in self.counts.items()} if self.seconds > 0 else {}

    def drift(self, planned: Mapping[str, float]) -> RateDrift | None:
        """Return the symbol whose rate has changed most since a plan was made, or None if too few events tell."""
        changes = [
            RateDrift(name, planned.get(name, 0.0), rate)
            for name, rate in {**dict.fromkeys(planned, 0.0), **self.rates}.items()
            if max(rate, planned.get(name, 0.0)) * self.seconds >= MIN_EVENTS
        ]
        return max(changes, key=lambda change: change.change, default=None)


@dataclass(frozen=True)
class RateDrift:
    """The rate of a symbol before and now."""

    symbol: str
    before: float
    now: float

    @property
    def change(self) -> float:
        """The change relative to the greater of the two rates: 0 if they are equal, 1 if one is zero."""
        return abs(self.now - self.before) / max(self.now, self.before, 1e-12)

    def __str__(self) -> str:
        return f"{self.symbol} came {self.before:.3g} times a second and now comes {self.now:.3g} times"
