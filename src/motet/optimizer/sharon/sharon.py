"""The Sharon optimizer: a greedy plan at once, then the optimal one or the best that the time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from motet.optimizer.rates import PositionRates, equal_rates, estimate_window_rates
from motet.optimizer.sharon.benefit import BenefitModel, PrintedBenefit
from motet.optimizer.sharon.candidates import Place, find_candidates
from motet.optimizer.sharon.expansion import MOST_OPTIONS, expand_candidates, find_promising_candidates
from motet.optimizer.sharon.graph import SharingOption, SharonGraph, build_sharon_graph, value_candidates
from motet.optimizer.sharon.packing import build_packing, options_from_packing, relaxation_bound
from motet.optimizer.sharon.plan_finder import find_plan
from motet.optimizer.sharon.reduction import Reduction, reduce_graph
from motet.optimizer.sharon.report import CandidateReport, SharonReport
from motet.optimizer.solvers.graph import Deadline, IndependentSet
from motet.optimizer.solvers.independent_sets import gwmin, search_exhaustively
from motet.optimizer.solvers.lagrange import solve_relaxation
from motet.optimizer.solvers.packing import PackingSolution, solve_packing
from motet.plans.compiled import CompiledQuery
from motet.plans.sequences import find_plain_sequences
from motet.plans.sharing import SharingPlan
from motet.statistics.model import Statistics

SHARON, GREEDY, EXHAUSTIVE = "sharon", "sharon-greedy", "sharon-exhaustive"
VARIANTS = (SHARON, GREEDY, EXHAUSTIVE)

# Of the time that is left, how much the plan finder may take before the packing is looked at instead, then how much its
# relaxation may take, and how much HiGHS is told that it has: it looks at the clock only between its own steps.
SHARE_OF_FINDER = 0.25
SHARE_OF_RELAXATION = 0.25
SHARE_OF_PACKING = 0.75
LEAST_FOR_PACKING = 0.5  # seconds: to load scipy takes as long
MOST_ENTRIES = 300_000  # of the integer program, for HiGHS to come to anything in a few seconds


def _printed(_: Sequence[CompiledQuery], rates: PositionRates) -> BenefitModel:
    return PrintedBenefit(rates)


@dataclass(frozen=True, slots=True)
class SharonOptions:
    """How to search.

    `variant`: 'sharon' (expansion, reduction, plan finder; a packing where that takes too long), 'sharon-greedy' (GWMIN
    on the paper's graph) or 'sharon-exhaustive' (every set of options). `search` binds 'sharon' to the paper's 'finder'
    or to the 'packing'. `seconds`: after that the best plan so far serves; None for no limit. `model` says what sharing
    is worth.
    """

    variant: str = SHARON
    seconds: float | None = 10.0
    search: str = "auto"
    most_options: int = MOST_OPTIONS
    model: Callable[[Sequence[CompiledQuery], PositionRates], BenefitModel] = _printed


def optimize(
    queries: Sequence[CompiledQuery],
    statistics: Statistics | None = None,
    options: SharonOptions = SharonOptions(),  # noqa: B008
) -> SharonReport:
    """The best sharing plan that can be found in the time given."""
    *_, last = improve(queries, statistics, options)
    return last


def improve(
    queries: Sequence[CompiledQuery],
    statistics: Statistics | None = None,
    options: SharonOptions = SharonOptions(),  # noqa: B008
) -> Iterator[SharonReport]:
    """Better and better plans: the greedy one first, which can serve while the next is looked for."""
    rates = equal_rates(queries) if statistics is None else estimate_window_rates(queries, statistics)
    search = _Search(queries, rates, options, statistics is None)
    yield search.greedy()
    if options.variant == EXHAUSTIVE:
        yield search.exhaustive()
    elif options.variant == SHARON:
        yield from search.optimal()


class Improving:
    """A plan to begin with, at once, and the best one as soon as a thread has found it."""

    def __init__(
        self,
        queries: Sequence[CompiledQuery],
        statistics: Statistics | None = None,
        options: SharonOptions = SharonOptions(),  # noqa: B008
    ) -> None:
        reports = improve(queries, statistics, options)
        self.first = next(reports)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sharon")
        self._last: Future[SharonReport] = self._pool.submit(self._exhaust, reports)
        self._pool.shutdown(wait=False)

    def _exhaust(self, reports: Iterator[SharonReport]) -> SharonReport:
        *_, last = (self.first, *reports)
        return last

    @property
    def best(self) -> SharonReport:
        """The best plan so far."""
        return self._last.result() if self._last.done() else self.first

    def wait(self, seconds: float | None = None) -> SharonReport:
        """The last plan; raises `TimeoutError` where it takes longer than that."""
        return self._last.result(seconds)


class _Search:
    """One run of the optimizer: what it has worked out, and how long each phase took."""

    def __init__(
        self, queries: Sequence[CompiledQuery], rates: PositionRates, options: SharonOptions, assumed_rates: bool
    ) -> None:
        self.options = options
        self.deadline = Deadline(options.seconds)
        self.seconds: dict[str, float] = {}
        with self.phase("candidates"):
            sequences, excluded = find_plain_sequences(queries)
            self.candidates = find_candidates(sequences)
        with self.phase("graph"):
            self.benefit = options.model(queries, rates)
            self.whole = value_candidates(self.candidates, self.benefit)
            self.graph = build_sharon_graph(self.whole)
            self.promising = find_promising_candidates(self.candidates, self.benefit)
            self.bound = relaxation_bound(self.candidates, self.benefit, self.promising)
        with self.phase("reduction"):
            reduced = reduce_graph(self.graph.graph)
        self.base = SharonReport(
            variant=options.variant,
            method="none",
            plan=SharingPlan(),
            score=0.0,
            bound=self.bound,
            candidates=self._report_candidates(reduced),
            guaranteed=reduced.guaranteed,
            equal_rates=assumed_rates,
            excluded=excluded,
        )
        self.current = self.base

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def greedy(self) -> SharonReport:
        """GWMIN on the paper's graph."""
        with self.phase("greedy"):
            found = gwmin(self.graph.graph)
        return self._accept("greedy", _select_options(self.graph, found), self.bound, visited=found.visited)

    def exhaustive(self) -> SharonReport:
        """Every set of options, with nothing pruned but what is not beneficial."""
        expanded = self._expand()
        if expanded is None:
            return self._keep_current("there are too many options to look at every set of them: the greedy plan serves")
        with self.phase("search"):
            found = search_exhaustively(expanded.graph, self.deadline)
        if not found.complete:
            return self._keep_current(self._out_of_time(found), options=len(expanded), visited=found.visited)
        return self._accept(
            "exhaustive", _select_options(expanded, found), found.bound, len(expanded), visited=found.visited
        )

    def optimal(self) -> Iterator[SharonReport]:
        """The paper's way, or the packing where that has too many options or takes too long."""
        if self.options.search != "packing":
            report = self._run_plan_finder()
            yield report
            if report.method == "finder" or self.options.search == "finder":
                return
        yield from self._solve_packing()

    def _run_plan_finder(self) -> SharonReport:
        expanded = self._expand()
        if expanded is None:
            return self._keep_current("there are too many options to look through valid plans one by one")
        with self.phase("reduction"):
            reduced = reduce_graph(expanded.graph)
            left = expanded.subgraph(reduced.kept)
        with self.phase("search"):
            whole = self.options.search == "finder"
            found = find_plan(left.graph, Deadline(self.deadline.seconds_left * (1 if whole else SHARE_OF_FINDER)))
        counted = {"options": len(expanded), "kept": len(left), "visited": found.visited}
        if not found.complete:
            return self._keep_current(self._out_of_time(found), **counted)
        chosen = [*(expanded.vertices[v] for v in sorted(reduced.conflict_free)), *_select_options(left, found)]
        return self._accept("finder", chosen, sum(choice.benefit for choice in chosen), **counted)

    def _solve_packing(self) -> Iterator[SharonReport]:
        """The packing: relaxed first, which is quick, then by HiGHS unless it is too large for that or nothing is left
        to prove.
        """
        with self.phase("packing"):
            packing = build_packing(self.candidates, self.benefit, self.promising)
        too_large = packing.entries > MOST_ENTRIES
        if self.options.search != "packing":
            with self.phase("relaxation"):
                if too_large:
                    relaxed = solve_relaxation(
                        packing, Deadline(self.deadline.seconds_left * SHARE_OF_PACKING), len(packing.prices)
                    )
                else:
                    relaxed = solve_relaxation(packing, Deadline(self.deadline.seconds_left * SHARE_OF_RELAXATION))
            yield self._accept_packing("relaxation", relaxed)
            if too_large or relaxed.gap == 0.0 or self.deadline.seconds_left < LEAST_FOR_PACKING:
                return
        with self.phase("packing"):
            packed = solve_packing(packing, self.deadline.seconds_left * SHARE_OF_PACKING)
        yield self._accept_packing("packing", packed)

    def _accept_packing(self, method: str, packed: PackingSolution) -> SharonReport:
        """The plan of a packing if it is better than the one that serves; its bound in any case."""
        self.bound = min(self.bound, packed.bound)
        if packed.offers is None or packed.value <= self.current.score:
            bound = max(self.bound, self.current.score)
            self.current = replace(self.current, bound=bound, seconds=dict(self.seconds))
            return self.current
        chosen = options_from_packing(packed.offers, self.candidates, self.benefit, self.promising)
        counted = (self.current.options, self.current.kept, self.current.visited)
        return self._accept(method, chosen, self.bound, *counted)

    def _expand(self) -> SharonGraph | None:
        with self.phase("expansion"):
            options = expand_candidates(self.candidates, self.benefit, self.promising, self.options.most_options)
            return None if options is None else build_sharon_graph(options)

    def _out_of_time(self, found: IndependentSet) -> str:
        return f"the search was stopped after {found.visited:,} plans"

    def _keep_current(self, note: str, **counted: int) -> SharonReport:
        """The plan that serves goes on serving."""
        notes = (*self.current.notes, note)
        self.current = replace(self.current, notes=notes, seconds=dict(self.seconds), **counted)  # type: ignore[arg-type]
        return self.current

    def _accept(
        self,
        method: str,
        chosen: Iterable[SharingOption],
        bound: float,
        options: int | None = None,
        kept: int | None = None,
        visited: int = 0,
    ) -> SharonReport:
        """A new plan serves from now on."""
        choices = sorted(chosen, key=lambda choice: choice.segment.places)
        places: dict[int, tuple[Place, ...]] = {}
        for choice in choices:
            places[choice.candidate] = (*places.get(choice.candidate, ()), *choice.segment.places)
        score = sum(choice.benefit for choice in choices)
        self.current = replace(
            self.base,
            method=method,
            plan=SharingPlan(tuple(choice.segment for choice in choices)),
            score=score,
            bound=max(bound, score),
            candidates=tuple(
                replace(judged, chosen=places.get(number, ())) for number, judged in enumerate(self.base.candidates)
            ),
            options=options,
            kept=kept,
            visited=visited,
            seconds=dict(self.seconds),
            notes=self.current.notes,
        )
        return self.current

    def _report_candidates(self, reduced: Reduction) -> tuple[CandidateReport, ...]:
        vertex_of = {vertex.candidate: v for v, vertex in enumerate(self.graph.vertices)}
        judged = []
        for choice in self.whole:
            v = vertex_of.get(choice.candidate, -1)
            judged.append(
                CandidateReport(
                    self.candidates[choice.candidate],
                    choice.benefit,
                    reduced.conflict_ridden.get(v),
                    v in reduced.conflict_free,
                )
            )
        return tuple(judged)


def _select_options(graph: SharonGraph, found: IndependentSet) -> list[SharingOption]:
    return [graph.vertices[v] for v in sorted(found.chosen)]
