"""How events lie in time: how many combinations fit a window, in which orders they may come, and how far joins search.

Events are taken to come at any time with the same probability. Sets of a pattern's items are written as bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from math import factorial

Bits = int


def bits_of(items: Iterable[int]) -> Bits:
    """Some items as bits."""
    return sum(1 << item for item in items)


def items_of(bits: Bits) -> list[int]:
    """The items of some bits, in order."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def fitting(count: int, share: float) -> float:
    """The share of all combinations of so many events that a window holds which is a share of the stream: the first may
    come anywhere, and then all others within the window, fewer where the stream ends before it does.
    """
    return float(share ** (count - 1) * (count - (count - 1) * share))


class Orders:
    """The orders in which items may come that are partly in order: each is as likely as any other."""

    def __init__(self, order: Collection[tuple[int, int]]) -> None:
        self._after: dict[int, Bits] = {}
        self._before: dict[int, Bits] = {}
        for one, other in order:
            self._after[one] = self._after.get(one, 0) | 1 << other
            self._before[other] = self._before.get(other, 0) | 1 << one
        self.ways = cache(self._ways)
        self.searched = cache(self._searched)
        self.searches_left = cache(self._searches_left)
        self.latest = cache(self._latest)
        self.earliest = cache(self._earliest)

    def _ways(self, items: Bits) -> int:
        """In how many orders items may come."""
        return sum(self.ways(items ^ 1 << last) for last in self._lasts(items)) if items else 1

    def chance(self, items: Bits) -> float:
        """The share of all orders in which items may come."""
        return self.ways(items) / factorial(items.bit_count())

    def _lasts(self, items: Bits) -> list[int]:
        return [item for item in items_of(items) if not self._after.get(item, 0) & items]

    def _firsts(self, items: Bits) -> list[int]:
        return [item for item in items_of(items) if not self._before.get(item, 0) & items]

    def _latest(self, items: Bits, chosen: Bits) -> float:
        """The place, from 1, that the last of some chosen items has among all on average."""
        places = 0.0
        for last in self._lasts(items):
            rest = items ^ 1 << last
            own = items.bit_count() if chosen >> last & 1 else self.latest(rest, chosen)
            places += own * self.ways(rest)
        return places / self.ways(items)

    def _earliest(self, items: Bits, chosen: Bits) -> float:
        """The same of the first of them."""
        places = 0.0
        for first in self._firsts(items):
            rest = items ^ 1 << first
            own = 1.0 if chosen >> first & 1 else 1.0 + self.earliest(rest, chosen)
            places += own * self.ways(rest)
        return places / self.ways(items)

    def _searches_left(self, left: Bits, right: Bits) -> bool:
        """Whether a join of two sides searches the left one by its last time: the side that comes first, else one that
        is a single item, else the one with the first item.
        """
        if self._all_before(right, left):
            return False
        if self._all_before(left, right):
            return True
        return (left.bit_count() > 1, left & -left) < (right.bit_count() > 1, right & -right)

    def _all_before(self, ones: Bits, others: Bits) -> bool:
        return all(not others & ~self._after.get(one, 0) for one in items_of(ones))

    def _searched(self, outer: Bits, inner: Bits) -> tuple[float, float]:
        """Where a join looks at the last times of inner instances for an outer one: over how many windows where those
        are small, and over which share of a stream that is one window.

        Of n events in a window, the k-th is (k - 1) / n of the window after the first on average. The search begins
        after all outer items that something inner follows, or a window before the last; and it ends before the first
        that all inner ones precede, or a window after the first.
        """
        count = outer.bit_count()
        followed = precedes = 0
        for item in items_of(outer):
            if self._after.get(item, 0) & inner:
                followed |= 1 << item
            if not inner & ~self._before.get(item, 0):
                precedes |= 1 << item
        since = self.latest(outer, followed) - 1 if followed else -1.0
        until = self.earliest(outer, precedes) - 1 if precedes else float(count)
        together = self.chance(outer | inner) / (self.chance(outer) * self.chance(inner))
        return (until - since) / count, together


orders_of = lru_cache(maxsize=4096)(Orders)
