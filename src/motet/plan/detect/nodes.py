"""Nodes of a detection plan: what they find is all they are told apart by, so equal ones are one for all queries.

Variables do not occur in nodes: tests speak of items by their number in the node ("0", "1", ...), in the order in which
they stand in the pattern. Windows do not either: a node serves queries with windows of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from motet.model.expression import Expression
from motet.template.symbols import Symbol

C = TypeVar("C")


def hashed_once(kind: type[C]) -> type[C]:
    """Keep the hash of a node with it: nodes are looked up all the time, and it goes through all they consist of."""
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
    """A step of a loop from one item to another: the ways to cross the gap, and what the two must satisfy.

    In its tests "0" is the earlier event and "1" the later, or NEXT of "0".
    """

    source: int
    target: int
    ways: frozenset[frozenset[Symbol]]
    tests: frozenset[Expression]


@hashed_once
@dataclass(frozen=True)
class LoopNode:
    """Paths over items, by the edges between them."""

    items: tuple[LeafNode | UnionNode, ...]
    firsts: frozenset[int]
    lasts: frozenset[int]
    edges: tuple[Edge, ...]
    places: tuple[int, ...] = field(compare=False)  # where the positions of each item begin


@hashed_once
@dataclass(frozen=True)
class UnionNode:
    """Any of some nodes, each with the places its items' positions have in the union."""

    parts: tuple[tuple[Node, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """No event of a symbol between the last of some items and the first of others."""

    symbol: Symbol
    after: frozenset[int]
    before: frozenset[int]


@hashed_once
@dataclass(frozen=True)
class JoinNode:
    """Two nodes joined. `order` are pairs of items of which the first ends before the second begins; other pairs share
    no event. `tests` and `gaps` are all that hold for its instances, those that its inputs saw to included. What finds
    the same in another `group` is another node: it is cheaper to find it twice.
    """

    items: tuple[LeafNode | LoopNode, ...]
    order: frozenset[tuple[int, int]]
    tests: frozenset[Expression]
    gaps: frozenset[Gap]
    group: int
    outer: Node = field(compare=False)
    inner: Node = field(compare=False)
    outer_items: tuple[int, ...] = field(compare=False)
    inner_items: tuple[int, ...] = field(compare=False)
    new_tests: tuple[Expression, ...] = field(compare=False)
    new_gaps: tuple[Gap, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class FilterNode:
    """Those instances of a node that are also in order, pass more tests, and have nothing in more gaps.

    Column c is that of its input's item `places[c]`.
    """

    items: tuple[LeafNode | LoopNode, ...]
    order: frozenset[tuple[int, int]]
    tests: frozenset[Expression]
    gaps: frozenset[Gap]
    group: int
    input: Node = field(compare=False)
    places: tuple[int, ...] = field(compare=False)
    new_order: tuple[tuple[int, int], ...] = field(compare=False)
    new_tests: tuple[Expression, ...] = field(compare=False)
    new_gaps: tuple[Gap, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class WalkNode:
    """A sequence of events found as the paths of one loop without a way back, event by event as joins have them."""

    items: tuple[LeafNode | LoopNode, ...]
    order: frozenset[tuple[int, int]]
    tests: frozenset[Expression]
    gaps: frozenset[Gap]
    group: int
    loop: LoopNode = field(compare=False)


ItemNode = LeafNode | LoopNode
PartNode = JoinNode | FilterNode | WalkNode
Node = LeafNode | LoopNode | UnionNode | PartNode


def inputs(node: Node) -> tuple[Node, ...]:
    """The nodes a node reads."""
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
        case WalkNode():
            return (node.loop,)


def in_order(roots: Iterator[Node]) -> list[Node]:
    """All nodes below some roots, each once, inputs before what reads them."""
    found: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in found:
            for each in inputs(node):
                visit(each)
            found[node] = None

    for root in roots:
        visit(root)
    return list(found)
