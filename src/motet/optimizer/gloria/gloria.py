"""The Gloria optimizer: templates, their graphs, the path of least weight, and the plan that it stands for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from motet.optimizer.gloria.costs import COST_MODELS
from motet.optimizer.gloria.graph import GloriaGraph, Path, SearchTimeout, grow_graph, path_weight
from motet.optimizer.gloria.nodes import Weights
from motet.optimizer.gloria.paths import find_best_path
from motet.optimizer.gloria.report import GloriaReport
from motet.optimizer.gloria.template import Template, build_templates
from motet.optimizer.rates import PositionRates, equal_rates, estimate_window_rates
from motet.optimizer.solvers.graph import Deadline
from motet.plans.compiled import CompiledQuery
from motet.plans.sequences import RepeatedSequence, find_repeated_sequences
from motet.plans.sharing import SharedTransition, TransitionPlan
from motet.statistics.model import Statistics

GLORIA, GREEDY, UNPRUNED = "gloria", "gloria-greedy", "gloria-noprune"
VARIANTS = (GLORIA, GREEDY, UNPRUNED)

# Of a template for all nodes to be looked at that can be on a best path: in any case, and if that takes no longer than
# so many seconds.
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

    `variant`: 'gloria', 'gloria-greedy' (every Q-set is reused, one node in a pool) or 'gloria-noprune' (nothing is
    pruned while the graph grows). `costs`: 'printed' (the paper's equations 2 to 4) or 'calibrated' (our kernels).
    `by_principles`: nodes by the paper's principles alone. After `budget` seconds (None: no limit) what was found
    serves, for templates that nobody has looked at yet the greedy plan.
    """

    variant: str = GLORIA
    costs: str = "calibrated"
    by_principles: bool = False
    budget: float | None = None


def optimize(
    queries: Sequence[CompiledQuery],
    statistics: Statistics | None = None,
    options: GloriaOptions = GloriaOptions(),  # noqa: B008
) -> GloriaReport:
    """The best sharing plan that the search finds."""
    began, deadline = time.perf_counter(), Deadline(options.budget)
    rates = equal_rates(queries) if statistics is None else estimate_window_rates(queries, statistics)
    sequences, excluded = find_repeated_sequences(queries)
    excluded |= {
        sequence.number: "its pattern has no transition" for sequence in sequences if _has_no_transition(sequence)
    }
    templates = build_templates(sequence for sequence in sequences if not _has_no_transition(sequence))
    built = time.perf_counter()
    weighed = [Weights(COST_MODELS[options.costs](template, rates)) for template in templates]
    graphs = tuple(
        _search_template(template, weights, options, deadline)
        for template, weights in zip(templates, weighed, strict=True)
    )
    searched = time.perf_counter()
    report = _report(options, graphs, [(graph.weight, graph.path) for graph in graphs], weighed)
    return replace(
        report,
        equal_rates=statistics is None,
        excluded=excluded,
        seconds={"template": built - began, "graph": searched - built, "plan": time.perf_counter() - searched},
    )


def _search_template(template: Template, weights: Weights, options: GloriaOptions, deadline: Deadline) -> GloriaGraph:
    """The graph of a template: with the nodes of the paper's principles, and where there are few queries with all that
    can be on a best path.
    """
    reused = grow_graph(template, weights, greedy=True)
    if options.variant == GREEDY:
        return reused
    prune = options.variant != UNPRUNED
    most = max(FEWEST_CHOICES, MOST_CHOICES // len(template.pools)) if prune else MOST_UNPRUNED
    if len(template.queries) <= MORE_QUERIES and not options.by_principles:
        few = len(template.queries) <= MOST_QUERIES
        limit = deadline if few else Deadline(min(deadline.seconds_left, SECONDS_FOR_MORE))
        with suppress(SearchTimeout):
            graph = grow_graph(template, weights, prune, most=most, deadline=limit)
            if graph.complete:
                return graph
    graph = reused
    with suppress(SearchTimeout):
        graph = grow_graph(template, weights, prune, by_principles=True, most=most, deadline=deadline)
    # Choices were left aside if there were too many, or no time; what is sure to be there must not be lost for that.
    apart = unshared_path(template)
    weight, path = min(
        ((graph.weight, graph.path), (reused.weight, reused.path), (path_weight(template, weights, apart), apart)),
        key=lambda found: found[0],
    )
    return replace(graph, weight=weight, path=path, complete=False)


def reweigh(report: GloriaReport, queries: Sequence[CompiledQuery], statistics: Statistics) -> GloriaReport:
    """The best plan of the graphs that are there, by other rates (section 7.2): no node is generated, so it is quick,
    and a plan from scratch may be better.
    """
    began = time.perf_counter()
    rates: PositionRates = estimate_window_rates(queries, statistics)
    weighed = [Weights(COST_MODELS[report.costs](graph.template, rates)) for graph in report.graphs]
    found = [
        find_best_path(graph.template, [graph.surviving_nodes(pool.number) for pool in graph.template.pools], weights)
        for graph, weights in zip(report.graphs, weighed, strict=True)
    ]
    options = GloriaOptions(report.variant, report.costs)
    fresh = _report(options, report.graphs, found, weighed)
    seconds = {"search": time.perf_counter() - began}
    return replace(fresh, complete=False, excluded=report.excluded, seconds=seconds)


def _report(
    options: GloriaOptions,
    graphs: tuple[GloriaGraph, ...],
    found: Sequence[tuple[float, Path]],
    weighed: Sequence[Weights],
) -> GloriaReport:
    templates = [graph.template for graph in graphs]
    pairs = list(zip(templates, weighed, strict=True))
    apart = sum(path_weight(template, weights, unshared_path(template)) for template, weights in pairs)
    greedy = sum(grow_graph(template, weights, greedy=True).weight for template, weights in pairs)
    paths = [path for _, path in found]
    weight = sum(weight for weight, _ in found)
    graphs = tuple(replace(graph, path=path, weight=own) for graph, (own, path) in zip(graphs, found, strict=True))
    return GloriaReport(
        variant=options.variant,
        costs=options.costs,
        plan=build_plan(templates, paths),
        weight=weight,
        complete=options.variant != GREEDY and all(graph.complete for graph in graphs),
        graphs=graphs,
        alternatives={"not shared": apart, "greedy": greedy},
    )


def unshared_path(template: Template) -> Path:
    """The path on which no query shares anything."""
    return {pool.number: () for pool in template.pools}


def build_plan(templates: Sequence[Template], paths: Sequence[Path]) -> TransitionPlan:
    """The Q-sets of all transitions, as positions of queries."""
    transitions = []
    for template, path in zip(templates, paths, strict=True):
        positions = [dict(state.places) for state in template.states]
        symbols = [state.symbol for state in template.states]
        for pool in template.pools:
            for queries, snapshot in path[pool.number]:
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


def _has_no_transition(sequence: RepeatedSequence) -> bool:
    return len(sequence) == 1 and not sequence.back_edges
