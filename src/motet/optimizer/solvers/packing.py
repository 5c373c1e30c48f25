"""Packings of intervals as integer programs, solved by HiGHS: exact with time, at any time with a proved gap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from motet.optimizer.solvers.common import Deadline, relative_gap

# Sets as good as each other up to this share are the same to us; HiGHS stops there.
TOLERANCE = 1e-9

Row = tuple[dict[int, float], float]  # coefficients by column, and what their sum must not exceed


@dataclass(frozen=True, slots=True)
class Offer:
    """A member of a bundle: what it gains, and the interval [`begin`, `end`) of a line that it covers."""

    bundle: int
    line: int
    begin: int
    end: int
    gain: float


@dataclass(frozen=True, slots=True)
class Packing:
    """Offers grouped in bundles. A bundle with a chosen offer costs its price once, and must serve at least two lines.
    Chosen intervals do not overlap.
    """

    prices: tuple[float, ...]
    offers: tuple[Offer, ...]

    def value(self, chosen: Collection[int]) -> float:
        """Return what a choice of offers gains after the prices of their bundles."""
        opened = {self.offers[at].bundle for at in chosen}
        return sum(self.offers[at].gain for at in sorted(chosen)) - sum(self.prices[b] for b in sorted(opened))

    @property
    def entries(self) -> int:
        """The size of the integer program: how many entries of its matrix are not zero."""
        return sum(offer.end - offer.begin + 3 for offer in self.offers) + len(self.prices)


@dataclass(frozen=True, slots=True)
class PackingSolution:
    """The chosen offers (None where nothing was found in time), their value, and a bound that no choice exceeds."""

    offers: frozenset[int] | None
    value: float
    bound: float

    @property
    def gap(self) -> float:
        return relative_gap(self.value, self.bound)


def solve_packing(packing: Packing, seconds: float | None = None) -> PackingSolution:
    """Return the most valuable choice of offers, or the best that is found in the time given.

    There is a variable for each offer and each bundle. An offer needs its bundle, which keeps the linear relaxation
    tight.
    """
    offers, bundles = packing.offers, len(packing.prices)
    ceiling = sum(max(offer.gain, 0.0) for offer in offers)
    if not offers:
        return PackingSolution(frozenset(), 0.0, 0.0)
    rows: list[Row] = []
    members: list[list[int]] = [[] for _ in range(bundles)]
    covering: dict[tuple[int, int], list[int]] = {}
    for at, offer in enumerate(offers):
        members[offer.bundle].append(at)
        rows.append(({at: 1.0, len(offers) + offer.bundle: -1.0}, 0.0))
        for point in range(offer.begin, offer.end):
            covering.setdefault((offer.line, point), []).append(at)
    for together in covering.values():
        if len(together) > 1:
            rows.append((dict.fromkeys(together, 1.0), 1.0))
    for bundle, own in enumerate(members):
        rows.append(({**dict.fromkeys(own, -1.0), len(offers) + bundle: 2.0}, 0.0))
        offered = Counter(offers[at].line for at in own)
        for line in (line for line, count in offered.items() if count > 1):
            others = [at for at in own if offers[at].line != line]  # two offers of one line do not serve two lines
            rows.append(({**dict.fromkeys(others, -1.0), len(offers) + bundle: 1.0}, 0.0))
    worth = np.array([*(offer.gain for offer in offers), *(-price for price in packing.prices)])
    # Once it is decided which bundles are open, the rest nearly always has an integral optimum (an interval matrix but
    # for the demand of two lines), so offers need not be branched on.
    only_bundles = np.repeat([0, 1], [len(offers), bundles])
    deadline = Deadline(seconds)
    outcome = _solve(worth, rows, only_bundles, deadline.seconds_left)
    if outcome.x is not None and not _is_integral(outcome.x):
        again = _solve(worth, rows, np.ones_like(only_bundles), deadline.seconds_left)
        outcome = outcome if again.x is None else again
    bound = min(_read_bound(outcome, ceiling), ceiling)
    if outcome.x is None:
        return PackingSolution(None, 0.0, bound)
    chosen = _drop_infeasible(packing, np.flatnonzero(outcome.x[: len(offers)] > 0.5).tolist())
    value = packing.value(chosen)
    return PackingSolution(chosen, value, max(value, bound))


def _is_integral(solution: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    return bool(np.all(np.abs(solution - np.round(solution)) < 1e-6))


def _drop_infeasible(packing: Packing, rounded: list[int]) -> frozenset[int]:
    """Drop the offers of a rounded solution whose bundle rounding left with a single line."""
    lines: dict[int, set[int]] = {}
    for at in rounded:
        lines.setdefault(packing.offers[at].bundle, set()).add(packing.offers[at].line)
    return frozenset(at for at in rounded if len(lines[packing.offers[at].bundle]) > 1)


def _solve(worth: Any, rows: Sequence[Row], integrality: Any, seconds: float) -> Any:
    """Maximise over zeros and ones. Values are scaled to one, because HiGHS' tolerances are absolute."""
    # Imported here: loading it takes longer than making most plans.
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    entries = [(at, column, value) for at, (row, _) in enumerate(rows) for column, value in row.items()]
    at, columns, values = zip(*entries, strict=True)
    matrix = csr_array((values, (at, columns)), shape=(len(rows), len(worth)))
    scale = float(np.abs(worth).max()) or 1.0
    options: dict[str, Any] = {"mip_rel_gap": TOLERANCE}
    if np.isfinite(seconds):
        options["time_limit"] = max(seconds, 0.01)
    outcome = milp(
        -worth / scale,
        integrality=integrality,
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, -np.inf, np.array([limit for _, limit in rows])),
        options=options,
    )
    outcome.scale = scale
    return outcome


def _read_bound(outcome: Any, ceiling: float) -> float:
    """Return a bound that no choice exceeds: the ceiling where HiGHS had no time to prove anything."""
    dual = getattr(outcome, "mip_dual_bound", None)
    if dual is None or not np.isfinite(dual):
        return ceiling
    return -float(dual) * float(outcome.scale) if -dual > TOLERANCE else 0.0
