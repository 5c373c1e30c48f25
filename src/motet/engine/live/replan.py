"""Whether a running workload should change its plan: what another would save over a horizon, against what moving costs.

The Gloria paper's section 7.2 with our plans: when rates drift, the graph that was kept is weighed anew and searched
again; when queries come or go, the new ones are planned at once, and all together if that pays.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from motet.engine.program import Options, Program, compile_workload
from motet.model.query import Workload
from motet.optimizer.aggregate.gloria import gloria
from motet.optimizer.aggregate.gloria.report import GloriaReport
from motet.optimizer.aggregate.rates import frequency_of
from motet.plan.sharing import Grouping
from motet.plan.units import estimated_cost
from motet.statistics.drift import RateWatch
from motet.statistics.model import Statistics

NANOSECOND = 1e-9
# What it takes to begin anew in this process, and to move a word of state from one unit to another, in seconds.
MOVE_COST = 2e-3
WORD_COST = 30 * NANOSECOND


@dataclass(frozen=True)
class Adapting:
    """When to look for another plan, and when to move to it.

    `threshold`: by what share a rate has to change for the plan to be looked at again; None turns that off. `horizon`:
    for how many seconds of the stream a plan is expected to serve; None stands for ten times the longest window. No
    plan is judged before `least` events were seen.
    """

    threshold: float | None = 0.5
    horizon: float | None = None
    least: int = 1_000


@dataclass(frozen=True)
class PlanChange:
    """A plan that was looked at: why, what it was estimated to cost, and whether it was taken.

    `before` and `after` are seconds of work for a second of the stream, by the plan there was and by the one found;
    `saved` is their difference over the horizon, `cost` what moving takes, in seconds too. `at` is the watermark.
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
    """In seconds; a minute where windows count events."""
    spans = [compiled.span.within for compiled in program.queries.values() if not compiled.span.ranked]
    return max(spans, default=60_000_000) / 1e6


def work(program: Program, statistics: Statistics) -> float:
    """Estimated seconds of work for a second of a stream with these rates."""
    frequency = frequency_of(statistics)
    return NANOSECOND * sum(estimated_cost(branch.units, frequency) for branch in program.branches)


@dataclass(frozen=True)
class Drifting:
    """Rates that a plan was made for (None: by none), and what to do when they are no longer those of the stream."""

    adapting: Adapting
    planned: Mapping[str, float] | None

    def reason(self, watch: RateWatch) -> str | None:
        """Why to look for another plan; None where there is no reason."""
        threshold = self.adapting.threshold
        if threshold is None or watch.events < self.adapting.least:
            return None
        if self.planned is None:
            return "rates are known now"
        drift = watch.drift(self.planned)
        return None if drift is None or drift.share <= threshold else f"rates have drifted: {drift}"

    def judged(
        self, reason: str, running: Program, found: Program, statistics: Statistics, cost: float, at: int
    ) -> PlanChange:
        """Whether moving to a plan that was found pays."""
        before, after = work(running, statistics), work(found, statistics)
        horizon = 10 * longest_window(found) if self.adapting.horizon is None else self.adapting.horizon
        saved = (before - after) * horizon
        return PlanChange(at, reason, before, after, saved, cost, saved > cost and grouped(running) != grouped(found))


def replanned(program: Program, statistics: Statistics) -> Program:
    """The best plan for the same queries by other rates. Where Gloria's graph was kept, it is weighed anew."""
    options = replace(program.options, statistics=statistics)
    if isinstance(program.report, GloriaReport):
        fresh = gloria.reweigh(program.report, list(program.queries.values()), statistics)
        found = compile_workload(program.workload, program.schema, options, sharing=fresh.plan)
        return replace(found, report=fresh)
    return compile_workload(program.workload, program.schema, options)


def grouped(program: Program) -> frozenset[frozenset[str]]:
    """Which queries run together, by their names: what a plan on a stream comes to."""
    units = [unit for branch in program.branches for unit in branch.units]
    return frozenset(frozenset(compiled.query.name for compiled in unit.queries) for unit in units)


def with_queries(program: Program, added: Workload, options: Options) -> Program:
    """The queries there are, as they run, beside new ones that are planned among themselves."""
    own = program.workload
    new = tuple(definition for definition in added.definitions if definition not in own.definitions)
    # What is wrong with the new ones shows here, in their own text.
    alone = compile_workload(replace(added, definitions=(*own.definitions, *new)), program.schema, options)
    labels = {**labels_of(program, "old"), **labels_of(alone, "new")}
    both = Workload((*own.queries, *added.queries), (*own.definitions, *new))
    return regrouped(both, program, labels, options)


def without_queries(program: Program, names: frozenset[str], options: Options) -> Program:
    """The other queries, as they run."""
    left = tuple(query for query in program.workload.queries if query.name not in names)
    return regrouped(replace(program.workload, queries=left), program, labels_of(program, "old"), options)


def grouping(workload: Workload, labels: Mapping[str, Hashable]) -> Grouping:
    """The plan by which those queries run together whose labels are equal."""
    named = [(number, query.name) for number, query in enumerate(workload.queries)]
    return Grouping(tuple((number, labels[name]) for number, name in named if name in labels))


def labels_of(program: Program, kind: str = "") -> dict[str, Hashable]:
    """For each query by name, what those that run with it have in common."""
    return {
        compiled.query.name: (kind, branch.name, place)
        for branch in program.branches
        for place, unit in enumerate(branch.units)
        for compiled in unit.queries
    }


def regrouped(workload: Workload, program: Program, labels: Mapping[str, Hashable], options: Options) -> Program:
    """A workload whose queries run together as labels say."""
    return compile_workload(workload, program.schema, options, sharing=grouping(workload, labels))
