"""Every workload sharing plan of a small template, for checking: all partings of all pools, with all snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from motet.optimizer.gloria.costs import CostModel
from motet.optimizer.gloria.graph import Path
from motet.optimizer.gloria.nodes import Node
from motet.optimizer.gloria.template import Pool, Template

Form = tuple[int, int] | None  # of a query in a pool: its Q-set, or none


def every_plan(template: Template, costs: CostModel) -> tuple[float, Path, int]:
    """The least cost of all plans, a plan that has it, and how many there are. Takes exponential time."""
    best: tuple[float, Path] = (inf, {})
    plans = 0
    for path in _plans(template, 0, {}):
        plans += 1
        cost = cost_of(template, costs, path)
        if cost < best[0]:
            best = cost, dict(path)
    return *best, plans


def cost_of(template: Template, costs: CostModel, path: Path) -> float:
    """What a plan costs, by definition: each Q-set once, and query by query what it computes alone and evaluates."""
    cost = sum(costs.shared_cost(pool, *qset) for pool in template.pools for qset in path[pool.number])
    for at, line in enumerate(template.routes):
        held: Form = None
        cost += costs.start_cost(template.start_states[at])
        for number in line:
            pool = template.pools[number]
            form = _form(path[number], at)
            if held is not None and not _goes_on(held, form):
                cost += costs.evaluation_cost(pool.entry, held[1])
            if form is None:
                cost += costs.unshared_cost(pool, 1 << at)
            held = form
        if held is not None:
            cost += costs.evaluation_cost(template.pools[line[-1]].exit, held[1])
    return cost


def _form(node: Node, query: int) -> Form:
    return next((qset for qset in node if qset[0] >> query & 1), None)


def _goes_on(held: tuple[int, int], form: Form) -> bool:
    """Whether a query keeps its snapshots: others may leave its Q-set, but none can join."""
    return form is not None and form[1] == held[1]


def _plans(template: Template, number: int, path: Path) -> Iterator[Path]:
    if number == len(template.pools):
        yield path
        return
    pool = template.pools[number]
    for node in _every_node(template, pool, path, pool.queries):
        yield from _plans(template, number + 1, {**path, number: node})


def _every_node(template: Template, pool: Pool, path: Path, queries: int) -> Iterator[Node]:
    """All partings of some queries of a pool into Q-sets whose snapshots are there, given the pools before."""
    if not queries:
        yield ()
        return
    first = queries & -queries
    others = queries ^ first
    some = others
    while True:
        together = first | some
        for rest in _every_node(template, pool, path, queries & ~together):
            if not some:
                yield rest
            else:
                snapshots = {*pool.snapshot_states, *_inherited(pool, path, together)}
                yield from (tuple(sorted((*rest, (together, snapshot)))) for snapshot in snapshots)
        if not some:
            return
        some = (some - 1) & others


def _inherited(pool: Pool, path: Path, queries: int) -> set[int]:
    """Snapshots that all of some queries bring, from one Q-set."""
    return {snapshot for number in pool.predecessors for had, snapshot in path[number] if queries & ~had == 0}
