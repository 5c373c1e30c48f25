"""The counting automaton of a query: what each event adds to which total, ties, absences and AND included.

A *node* is a set of configurations of the pattern: what was bound last on every strand, which absences still hold since
then, and which strands were bound at the current time (*fresh*). Events carry totals from nodes to fresh nodes;
when the time is over, absences seen at it move totals to nodes without that hope, and fresh nodes fold into settled
ones. Every step is linear, so any channel of totals obeys it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from motet.template.positions import OPEN, Block, Guard, Line, Positions

NODE_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Strand:
    """What was last bound at one place of a line: a position, or the operands of an AND block (None: not begun)."""

    item: int
    fresh: bool
    hopes: frozenset[Guard]  # guards of outgoing gaps that have held since
    operands: tuple[Strand | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """Nothing bound yet; `hopes` are the leading absences that have held since the window began."""

    hopes: frozenset[Guard]


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
    explorer = _Explorer(positions)
    start: Node = frozenset((Start(frozenset(guard for guard in positions.line.first.values() if guard)),))
    numbers: dict[Node, int] = {start: 0}
    nodes: list[Node] = [start]
    transitions: list[tuple[int, int, int]] = []
    moves: list[tuple[int, int, int]] = []
    folds: dict[int, int] = {}

    def number(node: Node) -> int:
        if node not in numbers:
            if len(nodes) >= NODE_LIMIT:
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
            moved = frozenset(explorer.disappoint(configuration, absence) for configuration in node)
            if moved != node:
                moves.append((absence, at, number(moved)))
        folds[at] = number(frozenset(_settled(configuration) for configuration in node))
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
    freshness = {old: max(map(_fresh_strands, nodes[old])) for old in kept}
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
        leading_guard=any(positions.line.first.values()),
        trailing_guard=any(positions.line.last.values()),
    )


def _fresh_strands(node: Configuration) -> int:
    if isinstance(node, Start):
        return 0
    return int(node.fresh and not node.operands) + sum(_fresh_strands(strand) for strand in node.operands if strand)


def _settled(node: Configuration) -> Configuration:
    if isinstance(node, Start):
        return node
    operands = tuple(strand and _settled_strand(strand) for strand in node.operands)
    return Strand(node.item, False, node.hopes, operands)


def _settled_strand(strand: Strand) -> Strand:
    settled = _settled(strand)
    assert isinstance(settled, Strand)
    return settled


class _Explorer:
    """The rules by which configurations change, for one pattern."""

    def __init__(self, positions: Positions) -> None:
        self.items = positions.items
        self.line = positions.line
        self.hopes: dict[int, frozenset[Guard]] = {}
        self._collect_hopes(positions.line)

    def _collect_hopes(self, line: Line) -> None:
        found: dict[int, set[Guard]] = {}
        for item, guard in (*line.last.items(), *((p, guard) for (p, _), guard in line.follow.items())):
            if guard:
                found.setdefault(item, set()).add(guard)
        self.hopes |= {item: frozenset(guards) for item, guards in found.items()}
        for item in {*line.first, *(q for _, q in line.follow)}:
            inner = self.items[item]
            if isinstance(inner, Block):
                for operand in inner.operands:
                    self._collect_hopes(operand)

    def steps(self, node: Configuration) -> Iterator[tuple[int, Strand]]:
        """Every (position, fresh configuration) to which one more event leads."""
        if isinstance(node, Start):
            yield from self._enter(self.line, node.hopes)
        else:
            yield from self._advance(self.line, node)

    def _enter(self, line: Line, hopes: frozenset[Guard]) -> Iterator[tuple[int, Strand]]:
        for item, guard in line.first.items():
            if not guard or guard in hopes:
                yield from self._begin(item)

    def _begin(self, number: int) -> Iterator[tuple[int, Strand]]:
        item = self.items[number]
        hopes = self.hopes.get(number, frozenset())
        if isinstance(item, int):
            yield item, Strand(number, True, hopes)
            return
        for at, operand in enumerate(item.operands):
            for position, strand in self._enter(operand, frozenset()):
                operands = tuple(strand if i == at else None for i in range(len(item.operands)))
                yield position, Strand(number, True, hopes, operands)

    def _advance(self, line: Line, node: Strand) -> Iterator[tuple[int, Strand]]:
        item = self.items[node.item]
        if isinstance(item, Block):
            yield from self._advance_block(item, node)
        if node.fresh or not self._complete(node):
            return
        for (p, q), guard in line.follow.items():
            if p == node.item and (not guard or guard in node.hopes):
                yield from self._begin(q)

    def _advance_block(self, block: Block, node: Strand) -> Iterator[tuple[int, Strand]]:
        """One operand goes on; a tie with the others is allowed, and the gap after the block opens anew."""
        hopes = self.hopes.get(node.item, frozenset())
        for at, (operand, strand) in enumerate(zip(block.operands, node.operands, strict=True)):
            onward = self._enter(operand, frozenset()) if strand is None else self._advance(operand, strand)
            for position, moved in onward:
                operands = tuple(moved if i == at else other for i, other in enumerate(node.operands))
                yield position, Strand(node.item, True, hopes, operands)

    def _complete(self, node: Strand) -> bool:
        """Whether a strand's item is fully matched: always so for a position."""
        item = self.items[node.item]
        if isinstance(item, int):
            return True
        return all(
            operand.empty is not None if strand is None else strand.item in operand.last and self._complete(strand)
            for operand, strand in zip(item.operands, node.operands, strict=True)
        )

    def accepts(self, node: Configuration) -> bool:
        if isinstance(node, Start) or node.item not in self.line.last or not self._complete(node):
            return False
        guard = self.line.last[node.item]
        return guard == OPEN or guard in node.hopes

    def disappoint(self, node: Configuration, absence: int) -> Configuration:
        """The configuration after an event that an absence forbids: hopes on it are lost since before this time."""
        kept = frozenset(guard for guard in node.hopes if absence not in guard)
        if isinstance(node, Start):
            return Start(kept)
        operands = tuple(strand and self._disappoint_strand(strand, absence) for strand in node.operands)
        return Strand(node.item, node.fresh, node.hopes if node.fresh else kept, operands)

    def _disappoint_strand(self, strand: Strand, absence: int) -> Strand:
        moved = self.disappoint(strand, absence)
        assert isinstance(moved, Strand)
        return moved
