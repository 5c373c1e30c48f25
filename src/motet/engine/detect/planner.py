"""Plan the joins of a branch: from statistics or for the first events, and again when the events have changed.

What detection keeps between batches are events, so one plan may replace another at any time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from motet.compile import Program
from motet.compile.compiler import count_runs
from motet.compile.detect import DetectBranch
from motet.engine.detect.compiled_plan import CompiledPlan
from motet.engine.detect.measured_rates import count_symbols, measure_rates
from motet.engine.detect.values import EventColumns
from motet.engine.encode import EncodedEvents
from motet.engine.replan import NANOSECOND, PlanChange
from motet.optimizer.joins import JoinPlan
from motet.optimizer.registry import (
    SearchOptions,
    extend_plan,
    get_join_optimizer,
    replan_trees,
)
from motet.options import Options
from motet.plans.detect.build import PlannedQuery, plan_queries
from motet.plans.detect.cost import Rates
from motet.plans.detect.estimates import estimate_nodes, estimate_tree_cost, list_roots, sum_costs
from motet.statistics.model import format_symbol

# How many pairs the share of a condition is estimated from, and how many standard deviations count as a change of it.
SAMPLED_PAIRS = 512
SIGNIFICANT_DEVIATIONS = 4.0
# Seconds that a search for a better plan is given at least.
LEAST_SEARCH = 0.01


@dataclass(frozen=True)
class DetectReplanPolicy:
    """When the joins of a stream are planned again.

    A rate or selectivity has changed by `factor`, a rate over at least `events` events. Rates are checked in every
    batch, selectivities every `batches`. Planning is limited to a `share` of the time since the first plan, a search to
    that share of the cost of the present plan until rates change again, and to `seconds`; it is skipped where building
    a plan, or the shortest search, takes longer. What plans cost is estimated, and scaled by how long runs took. The
    plan found is adopted if it costs less by `gain`, and saves more in that time than building it takes. Rates are
    expected to last for `expected_batches`, or as long as they have on average. As long as rates stay, the plan is
    searched for again from time to time, by the same limits.
    """

    factor: float = 2.0
    events: int = 100
    batches: int = 16
    gain: float = 0.1
    seconds: float = 1.0
    share: float = 0.1
    expected_batches: float | None = None


@dataclass
class BranchPlanner:
    """Planner of a branch over its life. Without `policy` the first plan stays. Whether its events `are_fed` is said of
    all rates: see `motet.plans.detect.cost.Rates`.
    """

    branch: DetectBranch
    options: Options
    policy: DetectReplanPolicy | None = None
    log: list[PlanChange] = field(default_factory=list)
    chosen: JoinPlan | None = None
    batches: int = 0
    are_fed: bool = False

    def __post_init__(self) -> None:
        self._planned: list[PlannedQuery] | None = None
        self._compiled: CompiledPlan | None = None
        self._is_first_batch = False
        self._rates: Rates | None = None
        self._changes = 0  # of rates, that were looked into
        self._began = time.perf_counter()  # when the first plan was there
        self._planning_seconds = 0.0  # seconds of this thread that went into plans since
        self._search_seconds = 0.0  # those of them that went into searches for a better plan at the same rates
        self._build_seconds = 0.0  # those that building and compiling a plan took last
        self._shortest_search = 0.0  # what a search took at least, however little time it was given
        self._estimated: tuple[Rates, list[PlannedQuery], float] | None = None  # the last estimate, and of what
        self._run_seconds = 0.0  # seconds that running the plans took so far
        self._estimated_seconds = 0.0  # and what they were estimated to take

    def begin_run(self) -> BranchPlanner:
        """Look at the rates of the next events: a plan for others is not kept."""
        self._is_first_batch = True
        return self

    def plan_for(self, encoded: EncodedEvents) -> list[PlannedQuery]:
        """Return the plan for the next events."""
        self.batches += 1
        is_checked = self._is_first_batch and self._rates is not None and self._needs_rates()
        if is_checked and any(find_changed_rates(self._rates or Rates(), self._count(encoded), DetectReplanPolicy())):
            self._planned = None
        self._is_first_batch = False
        if self._planned is None:
            self._make_first_plan(encoded)
            self._began = time.perf_counter()
        elif self.policy is not None and self._needs_rates():
            self._replan_on_change(encoded, self.policy)
        assert self._planned is not None
        return self._planned

    def compile(self, program: Program, encoded: EncodedEvents) -> tuple[CompiledPlan, EventColumns]:
        """Return the present plan compiled for events like these, once for all batches, and the values it reads."""
        assert self._planned is not None
        types = encoded.table.schema
        if self._compiled is None or self._compiled.planned is not self._planned or self._compiled.types != types:
            began = time.thread_time()
            self._compiled = CompiledPlan(program, self._planned, types)
            self._build_seconds += time.thread_time() - began
        while True:
            columns = EventColumns(self._compiled.columns, encoded)
            inexact = columns.find_inexact()
            if not inexact:
                return self._compiled, columns
            known = self._compiled.columns.inexact
            self._compiled = CompiledPlan(program, self._planned, types, known | inexact)

    def adopt(self, chosen: JoinPlan, rates: Rates | None) -> None:
        """Go on with other trees, chosen for these rates."""
        began = time.thread_time()
        self.chosen, self._rates = chosen, rates
        self._planned = plan_queries(self.branch.queries, chosen)
        self._build_seconds = time.thread_time() - began

    def with_queries(self, branch: DetectBranch, options: Options) -> BranchPlanner:
        """Return a planner for the branch with other queries.

        Where the optimizer can extend its plan, queries that stay keep their trees, and new ones read what these find
        where that is cheapest. Else, or where it was planned ahead, all is planned again.
        """
        changed = BranchPlanner(branch, options, self.policy, self.log, batches=self.batches, are_fed=self.are_fed)
        chosen, rates = self.chosen, self._rates
        if chosen is None or rates is None or branch.trees is not None:
            return changed
        found = extend_plan(chosen, changed.branch.join_specs, rates)
        if found is None:
            return changed
        reason = f"{len(self.branch.join_specs)} patterns have become {len(changed.branch.join_specs)}"
        before, after = chosen.considered[chosen.method], found.considered[found.method]
        self.log.append(
            PlanChange(self.batches, reason, before * NANOSECOND, after * NANOSECOND, 0.0, 0.0, adopted=True)
        )
        changed.adopt(found, rates)
        return changed

    def _make_first_plan(self, encoded: EncodedEvents) -> None:
        branch, options = self.branch, self.options
        if branch.trees is not None:
            self.chosen, self._rates, self._planned = branch.trees, branch.trees.rates, branch.planned_queries
        else:
            specs, optimizer = branch.join_specs, get_join_optimizer(options.optimizer)
            rates = self._count(encoded) if self._needs_rates() else Rates()
            search = SearchOptions(options.budget_seconds, options.costs, count_runs(rates, options))
            plan = optimizer.plan_by_counts(specs, rates, search)
            if plan is None and self._needs_rates():
                rates = self._measure(encoded)
                plan = optimizer.plan_by_counts(specs, rates, search)
            plan = plan or optimizer.optimize(specs, rates, search)
            self.adopt(plan, rates)

    def _count(self, encoded: EncodedEvents) -> Rates:
        return replace(count_symbols(encoded), are_fed=self.are_fed)

    def _measure(self, encoded: EncodedEvents) -> Rates:
        return replace(measure_rates(self.branch, encoded), are_fed=self.are_fed)

    def _needs_rates(self) -> bool:
        """Return whether trees are chosen by rates."""
        return bool(self.branch.join_specs) and get_join_optimizer(self.options.optimizer).uses_statistics

    def _replan_on_change(self, encoded: EncodedEvents, policy: DetectReplanPolicy) -> None:
        if self._planning_seconds > policy.share * (time.perf_counter() - self._began):
            return
        began = time.thread_time()
        known = self._rates or Rates()
        seen = self._count(encoded)
        reason = next(find_changed_rates(known, seen, policy), None)
        if reason is not None:
            self.replan(replace(seen, selectivity=known.selectivity), reason, policy)
        elif not self.batches % policy.batches:
            rates = self._measure(encoded)
            reason = next(find_changed_selectivities(known, rates, policy), None)
            if reason is not None:
                self.replan(rates, reason, policy)
        else:
            self._improve(encoded, policy)
        self._planning_seconds += time.thread_time() - began

    def replan(self, rates: Rates, reason: str, policy: DetectReplanPolicy) -> None:
        """Look for a plan for other rates where that may pay, and adopt it where it does."""
        assert self.chosen is not None
        batches = self._expected_batches(policy, self._changes + 1)
        self._changes += 1
        self._rates = rates
        before = self._expected_seconds(rates)
        worth = policy.share * before * batches  # seconds that a search may take
        if worth <= max(self._build_seconds, self._shortest_search):
            self.log.append(PlanChange(self.batches, reason, before, before, 0.0, self._build_seconds, adopted=False))
            return
        seconds = min(policy.seconds, self.options.budget_seconds, worth)
        self._search(rates, reason, policy, seconds, batches)

    def _improve(self, encoded: EncodedEvents, policy: DetectReplanPolicy) -> None:
        """Search on for a better plan, each time for longer: a plan that has served is expected to serve as long again.

        What all such searches take together is a `share` of what the plan has cost so far.
        """
        optimizer = get_join_optimizer(self.options.optimizer)
        if not optimizer.searches or self._rates is None:
            return
        batches = self._expected_batches(policy, 1)
        worth = policy.share * self._expected_seconds(self._rates) * batches - self._search_seconds
        if worth <= max(self._search_seconds, self._build_seconds, self._shortest_search, LEAST_SEARCH):
            return
        began = time.thread_time()
        if not self._rates.selectivity:  # a first plan may go by counts alone
            self._rates = self._measure(encoded)
        seconds = min(policy.seconds, self.options.budget_seconds, worth)
        self._search(self._rates, "the plan has served, and was searched for longer", policy, seconds, batches)
        self._search_seconds += max(time.thread_time() - began, LEAST_SEARCH)

    def _search(self, rates: Rates, reason: str, policy: DetectReplanPolicy, seconds: float, batches: float) -> None:
        """Search for a plan that is to serve so many batches, and adopt it where that pays."""
        assert self.chosen is not None
        specs, search = self.branch.join_specs, SearchOptions(seconds, self.options.costs, batches)
        began = time.thread_time()
        found = replan_trees(self.chosen, specs, self.options.optimizer, rates, search)
        took = time.thread_time() - began
        self._shortest_search = min(self._shortest_search or took, took)
        seconds_each = NANOSECOND * self._seconds_per_estimate
        before = estimate_tree_cost(self.chosen.trees, rates) * seconds_each
        after = found.considered[found.method] * seconds_each
        saved = (before - after) * batches
        adopted = after < before * (1 - policy.gain) and saved > self._build_seconds
        self.log.append(PlanChange(self.batches, reason, before, after, saved, self._build_seconds, adopted))
        if adopted:
            self.adopt(found, rates)

    def record_run(self, seconds: float) -> None:
        """Note how long it took to run the plan over a batch."""
        if self.policy is not None and self._rates is not None:
            self._run_seconds += seconds
            self._estimated_seconds += self._estimate_cost(self._rates) * NANOSECOND

    @property
    def _seconds_per_estimate(self) -> float:
        """How long runs took for each second that they were estimated to take."""
        return self._run_seconds / self._estimated_seconds if self._estimated_seconds else 1.0

    def _expected_seconds(self, rates: Rates) -> float:
        """Return the seconds that the present plan is expected to take for a batch of such rates."""
        return self._estimate_cost(rates) * NANOSECOND * self._seconds_per_estimate

    def _estimate_cost(self, rates: Rates) -> float:
        """Return what the present plan costs for some rates, in nanoseconds a batch."""
        assert self._planned is not None
        if self._estimated is None or self._estimated[0] is not rates or self._estimated[1] is not self._planned:
            cost = sum_costs(estimate_nodes(list_roots(self._planned), rates))
            self._estimated = rates, self._planned, cost
        return self._estimated[2]

    def _expected_batches(self, policy: DetectReplanPolicy, changes: int) -> float:
        """Return for how many batches a plan is expected to serve, after so many changes of rates."""
        return self.batches / changes if policy.expected_batches is None else policy.expected_batches


def find_changed_rates(known: Rates, now: Rates, policy: DetectReplanPolicy) -> Iterator[str]:
    """Yield the symbols that come much more or less often than before."""
    for symbol in sorted({*known.counts, *now.counts}, key=repr):
        expected = known.counts.get(symbol, 0.0) * now.duration / known.duration
        seen = now.counts.get(symbol, 0.0)
        if (
            max(expected, seen) >= policy.events
            and not 1 / policy.factor <= seen / max(expected, 1e-9) <= policy.factor
        ):
            yield f"{format_symbol(symbol)} comes {seen / max(expected, 1.0):.2g} times as often"


def find_changed_selectivities(known: Rates, now: Rates, policy: DetectReplanPolicy) -> Iterator[str]:
    """Yield the tests that hold much more or less often than before, beyond sampling error."""
    for measured in now.selectivity.keys() & known.selectivity.keys():
        one, other = known.selectivity[measured], now.selectivity[measured]
        high, low = max(one, other), min(one, other)
        if high - low > SIGNIFICANT_DEVIATIONS * math.sqrt(high / SAMPLED_PAIRS) and high > policy.factor * low:
            yield f"a condition holds for {other:.2g} of pairs, and held for {one:.2g}"
