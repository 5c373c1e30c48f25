"""The shared template of a branch that aggregates, as a graph: where totals are kept, and which events move them.

Where a unit shares equal prefixes, its nodes are those of the merged automata. Where it shares parts anywhere (by
pairs), steps are one where their events, and what the plan lets them share, are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from motet.engine import SEARCHING, Branch, Program
from motet.explain.page.graph import Arc, Facts, Graph, Vertex
from motet.explain.words import count, number
from motet.plan.compiled import CompiledQuery
from motet.plan.sharing import Colours, share_all
from motet.plan.units import Strategy, Unit, pairs_cost, slots_cost, stacks_cost
from motet.statistics.symbols import symbol_text
from motet.template.symbols import Symbol

START = "start"


@dataclass
class _State:
    """A place at which totals are kept: what its name is made of, and who needs it."""

    symbols: dict[Symbol, None] = field(default_factory=dict)
    queries: set[int] = field(default_factory=set)
    ends: dict[int, str] = field(default_factory=dict)
    lost: dict[Symbol, None] = field(default_factory=dict)


@dataclass
class _Lane:
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
                self.states[source].lost[symbol] = None
            elif place[fold[move.target]] != source:
                self.moves.setdefault((source, place[fold[move.target]], symbol), set()).add(number)
        for node in automaton.accepting:
            self.states[place[fold[node]]].ends[number] = compiled.query.name


# What is known of the events of a symbol.
EventFacts = Callable[[Symbol], Facts]


def template_graph(branch: Branch, at: int, program: Program, events: EventFacts) -> Graph:
    """The graph of a branch, a lane for each unit."""
    searched = branch.chosen in (*SEARCHING, "given") and program.sharing is not None
    colours = program.sharing.colours() if searched and program.sharing is not None else share_all
    vertices: list[Vertex] = []
    arcs: list[Arc] = []
    lanes = []
    for unit_at, unit in enumerate(branch.units, 1):
        name = f"{at}.{unit_at}"
        lanes.append((name, f"unit {name} · {unit.strategy} · {count(len(unit.queries), 'query')}"))
        lane = _lane(unit, colours)
        numbers = {key: f"{name}/{place}" for place, key in enumerate(lane.states)}
        vertices += _vertices(lane, numbers, name, events)
        arcs += _arcs(lane, numbers, step_cost(unit))
    return Graph(tuple(vertices), tuple(arcs), tuple(lanes))


def _lane(unit: Unit, colours: Colours) -> _Lane:
    lane = _Lane()
    for at, compiled in enumerate(unit.queries):
        if unit.pairs is None:
            nodes = unit.merged.nodes[at]
            lane.add(compiled, [unit.merged.fold[node] if node not in unit.merged.starts else START for node in nodes])
        else:
            lane.add(compiled, _places(compiled, colours))
    return lane


def _places(compiled: CompiledQuery, colours: Colours) -> list[Hashable]:
    """Where the nodes of a query are drawn that may share its steps anywhere: together with nodes of others that are
    come to by equal steps which may be shared.
    """
    fold = compiled.automaton.fold
    into: dict[int, set[Hashable]] = {}
    for step in compiled.automaton.transitions:
        colour = colours(compiled.number, step.position)
        into.setdefault(fold[step.target], set()).add((compiled.symbols[step.position], colour))
    seen: dict[frozenset[Hashable], int] = {}
    places: dict[int, Hashable] = {0: START}
    for node in range(1, len(fold)):
        if fold[node] == node:
            steps = frozenset(into.get(node, ()))
            seen[steps] = seen.get(steps, 0) + 1  # absences tell nodes apart that are come to by the same steps
            places[node] = (steps, seen[steps])
    return [places[settled] for settled in fold]


def step_cost(unit: Unit) -> float:
    """What one step of a unit costs when an event takes it, in the terms of the plan's estimates."""
    first = unit.queries[0]
    if unit.pairs is not None:
        return pairs_cost(unit.merged, unit.pairs) / max(len(unit.merged.edges), 1)
    if unit.strategy in (Strategy.STACKS, Strategy.STARTS, Strategy.TRENDS):
        return stacks_cost(first)
    return slots_cost(first, unit.slots)


def _vertices(lane: _Lane, numbers: dict[Hashable, str], name: str, events: EventFacts) -> Iterator[Vertex]:
    for key, state in lane.states.items():
        label = START if key == START else " or ".join(map(symbol_text, state.symbols)) or "nothing yet"
        facts = [fact for symbol in state.symbols for fact in events(symbol)]
        if state.ends:
            facts.append(("matches end here", ", ".join(state.ends.values())))
        if state.lost:
            facts.append(("given up at", ", ".join(map(symbol_text, state.lost))))
        kind = START if key == START else "end" if state.ends else "state"
        notes = [f"ends {_who(state.ends.values())}"] if state.ends else []
        notes += [f"given up at {' or '.join(map(symbol_text, state.lost))}"] if state.lost else []
        yield Vertex(numbers[key], label, kind, tuple(sorted(state.queries)), ", ".join(notes), tuple(facts), name)


def _who(names: Iterable[str]) -> str:
    every = list(names)
    return every[0] if len(every) == 1 else count(len(every), "query")


def _arcs(lane: _Lane, numbers: dict[Hashable, str], cost: float) -> Iterator[Arc]:
    for (source, target, symbol), queries in lane.steps.items():
        facts: Facts = (("an event of", symbol_text(symbol)), ("cost of the step, estimated", number(cost)))
        mark = symbol_text(symbol) if len(lane.states[target].symbols) > 1 else ""
        kind = "loop" if source == target else "step"
        yield Arc(numbers[source], numbers[target], kind, tuple(sorted(queries)), mark, facts=facts)
    for (source, target, symbol), queries in lane.moves.items():
        facts = (("where there is an event of", symbol_text(symbol)),)
        yield Arc(
            numbers[source],
            numbers[target],
            "absence",
            tuple(sorted(queries)),
            f"NOT {symbol_text(symbol)}",
            facts=facts,
        )
