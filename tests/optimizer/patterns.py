"""Patterns for tests of plans, from the text of queries."""

from __future__ import annotations

from collections.abc import Iterator

from motet.language import parse
from motet.optimizer.multitree.patterns import KeyedPattern, Numbering
from motet.plans.detect.build import JoinSpec, JoinTree, join_specs
from motet.plans.detect.nodes import LeafNode
from motet.plans.detect.partial_orders import Bits, items_of
from motet.plans.detect.query import DetectQuery, compile_detect


def parts_of(*queries: str) -> list[JoinSpec]:
    """What trees are built over for queries such as `SEQ(A a, B b) WHERE a.x < b.x WITHIN 5 s`."""
    workload = parse("\n".join(f"QUERY q{at}\nRETURN * PATTERN {query}" for at, query in enumerate(queries)))
    compiled = [compile_detect(number, workload, 1_000_000) for number in range(len(queries))]
    return join_specs([query for query in compiled if isinstance(query, DetectQuery)])


def patterns_of(*queries: str) -> list[KeyedPattern]:
    """Patterns with one vocabulary."""
    vocabulary = Numbering()
    return [KeyedPattern(parts, vocabulary) for parts in parts_of(*queries)]


def types(pattern: KeyedPattern, bits: Bits) -> str:
    """The types of a part, in order: `AC`."""
    items = [pattern.spec.items[item] for item in items_of(bits)]
    return "".join(item.symbol.type if isinstance(item, LeafNode) else "+" for item in items)


def all_trees(items: tuple[int, ...]) -> Iterator[JoinTree]:
    """Every tree over some items, sides in one order."""
    if len(items) == 1:
        yield items[0]
        return
    first, rest = items[0], items[1:]
    for chosen in range(1 << len(rest)):
        left = (first, *(item for at, item in enumerate(rest) if chosen >> at & 1))
        right = tuple(item for at, item in enumerate(rest) if not chosen >> at & 1)
        if right:
            for one in all_trees(left):
                for other in all_trees(right):
                    yield one, other
