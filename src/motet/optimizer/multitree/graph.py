"""The multi-pattern graph: which patterns have which parts in common, in two tables (the paper's appendix A).

One table has for each maximal common sub-pattern the patterns that contain it, the other for each pattern its maximal
common sub-patterns with any other. Edges, and smaller common parts, follow from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from motet.optimizer.multitree.patterns import Key, KeyedPattern, Numbering, find_maximal_common
from motet.optimizer.solvers.common import find_components
from motet.plans.detect.build import JoinSpec
from motet.plans.detect.partial_orders import Bits


class CommonPart(NamedTuple):
    """A maximal common sub-pattern of two patterns, as one of them has it: its part, the other, and that one's part."""

    key: Key
    own: Bits
    peer: int
    theirs: Bits


class MultiPatternGraph:
    """Patterns by number, and what they have in common. Patterns come and go, and those that stay keep their numbers.

    `sharers[key][pattern]` are the parts of a pattern with a key, `shared[pattern]` the keys of its maximal common
    sub-patterns.
    """

    def __init__(self, patterns: Iterable[KeyedPattern] = ()) -> None:
        self.patterns: dict[int, KeyedPattern] = {}
        self.sharers: dict[Key, dict[int, set[Bits]]] = {}
        self.shared: dict[int, set[Key]] = {}
        self._common: dict[int, set[CommonPart]] = {}
        self._by_pair: dict[Key, set[int]] = {}  # the patterns that have a pair of items with a key
        self._containing: dict[tuple[int, Bits], dict[int, set[Bits]]] = {}
        for pattern in patterns:
            self.add(pattern)

    def add(self, pattern: KeyedPattern) -> int:
        """Add a pattern: it is compared with those that have a pair of items in common with it. Return its number.

        O(pairs in common), except where two patterns have several in common, which are combined.
        """
        number = max(self.patterns, default=-1) + 1
        common: dict[int, list[tuple[Bits, Bits]]] = {}
        for key, ours in pattern.pairs.items():
            having = self._by_pair.setdefault(key, set())
            for peer in having:
                common.setdefault(peer, []).extend(product(ours, self.patterns[peer].pairs[key]))
            having.add(number)
        self.patterns[number] = pattern
        self.shared[number], self._common[number] = set(), set()
        for peer, pairs in common.items():
            for one, other in pairs if len(pairs) == 1 else find_maximal_common(pattern, self.patterns[peer]):
                key = pattern.key(one)
                self._common[number].add(CommonPart(key, one, peer, other))
                self._common[peer].add(CommonPart(key, other, number, one))
                sharers = self.sharers.setdefault(key, {})
                sharers.setdefault(number, set()).add(one)
                sharers.setdefault(peer, set()).add(other)
                self.shared[number].add(key)
                self.shared[peer].add(key)
        self._containing.clear()
        return number

    def remove(self, number: int) -> None:
        """Remove a pattern. Others keep what they have in common with each other. O(parts in common with it)."""
        pattern = self.patterns.pop(number)
        for pair in pattern.pairs:
            having = self._by_pair[pair]
            having.discard(number)
            if not having:
                del self._by_pair[pair]
        for key, own, peer, theirs in self._common.pop(number):
            self._common[peer].discard(CommonPart(key, theirs, number, own))
        for key in self.shared.pop(number):
            peers = self.sharers.pop(key).keys() - {number}
            parts = {peer: {part.own for part in self._common[peer] if part.key == key} for peer in peers}
            if found := {peer: own for peer, own in parts.items() if own}:
                self.sharers[key] = found
            for peer in peers - found.keys():
                self.shared[peer].discard(key)
        self._containing.clear()

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


class PatternIndex:
    """The multi-pattern graph of some patterns, which is updated when other patterns are wanted."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.graph = MultiPatternGraph()
        self._numbering = Numbering()
        self._numbers: dict[JoinSpec, int] = {}
        self._removed = 0

    def update(self, specs: Sequence[JoinSpec]) -> dict[JoinSpec, int]:
        """Remove the patterns that are not among these, add those that are not there, and return their numbers.

        What is numbered for patterns that went is forgotten when more have gone than are there.
        """
        for spec in self._numbers.keys() - set(specs):
            self.graph.remove(self._numbers.pop(spec))
            self._removed += 1
        if self._removed > len(specs):
            self._clear()
        for spec in specs:
            if spec not in self._numbers:
                self._numbers[spec] = self.graph.add(KeyedPattern(spec, self._numbering))
        return {spec: self._numbers[spec] for spec in specs}
