"""The multi-pattern graph: which patterns have which parts in common, in two tables (the paper's appendix A).

One table has for each maximal common sub-pattern the patterns that contain it, the other for each pattern its maximal
common sub-patterns with any other. Edges, and smaller common parts, follow from these.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from motet.optimizer.multitree.patterns import Key, KeyedPattern, find_maximal_common
from motet.optimizer.solvers.common import find_components
from motet.plans.detect.partial_orders import Bits


class MultiPatternGraph:
    """Patterns by number, and what they have in common.

    `sharers[key][pattern]` are the parts of a pattern with a key, `shared[pattern]` the keys of its maximal common
    sub-patterns.
    """

    def __init__(self, patterns: Iterable[KeyedPattern] = ()) -> None:
        self.patterns: dict[int, KeyedPattern] = {}
        self.sharers: dict[Key, dict[int, set[Bits]]] = {}
        self.shared: dict[int, set[Key]] = {}
        self._by_pair: dict[Key, set[int]] = {}  # the patterns that have a pair of items with a key
        self._containing: dict[tuple[int, Bits], dict[int, set[Bits]]] = {}
        for number, pattern in enumerate(patterns):
            self._add(number, pattern)

    def _add(self, number: int, pattern: KeyedPattern) -> None:
        """Add a pattern: it is compared with those that have a pair of items in common with it.

        O(pairs in common), except where two patterns have several in common, which are combined.
        """
        common: dict[int, list[tuple[Bits, Bits]]] = {}
        for key, ours in pattern.pairs.items():
            having = self._by_pair.setdefault(key, set())
            for peer in having:
                common.setdefault(peer, []).extend(product(ours, self.patterns[peer].pairs[key]))
            having.add(number)
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
        """Return the patterns that contain a part of a pattern, itself among them, and where they do."""
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

    def find_components(self) -> list[list[int]]:
        """Return the sets of patterns that common parts connect."""
        return find_components(
            self.patterns, lambda number: (peer for key in self.shared[number] for peer in self.sharers[key])
        )
