"""Decide whether a running workload should change its plan: what another plan saves over a horizon, against what moving
to it costs.

This is section 7.2 of the Gloria paper with our plans: when rates drift, the graph that was kept is weighted anew and
searched again; when queries are added or removed, the new ones are planned at once, and all of them together if that
pays.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from motet.engine.program import Program, compile_workload
from motet.model.query import Workload
from motet.optimizer.rates import symbol_frequency
from motet.optimizer.registry import SearchOptions, get_optimizer
from motet.options import Options
from motet.plans.sharing import Grouping
from motet.plans.units import estimate_cost
from motet.statistics.drift import RateTracker
from motet.statistics.model import Statistics

NANOSECOND = 1e-9
# What it takes to begin anew in this process, and to move a word of state from one unit to another, in seconds.
MOVE_COST = 2e-3
WORD_COST = 30 * NANOSECOND


@dataclass(frozen=True)
class ReplanPolicy:
    """When to look for another plan, and when to move to it.

    `threshold`: the relative change of a rate at which the plan is reconsidered; None: never. `horizon`: how many
    seconds of the stream a plan is expected to serve; None: ten times the longest window. No plan is judged before
    `min_events` events were seen.
    """

    threshold: float | None = 0.5
    horizon: float | None = None
    min_events: int = 1_000


@dataclass(frozen=True)
class PlanChange:
    """A plan that was considered: why, what it was estimated to cost, and whether it was adopted.

    `before` and `after` are seconds of work per second of the stream, by the old and the new plan; `saved` is their
    difference over the horizon and `cost` what moving takes, both in seconds. `at` is the watermark.
    """

    at: int
    reason: str
    before: float
    after: float
    saved: float
    cost: float
    migrated: bool

    def __str__(self) -> str:
        estimate = f"saves {self.saved:.3g} s over the horizon, and moving takes {self.cost:.3g} s"
        return f"{self.reason}: {'another plan' if self.migrated else 'the plan stays; another'} {estimate}"


def longest_window(program: Program) -> float:
    """Return the longest window in seconds; a minute where windows count events."""
    spans = [compiled.span.within for compiled in program.queries.values() if not compiled.span.ranked]
    return max(spans, default=60_000_000) / 1e6


def estimate_work(program: Program, statistics: Statistics) -> float:
    """Estimate the seconds of work per second of a stream with these rates."""
    frequency = symbol_frequency(statistics)
    return NANOSECOND * sum(estimate_cost(branch.units, frequency) for branch in program.branches)


@dataclass(frozen=True)
class DriftMonitor:
    """The rates that a plan was made for (None: without any), and when to reconsider it."""

    policy: ReplanPolicy
    planned: Mapping[str, float] | None

    def reason(self, watch: RateTracker) -> str | None:
        """Return why to look for another plan, or None."""
        threshold = self.policy.threshold
        if threshold is None or watch.events < self.policy.min_events:
            return None
        if self.planned is None:
            return "rates are known now"
        drift = watch.drift(self.planned)
        return None if drift is None or drift.change <= threshold else f"rates have drifted: {drift}"

    def assess(
        self, reason: str, running: Program, found: Program, statistics: Statistics, cost: float, at: int
    ) -> PlanChange:
        """Compare a plan that was found with the running one."""
        before, after = estimate_work(running, statistics), estimate_work(found, statistics)
        horizon = 10 * longest_window(found) if self.policy.horizon is None else self.policy.horizon
        saved = (before - after) * horizon
        return PlanChange(
            at, reason, before, after, saved, cost, saved > cost and query_groups(running) != query_groups(found)
        )


def replan(program: Program, statistics: Statistics) -> Program:
    """Return the best plan for the same queries at other rates; an optimizer may start from the plan it has."""
    options = replace(program.options, statistics=statistics)
    optimizer = get_optimizer(options.optimizer).sharing
    if program.report is not None and optimizer is not None:
        search = SearchOptions(options.budget_seconds, options.costs)
        fresh = optimizer.reweigh(program.report, list(program.queries.values()), statistics, search)
        found = compile_workload(program.workload, program.schema, options, sharing=fresh.plan)
        return replace(found, report=fresh)
    return compile_workload(program.workload, program.schema, options)


def query_groups(program: Program) -> frozenset[frozenset[str]]:
    """Return which queries run together, by name: all that a plan decides on a stream."""
    units = [unit for branch in program.branches for unit in branch.units]
    return frozenset(frozenset(compiled.query.name for compiled in unit.queries) for unit in units)


def add_queries(program: Program, added: Workload, options: Options) -> Program:
    """Keep the plan of the present queries and plan new ones among themselves."""
    own = program.workload
    new = tuple(definition for definition in added.definitions if definition not in own.definitions)
    # What is wrong with the new ones shows here, in their own text.
    alone = compile_workload(replace(added, definitions=(*own.definitions, *new)), program.schema, options)
    labels = {**unit_labels(program, "old"), **unit_labels(alone, "new")}
    both = Workload((*own.queries, *added.queries), (*own.definitions, *new))
    return compile_grouped(both, program, labels, options)


def remove_queries(program: Program, names: frozenset[str], options: Options) -> Program:
    """Keep the plan of the queries that stay."""
    left = tuple(query for query in program.workload.queries if query.name not in names)
    return compile_grouped(replace(program.workload, queries=left), program, unit_labels(program, "old"), options)


def build_grouping(workload: Workload, labels: Mapping[str, Hashable]) -> Grouping:
    """Build the plan that runs queries with equal labels together."""
    named = [(number, query.name) for number, query in enumerate(workload.queries)]
    return Grouping(tuple((number, labels[name]) for number, name in named if name in labels))


def unit_labels(program: Program, kind: str = "") -> dict[str, Hashable]:
    """Return a label for each query by name, equal for queries that run together."""
    return {
        compiled.query.name: (kind, branch.name, place)
        for branch in program.branches
        for place, unit in enumerate(branch.units)
        for compiled in unit.queries
    }


def compile_grouped(workload: Workload, program: Program, labels: Mapping[str, Hashable], options: Options) -> Program:
    """Compile a workload whose queries run together where their labels are equal."""
    return compile_workload(workload, program.schema, options, sharing=build_grouping(workload, labels))
