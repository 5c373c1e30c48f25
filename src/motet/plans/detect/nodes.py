"""Define the nodes of a detection plan: equal nodes find the same instances, so queries share them.

Nodes hold no variables: tests name items by their number in the node ("0", "1", ...), in pattern order. Nodes hold no
windows: one node serves queries with different windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from motet.model.expression import Expression
from motet.model.query import Policy
from motet.template.symbols import Symbol

C = TypeVar("C")


def cache_hash(kind: type[C]) -> type[C]:
    """Make a node class keep its hash: nodes are looked up often, and hashing goes through all they consist of."""
    of_content = kind.__hash__

    def hash_of(self: C) -> int:
        known: int | None = self.__dict__.get("#hash")
        if known is None:
            known = self.__dict__["#hash"] = of_content(self)
        return known

    def state(self: C) -> dict[str, Any]:
        # Another process hashes texts differently.
        return {name: value for name, value in self.__dict__.items() if name != "#hash"}

    setattr(kind, "__hash__", hash_of)  # noqa: B010
    setattr(kind, "__getstate__", state)  # noqa: B010
    return kind


@dataclass(frozen=True, slots=True)
class LeafNode:
    """The events of a symbol."""

    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Edge:
    """A step of a loop from one item to another: the ways to cross the gap, and the tests of the two.

    In tests "0" is the earlier event and "1" the later. Steps `together` lead to another event of the same time.
    """

    source: int
    target: int
    ways: frozenset[frozenset[Symbol]]
    tests: frozenset[Expression]
    together: bool = False


@dataclass(frozen=True, slots=True)
class EarlierTest:
    """A test of a step to one of some items, "1", and each event before it at others, "0", or only their first."""

    sources: frozenset[int]
    targets: frozenset[int]
    test: Expression
    first_only: bool = False


@cache_hash
@dataclass(frozen=True)
class LoopNode:
    """Paths over items, by the edges between them.

    By a policy other than SKIP TILL ANY, paths that pass over no event that could have been the next step; then there
    may be tests of earlier events.
    """

    items: tuple[LeafNode | UnionNode, ...]
    firsts: frozenset[int]
    lasts: frozenset[int]
    edges: tuple[Edge, ...]
    policy: Policy = Policy.SKIP_TILL_ANY
    earlier: tuple[EarlierTest, ...] = ()


@cache_hash
@dataclass(frozen=True)
class UnionNode:
    """The instances of any of several nodes, each with the places its positions have in the union."""

    parts: tuple[tuple[Node, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """An interval in which no event of a symbol may occur: after the last of some items, before the first of others."""

    symbol: Symbol
    after: frozenset[int]
    before: frozenset[int]


ItemNode = LeafNode | LoopNode
Definition = tuple[tuple[ItemNode, ...], frozenset[tuple[int, int]], frozenset[Expression], frozenset[Gap]]


@dataclass(frozen=True)
class Subpattern:
    """Items of a pattern and all that holds for them.

    `order` are pairs of items of which the first ends before the second begins; other pairs share no event.
    """

    items: tuple[ItemNode, ...]
    order: frozenset[tuple[int, int]]
    tests: frozenset[Expression]
    gaps: frozenset[Gap]

    @property
    def definition(self) -> Definition:
        """The fields that say which instances there are."""
        return self.items, self.order, self.tests, self.gaps


@dataclass(frozen=True)
class SubpatternNode(Subpattern):
    """A node that finds a subpattern, in one of several ways.

    Nodes of different `group` are kept apart where finding the same twice is cheaper.
    """

    group: int


@cache_hash
@dataclass(frozen=True)
class JoinNode(SubpatternNode):
    """A join of two nodes, which checks the tests and gaps that its inputs have not."""

    outer: Node = field(compare=False)
    inner: Node = field(compare=False)
    outer_items: tuple[int, ...] = field(compare=False)
    inner_items: tuple[int, ...] = field(compare=False)
    new_tests: tuple[Expression, ...] = field(compare=False)
    new_gaps: tuple[Gap, ...] = field(compare=False)


@cache_hash
@dataclass(frozen=True)
class FilterNode(SubpatternNode):
    """The instances of a node that are also in order, pass more tests, and have nothing in more gaps.

    Column c is that of the input's item `places[c]`.
    """

    input: Node = field(compare=False)
    places: tuple[int, ...] = field(compare=False)
    new_order: tuple[tuple[int, int], ...] = field(compare=False)
    new_tests: tuple[Expression, ...] = field(compare=False)
    new_gaps: tuple[Gap, ...] = field(compare=False)


@cache_hash
@dataclass(frozen=True)
class PathScanNode(SubpatternNode):
    """A sequence of events found as paths of a loop without a way back, one column for each event as in joins."""

    loop: LoopNode = field(compare=False)


Node = LeafNode | LoopNode | UnionNode | JoinNode | FilterNode | PathScanNode


def inputs(node: Node) -> tuple[Node, ...]:
    """Return the nodes a node reads."""
    match node:
        case LeafNode():
            return ()
        case LoopNode(items):
            return items
        case UnionNode(parts):
            return tuple(part for part, _ in parts)
        case JoinNode():
            return (node.outer, node.inner)
        case FilterNode():
            return (node.input,)
        case PathScanNode():
            return (node.loop,)


def column_items(node: Node) -> tuple[Node, ...]:
    """Return the items that the columns of a node's instances are bound to."""
    return node.items if isinstance(node, SubpatternNode) else (node,)


def count_positions(node: Node) -> int:
    """Return how many positions of the pattern an item binds."""
    match node:
        case LoopNode(items):
            return sum(map(count_positions, items))
        case UnionNode(parts):
            return 1 + max(place for _, places in parts for place in places)
    return 1


def topological_order(roots: Iterable[Node]) -> list[Node]:
    """Return all nodes below some roots, each once, inputs first."""
    found: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in found:
            for each in inputs(node):
                visit(each)
            found[node] = None

    for root in roots:
        visit(root)
    return list(found)
