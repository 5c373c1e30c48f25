"""Formats statistics of events as text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from motet.explain.formatting import format_count, format_duration
from motet.plans.compiled import CompiledQuery
from motet.statistics.model import Statistics, format_symbol

EPOCH = dt.datetime(1970, 1, 1)


def format_statistics(statistics: Statistics) -> str:
    """Return counts, time range, partitions and rates, line by line."""
    return "\n".join(_format_statistics_lines(statistics))


def _format_statistics_lines(found: Statistics) -> Iterator[str]:
    yield f"{format_count(found.events, 'event')} of {format_count(len(found.counts), 'type')}"
    if found.first is not None and found.last is not None:
        yield f"from {format_time(found.first)} to {format_time(found.last)}"
    if found.keys:
        mean = found.events / found.partitions if found.partitions else 0.0
        keys = ", ".join(found.keys)
        sizes = f"{mean:,.1f} events each, at most {found.largest_partition:,}"
        yield f"{format_count(found.partitions, 'partition')} by {keys}: {sizes}"
    tied = found.ties / found.events if found.events else 0.0
    yield f"{format_count(found.ties, 'event')} ({tied:.1%}) with the time of another in the same partition"
    if found.set_aside:
        missing = f"{found.null_times:,} without a time, {found.null_types:,} without a type"
        yield f"{format_count(found.set_aside, 'row')} set aside: {missing}"
    counted = {**found.counts, **found.symbols}
    width = max(map(len, counted), default=0)
    rates = found.rates
    for name, events in sorted(counted.items(), key=lambda entry: -entry[1]):
        share = events / found.events if found.events else 0.0
        yield f"  {name:<{width}}  {events:>12,}  {share:>6.1%}  {rates[name]:>12,.4g} /s"
    for condition, share in found.selectivities.items():
        yield f"  {share:>6.1%} of pairs: {condition}"


def format_window_rates(found: Statistics, queries: Sequence[CompiledQuery]) -> str:
    """Return the events of each symbol in a window of one partition, for every window that queries have."""
    windows: dict[tuple[int, tuple[str, ...]], dict[str, float]] = {}
    for compiled in queries:
        if compiled.span.ranked:
            continue
        place = (compiled.span.within, compiled.partition)
        for symbol in compiled.symbols:
            name = format_symbol(symbol)
            events = found.events_per_window(name, symbol.type, *place)
            windows.setdefault(place, {})[name] = events
    return "\n".join(line for place, rates in windows.items() for line in _format_window(*place, rates))


def _format_window(within: int, partition: tuple[str, ...], rates: dict[str, float]) -> Iterator[str]:
    window = format_duration(within) if within else "all the time there is"
    by = f" for one {', '.join(partition)}" if partition else ""
    yield f"events in {window}{by}:"
    width = max(map(len, rates))
    for name, events in sorted(rates.items(), key=lambda entry: -entry[1]):
        yield f"  {name:<{width}}  {events:>14,.4g}"


def format_time(microseconds: int) -> str:
    """Return a time since the epoch as a date."""
    return str(EPOCH + dt.timedelta(microseconds=microseconds))
