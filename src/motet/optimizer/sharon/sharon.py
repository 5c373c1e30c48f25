"""The Sharon optimizer: a greedy plan at once, then the optimal one or the best that the time allows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from motet.optimizer.rates import equal_rates, estimate_window_rates
from motet.optimizer.sharon.benefit import BENEFIT_MODELS
from motet.optimizer.sharon.candidates import Place, find_candidates
from motet.optimizer.sharon.expansion import (
    MOST_OPTIONS,
    build_packing,
    expand_candidates,
    find_promising_candidates,
    options_from_packing,
)
from motet.optimizer.sharon.graph import (
    Reduction,
    SharingOption,
    SharonGraph,
    build_sharon_graph,
    reduce_graph,
    value_candidates,
)
from motet.optimizer.sharon.report import CandidateReport, SharonReport
from motet.optimizer.solvers.common import Deadline
from motet.optimizer.solvers.independent_sets import IndependentSet, find_heaviest_set, gwmin
from motet.optimizer.solvers.lagrange import relaxation_bound, solve_relaxation
from motet.optimizer.solvers.packing import PackingSolution, solve_packing
from motet.plans.compiled import CompiledQuery
from motet.plans.sequences import find_plain_sequences
from motet.plans.sharing import SharingPlan
from motet.statistics.model import Statistics

# Shares of the time that is left: for the plan finder before the packing is solved instead, for the relaxation of the
# packing, and for HiGHS, which looks at the clock only between its own steps.
SHARE_OF_FINDER = 0.25
SHARE_OF_RELAXATION = 0.25
SHARE_OF_PACKING = 0.75
LEAST_SECONDS_FOR_PACKING = 0.5  # loading scipy takes as long
MOST_ENTRIES = 300_000  # of the integer program, for HiGHS to find anything in a few seconds


@dataclass(frozen=True, slots=True)
class SharonOptions:
    """How to search.

    Attributes:
        variant: 'sharon' (expansion, reduction, plan finder; a packing where that takes too long) or 'sharon-greedy'
            (GWMIN on the paper's graph).
        seconds: Time after which the best plan so far serves; None for no limit.
        search: 'auto', or for 'sharon' alone the paper's plan 'finder' or the 'packing'.
        most_options: The most options of candidates that the plan finder searches.
        costs: What sharing is worth: 'printed' (the paper's equations) or 'calibrated' (our kernels).
    """

    variant: str = "sharon"
    seconds: float | None = 10.0
    search: str = "auto"
    most_options: int = MOST_OPTIONS
    costs: str = "printed"


def optimize(
    queries: Sequence[CompiledQuery],
    statistics: Statistics | None = None,
    options: SharonOptions = SharonOptions(),  # noqa: B008
) -> SharonReport:
    """Return the best sharing plan that is found in the time given."""
    search = SharonSearch(queries, statistics, options)
    search.find_greedy_plan()
    if options.variant != "sharon-greedy":
        search.find_best_plan()
    return search.best


class SharonSearch:
    """A run of the optimizer: candidates, the Sharon graph, the best plan so far, and the seconds of each phase."""

    def __init__(self, queries: Sequence[CompiledQuery], statistics: Statistics | None, options: SharonOptions) -> None:
        self.options = options
        self.deadline = Deadline(options.seconds)
        self.seconds: dict[str, float] = {}
        rates = equal_rates(queries) if statistics is None else estimate_window_rates(queries, statistics)
        with self.time_phase("candidates"):
            sequences, excluded = find_plain_sequences(queries)
            self.candidates = find_candidates(sequences)
        with self.time_phase("graph"):
            self.benefit = BENEFIT_MODELS[options.costs](queries, rates)
            full_options = value_candidates(self.candidates, self.benefit)
            self.graph = build_sharon_graph(full_options)
            self.promising = find_promising_candidates(self.candidates, self.benefit)
            self.packing = build_packing(self.candidates, self.benefit, self.promising)
            self.bound = relaxation_bound(self.packing)
        with self.time_phase("reduction"):
            reduced = reduce_graph(self.graph.graph)
        self.best = SharonReport(
            variant=options.variant,
            method="none",
            plan=SharingPlan(),
            score=0.0,
            bound=self.bound,
            candidates=self._report_candidates(full_options, reduced),
            guaranteed=reduced.guaranteed,
            equal_rates=statistics is None,
            excluded=excluded,
        )

    @contextmanager
    def time_phase(self, name: str) -> Iterator[None]:
        """Add the time that a phase takes to its seconds."""
        began = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def find_greedy_plan(self) -> None:
        """Find a plan by GWMIN on the paper's graph."""
        with self.time_phase("greedy"):
            found = gwmin(self.graph.graph)
        self.accept("greedy", self.graph.select(found.vertices), self.bound, visited=found.visited)

    def find_best_plan(self) -> None:
        """Find a plan the paper's way, or by the packing where there are too many options or too little time."""
        if self.options.search != "packing":
            self._run_plan_finder()
        if self.options.search == "packing" or (self.options.search == "auto" and self.best.method != "finder"):
            self._solve_packing()

    def expand(self) -> SharonGraph | None:
        """Return the graph of all options of candidates (section VII), or None where there are too many."""
        with self.time_phase("expansion"):
            options = expand_candidates(self.candidates, self.benefit, self.promising, self.options.most_options)
            return None if options is None else build_sharon_graph(options)

    def _run_plan_finder(self) -> None:
        """Search all valid plans of the reduced graph, level by level (section VI, lemmas 4-6)."""
        expanded = self.expand()
        if expanded is None:
            self.note("there are too many options to look through valid plans one by one")
            return
        with self.time_phase("reduction"):
            reduced = reduce_graph(expanded.graph)
            left = expanded.subgraph(reduced.kept)
        with self.time_phase("search"):
            share = 1.0 if self.options.search == "finder" else SHARE_OF_FINDER
            found = find_heaviest_set(left.graph, Deadline(self.deadline.seconds_left * share))
        counts = {"options": len(expanded), "kept": len(left), "visited": found.visited}
        if not found.complete:
            self.note_timeout(found, **counts)
            return
        chosen = [*expanded.select(reduced.conflict_free), *left.select(found.vertices)]
        self.accept("finder", chosen, sum(option.benefit for option in chosen), **counts)

    def _solve_packing(self) -> None:
        """Solve the packing: its relaxation first, which is quick, then exactly by HiGHS.

        HiGHS is left out if the packing is too large for it, or nothing is left to prove.
        """
        packing = self.packing
        too_large = packing.entries > MOST_ENTRIES
        if self.options.search != "packing":
            with self.time_phase("relaxation"):
                left = self.deadline.seconds_left
                if too_large:
                    found = solve_relaxation(packing, Deadline(left * SHARE_OF_PACKING), len(packing.prices))
                else:
                    found = solve_relaxation(packing, Deadline(left * SHARE_OF_RELAXATION))
            self._accept_packing("relaxation", found)
            if too_large or found.gap == 0.0 or self.deadline.seconds_left < LEAST_SECONDS_FOR_PACKING:
                return
        with self.time_phase("packing"):
            found = solve_packing(packing, self.deadline.seconds_left * SHARE_OF_PACKING)
        self._accept_packing("packing", found)

    def _accept_packing(self, method: str, found: PackingSolution) -> None:
        """Take the plan of a packing if it is better than the best so far, and its bound in any case."""
        self.bound = min(self.bound, found.bound)
        if found.offers is None or found.value <= self.best.score:
            self.best = replace(self.best, bound=max(self.bound, self.best.score), seconds=dict(self.seconds))
            return
        chosen = options_from_packing(found.offers, self.candidates, self.benefit, self.promising)
        self.accept(method, chosen, self.bound, self.best.options, self.best.kept, self.best.visited)

    def note_timeout(self, found: IndependentSet, **counts: int) -> None:
        """Say in the report that a search had too little time."""
        self.note(f"the search was stopped after {found.visited:,} plans", **counts)

    def note(self, note: str, **counts: int) -> None:
        """Add a note to the report; the best plan stays."""
        notes = (*self.best.notes, note)
        self.best = replace(self.best, notes=notes, seconds=dict(self.seconds), **counts)  # type: ignore[arg-type]

    def accept(
        self,
        method: str,
        chosen: Iterable[SharingOption],
        bound: float,
        options: int | None = None,
        kept: int | None = None,
        visited: int = 0,
    ) -> None:
        """Take a plan as the best so far."""
        ordered = sorted(chosen, key=lambda option: option.segment.places)
        places: dict[int, tuple[Place, ...]] = {}
        for option in ordered:
            places[option.candidate] = (*places.get(option.candidate, ()), *option.segment.places)
        score = sum(option.benefit for option in ordered)
        self.best = replace(
            self.best,
            method=method,
            plan=SharingPlan(tuple(option.segment for option in ordered)),
            score=score,
            bound=max(bound, score),
            candidates=tuple(
                replace(candidate, chosen=places.get(number, ()))
                for number, candidate in enumerate(self.best.candidates)
            ),
            options=options,
            kept=kept,
            visited=visited,
            seconds=dict(self.seconds),
        )

    def _report_candidates(self, options: Sequence[SharingOption], reduced: Reduction) -> tuple[CandidateReport, ...]:
        vertex_of = {vertex.candidate: v for v, vertex in enumerate(self.graph.vertices)}
        reports = []
        for option in options:
            v = vertex_of.get(option.candidate, -1)
            ridden, free = reduced.conflict_ridden.get(v), v in reduced.conflict_free
            reports.append(CandidateReport(self.candidates[option.candidate], option.benefit, ridden, free))
        return tuple(reports)
