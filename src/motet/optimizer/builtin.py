"""The optimizers that come with motet, each behind the protocol of `motet.optimizer.registry`.

A search is imported when it is first asked for: most runs need none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

from motet.optimizer.joins import JoinPlan, make_join_plan, select_join_trees
from motet.optimizer.registry import (
    AUTO,
    JoinOptimizer,
    SearchOptions,
    SharingOptimizer,
    SharingReport,
    get_join_optimizer,
    register,
)
from motet.plans.compiled import CompiledQuery
from motet.plans.detect.build import (
    JoinSpec,
    PathScan,
    PlanTree,
    Unshared,
    default_tree,
    is_plain_sequence,
    pattern_order,
)
from motet.plans.detect.cost import Rates, estimate_by_counts
from motet.statistics.model import Statistics

# What `auto` compares; of equals the first is taken.
COMPARED = ("reorder", "share", "multitree", "motto")
# Seconds that `auto` gives each optimizer that searches: at most so many, and a share of what all runs by the best plan
# without search take, since more may not pay off. Where that is less than it takes to begin with, none searches.
MOST_SECONDS = 1.0
SHARE_OF_RUNS = 0.05
SECONDS_TO_BEGIN = 0.002
SECONDS_PER_PATTERN = 0.001
# Runs of so many times what planning takes are joined as written, at the first number at once, at the second where
# another order saves no more than that.
FEW_UNPLANNED = 3.0
MOST_UNPLANNED = 15.0


@dataclass(frozen=True)
class Sharon(SharingOptimizer):
    """Sharon's optimizer, or a variant of it."""

    variant: str

    def optimize(
        self, queries: Sequence[CompiledQuery], known: Statistics | None, options: SearchOptions
    ) -> SharingReport:
        from motet.optimizer.sharon import sharon

        return sharon.optimize(queries, known, sharon.SharonOptions(self.variant, options.seconds, costs=options.costs))


@dataclass(frozen=True)
class Gloria(SharingOptimizer):
    """Gloria's optimizer, or a variant of it. Other rates put new weights on the graph that is there (section 7.2)."""

    variant: str

    def optimize(
        self, queries: Sequence[CompiledQuery], known: Statistics | None, options: SearchOptions
    ) -> SharingReport:
        from motet.optimizer.gloria import gloria

        return gloria.optimize(
            queries, known, gloria.GloriaOptions(self.variant, options.costs, seconds=options.seconds)
        )

    def reweigh(
        self, plan: SharingReport, queries: Sequence[CompiledQuery], known: Statistics | None, options: SearchOptions
    ) -> SharingReport:
        from motet.optimizer.gloria import gloria

        if known is None or not isinstance(plan, gloria.GloriaReport):
            return self.optimize(queries, known, options)
        return gloria.reweigh(plan, queries, known)


@dataclass(frozen=True)
class EachPattern(JoinOptimizer):
    """Chooses the tree of each pattern without regard to others; `shared`: equal joins are computed once."""

    name: str
    make_trees: Callable[[Sequence[JoinSpec], Rates], Mapping[JoinSpec, PlanTree]]
    shared: bool = True
    uses_statistics: bool = True
    searches: ClassVar[bool] = False

    def optimize(self, queries: Sequence[JoinSpec], known: Rates, options: SearchOptions) -> JoinPlan:
        trees = self.make_trees(queries, known)
        if not self.shared:
            trees = {spec: Unshared(tree, group) for group, (spec, tree) in enumerate(trees.items(), 1)}
        return make_join_plan(trees, self.name, known)


@dataclass(frozen=True)
class Motto(JoinOptimizer):
    """MOTTO's optimizer, or a variant of it."""

    variant: str

    def optimize(self, queries: Sequence[JoinSpec], known: Rates, options: SearchOptions) -> JoinPlan:
        from motet.optimizer.motto import motto

        found = motto.optimize(queries, known, motto.MottoOptions(self.variant, options.seconds))
        return make_join_plan({spec: found(spec) for spec in queries}, self.variant, known, found)


@dataclass(frozen=True)
class Multitree(JoinOptimizer):
    """Multi-pattern trees by local search: with `orders_only` the prefix-sharing form of the paper, with more than two
    `max_patterns` its vertex neighbourhood. The local search is simulated annealing unless given (`LocalSearch` of
    `multitree`).
    """

    name: str
    orders_only: bool = False
    max_patterns: int = 2
    local_search: Callable[..., Any] | None = None

    def optimize(
        self,
        queries: Sequence[JoinSpec],
        known: Rates,
        options: SearchOptions,
        present: JoinPlan | None = None,
    ) -> JoinPlan:
        from motet.optimizer.multitree import multitree
        from motet.optimizer.multitree.graph import PatternIndex

        start = select_join_trees(present.trees) if present is not None else {}
        kept = present.index if present is not None else None
        index = kept if isinstance(kept, PatternIndex) else PatternIndex()
        own = multitree.MultitreeOptions(
            self.orders_only, self.max_patterns, options.seconds, costs=options.costs, start=start, index=index
        )
        if self.local_search is not None:
            own = replace(own, search=self.local_search)
        found = make_join_plan(multitree.optimize(queries, known, own).plan_trees, self.name, known)
        return replace(found, index=index)

    def reweigh(self, plan: JoinPlan, queries: Sequence[JoinSpec], known: Rates, options: SearchOptions) -> JoinPlan:
        return self.optimize(queries, known, options, plan if plan.method == self.name else None)

    def extend(self, plan: JoinPlan, queries: Sequence[JoinSpec], known: Rates) -> JoinPlan | None:
        from motet.optimizer.multitree.graph import PatternIndex
        from motet.optimizer.multitree.neighbourhood import place_patterns

        if self.orders_only:
            return None
        known_trees = {spec: plan.trees[spec] for spec in queries if spec in plan.trees}
        joined = select_join_trees(known_trees)
        scanned = {spec: tree for spec, tree in known_trees.items() if spec not in joined}
        index = plan.index if isinstance(plan.index, PatternIndex) else PatternIndex()
        placed = place_patterns([spec for spec in queries if spec not in scanned], joined, known, index)
        return replace(make_join_plan({**placed, **scanned}, self.name, known), index=index)


def _choose_defaults(specs: Sequence[JoinSpec], rates: Rates) -> Mapping[JoinSpec, PlanTree]:
    return {spec: default_tree(spec) for spec in specs}


def _choose_cheapest(specs: Sequence[JoinSpec], rates: Rates) -> Mapping[JoinSpec, PlanTree]:
    from motet.optimizer.tree_search import choose_cheapest

    choose = choose_cheapest(rates)
    return {spec: choose(spec) for spec in specs}


def share_prefixes(specs: Sequence[JoinSpec], rates: Rates) -> Mapping[JoinSpec, PlanTree]:
    """Return trees in the order of the patterns; plain sequences read the paths of the longest beginning that another
    sequence has too, where there is one.
    """
    beginnings = Counter(spec.items[:size] for spec in specs for size in range(2, len(spec.items) + 1))
    trees: dict[JoinSpec, PlanTree] = {}
    for spec in specs:
        trees[spec] = default_tree(spec)
        common = [size for size in range(2, len(spec.items)) if beginnings[spec.items[:size]] > 1]
        if is_plain_sequence(spec) and common:
            beginning: PlanTree = PathScan(tuple(range(common[-1])))
            trees[spec] = reduce(lambda tree, item: (tree, item), range(common[-1], len(spec.items)), beginning)
    return trees


class Cheapest(JoinOptimizer):
    """The cheapest plan of several optimizers; those that search get no more time than that may save."""

    def plan_by_counts(self, queries: Sequence[JoinSpec], known: Rates, options: SearchOptions) -> JoinPlan | None:
        planning = 1e9 * SECONDS_PER_PATTERN * len(queries) / options.runs
        cost = sum(estimate_by_counts(spec, known) for spec in queries)
        if cost > MOST_UNPLANNED * planning:
            return None
        if cost > FEW_UNPLANNED * planning:
            saved = cost - sum(estimate_by_counts(spec, known, rarest_first=True) for spec in queries)
            if saved > planning:
                return None
        return JoinPlan({spec: pattern_order(spec) for spec in queries}, "share", {"share": cost}, known)

    def optimize(self, queries: Sequence[JoinSpec], known: Rates, options: SearchOptions) -> JoinPlan:
        compared = [get_join_optimizer(name) for name in COMPARED]
        plans = [each.optimize(queries, known, options) for each in compared if not each.searches]
        worth = SHARE_OF_RUNS * min(plan.cost for plan in plans) * 1e-9 * options.runs
        # A single pattern shares nothing, and its cheapest tree is known.
        if len(queries) > 1 and worth >= SECONDS_TO_BEGIN + SECONDS_PER_PATTERN * len(queries):
            seconds = min(MOST_SECONDS, worth) if options.seconds is None else min(MOST_SECONDS, worth, options.seconds)
            searching = replace(options, seconds=seconds)
            plans += [each.optimize(queries, known, searching) for each in compared if each.searches]
        best = min(plans, key=lambda plan: plan.cost)
        return replace(best, considered={plan.method: plan.cost for plan in plans})


register(AUTO, "the cheapest of the plans that are compared", joins=Cheapest(), by_statistics=False)
register("prefix", "equal prefixes of aggregate queries are computed once", by_statistics=False)
register(
    "none",
    "every query runs alone, and joins in the order of its pattern",
    joins=EachPattern("none", _choose_defaults, shared=False, uses_statistics=False),
    by_statistics=False,
)
register("sharon", "aggregate queries share runs of symbols anywhere in their patterns", Sharon("sharon"))
register("sharon-greedy", "as sharon, chosen greedily (GWMIN)", Sharon("sharon-greedy"))
register("gloria", "aggregate queries share single transitions, repetitions included", Gloria("gloria"))
register("gloria-greedy", "as gloria, where queries that share once go on sharing", Gloria("gloria-greedy"))
register("gloria-noprune", "as gloria, without pruning its graph", Gloria("gloria-noprune"))
register(
    "share",
    "joins in the order of the pattern, equal joins computed once",
    joins=EachPattern("share", share_prefixes, uses_statistics=False),
)
register(
    "reorder",
    "each pattern joined as is cheapest for it alone, equal joins computed once",
    joins=EachPattern("reorder", _choose_cheapest),
)
register(
    "motto",
    "sub-queries that several patterns have in common computed once, chosen as a Steiner tree",
    joins=Motto("motto"),
)
register("motto-merge", "as motto, with nothing but whole queries inside others", joins=Motto("motto-merge"))
register(
    "multitree",
    "join trees of all patterns by local search, equal subtrees computed once",
    joins=Multitree("multitree"),
)
register("multitree-prefix", "as multitree, with orders in place of trees", joins=Multitree("multitree-prefix", True))
register(
    "multitree-vertex",
    "as multitree, with up to four patterns sharing a part by one move",
    joins=Multitree("multitree-vertex", max_patterns=4),
)
