"""Keys for the parts of patterns, and the largest parts that two patterns have in common.

A part of a pattern is a set of its items, written as bits. Two parts have the same key just where one node can find
both: the key is made of the items in the order that a node has them in, the time order of each pair, and the tests and
gaps among them, all numbered within the part. So with equal keys the k-th items of two parts correspond.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice, product

from motet.plans.detect.build import JoinSpec, node_order, select_items
from motet.plans.detect.partial_orders import Bits, bits_of, items_of

Key = int
# Patterns that repeat the same types have very many parts in common; so many are looked at.
MOST_COMMON = 200


@dataclass
class Numbering:
    """Numbers for items, tests and parts of patterns, the same for equal ones."""

    numbers: dict[Hashable, int] = field(default_factory=dict)

    def number(self, thing: Hashable) -> int:
        return self.numbers.setdefault(thing, len(self.numbers))


class KeyedPattern:
    """A pattern that a tree is built for, with a key for each of its parts."""

    def __init__(self, spec: JoinSpec, numbering: Numbering) -> None:
        self.spec = spec
        self.size = len(spec.items)
        self.all: Bits = (1 << self.size) - 1
        self.items = [numbering.number(item) for item in spec.items]
        self._numbering = numbering
        self._unlimited = replace(spec, within=0, rows=0)
        self._keys: dict[Bits, Key] = {}
        self._ordered: dict[Bits, list[int]] = {}

    def ordered(self, bits: Bits) -> list[int]:
        """Return the items of a part in the order in which its node has them."""
        known = self._ordered.get(bits)
        if known is None:
            known = self._ordered[bits] = node_order(self.spec, items_of(bits))
        return known

    def key(self, bits: Bits) -> Key:
        """Return the key of a part."""
        known = self._keys.get(bits)
        if known is None:
            part = select_items(self._unlimited, self.ordered(bits))
            known = self._keys[bits] = self._numbering.number(part)
        return known

    @cached_property
    def pairs(self) -> dict[Key, list[Bits]]:
        """The parts of two items, by their keys."""
        found: dict[Key, list[Bits]] = {}
        for a, b in combinations(range(self.size), 2):
            bits = 1 << a | 1 << b
            found.setdefault(self.key(bits), []).append(bits)
        return found


def find_maximal_common(one: KeyedPattern, other: KeyedPattern, smallest: int = 2) -> list[tuple[Bits, Bits]]:
    """Return the maximal parts that two patterns have in common, as bits in each of them; of very many, some.

    An item corresponds to another if their nodes are equal, and two such pairs are compatible if their keys are. Sets
    of compatible pairs are cliques; tests and gaps of more than two items are compared on whole cliques.
    """
    pairs = [(a, b) for a in range(one.size) for b in range(other.size) if one.items[a] == other.items[b]]
    number = {pair: v for v, pair in enumerate(pairs)}
    near = [0] * len(pairs)
    for key in one.pairs.keys() & other.pairs.keys():
        for ours, theirs in product(one.pairs[key], other.pairs[key]):
            # The k-th item of one corresponds to the k-th of the other.
            v, u = (number[pair] for pair in zip(one.ordered(ours), other.ordered(theirs), strict=True))
            near[v] |= 1 << u
            near[u] |= 1 << v
    found: dict[tuple[Bits, Bits], None] = {}
    for clique in islice(_list_cliques(0, (1 << len(pairs)) - 1, 0, near), MOST_COMMON):
        for bits in _find_agreeing(clique, pairs, one, other):
            if bits[0].bit_count() >= smallest:
                found[bits] = None
    return [
        bits
        for bits in found
        if not any(bits != more and not bits[0] & ~more[0] and not bits[1] & ~more[1] for more in found)
    ]


def _list_cliques(chosen: Bits, candidates: Bits, done: Bits, near: list[Bits]) -> Iterator[Bits]:
    """Yield the maximal cliques of a graph, by Bron and Kerbosch with a pivot."""
    if not candidates and not done:
        if chosen:
            yield chosen
        return
    pivot = max(items_of(candidates | done), key=lambda v: (near[v] & candidates).bit_count())
    for v in items_of(candidates & ~near[pivot]):
        yield from _list_cliques(chosen | 1 << v, candidates & near[v], done & near[v], near)
        candidates &= ~(1 << v)
        done |= 1 << v


def _find_agreeing(
    clique: Bits, pairs: list[tuple[int, int]], one: KeyedPattern, other: KeyedPattern
) -> Iterator[tuple[Bits, Bits]]:
    """Yield a clique, or its largest subsets whose parts have equal keys."""
    pending, seen = [clique], {clique}
    while pending and len(seen) < MOST_COMMON:
        chosen = pending.pop()
        matched = [pairs[v] for v in items_of(chosen)]
        ours, theirs = bits_of(tuple(a for a, _ in matched)), bits_of(tuple(b for _, b in matched))
        if one.key(ours) == other.key(theirs):
            yield ours, theirs
            continue
        for v in items_of(chosen):
            smaller = chosen & ~(1 << v)
            if smaller and smaller not in seen:
                seen.add(smaller)
                pending.append(smaller)
