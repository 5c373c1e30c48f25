"""Statistics of events as text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from motet.explain.words import count
from motet.statistics.model import Statistics

EPOCH = dt.datetime(1970, 1, 1)


def statistics_text(statistics: Statistics) -> str:
    """Counts, span and partitions, a fact to a line."""
    return "\n".join(statistics_lines(statistics))


def statistics_lines(found: Statistics) -> Iterator[str]:
    yield f"{count(found.events, 'event')} of {count(len(found.counts), 'type')}"
    if found.first is not None and found.last is not None:
        yield f"from {moment(found.first)} to {moment(found.last)}"
    if found.keys:
        mean = found.events / found.partitions if found.partitions else 0.0
        keys = ", ".join(found.keys)
        sizes = f"{mean:,.1f} events each, at most {found.largest_partition:,}"
        yield f"{count(found.partitions, 'partition')} by {keys}: {sizes}"
    tied = found.ties / found.events if found.events else 0.0
    yield f"{count(found.ties, 'event')} ({tied:.1%}) with the time of another in the same partition"
    if found.set_aside:
        missing = f"{found.null_times:,} without a time, {found.null_types:,} without a type"
        yield f"{count(found.set_aside, 'row')} set aside: {missing}"
    width = max((len(name) for name in found.counts), default=0)
    rates = found.rates
    for name, events in sorted(found.counts.items(), key=lambda entry: -entry[1]):
        yield f"  {name:<{width}}  {events:>12,}  {events / found.events:>6.1%}  {rates[name]:>12,.4g} /s"
    for condition, share in found.selectivities.items():
        yield f"  {share:>6.1%} of pairs: {condition}"


def moment(microseconds: int) -> str:
    """A time since the epoch, as a date."""
    return str(EPOCH + dt.timedelta(microseconds=microseconds))
