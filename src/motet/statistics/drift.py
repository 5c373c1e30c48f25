"""Watches the rates of a stream, and tells when they have drifted from those that a plan was made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FEW = 30.0  # events of a symbol below which its rate says little


@dataclass
class RateWatch:
    """Events of each symbol per second of the stream's own time; what is older than `half_life` seconds counts half."""

    half_life: float
    counts: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def observe(self, counts: Mapping[str, float], seconds: float) -> None:
        """Take in the events of a stretch of the stream."""
        kept = 0.5 ** (seconds / self.half_life)
        self.seconds = self.seconds * kept + seconds
        for name in self.counts:
            self.counts[name] *= kept
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count

    @property
    def events(self) -> float:
        """How many events the rates rest on."""
        return sum(self.counts.values())

    @property
    def rates(self) -> dict[str, float]:
        return {name: count / self.seconds for name, count in self.counts.items()} if self.seconds > 0 else {}

    def drift(self, planned: Mapping[str, float]) -> Drift | None:
        """The symbol whose rate has changed most since some plan; None where none is frequent enough to tell."""
        changes = [
            Drift(name, planned.get(name, 0.0), rate)
            for name, rate in {**dict.fromkeys(planned, 0.0), **self.rates}.items()
            if max(rate, planned.get(name, 0.0)) * self.seconds >= FEW
        ]
        return max(changes, key=lambda change: change.share, default=None)


@dataclass(frozen=True)
class Drift:
    """A rate that was and is."""

    symbol: str
    before: float
    now: float

    @property
    def share(self) -> float:
        """By what share of the greater of the two rates they differ: 0 where they are equal, 1 where one is nothing."""
        return abs(self.now - self.before) / max(self.now, self.before, 1e-12)

    def __str__(self) -> str:
        return f"{self.symbol} came {self.before:.3g} times a second and now comes {self.now:.3g} times"
