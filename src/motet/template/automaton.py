"""The counting automaton of a query: what each event adds to which total, ties, absences and AND included.

A *node* is a set of configurations of the pattern: what was bound last on every strand, which absences still hold since
then, and which strands were bound at the current time (*fresh*). Events carry totals from nodes to fresh nodes;
when the time is over, absences seen at it move totals to nodes without that guard, and fresh nodes fold into settled
ones. Every step is linear, so any channel of totals obeys it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from motet.errors import Diagnostic
from motet.template.positions import FREE, OPEN, Block, Guard, Leaf, PositionGraph, Positions, Ways

MAX_NODES = 4096
MAX_STATES = 4 * MAX_NODES  # of progress: they cost next to nothing
MAX_RUN_STEPS = 128  # of a pattern with ANDs that is run by a policy: each takes memory for each event
START = -1


@dataclass(frozen=True, slots=True)
class Strand:
    """The item of a graph that was bound last (START: none yet); for an AND block, the strands of its operands.

    `pending` are the guards of outgoing gaps that have held since.
    """

    item: int
    is_fresh: bool
    pending: frozenset[Guard]
    operands: tuple[Strand | None, ...] = ()  # None: not begun


# All configurations that the same events at the same positions can lead to: a match counts once, however it is read.
Node = frozenset[Strand]

# The graph in which two bound events follow each other, and the ways to cross the gap between them.
Gap = tuple[PositionGraph, Ways]


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

    @property
    def settled(self) -> list[int]:
        """The settled nodes."""
        return [node for node, target in enumerate(self.fold) if node == target]


class UnsupportedPattern(Exception):
    """A pattern that no automaton of totals can count."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


class TooManyNodes(Exception):
    """The AND blocks of a pattern have too many configurations."""


def build_automaton(positions: Positions) -> Automaton:
    """Explore all configurations of a pattern and keep those from which a match can still come.

    Raises UnsupportedPattern where a gap may be crossed in several ways, and TooManyNodes.
    """
    rules = _TransitionRules(positions.graph)
    nodes = _NodeList(rules.start, MAX_NODES)
    transitions: list[tuple[int, int, int]] = []
    moves: list[tuple[int, int, int]] = []
    folds: list[int] = []
    for at, node in nodes:
        transitions += [(position, at, nodes.number(target)) for position, target in rules.list_targets(node)]
        for absence in range(len(positions.absences)):
            moved = frozenset(_apply_negation(strand, absence) for strand in node)
            if moved != node:
                moves.append((absence, at, nodes.number(moved)))
        folds.append(nodes.number(frozenset(map(_settle, node))))
    accepting = {at for at, node in nodes if any(map(rules.accepts, node)) and folds[at] == at}
    return _trim(positions.graph, [node for _, node in nodes], transitions, moves, folds, accepting)


@dataclass(frozen=True, slots=True)
class Progress:
    """What may come next along a path of positions, whatever is absent: an automaton whose state 0 is the beginning.

    `moves[state]` maps each position that may be bound next to the state it leads to.
    """

    moves: tuple[dict[int, int], ...]


def build_progress(graph: PositionGraph) -> Progress:
    """Build the automaton of what may be bound next. Raises TooManyNodes."""
    rules = _TransitionRules(graph, ignores_guards=True)
    nodes = _NodeList(rules.start, MAX_STATES)
    moves = []
    for _, node in nodes:
        targets = [(position, frozenset(map(_settle, target))) for position, target in rules.list_targets(node)]
        moves.append({position: nodes.number(target) for position, target in targets})
    return Progress(tuple(moves))


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The steps of paths through a pattern with ANDs, written out: each binds one position and knows what is bound.

    `follow` are pairs of steps of which the second is taken at a later time, `together` those taken at one time, by
    position. Each path of positions and events is one path of steps.
    """

    positions: tuple[int, ...]
    firsts: frozenset[int]
    lasts: frozenset[int]
    follow: frozenset[tuple[int, int]]
    together: frozenset[tuple[int, int]]


def build_run_steps(graph: PositionGraph) -> RunSteps:
    """Write out the steps of a pattern, whatever is absent. Raises TooManyNodes."""
    rules = _TransitionRules(graph, ignores_guards=True)
    start = (-1, rules.start)
    found: dict[tuple[int, Node], int] = {start: -1}
    steps = [start]
    follow: set[tuple[int, int]] = set()
    together: set[tuple[int, int]] = set()
    for position, node in steps:  # more are added meanwhile
        at = found[position, node]
        settled = frozenset(map(_settle, node))
        later = [(follow, step) for step in rules.list_targets(settled)]
        beside = [(together, step) for step in rules.list_targets(node) if at >= 0 and step[0] > position]
        for pairs, step in (*later, *beside):
            if step not in found:
                if len(steps) > MAX_RUN_STEPS:
                    raise TooManyNodes
                found[step] = len(steps) - 1
                steps.append(step)
            pairs.add((at, found[step]))
    # Of steps at one time, later ones have higher numbers.
    order = sorted(range(len(steps) - 1), key=lambda at: steps[at + 1][0])
    new = {old: number for number, old in enumerate(order)}
    return RunSteps(
        tuple(steps[old + 1][0] for old in order),
        frozenset(new[q] for p, q in follow if p < 0),
        frozenset(new[at] for at in order if any(map(rules.accepts, steps[at + 1][1]))),
        frozenset((new[p], new[q]) for p, q in follow if p >= 0),
        frozenset((new[p], new[q]) for p, q in together),
    )


@dataclass(frozen=True, slots=True)
class Crossing:
    """An event at `position` leads from one reading to another, across a gap that one of the `ways` must leave open.

    The gap begins with the latest event at a position of `scope`.
    """

    position: int
    source: int
    target: int
    scope: frozenset[int]
    ways: Ways


@dataclass(frozen=True, slots=True)
class Readings:
    """All ways to read the events of a match, in time order, as steps of the pattern; reading 0 is the beginning.

    `settled[r]` is reading r when the current time is over. Absences before and after the match are not considered.
    """

    crossings: tuple[Crossing, ...]
    settled: tuple[int, ...]
    accepting: frozenset[int]


def build_readings(graph: PositionGraph) -> Readings:
    """Build the readings of a pattern, which say what must be absent in each gap. Raises TooManyNodes."""
    rules = _TransitionRules(graph, ignores_guards=True)
    nodes = _NodeList(rules.start, MAX_STATES)
    crossings: list[Crossing] = []
    settled: list[int] = []
    accepting: set[int] = set()
    for at, node in nodes:
        (strand,) = node
        for position, target, gap in rules.advance(graph, strand):
            scope, ways = (_list_positions(gap[0]), gap[1]) if gap is not None else (frozenset(), FREE)
            crossings.append(Crossing(position, at, nodes.number(frozenset({target})), scope, ways))
        settled.append(nodes.number(frozenset({_settle(strand)})))
        if rules.accepts(strand):
            accepting.add(at)
    return Readings(tuple(crossings), tuple(settled), frozenset(accepting))


def _list_positions(graph: PositionGraph) -> frozenset[int]:
    own = [
        frozenset({item.position})
        if isinstance(item, Leaf)
        else frozenset().union(*map(_list_positions, item.operands))
        for item in graph.items
    ]
    return frozenset().union(*own)


class _NodeList:
    """Nodes numbered as they are found; iterating gives also those that are added meanwhile."""

    def __init__(self, start: Node, limit: int) -> None:
        self.numbers: dict[Node, int] = {start: 0}
        self.nodes = [start]
        self.limit = limit

    def number(self, node: Node) -> int:
        if node not in self.numbers:
            if len(self.nodes) >= self.limit:
                raise TooManyNodes
            self.numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self.numbers[node]

    def __iter__(self) -> Iterator[tuple[int, Node]]:
        return enumerate(self.nodes)


def _trim(
    graph: PositionGraph,
    nodes: list[Node],
    transitions: list[tuple[int, int, int]],
    moves: list[tuple[int, int, int]],
    folds: list[int],
    accepting: set[int],
) -> Automaton:
    """Drop the nodes from which no match can come, and renumber."""
    sources: dict[int, list[int]] = {}
    for source, target in itertools.chain(((s, t) for _, s, t in (*transitions, *moves)), enumerate(folds)):
        sources.setdefault(target, []).append(source)
    useful = set(accepting)
    reached = list(accepting)
    while reached:
        more = set(sources.get(reached.pop(), ())) - useful
        useful |= more
        reached += more
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
        leading_guard=graph.starts_with_guard,
        trailing_guard=graph.ends_with_guard,
    )


def _count_fresh_strands(strand: Strand) -> int:
    inner = sum(_count_fresh_strands(operand) for operand in strand.operands if operand)
    return int(strand.is_fresh and not strand.operands) + inner


def _settle(strand: Strand) -> Strand:
    """Return a configuration when the current time is over."""
    return replace(strand, is_fresh=False, operands=tuple(inner and _settle(inner) for inner in strand.operands))


def _apply_negation(strand: Strand, absence: int) -> Strand:
    """Return the configuration after an event that an absence forbids: guards from before this time are lost."""
    kept = frozenset(guard for guard in strand.pending if absence not in guard)
    operands = tuple(inner and _apply_negation(inner, absence) for inner in strand.operands)
    return replace(strand, pending=strand.pending if strand.is_fresh else kept, operands=operands)


class _TransitionRules:
    """The rules by which configurations change, for one pattern."""

    def __init__(self, graph: PositionGraph, ignores_guards: bool = False) -> None:
        self.graph = graph
        self.ignores_guards = ignores_guards
        self.pending: dict[tuple[PositionGraph, int], frozenset[Guard]] = {}
        self.gaps: dict[tuple[PositionGraph, int], dict[int, Ways]] = {}
        self._collect_pending(graph)
        leading = frozenset(filter(None, map(self._find_guard, graph.first.values())))
        self.start: Node = frozenset({Strand(START, False, leading)})

    def _find_guard(self, ways: Ways) -> Guard:
        """Return the one guard of a gap."""
        if self.ignores_guards:
            return OPEN
        if len(ways) > 1:
            raise UnsupportedPattern(
                Diagnostic(
                    "two different NOTs guard the same gap, either of which would do",
                    hint="write the alternatives as an OR of two patterns with events of their own",
                )
            )
        (guard,) = ways
        return guard

    def _collect_pending(self, graph: PositionGraph) -> None:
        """Collect the gaps after each item, and their guards."""
        self.gaps |= {(graph, item): {} for item in range(len(graph.items))}
        for (source, target), ways in graph.follow.items():
            self.gaps[graph, source][target] = ways
        for item, inner in enumerate(graph.items):
            outgoing = [graph.last[item]] if item in graph.last else []
            outgoing += self.gaps[graph, item].values()
            self.pending[graph, item] = frozenset(filter(None, map(self._find_guard, outgoing)))
            if isinstance(inner, Block):
                for operand in inner.operands:
                    self._collect_pending(operand)

    def list_targets(self, node: Node) -> list[tuple[int, Node]]:
        """Return the fresh node to which an event at each position leads, by position."""
        targets: dict[int, set[Strand]] = {}
        for strand in node:
            for position, target, _ in self.advance(self.graph, strand):
                targets.setdefault(position, set()).add(target)
        return [(position, frozenset(reached)) for position, reached in sorted(targets.items())]

    def advance(self, graph: PositionGraph, strand: Strand) -> Iterator[tuple[int, Strand, Gap | None]]:
        """Yield each position and fresh configuration that one more event leads to, with the gap that it crosses."""
        if strand.item == START:
            gaps = graph.first
        else:
            item = graph.items[strand.item]
            if isinstance(item, Block):
                yield from self._advance_block(graph, item, strand)
            if strand.is_fresh or not self._is_complete(graph, strand):
                return
            gaps = self.gaps[graph, strand.item]
        for target, ways in gaps.items():
            guard = self._find_guard(ways)
            if not guard or guard in strand.pending:
                for position, moved, _ in self._begin(graph, target):
                    yield position, moved, None if strand.item == START else (graph, ways)

    def _begin(self, graph: PositionGraph, number: int) -> Iterator[tuple[int, Strand, Gap | None]]:
        item = graph.items[number]
        if isinstance(item, Leaf):
            yield item.position, Strand(number, True, self.pending[graph, number]), None
        else:
            empty = Strand(number, False, frozenset(), (None,) * len(item.operands))
            yield from self._advance_block(graph, item, empty)

    def _advance_block(
        self, graph: PositionGraph, block: Block, strand: Strand
    ) -> Iterator[tuple[int, Strand, Gap | None]]:
        """Let one operand go on; a tie with the others is allowed, and the gap after the block opens anew."""
        pending = self.pending[graph, strand.item]
        for at, (operand, inner) in enumerate(zip(block.operands, strand.operands, strict=True)):
            for position, moved, gap in self.advance(operand, inner or Strand(START, False, frozenset())):
                operands = tuple(moved if i == at else other for i, other in enumerate(strand.operands))
                yield position, Strand(strand.item, True, pending, operands), gap

    def _is_complete(self, graph: PositionGraph, strand: Strand) -> bool:
        """Return whether the item of a strand is fully matched: always so for a position."""
        item = graph.items[strand.item]
        return isinstance(item, Leaf) or all(
            bool(operand.empty) if inner is None else inner.item in operand.last and self._is_complete(operand, inner)
            for operand, inner in zip(item.operands, strand.operands, strict=True)
        )

    def accepts(self, strand: Strand) -> bool:
        """Return whether a configuration is a match."""
        if strand.item not in self.graph.last or not self._is_complete(self.graph, strand):
            return False
        guard = self._find_guard(self.graph.last[strand.item])
        return not guard or guard in strand.pending
