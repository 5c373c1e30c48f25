"""Count the orders in which events may come, the combinations that fit a window, and the times a join searches.

Events are taken to be uniform in time. Sets of items are bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from math import factorial, prod

Bits = int
# Orders of more items are estimated: there may be very many.
MOST_EXACT = 12


def bits_of(items: Iterable[int]) -> Bits:
    """Return a set of items as bits."""
    return sum(1 << item for item in items)


def items_of(bits: Bits) -> list[int]:
    """Return the items of some bits, in order."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def share_in_window(count: int, share: float) -> float:
    """Return the share of all combinations of `count` events that lie in a window that is a `share` of the stream.

    The first may come anywhere and all others within the window after it, fewer where the stream ends first.
    """
    return float(share ** (count - 1) * (count - (count - 1) * share))


class PartialOrder:
    """A partial order of items; every linear order that agrees with it is equally likely."""

    def __init__(self, order: Collection[tuple[int, int]]) -> None:
        self._after: dict[int, Bits] = {}
        self._before: dict[int, Bits] = {}
        for one, other in order:
            self._after[one] = self._after.get(one, 0) | 1 << other
            self._before[other] = self._before.get(other, 0) | 1 << one
        self.count_orders = cache(self._count_orders)
        self.search_range = cache(self._search_range)
        self.is_left_searched = cache(self._is_left_searched)
        self.mean_place = cache(self._mean_place)

    def _count_orders(self, items: Bits) -> float:
        """Count the linear orders of some items; of many, as if they were a forest: n! / (what follows each)."""
        if items.bit_count() > MOST_EXACT:
            followers = (1 + (self._after.get(item, 0) & items).bit_count() for item in items_of(items))
            return factorial(items.bit_count()) / prod(followers)
        return sum(self.count_orders(items ^ 1 << last) for last in self._list_ends(items, last=True)) if items else 1

    def probability(self, items: Bits) -> float:
        """Return the share of all permutations of some items that agree with the order."""
        return self.count_orders(items) / factorial(items.bit_count())

    def _list_ends(self, items: Bits, *, last: bool) -> list[int]:
        """Return the items that may come last of some, or first."""
        beyond = self._after if last else self._before
        return [item for item in items_of(items) if not beyond.get(item, 0) & items]

    def _mean_place(self, items: Bits, chosen: Bits, last: bool) -> float:
        """Return the mean place that the last, or the first, of some chosen items has among all, from 1 at that end."""
        count = items.bit_count()
        if count > MOST_EXACT:  # as if all were in any order
            return (count + 1) / ((items & chosen).bit_count() + 1)
        places = 0.0
        for end in self._list_ends(items, last=last):
            rest = items ^ 1 << end
            own = 1.0 if chosen >> end & 1 else 1.0 + self.mean_place(rest, chosen, last)
            places += own * self.count_orders(rest)
        return places / self.count_orders(items)

    def _is_left_searched(self, left: Bits, right: Bits) -> bool:
        """Return whether a join searches its left side by last times: the side that comes first, else one with a single
        item, else the one with the first item.
        """
        if self._come_before(right, left):
            return False
        if self._come_before(left, right):
            return True
        return (left.bit_count() > 1, left & -left) < (right.bit_count() > 1, right & -right)

    def may_end(self, items: Bits, others: Bits) -> bool:
        """Return whether the last of some items and others may be one of these items."""
        return any(1 << last & items for last in self._list_ends(items | others, last=True))

    def _come_before(self, ones: Bits, others: Bits) -> bool:
        return all(not others & ~self._after.get(one, 0) for one in items_of(ones))

    def _search_range(self, outer: Bits, inner: Bits) -> tuple[float, float]:
        """Return where a join looks at the last times of inner instances for an outer one: over how many windows where
        those are small, and over which share of a stream that is one window.

        Of n events in a window, the k-th is (k - 1) / n of the window after the first on average. The search begins
        after all outer items that something inner follows, or a window before the last; it ends before the first that
        all inner ones precede, or a window after the first.
        """
        count = outer.bit_count()
        followed = precedes = 0
        for item in items_of(outer):
            if self._after.get(item, 0) & inner:
                followed |= 1 << item
            if not inner & ~self._before.get(item, 0):
                precedes |= 1 << item
        since = count - self.mean_place(outer, followed, True) if followed else -1.0
        until = self.mean_place(outer, precedes, False) - 1 if precedes else float(count)
        together = self.probability(outer | inner) / (self.probability(outer) * self.probability(inner))
        return (until - since) / count, together


partial_order_of = lru_cache(maxsize=4096)(PartialOrder)
