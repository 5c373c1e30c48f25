"""The events of each key that a unit may still need, as kernels read them: each key's together, with room for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.kernels.ragged import expand_ranges, offsets_from_counts
from motet.kernels.resume_stacks import FIRST_LIVE, LENGTH, ORIGIN, REGION_END
from motet.kernels.tables import Events

Ints = NDArray[np.int64]


class EventLog:
    """Events in one buffer. A row of `heads` tells where those of a key are: see `motet.kernels.resume_stacks.ORIGIN`.

    A key whose room is used up gets twice as much elsewhere, and where all room is used up, all keys are moved to a
    larger buffer: each event is copied O(1) times, amortised.
    """

    def __init__(self) -> None:
        self.columns: list[Any] = []
        self.top = 0

    @property
    def events(self) -> Events:
        """All events, those of dropped ones among them."""
        time, enter, leave, klass, ints, floats = self.columns
        nothing = np.zeros(0, np.int64)
        return Events(nothing, time, enter, leave, klass, ints, floats, nothing)

    def append(self, heads: Ints, rows: Ints, counts: Ints, events: Events) -> None:
        """Append events of the keys with these rows, so many of each, in their order."""
        added: list[Any] = [
            events.time,
            events.enter,
            events.leave,
            events.klass,
            events.int_values,
            events.float_values,
        ]
        if not self.columns:
            self.columns = [column[..., :0] for column in added]
            if events.enter is events.time:  # windows that do not count events
                self.columns[1] = self.columns[2] = self.columns[0]
        short = rows[heads[rows, ORIGIN] + heads[rows, LENGTH] + counts > heads[rows, REGION_END]]
        if len(short):
            self._move(heads, short, rows, counts)
        to = expand_ranges(heads[rows, ORIGIN] + heads[rows, LENGTH], counts)
        for column, more in zip(self._distinct(), self._distinct(added), strict=True):
            column[..., to] = more
        heads[rows, LENGTH] += counts

    def last_times(self, heads: Ints, rows: Ints) -> Ints:
        """Return the time of the last event of each of these keys, all of which have some."""
        times: Ints = self.columns[0][heads[rows, ORIGIN] + heads[rows, LENGTH] - 1]
        return times

    def _move(self, heads: Ints, short: Ints, rows: Ints, counts: Ints) -> None:
        """Make room for keys that have too little, and for all if there is no more room."""
        added = np.zeros(len(heads), np.int64)
        added[rows] = counts
        room = 2 * (heads[short, LENGTH] - heads[short, FIRST_LIVE] + added[short]) + 2
        if self.top + int(room.sum()) > self.columns[0].shape[-1]:
            short = np.flatnonzero((heads[:, LENGTH] > heads[:, FIRST_LIVE]) | (added > 0))
            room = 2 * (heads[short, LENGTH] - heads[short, FIRST_LIVE] + added[short]) + 2
            before, size, self.top = self.columns, 2 * int(room.sum()), 0
            heads[:, REGION_END] = -1  # the others have no room
            self.columns = [np.empty((*column.shape[:-1], size), column.dtype) for column in before]
            if before[1] is before[0]:
                self.columns[1] = self.columns[2] = self.columns[0]
        else:
            before = self.columns
        lives = heads[short, LENGTH] - heads[short, FIRST_LIVE]
        starts = self.top + offsets_from_counts(room)
        origin, to = (
            expand_ranges(heads[short, ORIGIN] + heads[short, FIRST_LIVE], lives),
            expand_ranges(starts[:-1], lives),
        )
        for column, old in zip(self._distinct(), self._distinct(before), strict=True):
            column[..., to] = old[..., origin]
        heads[short, ORIGIN] = starts[:-1] - heads[short, FIRST_LIVE]
        heads[short, REGION_END] = starts[1:]
        self.top = int(starts[-1])

    def _distinct(self, columns: Sequence[Any] | None = None) -> list[Any]:
        """Return columns without those that are the times once more."""
        found = self.columns if columns is None else columns
        return [
            column for at, column in enumerate(found) if at not in (1, 2) or self.columns[at] is not self.columns[0]
        ]
