"""The shared template of a branch that aggregates, as a graph: where totals are kept, and which events move them.

Where a unit shares equal prefixes, its nodes are those of the merged automata. Where it shares parts anywhere (by
pairs), steps are one where their events, and what the plan lets them share, are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from motet.engine import Branch, Program
from motet.explain.formatting import format_count, format_number
from motet.explain.page.graph import Details, Graph, GraphEdge, GraphNode
from motet.optimizer.registry import is_sharing_optimizer
from motet.plans.compiled import CompiledQuery
from motet.plans.sharing import ShareKey, share_all
from motet.plans.units import Strategy, Unit, estimate_pairs_cost, estimate_slots_cost, estimate_stacks_cost
from motet.statistics.symbols import format_symbol
from motet.template.symbols import Symbol

START = "start"


@dataclass
class _State:
    """A place at which totals are kept: what its name is made of, and who needs it."""

    symbols: dict[Symbol, None] = field(default_factory=dict)
    queries: set[int] = field(default_factory=set)
    ends: dict[int, str] = field(default_factory=dict)
    dropped_by: dict[Symbol, None] = field(default_factory=dict)


@dataclass
class _UnitGraph:
    """What is drawn of a unit: states and steps, each with the queries that need it."""

    states: dict[Hashable, _State] = field(default_factory=dict)
    steps: dict[tuple[Hashable, Hashable, Symbol], set[int]] = field(default_factory=dict)
    moves: dict[tuple[Hashable, Hashable, Symbol], set[int]] = field(default_factory=dict)

    def add(self, compiled: CompiledQuery, place: list[Hashable]) -> None:
        """The automaton of a query, its nodes at given places; what is fresh is drawn where it settles."""
        number, automaton, fold = compiled.number, compiled.automaton, compiled.automaton.fold
        for node, settled in enumerate(fold):
            if node == settled:
                self.states.setdefault(place[node], _State()).queries.add(number)
        for step in automaton.transitions:
            symbol = compiled.symbols[step.position]
            source, target = place[fold[step.source]], place[fold[step.target]]
            self.states[target].symbols[symbol] = None
            self.steps.setdefault((source, target, symbol), set()).add(number)
        for move in automaton.moves:
            symbol, source = compiled.absences[move.absence], place[fold[move.source]]
            if move.target < 0:
                self.states[source].dropped_by[symbol] = None
            elif place[fold[move.target]] != source:
                self.moves.setdefault((source, place[fold[move.target]], symbol), set()).add(number)
        for node in automaton.accepting:
            self.states[place[fold[node]]].ends[number] = compiled.query.name


# What is known of the events of a symbol.
SymbolDetails = Callable[[Symbol], Details]


def build_template_graph(branch: Branch, at: int, program: Program, events: SymbolDetails) -> Graph:
    """The graph of a branch, a lane for each unit."""
    searched = branch.chosen == "given" or is_sharing_optimizer(branch.chosen)
    share_key = program.sharing.share_key() if searched and program.sharing is not None else share_all
    vertices: list[GraphNode] = []
    arcs: list[GraphEdge] = []
    lanes = []
    for unit_at, unit in enumerate(branch.units, 1):
        name = f"{at}.{unit_at}"
        lanes.append((name, f"unit {name} · {unit.strategy} · {format_count(len(unit.queries), 'query')}"))
        lane = _place_lane(unit, share_key)
        numbers = {key: f"{name}/{place}" for place, key in enumerate(lane.states)}
        vertices += _vertices(lane, numbers, name, events)
        arcs += _arcs(lane, numbers, estimate_step_cost(unit))
    return Graph(tuple(vertices), tuple(arcs), tuple(lanes))


def _place_lane(unit: Unit, share_key: ShareKey) -> _UnitGraph:
    lane = _UnitGraph()
    for at, compiled in enumerate(unit.queries):
        if unit.pairs is None:
            nodes = unit.merged.nodes[at]
            lane.add(compiled, [unit.merged.fold[node] if node not in unit.merged.starts else START for node in nodes])
        else:
            lane.add(compiled, _find_shared_nodes(compiled, share_key))
    return lane


def _find_shared_nodes(compiled: CompiledQuery, share_key: ShareKey) -> list[Hashable]:
    """Where the nodes of a query are drawn that may share its steps anywhere: together with nodes of others that are
    come to by equal steps which may be shared.
    """
    fold = compiled.automaton.fold
    into: dict[int, set[Hashable]] = {}
    for step in compiled.automaton.transitions:
        colour = share_key(compiled.number, step.position)
        into.setdefault(fold[step.target], set()).add((compiled.symbols[step.position], colour))
    seen: dict[frozenset[Hashable], int] = {}
    places: dict[int, Hashable] = {0: START}
    for node in range(1, len(fold)):
        if fold[node] == node:
            steps = frozenset(into.get(node, ()))
            seen[steps] = seen.get(steps, 0) + 1  # absences tell nodes apart that are come to by the same steps
            places[node] = (steps, seen[steps])
    return [places[settled] for settled in fold]


def estimate_step_cost(unit: Unit) -> float:
    """What one step of a unit costs when an event takes it, in the terms of the plan's estimates."""
    first = unit.queries[0]
    if unit.pairs is not None:
        return estimate_pairs_cost(unit.merged, unit.pairs) / max(len(unit.merged.edges), 1)
    if unit.strategy in (Strategy.STACKS, Strategy.STARTS, Strategy.TRENDS):
        return estimate_stacks_cost(first)
    return estimate_slots_cost(first, unit.slots)


def _vertices(lane: _UnitGraph, numbers: dict[Hashable, str], name: str, events: SymbolDetails) -> Iterator[GraphNode]:
    for key, state in lane.states.items():
        label = START if key == START else " or ".join(map(format_symbol, state.symbols)) or "nothing yet"
        facts = [fact for symbol in state.symbols for fact in events(symbol)]
        if state.ends:
            facts.append(("matches end here", ", ".join(state.ends.values())))
        if state.dropped_by:
            facts.append(("given up at", ", ".join(map(format_symbol, state.dropped_by))))
        kind = START if key == START else "end" if state.ends else "state"
        notes = [f"ends {_name_or_count(state.ends.values())}"] if state.ends else []
        notes += [f"given up at {' or '.join(map(format_symbol, state.dropped_by))}"] if state.dropped_by else []
        yield GraphNode(numbers[key], label, kind, tuple(sorted(state.queries)), ", ".join(notes), tuple(facts), name)


def _name_or_count(names: Iterable[str]) -> str:
    every = list(names)
    return every[0] if len(every) == 1 else format_count(len(every), "query")


def _arcs(lane: _UnitGraph, numbers: dict[Hashable, str], cost: float) -> Iterator[GraphEdge]:
    for (source, target, symbol), queries in lane.steps.items():
        facts: Details = (("an event of", format_symbol(symbol)), ("cost of the step, estimated", format_number(cost)))
        mark = format_symbol(symbol) if len(lane.states[target].symbols) > 1 else ""
        kind = "loop" if source == target else "step"
        yield GraphEdge(numbers[source], numbers[target], kind, tuple(sorted(queries)), mark, facts=facts)
    for (source, target, symbol), queries in lane.moves.items():
        facts = (("where there is an event of", format_symbol(symbol)),)
        yield GraphEdge(
            numbers[source],
            numbers[target],
            "absence",
            tuple(sorted(queries)),
            f"NOT {format_symbol(symbol)}",
            facts=facts,
        )
