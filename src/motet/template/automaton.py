"""The counting automaton of a query: what each event adds to which total, ties, absences and AND included.

A *node* is a set of configurations of the pattern: what was bound last on every strand, which absences still hold since
then, and which strands were bound at the current time (*fresh*). Events carry totals from nodes to fresh nodes;
when the time is over, absences seen at it move totals to nodes without that guard, and fresh nodes fold into settled
ones. Every step is linear, so any channel of totals obeys it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from motet.template.positions import OPEN, Block, Guard, PositionGraph, Positions

MAX_NODES = 4096


@dataclass(frozen=True, slots=True)
class Strand:
    """What was last bound at one place of a line: a position, or the operands of an AND block (None: not begun)."""

    item: int
    fresh: bool
    pending: frozenset[Guard]  # guards of outgoing gaps that have held since
    operands: tuple[Strand | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """Nothing bound yet; `pending` are the leading absences that have held since the window began."""

    pending: frozenset[Guard]


Configuration = Start | Strand

# All configurations that the same events at the same positions can lead to: a match counts once, however it is read.
Node = frozenset[Configuration]


@dataclass(frozen=True, slots=True)
class Transition:
    """An event at `position` adds the totals of `source` to the fresh node `target`."""

    position: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Move:
    """At the end of a time with an event of `absence`, the totals of `source` go to `target`, or nowhere (-1)."""

    absence: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Automaton:
    """Node 0 is the start. `fold` maps each fresh node to its settled one (others to themselves).

    `transitions` are in the order in which one event must apply them: nodes with more fresh strands first, so that
    no event is used twice.
    """

    size: int
    transitions: tuple[Transition, ...]
    moves: tuple[Move, ...]
    fold: tuple[int, ...]
    accepting: frozenset[int]
    freshness: tuple[int, ...]  # how many strands were bound at the current time
    leading_guard: bool
    trailing_guard: bool


class TooManyNodes(Exception):
    """The AND blocks of a pattern have too many configurations."""


def build_automaton(positions: Positions) -> Automaton:
    """Explore all configurations of a pattern and keep those from which a match can still come."""
    explorer = _ConfigurationExplorer(positions)
    start: Node = frozenset((Start(frozenset(guard for guard in positions.graph.first.values() if guard)),))
    numbers: dict[Node, int] = {start: 0}
    nodes: list[Node] = [start]
    transitions: list[tuple[int, int, int]] = []
    moves: list[tuple[int, int, int]] = []
    folds: dict[int, int] = {}

    def number(node: Node) -> int:
        if node not in numbers:
            if len(nodes) >= MAX_NODES:
                raise TooManyNodes
            numbers[node] = len(nodes)
            nodes.append(node)
        return numbers[node]

    at = 0
    while at < len(nodes):
        node = nodes[at]
        targets: dict[int, set[Configuration]] = {}
        for configuration in node:
            for position, target in explorer.steps(configuration):
                targets.setdefault(position, set()).add(target)
        for position, reached in sorted(targets.items()):
            transitions.append((position, at, number(frozenset(reached))))
        for absence in range(len(positions.absences)):
            moved = frozenset(explorer.apply_negation(configuration, absence) for configuration in node)
            if moved != node:
                moves.append((absence, at, number(moved)))
        folds[at] = number(frozenset(_settle(configuration) for configuration in node))
        at += 1

    accepting = {at for at, node in enumerate(nodes) if any(map(explorer.accepts, node)) and folds[at] == at}
    return _trim(positions, nodes, transitions, moves, folds, accepting)


def _trim(
    positions: Positions,
    nodes: list[Node],
    transitions: list[tuple[int, int, int]],
    moves: list[tuple[int, int, int]],
    folds: dict[int, int],
    accepting: set[int],
) -> Automaton:
    """Drop the nodes from which no match can come, and renumber."""
    edges: list[tuple[int, int]] = [(s, t) for _, s, t in (*transitions, *moves)] + list(folds.items())
    useful = set(accepting)
    while True:
        more = {source for source, target in edges if target in useful} - useful
        if not more:
            break
        useful |= more
    kept = [0, *sorted(useful - {0})]
    new = {old: number for number, old in enumerate(kept)}
    freshness = {old: max(map(_count_fresh_strands, nodes[old])) for old in kept}
    ordered = sorted(
        ((p, s, t) for p, s, t in transitions if s in new and t in new), key=lambda edge: -freshness[edge[2]]
    )
    return Automaton(
        size=len(kept),
        transitions=tuple(Transition(p, new[s], new[t]) for p, s, t in ordered),
        moves=tuple(Move(a, new[s], new.get(t, -1)) for a, s, t in moves if s in new),
        fold=tuple(new[folds[old]] for old in kept),
        accepting=frozenset(new[old] for old in accepting),
        freshness=tuple(freshness[old] for old in kept),
        leading_guard=any(positions.graph.first.values()),
        trailing_guard=any(positions.graph.last.values()),
    )


def _count_fresh_strands(node: Configuration) -> int:
    if isinstance(node, Start):
        return 0
    return int(node.fresh and not node.operands) + sum(
        _count_fresh_strands(strand) for strand in node.operands if strand
    )


def _settle(node: Configuration) -> Configuration:
    if isinstance(node, Start):
        return node
    operands = tuple(strand and _settle_strand(strand) for strand in node.operands)
    return Strand(node.item, False, node.pending, operands)


def _settle_strand(strand: Strand) -> Strand:
    settled = _settle(strand)
    assert isinstance(settled, Strand)
    return settled


class _ConfigurationExplorer:
    """The rules by which configurations change, for one pattern."""

    def __init__(self, positions: Positions) -> None:
        self.items = positions.items
        self.graph = positions.graph
        self.pending: dict[int, frozenset[Guard]] = {}
        self._collect_pending(positions.graph)

    def _collect_pending(self, graph: PositionGraph) -> None:
        found: dict[int, set[Guard]] = {}
        for item, guard in (*graph.last.items(), *((p, guard) for (p, _), guard in graph.follow.items())):
            if guard:
                found.setdefault(item, set()).add(guard)
        self.pending |= {item: frozenset(guards) for item, guards in found.items()}
        for item in {*graph.first, *(q for _, q in graph.follow)}:
            inner = self.items[item]
            if isinstance(inner, Block):
                for operand in inner.operands:
                    self._collect_pending(operand)

    def steps(self, node: Configuration) -> Iterator[tuple[int, Strand]]:
        """Return every (position, fresh configuration) to which one more event leads."""
        if isinstance(node, Start):
            yield from self._enter(self.graph, node.pending)
        else:
            yield from self._advance(self.graph, node)

    def _enter(self, graph: PositionGraph, pending: frozenset[Guard]) -> Iterator[tuple[int, Strand]]:
        for item, guard in graph.first.items():
            if not guard or guard in pending:
                yield from self._begin(item)

    def _begin(self, number: int) -> Iterator[tuple[int, Strand]]:
        item = self.items[number]
        pending = self.pending.get(number, frozenset())
        if isinstance(item, int):
            yield item, Strand(number, True, pending)
            return
        for at, operand in enumerate(item.operands):
            for position, strand in self._enter(operand, frozenset()):
                operands = tuple(strand if i == at else None for i in range(len(item.operands)))
                yield position, Strand(number, True, pending, operands)

    def _advance(self, graph: PositionGraph, node: Strand) -> Iterator[tuple[int, Strand]]:
        item = self.items[node.item]
        if isinstance(item, Block):
            yield from self._advance_block(item, node)
        if node.fresh or not self._is_complete(node):
            return
        for (p, q), guard in graph.follow.items():
            if p == node.item and (not guard or guard in node.pending):
                yield from self._begin(q)

    def _advance_block(self, block: Block, node: Strand) -> Iterator[tuple[int, Strand]]:
        """Return one operand goes on; a tie with the others is allowed, and the gap after the block opens anew."""
        pending = self.pending.get(node.item, frozenset())
        for at, (operand, strand) in enumerate(zip(block.operands, node.operands, strict=True)):
            onward = self._enter(operand, frozenset()) if strand is None else self._advance(operand, strand)
            for position, moved in onward:
                operands = tuple(moved if i == at else other for i, other in enumerate(node.operands))
                yield position, Strand(node.item, True, pending, operands)

    def _is_complete(self, node: Strand) -> bool:
        """Return whether a strand's item is fully matched: always so for a position."""
        item = self.items[node.item]
        if isinstance(item, int):
            return True
        return all(
            operand.empty is not None if strand is None else strand.item in operand.last and self._is_complete(strand)
            for operand, strand in zip(item.operands, node.operands, strict=True)
        )

    def accepts(self, node: Configuration) -> bool:
        if isinstance(node, Start) or node.item not in self.graph.last or not self._is_complete(node):
            return False
        guard = self.graph.last[node.item]
        return guard == OPEN or guard in node.pending

    def apply_negation(self, node: Configuration, absence: int) -> Configuration:
        """Return the configuration after an event that an absence forbids: guards with it no longer hold."""
        kept = frozenset(guard for guard in node.pending if absence not in guard)
        if isinstance(node, Start):
            return Start(kept)
        operands = tuple(strand and self._apply_negation_to_strand(strand, absence) for strand in node.operands)
        return Strand(node.item, node.fresh, node.pending if node.fresh else kept, operands)

    def _apply_negation_to_strand(self, strand: Strand, absence: int) -> Strand:
        moved = self.apply_negation(strand, absence)
        assert isinstance(moved, Strand)
        return moved
