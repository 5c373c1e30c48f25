"""Decide whether a running workload should change its plan: what that saves over a horizon, against what it costs.

This is section 7.2 of the Gloria paper with our plans: when rates drift, the graph that was kept is weighted anew and
searched again; when queries are added or removed, the new ones are planned at once, and all of them together if that
pays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from motet.compile import Program, compile_workload
from motet.model.query import Workload
from motet.optimizer.registry import SearchOptions, get_optimizer
from motet.options import Options
from motet.plans.cost import make_load
from motet.plans.sharing import Grouping
from motet.plans.units import estimate_cost
from motet.statistics.model import Statistics

NANOSECOND = 1e-9
MIN_SYMBOL_EVENTS = 30.0  # events of a symbol below which its rate says little
WORD_COST = 30 * NANOSECOND  # seconds that it takes to move a word of state from one unit to another


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

    @classmethod
    def from_options(cls, options: Options) -> ReplanPolicy:
        """Return the policy that the options `replan` and `horizon` ask for."""
        return cls(options.replan or None, options.horizon_seconds)


@dataclass(frozen=True)
class PlanChange:
    """A plan that was considered: why, what it was estimated to cost, and whether it was adopted.

    `before` and `after` are seconds of work per second of the stream (of detection: per batch), by the old and the new
    plan. `saved` is their difference over the horizon and `cost` what moving takes, both in seconds. `at` is the
    watermark (of detection: the number of the batch).
    """

    at: int
    reason: str
    before: float
    after: float
    saved: float
    cost: float
    adopted: bool

    def __str__(self) -> str:
        estimate = f"saves {self.saved:.3g} s over the horizon, and moving takes {self.cost:.3g} s"
        return f"{self.reason}: {'another plan' if self.adopted else 'the plan stays; another'} {estimate}"


@dataclass
class RateTracker:
    """Events of each symbol per second of event time; what is older than `half_life` seconds counts half."""

    half_life: float
    counts: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def observe(self, counts: Mapping[str, float], seconds: float) -> None:
        """Add the event counts of a stretch of the stream."""
        kept = 0.5 ** (seconds / self.half_life)
        self.seconds = self.seconds * kept + seconds
        for name in self.counts:
            self.counts[name] *= kept
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count

    @property
    def events(self) -> float:
        """How many events the rates are based on."""
        return sum(self.counts.values())

    @property
    def rates(self) -> dict[str, float]:
        return {name: count / self.seconds for name, count in self.counts.items()} if self.seconds > 0 else {}


@dataclass
class Replanner:
    """The rates of a stream, those that its plan was made for (if any), and the choice of a plan when they differ."""

    policy: ReplanPolicy
    program: Program
    planned_rates: Mapping[str, float] | None = None
    tracker: RateTracker = field(init=False)

    def __post_init__(self) -> None:
        self.tracker = RateTracker(longest_window(self.program))

    def set_program(self, program: Program) -> None:
        """Set the program that the stream runs now."""
        self.program = program
        self.tracker.half_life = longest_window(program)

    def propose(self, measure: Callable[[], tuple[Statistics, float]], at: int) -> tuple[PlanChange, Program] | None:
        """Return another plan and whether to move to it, if rates have drifted since the last call that found so.

        `measure` returns the statistics of the stream, and the seconds that it takes to move.
        """
        reason = self._find_reason()
        if reason is None:
            return None
        statistics, cost = measure()
        self.planned_rates = statistics.rates
        program = self.program
        options = replace(program.options, statistics=statistics)
        optimizer = get_optimizer(options.optimizer).sharing
        if program.report is not None and optimizer is not None:
            search = SearchOptions(options.budget_seconds, options.costs)
            report = optimizer.reweigh(program.report, list(program.queries.values()), statistics, search)
            found = compile_workload(program.workload, program.schema, options, sharing=report.plan)
            found = replace(found, report=report)
        else:
            found = compile_workload(program.workload, program.schema, options)
        return self.assess(reason, program, found, statistics, cost, at), found

    def assess(
        self, reason: str, running: Program, found: Program, statistics: Statistics, cost: float, at: int
    ) -> PlanChange:
        """Compare a plan that was found with the running one."""
        before, after = estimate_work(running, statistics), estimate_work(found, statistics)
        horizon = 10 * longest_window(found) if self.policy.horizon is None else self.policy.horizon
        saved = (before - after) * horizon
        adopted = saved > cost and query_groups(running) != query_groups(found)
        return PlanChange(at, reason, before, after, saved, cost, adopted)

    def _find_reason(self) -> str | None:
        """Return why to look for another plan: the rate that has changed most; None if all is well."""
        threshold = self.policy.threshold
        if threshold is None or self.tracker.events < self.policy.min_events:
            return None
        if self.planned_rates is None:
            return "rates are known now"
        rates, seconds = self.tracker.rates, self.tracker.seconds
        largest, drift = threshold, None
        for name in {**self.planned_rates, **rates}:
            before, now = self.planned_rates.get(name, 0.0), rates.get(name, 0.0)
            change = abs(now - before) / max(now, before, 1e-12)  # 0 if they are equal, 1 if one is zero
            if change > largest and max(now, before) * seconds >= MIN_SYMBOL_EVENTS:
                largest, drift = change, f"{name} came {before:.3g} times a second and now comes {now:.3g} times"
        return drift and f"rates have drifted: {drift}"


def longest_window(program: Program) -> float:
    """Return the longest window in seconds; a minute where windows count events."""
    spans = [compiled.span.within for compiled in program.queries.values() if not compiled.span.ranked]
    return max(spans, default=60_000_000) / 1e6


def estimate_work(program: Program, statistics: Statistics) -> float:
    """Estimate the seconds of work per second of a stream with these rates."""
    return NANOSECOND * sum(
        estimate_cost(branch.units, make_load(statistics, branch.partition, endless=True))
        for branch in program.branches
    )


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
    both = Workload((*own.queries, *added.queries), (*own.definitions, *new))
    return compile_workload(both, program.schema, options, sharing=keep_grouping(both, program, alone))


def remove_queries(program: Program, names: frozenset[str], options: Options) -> Program:
    """Keep the plan of the queries that stay."""
    queries = tuple(query for query in program.workload.queries if query.name not in names)
    left = replace(program.workload, queries=queries)
    return compile_workload(left, program.schema, options, sharing=keep_grouping(left, program))


def keep_grouping(workload: Workload, *programs: Program) -> Grouping:
    """Build the plan for a workload in which those queries run together that do so in one of these programs."""
    labels = {
        compiled.query.name: (number, branch.name, place)
        for number, program in enumerate(programs)
        for branch in program.branches
        for place, unit in enumerate(branch.units)
        for compiled in unit.queries
    }
    named = [(number, query.name) for number, query in enumerate(workload.queries)]
    return Grouping(tuple((number, labels[name]) for number, name in named if name in labels))
