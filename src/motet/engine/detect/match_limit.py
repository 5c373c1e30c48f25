"""Limit the matches of each key in each interval of the window's length in which they end."""

from __future__ import annotations

from typing import Any

import numpy as np

from motet.engine.encode import Ints
from motet.kernels.ragged import expand_ranges
from motet.plans.compiled import WindowSpan


class MatchLimit:
    """Counter of matches by key and interval, which tells where no more are wanted."""

    def __init__(self, limit: int | None, span: WindowSpan) -> None:
        self.limit = limit
        self.length = 0 if span.ranked else span.within
        self.counts: dict[tuple[int, int], int] = {}
        self.full: set[tuple[int, int]] = set()  # of these more were found than may be

    def admit(self, key: Ints, last: Ints) -> Any:
        """Return a mask of the matches within the limit; None where all are. Python runs once for each key and
        interval.
        """
        if self.limit is None or not len(key):
            return None
        places, which = self._places(key, last)
        sizes = np.bincount(which)
        before = np.array([self.counts.get(place, 0) for place in places])
        self.counts |= dict(zip(places, (before + sizes).tolist(), strict=True))
        over = np.flatnonzero(before + sizes > self.limit)
        if not len(over):
            return None
        self.full.update(places[at] for at in over)
        order = np.argsort(which, kind="stable")
        rank = np.empty(len(key), np.int64)
        rank[order] = expand_ranges(np.zeros_like(sizes), sizes)
        return before[which] + rank < self.limit

    def accepts(self, key: Ints, last: Ints) -> Any:
        """Return a mask of where further matches may still be admitted; None where anywhere."""
        if not self.full or not len(key):
            return None
        places, which = self._places(key, last)
        return np.array([place not in self.full for place in places])[which]

    def _places(self, key: Ints, last: Ints) -> tuple[list[tuple[int, int]], Ints]:
        """Return the keys and intervals that occur, and which of them each match is in."""
        stretch = last // self.length if self.length else np.zeros_like(last)
        keys, key_at = np.unique(key, return_inverse=True)
        stretches, stretch_at = np.unique(stretch, return_inverse=True)
        found, which = np.unique(key_at * len(stretches) + stretch_at, return_inverse=True)
        own = zip(keys[found // len(stretches)].tolist(), stretches[found % len(stretches)].tolist(), strict=True)
        return list(own), which
