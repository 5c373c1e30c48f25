"""The multi-pattern graph: which patterns have which parts in common, in two tables (the paper's appendix A).

Edges are not kept, and neither are all subsets that two patterns share: one table has for each maximal common
sub-pattern the patterns in which it is, the other for each pattern its maximal common sub-patterns with any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from motet.optimizer.multitree.patterns import Key, KeyedPattern, find_maximal_common
from motet.plans.detect.partial_orders import Bits


class MultiPatternGraph:
    """Patterns by number, and what they have in common. `sharers[key][pattern]` are the parts of a pattern with that
    key, `shared[pattern]` the keys of its maximal common sub-patterns.
    """

    def __init__(self, patterns: Iterable[KeyedPattern] = ()) -> None:
        self.patterns: dict[int, KeyedPattern] = {}
        self.sharers: dict[Key, dict[int, set[Bits]]] = {}
        self.shared: dict[int, set[Key]] = {}
        self._by_pair: dict[Key, set[int]] = {}  # who has a pair of items with a key: others share nothing of size two
        self._containing: dict[tuple[int, Bits], dict[int, set[Bits]]] = {}
        for number, pattern in enumerate(patterns):
            self.add(number, pattern)

    def add(self, number: int, pattern: KeyedPattern) -> None:
        """Take in a pattern: it is compared with those that have a pair of items in common with it. O(pairs in common),
        save where two patterns have several in common, which are put together.
        """
        common: dict[int, list[tuple[Bits, Bits]]] = {}
        for key, ours in pattern.pairs.items():
            having = self._by_pair.setdefault(key, set())
            for peer in having:
                common.setdefault(peer, []).extend(product(ours, self.patterns[peer].pairs[key]))
            having.add(number)
        self._containing.clear()
        self.patterns[number] = pattern
        self.shared[number] = set()
        for peer, pairs in common.items():
            for one, other in pairs if len(pairs) == 1 else find_maximal_common(pattern, self.patterns[peer]):
                key = pattern.key(one)
                sharers = self.sharers.setdefault(key, {})
                sharers.setdefault(number, set()).add(one)
                sharers.setdefault(peer, set()).add(other)
                self.shared[number].add(key)
                self.shared[peer].add(key)

    def find_containing(self, number: int, bits: Bits) -> dict[int, set[Bits]]:
        """The patterns that contain a part of a pattern, it among them, and where they do."""
        known = self._containing.get((number, bits))
        if known is None:
            known = self._containing[number, bits] = self._find_containing(number, bits)
        return known

    def _find_containing(self, number: int, bits: Bits) -> dict[int, set[Bits]]:
        found: dict[int, set[Bits]] = {number: {bits}}
        for key in self.shared[number]:
            for whole in self.sharers[key][number]:
                if not bits & ~whole:
                    places = self.patterns[number].ordered(whole)
                    ranks = [rank for rank, item in enumerate(places) if bits >> item & 1]
                    for peer, wholes in self.sharers[key].items():
                        if peer != number:
                            others = [self.patterns[peer].ordered(each) for each in wholes]
                            found.setdefault(peer, set()).update(sum(1 << o[r] for r in ranks) for o in others)
        return found

    def neighbours(self, number: int) -> set[int]:
        """The patterns with which it has something in common."""
        return {peer for key in self.shared[number] for peer in self.sharers[key]} - {number}

    def components(self) -> list[list[int]]:
        """Patterns that sharing may connect, in sets that nothing connects."""
        left, found = set(self.patterns), []
        while left:
            pending, part = [min(left)], []
            left.discard(pending[0])
            while pending:
                number = pending.pop()
                part.append(number)
                near = self.neighbours(number) & left
                left -= near
                pending += near
            found.append(sorted(part))
        return found
