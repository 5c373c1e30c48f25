"""What the Sharon optimizer found: candidates and what became of them, conflicts, and the plan with its proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from motet.optimizer.sharon.candidates import Candidate, Place
from motet.optimizer.sharon.graph import ConflictRidden, covered_positions
from motet.optimizer.solvers.common import relative_gap
from motet.plans.sharing import SharingPlan


@dataclass(frozen=True)
class CandidateReport:
    """A candidate, its benefit if shared by all its queries, and what became of it.

    `conflict_ridden` and `conflict_free` are the findings of the reduction of the paper's graph, before candidates are
    expanded. `chosen` are the places of the plan, maybe of only some of the queries.
    """

    candidate: Candidate
    benefit: float
    conflict_ridden: ConflictRidden | None = None
    conflict_free: bool = False
    chosen: tuple[Place, ...] = ()

    @property
    def is_beneficial(self) -> bool:
        return self.benefit > 0


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two candidates (by number) that overlap in some queries."""

    one: int
    other: int
    queries: tuple[int, ...]


@dataclass(frozen=True)
class SharonReport:
    """A plan, how good it is known to be, and how it came about.

    `variant` is the optimizer's name; `method` found the plan. `bound`: no plan scores more. `guaranteed`: what GWMIN
    reaches at least on the paper's graph. `options` and `kept` are the vertices of the expanded graph and those left
    after its reduction, where it was built. `visited` counts the plans that the search looked at. `excluded` says of
    queries, by number, why they take no part.
    """

    variant: str
    method: str
    plan: SharingPlan
    score: float
    bound: float
    candidates: tuple[CandidateReport, ...] = ()
    guaranteed: float = 0.0
    options: int | None = None
    kept: int | None = None
    visited: int = 0
    equal_rates: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    excluded: Mapping[int, str] = field(default_factory=dict)
    family: str = field(default="sharon", init=False)

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The conflicts of the paper's graph: of beneficial candidates, each shared by all its queries."""
        numbers = [number for number, judged in enumerate(self.candidates) if judged.is_beneficial]
        covering: dict[Place, list[int]] = {}
        for number in numbers:
            for covered in covered_positions(self.candidates[number].candidate.full_segment):
                covering.setdefault(covered, []).append(number)
        causes: dict[tuple[int, int], set[int]] = {}
        for (query, _), together in covering.items():
            for pair in combinations(together, 2):
                causes.setdefault(pair, set()).add(query)
        return tuple(Conflict(*pair, tuple(sorted(queries))) for pair, queries in sorted(causes.items()))

    @property
    def gap(self) -> float:
        """How far the plan may be from the best, as a share of the bound."""
        return relative_gap(self.score, self.bound)

    @property
    def is_optimal(self) -> bool:
        return self.gap <= 1e-6
