"""Estimate how many cells there are, that is, pairs of a key and a pane with at least one event, for any pane width.

An event opens a cell if the previous event of its key lies in an earlier pane. Where panes begin is as good as random,
so an event `gap` after the previous one of its key opens a cell of width `w` with probability `min(1, gap / w)`. The
cells of all widths therefore follow from the gaps alone: with `S(x)` the share of events whose gap exceeds `x`, the
share of events that open a cell is the integral of `S` from 0 to `w`, divided by `w`.

A sample consists of stretches of consecutive rows. Of an event without an earlier one of its key in its stretch, the
gap is only known to reach beyond the stretch's beginning; the estimator of Kaplan and Meier takes such gaps as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

NARROWEST = 10  # the logarithm of the narrowest width in microseconds: about one millisecond
STEPS = 4  # places at which a curve is integrated for each doubling of a width
OVERLAP = 2.0  # stretches overlap in time if, were all rows in such, they would fill the time span this many times
GROUPED = 1.5  # rows are sorted by key if they change it at most this many times for each key of a stretch
REACH = 0.8  # the share of a stretch up to which gaps are followed: enough events lie so far from its beginning
NEVER = 2**62  # the gap of a key's first event
DEVIATIONS = 2.0  # standard deviations by which a curve must differ from that of keys of equal rates


@dataclass(frozen=True)
class SampledTimes:
    """When the events of a sample happened, in microseconds, sorted by stretch and time.

    `order` are their rows in the sample, `stretch` the numbers of their stretches, and `begins` the first event of each
    stretch. `joined` are times on a clock that stands still between stretches. The sample stands for `events` in a time
    of `span`, each stretch for as many of them. `disordered`: rows were not sorted by time.
    """

    order: Ints
    time: Ints
    stretch: Ints
    begins: Ints
    joined: Ints
    events: float
    span: int
    disordered: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every event is in the sample."""
        return len(self.order) >= self.events

    @property
    def seconds(self) -> float:
        """The time span in seconds; one second if all events have the same time, so that rates are finite."""
        return self.span / 1e6 or 1.0

    @property
    def since(self) -> Ints:
        """The time since the stretch of each event began."""
        found: Ints = self.time - self.time[self.begins][self.stretch]
        return found

    @cached_property
    def lengths(self) -> Ints:
        """The number of events in each stretch."""
        return np.diff(self.begins, append=len(self.order))

    @cached_property
    def overlaps(self) -> bool:
        """Whether stretches overlap in time, as where rows are sorted by key or not at all."""
        edge = self.lengths // 20  # a few events may be late
        spans = (self.time[self.begins + self.lengths - 1 - edge] - self.time[self.begins + edge]) / 0.9
        longest = np.argmax(self.lengths)
        fewest = min(spans.sum() / len(self.order), spans[longest] / self.lengths[longest])
        return bool(fewest * self.events > OVERLAP * max(self.span, 1))

    @cached_property
    def longest(self) -> SampledTimes:
        """The longest stretch alone."""
        at = int(np.argmax(self.lengths))
        rows = slice(int(self.begins[at]), int(self.begins[at] + self.lengths[at]))
        time, zero = self.time[rows] - self.time[rows].min(), np.zeros(int(self.lengths[at]), np.int64)
        return SampledTimes(self.order[rows], time, zero, zero[:1], time, self.events, self.span)

    @cached_property
    def pooled(self) -> SampledTimes:
        """The same events as one stretch, so dense in time as all events are."""
        found = np.argsort(self.time, kind="stable")
        time = ((self.time[found] - self.time.min()) * (len(found) / self.events)).astype(np.int64)
        zero = np.zeros_like(found)
        return SampledTimes(self.order[found], time, zero, zero[:1], time, self.events, self.span)


def arrange_times(time: Ints, lengths: Sequence[int], events: float, span: int) -> SampledTimes:
    """Arrange the times of stretches of these lengths, which stand for `events` in a time of `span`.

    O(rows log rows); linear in the rows if each stretch is sorted.
    """
    sizes = np.array([length for length in lengths if length], np.int64)
    stretch = np.repeat(np.arange(len(sizes)), sizes)
    order = np.arange(len(time))
    disordered = bool(((time[1:] < time[:-1]) & (stretch[1:] == stretch[:-1])).any())
    if disordered:
        order = np.lexsort((time, stretch))
        time = time[order]
    ends = np.cumsum(sizes)
    begins = ends - sizes
    # A stretch ends about one gap after its last event.
    took = ((time[ends - 1] - time[begins]) * (sizes / np.maximum(sizes - 1, 1))).astype(np.int64)
    joined = time + (np.cumsum(took) - took - time[begins])[stretch]
    return SampledTimes(order, time, stretch, begins, joined, events, span, disordered)


def list_widths(span: int) -> list[int]:
    """Return widths in microseconds, each twice the one before, up to one that holds the whole time span."""
    return [1 << power for power in range(NARROWEST, max(NARROWEST, int(span).bit_length()) + 1)]


def estimate_cells(times: SampledTimes, key: NDArray[Any] | None) -> tuple[dict[int, float], int]:
    """Return the cells per second of event time, by width in microseconds, and the number of keys.

    `key` numbers the key of each row of the sample, below 0 where it has none; None if all rows have the same. Where
    the sample is the whole, the result is the average over all places where panes may begin. O(rows log rows).
    """
    widths = list_widths(times.span)
    sorted_by_key = False
    if not times.is_whole:
        if times.overlaps and key is None:
            return _assume_independence(times, widths), 1
        sorted_by_key = times.overlaps and key is not None and _is_sorted_by_key(times, key)
        if times.overlaps and not sorted_by_key:
            times = times.pooled
        elif times.disordered and not sorted_by_key:
            # Of a short stretch, late rows may be as many as all others.
            times = times.longest
    keys = np.zeros(len(times.order), np.int32) if key is None else key[times.order]
    order = _order_by_key(keys)
    if not len(order):
        return dict.fromkeys(widths, 0.0), 0
    keys, stretch, joined = keys[order], times.stretch[order], times.joined[order]
    gap = joined.copy()
    gap[1:] -= joined[:-1]
    known, near = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)
    known[1:] = keys[1:] == keys[:-1]  # an earlier event of the key is in the sample
    near[1:] = known[1:] & (stretch[1:] == stretch[:-1])  # and in the same stretch
    grid = np.array([*widths, NEVER], np.float64)  # in a pane without end, each key has one cell
    if times.is_whole:
        opened = _open_by_whole_keys(np.where(near, gap, NEVER), None, grid)
    elif sorted_by_key:
        # The key of a stretch's first row may have begun before it.
        assert key is not None
        whole = near | (keys != key[times.begins][stretch])
        opened = _open_by_whole_keys(np.where(near, gap, NEVER)[whole], 1 / times.lengths[stretch[whole]], grid)
    else:
        within = _Survival(np.where(near, gap, times.since[order]), near)
        across = _Survival(np.where(known, gap, joined), known)
        longest = float((times.time[times.begins + times.lengths - 1] - times.time[times.begins]).max())
        curve = _JoinedCurve(within, across, REACH * longest, REACH * float(times.joined[-1]))
        opened = _open_in_time_order(curve, grid, float(max(times.span, 1)))
    events = times.events * len(order) / len(times.order)
    # A key that is always live has a cell in each pane, one more than panes fit into the time span.
    count = float((events * opened[:-1] / (1 + times.span / grid[:-1])).max())
    count = max(count, float(events * opened[-1]), float(np.count_nonzero(~known)))
    cells = np.minimum.accumulate(np.clip(events * opened[:-1], count, max(events, 1.0))) / times.seconds
    return dict(zip(widths, cells.tolist(), strict=True)), round(count)


def _assume_independence(times: SampledTimes, widths: Sequence[int]) -> dict[int, float]:
    """Return the cells per second of one key whose events come independently of each other."""
    rate = times.events / times.seconds
    return {width: -float(np.expm1(-rate * width / 1e6)) / (width / 1e6) for width in widths}


def _is_sorted_by_key(times: SampledTimes, key: NDArray[Any]) -> bool:
    """Return whether rows of a key stand together."""
    by_row = np.repeat(np.arange(len(times.lengths)), times.lengths)
    changes = np.count_nonzero((key[1:] != key[:-1]) | (by_row[1:] != by_row[:-1])) + 1
    distinct = len(np.unique(by_row * (int(key.max(initial=0)) + 2) + key + 1))
    return bool(changes <= GROUPED * distinct and distinct * 4 <= len(key))


def _order_by_key(keys: NDArray[Any]) -> Ints:
    """Return the rows that have a key, by key; those of one key stay in order."""
    if keys.min(initial=0) >= 0:
        # Numpy sorts numbers of two bytes by counting them.
        return np.argsort(keys.astype(np.uint16) if keys.max(initial=0) < 1 << 16 else keys, kind="stable")
    found = np.flatnonzero(keys >= 0)
    return found[np.argsort(keys[found], kind="stable")]


def _open_by_whole_keys(gaps: Ints, weights: Floats | None, widths: Floats) -> Floats:
    """Return the share of events that open a cell of each width, where every gap is known; by default all weigh 1."""
    if weights is None:
        gaps = np.sort(gaps)  # in a third of the time that their order takes
        counted, sums = np.arange(len(gaps) + 1.0), np.cumsum(gaps.astype(np.float64))
    else:
        order = np.argsort(gaps)
        gaps, weights = gaps[order], weights[order]
        counted, sums = np.append(0.0, np.cumsum(weights)), np.cumsum(gaps * weights)
    below = np.searchsorted(gaps, widths.astype(np.int64))
    opened = np.append(0.0, sums)[below] / widths + counted[-1] - counted[below]
    shares: Floats = opened / max(counted[-1], 1e-12)
    return shares


class _Survival:
    """The share of gaps that exceed a duration: Kaplan and Meier's estimator."""

    def __init__(self, durations: Ints, ended: Mask) -> None:
        packed = np.sort(durations * 2 + ~ended)  # whole numbers are sorted fastest
        self.ends = (packed >> 1).astype(np.float64)
        self.ended = packed & 1 == 0
        self.share = np.ones(len(packed) + 1)
        np.cumprod(1.0 - self.ended / np.arange(len(packed), 0, -1), out=self.share[1:])
        self.areas = np.zeros(len(packed) + 1)
        self.areas[1:] = self.ends
        self.areas[2:] -= self.ends[:-1]
        np.cumsum(self.share[:-1] * self.areas[1:], out=self.areas[1:])

    def at(self, durations: Any) -> Any:
        """Return the share of gaps that exceed a duration."""
        return self.share[np.searchsorted(self.ends, durations, "right")]

    def area(self, durations: Any) -> Any:
        """Return the integral of the share up to a duration."""
        before = np.searchsorted(self.ends, durations, "right")
        begun = np.append(0.0, self.ends)[before]
        return self.areas[before] + self.share[before] * (durations - begun)

    def count(self, duration: float) -> int:
        """Count the gaps that end within a duration."""
        return int(np.count_nonzero(self.ended[: np.searchsorted(self.ends, duration, "right")]))


@dataclass(frozen=True)
class _JoinedCurve:
    """The share of gaps that exceed a duration: up to `reach` as seen `within` stretches, then as seen `across` them as
    if they were one, and beyond `limit` continued.

    Keys of different rates make the logarithm of the share a power of the duration below 1, and keys that come and go
    a constant; both are continued as a power that fits what is seen. For keys of equal rates that power is 1.
    """

    within: _Survival
    across: _Survival
    reach: float
    limit: float

    def area(self, durations: Floats) -> Floats:
        """Return the integral of the share up to each duration; durations ascend."""
        scale = float(self.within.at(self.reach)) / max(float(self.across.at(self.reach)), 1e-12)
        beyond = self.across.area(np.clip(durations, self.reach, self.limit)) - self.across.area(self.reach)
        area: Floats = self.within.area(np.minimum(durations, self.reach)) + scale * beyond
        tail = np.maximum(durations, self.limit)
        at_limit = float(self.across.at(self.limit))
        if at_limit <= 0:
            return area
        loss = -np.log(at_limit)
        power = self._fit_power(loss)
        share = np.exp(-loss * ((tail / self.limit) ** power - 1))
        added = np.append(0.0, np.cumsum((share[1:] + share[:-1]) / 2 * np.diff(tail)))
        area += scale * at_limit * added
        return area

    def _fit_power(self, loss: float) -> float:
        early = -np.log(float(self.across.at(self.limit / 4)))
        if early <= 0:
            return 1.0
        deviation = np.sqrt(1 / max(self.across.count(self.limit / 4), 1) + 1 / max(self.across.count(self.limit), 1))
        return float(np.clip((np.log(loss / early) + DEVIATIONS * deviation) / np.log(4), 0.0, 1.0))


def _open_in_time_order(curve: _JoinedCurve, widths: Floats, span: float) -> Floats:
    """Return the share of events that open a cell of each width, all events being within a time of `span`.

    An event with a longer gap than the time since the beginning is the first of its key, and opens a cell of any width.
    """
    lowest = min(float(widths[0]), span) / 1024
    grid = np.geomspace(lowest, span, int(np.ceil(np.log2(span / lowest) * STEPS)) + 1)
    inside = np.unique(np.concatenate(([0.0], grid, widths[widths < span])))
    area = np.append(0.0, curve.area(inside[1:]))
    twice = np.append(0.0, np.cumsum((area[1:] + area[:-1]) / 2 * np.diff(inside)))
    total = area * (1 - inside / span) + 2 / span * twice
    beyond = np.maximum(widths - span, 0.0) * area[-1] / span
    found: Floats = (np.interp(np.minimum(widths, span), inside, total) + beyond) / widths
    return found
