"""The plan of a branch: from statistics, or for the first events; made anew when events have become different.

What detection keeps between batches are events, so that a plan may take over from another at any time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from motet.engine.detect.measure import counted, rates_of
from motet.engine.detect.program import DetectBranch
from motet.engine.encode import Encoded, encode
from motet.engine.program import DETECTING, Options, Program
from motet.optimizer.detect import BLIND, plan_trees, replanned
from motet.optimizer.detect.choices import ChosenTrees, extended
from motet.plan.detect.build import PlannedQuery, plan_queries
from motet.plan.detect.cost import Rates
from motet.plan.detect.work import cost_of, expected_work, roots_of, total_cost
from motet.statistics.symbols import symbol_text

# How many pairs the share of a condition is estimated from, and how many standard deviations count as a change of it.
PAIRS = 512
DEVIATIONS = 4.0
FEW = 8  # patterns for which `auto` compares plans in no time


@dataclass(frozen=True)
class Drift:
    """When a plan is made anew: a rate or selectivity has changed by a `factor`, a rate over at least so many events.

    Rates are looked at for every batch, selectivities for every so many. A change is looked into while all that goes
    into planning stays below a `share` of the time since the first plan. A search takes no more than that share of what
    the plan that is there would cost until rates change again, nor more than `seconds`, and is not worth while where to
    build a plan takes longer. What it finds takes over where it costs less by `gain`, and saves more in that time than
    it takes to build. Rates are expected to last for so many batches (`lasting`), or as long as they have on average.
    """

    factor: float = 2.0
    events: int = 100
    batches: int = 16
    gain: float = 0.1
    seconds: float = 1.0
    share: float = 0.1
    lasting: float | None = None


@dataclass(frozen=True)
class PlanChange:
    """What came of a change of rates: the costs of the plan that was and of that which was found, for the new rates."""

    batch: int
    reason: str
    before: float
    after: float
    taken: bool


@dataclass
class Planning:
    """The plan of a branch over its life. Without `drift` it stays as it is."""

    branch: DetectBranch
    options: Options
    drift: Drift | None = None
    log: list[PlanChange] = field(default_factory=list)
    chosen: ChosenTrees | None = None
    batches: int = 0

    def __post_init__(self) -> None:
        self._planned: list[PlannedQuery] | None = None
        self._rates: Rates | None = None
        self._changes = 0  # of rates, that were looked into
        self._began = time.perf_counter()  # when the first plan was there
        self._spent = 0.0  # seconds of this thread that went into plans since
        self._building = 0.0  # those that the nodes of a plan took last

    def for_events(self, encoded: Encoded) -> list[PlannedQuery]:
        """The plan for the next events."""
        self.batches += 1
        if self._planned is None:
            self._begin(encoded)
            self._began = time.perf_counter()
        elif self.drift is not None and self.branch.wanted and self.options.optimizer not in BLIND:
            self._watch(encoded, self.drift)
        assert self._planned is not None
        return self._planned

    def take(self, chosen: ChosenTrees, rates: Rates | None) -> None:
        """Go on with other trees, chosen for these rates."""
        began = time.thread_time()
        self.chosen, self._rates = chosen, rates
        self._planned = plan_queries(self.branch.queries, chosen)
        self._building = time.thread_time() - began

    def for_queries(self, branch: DetectBranch, options: Options) -> Planning:
        """The plan for a branch whose queries are others. By multitree those that stay keep their trees, and those that
        come read what these find where that is cheapest; else, or where it was planned ahead, all is planned anew.
        """
        changed = Planning(branch, options, self.drift, self.log, batches=self.batches)
        chosen, rates = self.chosen, self._rates
        if chosen is None or rates is None or branch.trees is not None or chosen.method != "multitree":
            return changed
        found = extended(chosen, changed.branch.wanted, rates)
        reason = f"{len(self.branch.wanted)} patterns have become {len(changed.branch.wanted)}"
        before, after = chosen.considered[chosen.method], found.considered[found.method]
        self.log.append(PlanChange(self.batches, reason, before, after, taken=True))
        changed.take(found, rates)
        return changed

    def _begin(self, encoded: Encoded) -> None:
        branch, options = self.branch, self.options
        given = branch.trees
        if given is not None:
            self.chosen, self._rates, self._planned = given, given.rates, branch.planned
        else:
            rates = Rates() if options.optimizer in BLIND or not branch.wanted else rates_of(branch, encoded)
            self.take(plan_trees(branch.wanted, options.optimizer, rates, options.budget), rates)

    def _watch(self, encoded: Encoded, drift: Drift) -> None:
        if self._spent > drift.share * (time.perf_counter() - self._began):
            return
        began = time.thread_time()
        known = self._rates or Rates()
        seen = counted(encoded)
        reason = next(changed_rates(known, seen, drift), None)
        if reason is not None:
            self.replan(replace(seen, selectivity=known.selectivity), reason, drift)
        elif not self.batches % drift.batches:
            rates = rates_of(self.branch, encoded)
            reason = next(changed_selectivities(known, rates, drift), None)
            if reason is not None:
                self.replan(rates, reason, drift)
        self._spent += time.thread_time() - began

    def replan(self, rates: Rates, reason: str, drift: Drift) -> None:
        """Look for a plan for other rates where that may pay, and go on with it where it does."""
        assert self.chosen is not None
        self._changes += 1
        lasting = self.batches / self._changes if drift.lasting is None else drift.lasting
        before = self._expected(rates)
        worth = drift.share * before * 1e-9 * lasting
        if worth <= self._building:
            self.log.append(PlanChange(self.batches, reason, before, before, taken=False))
            self._rates = rates
            return
        seconds = min(drift.seconds, self.options.budget, worth)
        found = replanned(self.chosen, self.branch.wanted, self.options.optimizer, rates, seconds)
        before, after = cost_of(self.chosen.trees, rates), found.considered[found.method]
        saved = (before - after) * 1e-9 * lasting
        taken = after < before * (1 - drift.gain) and saved > self._building
        self.log.append(PlanChange(self.batches, reason, before, after, taken))
        if taken:
            self.take(found, rates)
        else:
            self._rates = rates

    def _expected(self, rates: Rates) -> float:
        """What the plan that is there costs for some rates, in nanoseconds a batch; with what no tree is chosen for."""
        assert self._planned is not None
        return total_cost(expected_work(roots_of(self._planned), rates))


def planned_ahead(program: Program, branch: DetectBranch, sample: pa.Table, share: float) -> DetectBranch:
    """A branch with trees for its events, of which a sample has a share: for whoever runs them in many places."""
    options, wanted = program.options, branch.wanted
    encoded = encode(sample, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)
    if not len(encoded.time):
        return branch
    found = rates_of(branch, encoded)
    counts = {symbol: count / share for symbol, count in found.counts.items()}
    rates = replace(found, counts=counts, events=found.events / share)
    return replace(branch, trees=plan_trees(wanted, options.optimizer, rates, options.budget))


def searches(branch: DetectBranch, options: Options) -> bool:
    """Whether a plan for the patterns of a branch takes its time, and is not there yet: an optimizer that searches was
    asked for several, or `auto` has many to compare plans for.
    """
    if branch.trees is not None or options.optimizer in BLIND:
        return False
    return len(branch.wanted) > (1 if options.optimizer in DETECTING else FEW)


def changed_rates(known: Rates, now: Rates, drift: Drift) -> Iterator[str]:
    """The symbols that come much more or less often than before."""
    for symbol in sorted({*known.counts, *now.counts}, key=repr):
        expected = known.counts.get(symbol, 0.0) * now.duration / known.duration
        seen = now.counts.get(symbol, 0.0)
        if max(expected, seen) >= drift.events and not 1 / drift.factor <= seen / max(expected, 1e-9) <= drift.factor:
            yield f"{symbol_text(symbol)} comes {seen / max(expected, 1.0):.2g} times as often"


def changed_selectivities(known: Rates, now: Rates, drift: Drift) -> Iterator[str]:
    """The tests that hold much more or less often than before, beyond what a sample may miss."""
    for measured in now.selectivity.keys() & known.selectivity.keys():
        one, other = known.selectivity[measured], now.selectivity[measured]
        high, low = max(one, other), min(one, other)
        if high - low > DEVIATIONS * math.sqrt(high / PAIRS) and high > drift.factor * low:
            yield f"a condition holds for {other:.2g} of pairs, and held for {one:.2g}"
