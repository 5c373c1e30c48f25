"""Search for the cheapest way to divide queries into units, each with totals per slot or between pairs.

A unit's cost follows from sums over its parts (`motet.plans.cost`), so moving a query from one unit to another changes
only the parts that no other query of the two has. The search starts from several divisions, those with one form for
all and those that split queries by how densely their events come, and moves queries one by one as long as that saves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from motet.plans.compiled import CompiledQuery
from motet.plans.cost import Load, UnitParts, UnitProfile, price

Form = Literal["slots", "pairs", "stacks"]
Division = list[tuple[Form, list[int]]]  # units, each with the places of its queries

MOST_SPLITS = 8
IMPROVED_STARTS = 2
# Moves that are tried: as many as take a share of what the run is estimated to take, each about so many nanoseconds.
SHARE_OF_RUN = 0.02
MOVE_TIME = 100_000
FEWEST_MOVES = 100
MOST_MOVES = 20_000
LEAST_GAIN = 1e-6  # of a unit's cost, for a move to count


@dataclass
class _TrialUnit:
    """A unit of a division that is being improved: how many of its queries have each part, and what these add up to."""

    form: Form
    parts: UnitParts
    members: set[int]
    spans: Counter[UnitProfile]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    cost: float = 0.0

    def cost_with(self, sums: NDArray[np.float64], spans: Counter[UnitProfile]) -> float:
        """Return what it costs with other sums and windows."""
        kinds = [kind for kind, number in spans.items() if number]
        if not kinds:
            return 0.0
        whole = kinds[0]
        for kind in kinds[1:]:
            whole |= kind
        return price(self.parts.work(sums, replace(whole, number=spans.total())))

    def cost_to_add(self, at: int, kind: UnitProfile) -> tuple[float, NDArray[np.float64]]:
        """Return what it costs with one more query, and the sums of its parts then."""
        own = self.parts.own[at]
        sums = self.sums + self.parts.sums[own[self.counts[own] == 0]].sum(axis=0)
        return self.cost_with(sums, self.spans + Counter([kind])), sums

    def cost_to_remove(self, at: int, kind: UnitProfile) -> tuple[float, NDArray[np.float64]]:
        """Return what it costs with one query less, and the sums of its parts then."""
        own = self.parts.own[at]
        sums = self.sums - self.parts.sums[own[self.counts[own] == 1]].sum(axis=0)
        return self.cost_with(sums, self.spans - Counter([kind])), sums


class UnitSearch:
    """The search over divisions of some queries: `parts` has what queries consist of by each form that they may have,
    `allowed` says which form a query can have.
    """

    def __init__(
        self,
        queries: Sequence[CompiledQuery],
        parts: Mapping[Form, UnitParts],
        allowed: Callable[[Form, int], bool],
        load: Load,
    ) -> None:
        self.queries = queries
        self.parts = parts
        self.allowed = allowed
        self.load = load
        self.kinds = [replace(UnitProfile.of([compiled]), number=1) for compiled in queries]

    def find_division(self) -> Division:
        """Return the cheapest division that is found."""
        starts = [[self._make_unit(*each) for each in start] for start in self._list_starts()]
        starts.sort(key=_total_cost)
        run = _total_cost(starts[0]) * self.load.seconds
        moves = int(min(max(SHARE_OF_RUN * run / MOVE_TIME, FEWEST_MOVES), MOST_MOVES))
        for units in starts[:IMPROVED_STARTS]:
            moves = self._improve(units, moves)
        best = min(starts, key=_total_cost)
        return [(unit.form, sorted(unit.members)) for unit in best if unit.members]

    def _list_starts(self) -> list[Division]:
        every = list(range(len(self.queries)))
        starts: list[Division] = []
        for form in self.parts:
            able = [at for at in every if self.allowed(form, at)]
            rest = [at for at in every if not self.allowed(form, at)]
            if able:
                starts.append([(form, able), ("slots", rest)])
        # Pairs pay where a pane holds many events of a key.
        dense_first = sorted((at for at in every if self.allowed("pairs", at)), key=self._measure_density, reverse=True)
        density = [self._measure_density(at) for at in dense_first]
        jumps = sorted(range(1, len(density)), key=lambda at: density[at] - density[at - 1])
        for cut in jumps[:MOST_SPLITS]:
            dense = set(dense_first[:cut])
            starts.append([("pairs", dense_first[:cut]), ("slots", [at for at in every if at not in dense])])
        windows: dict[UnitProfile, list[int]] = {}
        for at in every:
            windows.setdefault(self.kinds[at], []).append(at)
        starts.append([("slots", members) for members in windows.values()])
        return starts

    def _measure_density(self, at: int) -> float:
        """Return how many events of a query a key has in a pane that has any."""
        rate = sum(self.load.rate(symbol) for symbol in set(self.queries[at].symbols))
        cells = self.load.cells_with(rate, self.kinds[at].pane)
        return rate / cells if cells > 0 else 0.0

    def _make_unit(self, form: Form, members: Sequence[int]) -> _TrialUnit:
        parts = self.parts[form]
        counts = np.zeros(len(parts.sums), np.int64)
        for at in members:
            counts[parts.own[at]] += 1
        spans = Counter(self.kinds[at] for at in members)
        unit = _TrialUnit(form, parts, set(members), spans, counts, parts.sums[counts > 0].sum(axis=0))
        unit.cost = unit.cost_with(unit.sums, spans)
        return unit

    def _improve(self, units: list[_TrialUnit], moves: int) -> int:
        """Move queries between units as long as that saves; return how many moves may still be tried."""
        unmoved = 0
        while unmoved < len(self.queries):
            for at in range(len(self.queries)):
                moves -= len(units) + len(self.parts)
                if moves < 0:
                    return 0
                unmoved = 0 if self._move(at, units) else unmoved + 1
        return moves

    def _move(self, at: int, units: list[_TrialUnit]) -> bool:
        """Move a query to the unit where all of them together cost least, maybe a new one; return whether it moved."""
        kind = self.kinds[at]
        home = next(unit for unit in units if at in unit.members)
        without, sums_without = home.cost_to_remove(at, kind)
        others = [unit for unit in units if unit is not home and unit.members]
        others += [self._make_unit(form, ()) for form in self.parts]
        able = [(unit, *unit.cost_to_add(at, kind)) for unit in others if self.allowed(unit.form, at)]
        target, cost, sums = min(able, key=lambda found: found[1] - found[0].cost)
        if (cost - target.cost) - (home.cost - without) > -LEAST_GAIN * home.cost:
            return False
        if not any(target is unit for unit in units):
            units.append(target)
        for unit, new_cost, new_sums, by in ((home, without, sums_without, -1), (target, cost, sums, 1)):
            unit.cost, unit.sums = new_cost, new_sums
            unit.counts[unit.parts.own[at]] += by
            unit.spans[kind] += by
            (unit.members.add if by > 0 else unit.members.discard)(at)
        return True


def _total_cost(units: Sequence[_TrialUnit]) -> float:
    return math.fsum(unit.cost for unit in units)
