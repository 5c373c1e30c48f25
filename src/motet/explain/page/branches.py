"""Builds the graphs of branches: the shared template of one that aggregates, the joins of one that detects.

A template shows where totals are kept, and which events move them. Where a unit shares equal prefixes, its nodes are
those of the merged automata. Where it shares parts anywhere (by pairs), nodes are one where the steps into them, and
what the plan lets them share, are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from motet.compile import Branch, Program
from motet.explain.formatting import format_count, format_number, format_time
from motet.explain.page.graph import Details, Graph, GraphEdge, GraphNode
from motet.optimizer.registry import is_sharing_optimizer
from motet.plans.compiled import CompiledQuery
from motet.plans.cost import Load, make_load
from motet.plans.sharing import ShareKey, share_all
from motet.plans.units import Unit, estimate_cost
from motet.statistics.model import format_symbol
from motet.template.symbols import Symbol

START = "start"
COUNT_LABELS = {"estimate": "instances, estimated", "actual": "instances, found"}

# What is known of the events of a symbol.
SymbolDetails = Callable[[Symbol], Details]


@dataclass
class _State:
    """A place at which totals are kept: the symbols that lead to it, who needs it, who ends there, what clears it."""

    symbols: dict[Symbol, None] = field(default_factory=dict)
    queries: set[int] = field(default_factory=set)
    ends: list[str] = field(default_factory=list)
    dropped_by: dict[Symbol, None] = field(default_factory=dict)


@dataclass
class _UnitGraph:
    """What is drawn of a unit: states and steps, each with the queries that need it."""

    states: dict[Hashable, _State] = field(default_factory=dict)
    steps: dict[tuple[Hashable, Hashable, Symbol], set[int]] = field(default_factory=dict)
    moves: dict[tuple[Hashable, Hashable, Symbol], set[int]] = field(default_factory=dict)

    def add(self, compiled: CompiledQuery, place: list[Hashable]) -> None:
        """Add the automaton of a query, its nodes at given places; fresh totals are drawn where they settle."""
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
        for ending in dict.fromkeys(place[fold[node]] for node in automaton.accepting):
            self.states[ending].ends.append(compiled.query.name)


def build_template_graph(branch: Branch, at: int, program: Program, details: SymbolDetails) -> Graph:
    """Build the template of a branch, a lane for each unit."""
    searched = branch.chosen == "given" or is_sharing_optimizer(branch.chosen)
    share_key = program.sharing.share_key() if searched and program.sharing is not None else share_all
    load = make_load(program.options.statistics, branch.partition)
    nodes: list[GraphNode] = []
    edges: list[GraphEdge] = []
    lanes = []
    for unit_at, unit in enumerate(branch.units, 1):
        name = f"{at}.{unit_at}"
        lanes.append((name, f"unit {name} · {unit.strategy} · {format_count(len(unit.reported), 'query')}"))
        graph = _build_unit_graph(unit, share_key)
        keys = {place: f"{name}/{at}" for at, place in enumerate(graph.states)}
        nodes += (_build_state(place, state, keys[place], name, details) for place, state in graph.states.items())
        edges += _build_edges(graph, keys, _estimate_step_cost(unit, load))
    return Graph(tuple(nodes), tuple(edges), tuple(lanes))


def _build_unit_graph(unit: Unit, share_key: ShareKey) -> _UnitGraph:
    graph = _UnitGraph()
    places = zip(unit.queries, unit.merged.nodes, strict=True)
    for compiled, nodes in ((member, nodes) for united, nodes in places for member in united.reported):
        if unit.pairs is None:
            merged = unit.merged
            graph.add(compiled, [START if node in merged.starts else merged.fold[node] for node in nodes])
        else:
            graph.add(compiled, _find_shared_places(compiled, share_key))
    return graph


def _find_shared_places(compiled: CompiledQuery, share_key: ShareKey) -> list[Hashable]:
    """Return the place of each node of a query that may share its steps anywhere.

    Nodes of several queries are at one place where equal steps that may be shared lead to them.
    """
    fold = compiled.automaton.fold
    into: dict[int, set[Hashable]] = {}
    for step in compiled.automaton.transitions:
        key = share_key(compiled.number, step.position)
        into.setdefault(fold[step.target], set()).add((compiled.symbols[step.position], key))
    seen: dict[frozenset[Hashable], int] = {}
    places: dict[int, Hashable] = {0: START}
    for node in range(1, len(fold)):
        if fold[node] == node:
            steps = frozenset(into.get(node, ()))
            seen[steps] = seen.get(steps, 0) + 1  # nodes with the same steps into them differ by absences
            places[node] = (steps, seen[steps])
    return [places[settled] for settled in fold]


def _estimate_step_cost(unit: Unit, load: Load) -> float:
    """Estimate what one step of a unit costs when an event takes it, in nanoseconds."""
    steps = sum(load.rate(edge.symbol) for edge in unit.merged.edges)
    return estimate_cost([unit], load) / steps if steps > 0 else 0.0


def _build_state(place: Hashable, state: _State, key: str, lane: str, details: SymbolDetails) -> GraphNode:
    facts = [detail for symbol in state.symbols for detail in details(symbol)]
    notes = []
    if state.ends:
        facts.append(("matches end here", ", ".join(state.ends)))
        notes.append(f"ends {state.ends[0] if len(state.ends) == 1 else format_count(len(state.ends), 'query')}")
    if state.dropped_by:
        facts.append(("given up at", ", ".join(map(format_symbol, state.dropped_by))))
        notes.append(f"given up at {' or '.join(map(format_symbol, state.dropped_by))}")
    label = START if place == START else " or ".join(map(format_symbol, state.symbols)) or "nothing yet"
    kind = START if place == START else "end" if state.ends else "state"
    return GraphNode(key, label, kind, tuple(sorted(state.queries)), ", ".join(notes), tuple(facts), lane)


def _build_edges(graph: _UnitGraph, keys: Mapping[Hashable, str], cost: float) -> Iterator[GraphEdge]:
    for (source, target, symbol), queries in graph.steps.items():
        name = format_symbol(symbol)
        details: Details = (("an event of", name), ("estimated cost", f"{format_time(cost)} for each such event"))
        label = name if len(graph.states[target].symbols) > 1 else ""
        kind = "loop" if source == target else "step"
        yield GraphEdge(keys[source], keys[target], kind, tuple(sorted(queries)), label, details=details)
    for (source, target, symbol), queries in graph.moves.items():
        name = format_symbol(symbol)
        details = (("where there is an event of", name),)
        yield GraphEdge(keys[source], keys[target], "absence", tuple(sorted(queries)), f"NOT {name}", details=details)


def build_join_graph(branch: Mapping[str, Any], numbers: Mapping[str, int]) -> Graph:
    """Build the graph of a described branch that detects, from leaves to the nodes that queries read."""
    ends: dict[int, list[str]] = {}
    for query in branch["queries"]:
        for node in query["nodes"]:
            ends.setdefault(node, []).append(query["name"])
    serves = {node["node"]: tuple(sorted(numbers[name] for name in node["queries"])) for node in branch["nodes"]}
    whole = branch.get("cost")
    nodes = [_build_join(node, serves[node["node"]], ends.get(node["node"], []), whole) for node in branch["nodes"]]
    edges = [
        GraphEdge(str(read), str(node["node"]), "step", serves[node["node"]])
        for node in branch["nodes"]
        for read in dict.fromkeys(node["reads"])
    ]
    return Graph(tuple(nodes), tuple(edges))


def _build_join(
    node: Mapping[str, Any], queries: tuple[int, ...], ends: Sequence[str], whole: float | None
) -> GraphNode:
    details = [("finds", node["finds"])]
    for name, words in (("order", "in order"), ("tests", "tests"), ("absent", "absent")):
        if node.get(name):
            details.append((words, "; ".join(map(str, node[name]))))
    for name, words in COUNT_LABELS.items():
        if node.get(name) is not None:
            details.append((words, format_number(round(node[name]) if node[name] >= 100 else node[name])))
    if whole and node.get("cost_us"):
        time, share = format_time(node["cost_us"] * 1000), node["cost_us"] / whole
        details.append(("estimated cost", f"{time}, {share:.0%} of this branch"))
    if ends:
        details.append(("read by", ", ".join(ends)))
    key, is_leaf = str(node["node"]), node["kind"] == "leaf"
    notes = [] if node.get("actual") is None else [f"{node['actual']:,} found"]
    notes += [] if is_leaf else [node["finds"]]
    kind = "end" if ends and not is_leaf else node["kind"]
    label = node["finds"] if is_leaf else f"{node['kind']} {key}"
    return GraphNode(key, label, kind, queries, " · ".join(notes), tuple(details))
