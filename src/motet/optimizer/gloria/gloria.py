"""The Gloria optimizer: templates, their graphs, the path of least weight, and the plan that it stands for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from motet.optimizer.gloria.costs import COST_MODELS
from motet.optimizer.gloria.graph import GloriaGraph, Path, grow_graph, path_weight, reuse_nodes
from motet.optimizer.gloria.nodes import (
    GraphWeights,
    SearchAborted,
    generate_greedy_node,
    generate_nodes,
    generate_paper_nodes,
)
from motet.optimizer.gloria.template import Template, build_templates
from motet.optimizer.rates import PositionRates, equal_rates, estimate_window_rates
from motet.optimizer.solvers.common import Deadline
from motet.plans.compiled import CompiledQuery
from motet.plans.sequences import find_repeated_sequences
from motet.plans.sharing import SharedTransition, TransitionPlan
from motet.statistics.model import Statistics

# In templates with so many queries all nodes are searched that can be on a best path; with a few more, as long as that
# takes no longer than so many seconds.
MOST_QUERIES = 4
MORE_QUERIES = 6
SECONDS_FOR_MORE = 0.5
# Choices that are kept at once, over all pools of a template and in one; without pruning, hardly any limit.
MOST_CHOICES = 1_200
FEWEST_CHOICES = 40
MOST_UNPRUNED = 100_000


@dataclass(frozen=True, slots=True)
class GloriaOptions:
    """How to search.

    Attributes:
        variant: 'gloria', 'gloria-greedy' (every Q-set is reused, one node in a pool) or 'gloria-noprune' (nothing is
            pruned while the graph grows).
        costs: 'printed' (the paper's equations 2 to 4) or 'calibrated' (motet's kernels).
        seconds: Time after which the best plan so far serves, for other templates the greedy plan; None for no limit.
    """

    variant: str = "gloria"
    costs: str = "calibrated"
    seconds: float | None = None


@dataclass(frozen=True)
class GloriaReport:
    """A plan, how it was found, and what it costs by the cost model `costs`.

    `alternatives` are the costs of other plans by the same model, by name. `complete`: no plan costs less. `graphs` has
    one GLORIA graph for each template, which other rates can put new weights on. `excluded` says of queries, by number,
    why they take no part.
    """

    variant: str
    costs: str
    plan: TransitionPlan
    weight: float
    complete: bool
    graphs: tuple[GloriaGraph, ...] = ()
    alternatives: Mapping[str, float] = field(default_factory=dict)
    equal_rates: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
    excluded: Mapping[int, str] = field(default_factory=dict)
    family: str = field(default="gloria", init=False)

    @property
    def nodes(self) -> int:
        return sum(graph.nodes for graph in self.graphs)

    @property
    def pruned(self) -> int:
        return sum(each.pruned for graph in self.graphs for nodes in graph.pools for each in nodes)


def optimize(
    queries: Sequence[CompiledQuery],
    statistics: Statistics | None = None,
    options: GloriaOptions = GloriaOptions(),  # noqa: B008
) -> GloriaReport:
    """Return the best sharing plan that the search finds."""
    began, deadline = time.perf_counter(), Deadline(options.seconds)
    rates = equal_rates(queries) if statistics is None else estimate_window_rates(queries, statistics)
    sequences, excluded = find_repeated_sequences(queries)
    points = [sequence for sequence in sequences if len(sequence) == 1 and not sequence.back_edges]
    excluded |= {sequence.number: "its pattern has no transition" for sequence in points}
    templates = build_templates(sequence for sequence in sequences if sequence not in points)
    built = time.perf_counter()
    weighted = [(template, GraphWeights(COST_MODELS[options.costs](template, rates))) for template in templates]
    graphs = [_search_template(template, weights, options, deadline) for template, weights in weighted]
    searched = time.perf_counter()
    report = _make_report(options.variant, options.costs, graphs, rates)
    return replace(
        report,
        complete=options.variant != "gloria-greedy" and all(graph.complete for graph in graphs),
        equal_rates=statistics is None,
        excluded=excluded,
        seconds={"template": built - began, "graph": searched - built, "plan": time.perf_counter() - searched},
    )


def _search_template(
    template: Template, weights: GraphWeights, options: GloriaOptions, deadline: Deadline
) -> GloriaGraph:
    """Return the graph of a template: with the nodes of the paper's principles, or with all that can be on a best path
    where there are few queries.
    """
    reused = grow_graph(template, weights, generate_greedy_node)
    if options.variant == "gloria-greedy":
        return reused
    prune = options.variant != "gloria-noprune"
    most = max(FEWEST_CHOICES, MOST_CHOICES // len(template.pools)) if prune else MOST_UNPRUNED
    if len(template.queries) <= MORE_QUERIES:
        few = len(template.queries) <= MOST_QUERIES
        limit = deadline if few else Deadline(min(deadline.seconds_left, SECONDS_FOR_MORE))
        with suppress(SearchAborted):
            graph = grow_graph(template, weights, generate_nodes, prune, most, limit)
            if graph.complete:
                return graph
    graph = reused
    with suppress(SearchAborted):
        graph = grow_graph(template, weights, generate_paper_nodes, prune, most, deadline)
    # Choices may have been dropped, or time was short: the plans that need no search must not be lost for that.
    apart = unshared_path(template)
    weight, path = min(
        ((graph.weight, graph.path), (reused.weight, reused.path), (path_weight(template, weights, apart), apart)),
        key=lambda found: found[0],
    )
    return replace(graph, weight=weight, path=path, complete=False)


def reweigh(report: GloriaReport, queries: Sequence[CompiledQuery], statistics: Statistics) -> GloriaReport:
    """Return the best plan of the graphs that are there, by other rates (section 7.2).

    No node is generated, so it is quick, and a plan from scratch may be better.
    """
    began = time.perf_counter()
    rates = estimate_window_rates(queries, statistics)
    graphs = []
    for graph in report.graphs:
        weights = GraphWeights(COST_MODELS[report.costs](graph.template, rates))
        found = grow_graph(graph.template, weights, reuse_nodes(graph), most=MOST_CHOICES)
        graphs.append(replace(graph, path=found.path, weight=found.weight))
    fresh = _make_report(report.variant, report.costs, graphs, rates)
    return replace(fresh, excluded=report.excluded, seconds={"search": time.perf_counter() - began})


def _make_report(variant: str, costs: str, graphs: Sequence[GloriaGraph], rates: PositionRates) -> GloriaReport:
    unshared = greedy = 0.0
    for graph in graphs:
        weights = GraphWeights(COST_MODELS[costs](graph.template, rates))
        unshared += path_weight(graph.template, weights, unshared_path(graph.template))
        greedy += grow_graph(graph.template, weights, generate_greedy_node).weight
    return GloriaReport(
        variant=variant,
        costs=costs,
        plan=build_plan(graphs),
        weight=sum(graph.weight for graph in graphs),
        complete=False,
        graphs=tuple(graphs),
        alternatives={"not shared": unshared, "greedy": greedy},
    )


def unshared_path(template: Template) -> Path:
    """Return the path on which no query shares anything."""
    return {pool.number: () for pool in template.pools}


def build_plan(graphs: Iterable[GloriaGraph]) -> TransitionPlan:
    """Return the plan that the best paths of some graphs stand for: the Q-sets of all transitions."""
    transitions = []
    for graph in graphs:
        template = graph.template
        positions = [dict(state.places) for state in template.states]
        symbols = [state.symbol for state in template.states]
        for pool in template.pools:
            for queries, snapshot in graph.path[pool.number]:
                members = sorted(template.query_numbers(queries))
                transitions += [
                    SharedTransition(
                        symbols[source],
                        symbols[target],
                        symbols[snapshot],
                        tuple((query, positions[source][query], positions[target][query]) for query in members),
                    )
                    for source, target in pool.transitions
                ]
    return TransitionPlan(tuple(transitions))
