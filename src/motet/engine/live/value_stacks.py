"""Run a query with adjacent conditions by two stacks, where events have few values: with nodes for each value.

Under a condition such as a.x < NEXT(a).x, what may follow a match depends on the value of its last event alone. So each
node that such a condition leaves becomes one node for each value, and the steps of an event lead on from those that its
own value may follow. No condition is left then, and two stacks can run the query: an event costs what its steps do,
however many events a window holds. With many values that is more than totals by start cost, and these take over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import eq, ge, gt, le, lt, ne

import numpy as np
from numpy.typing import NDArray

from motet.engine.context import Classes, RunContext
from motet.engine.encode import EncodedEvents
from motet.engine.live.stacks import StackUnit
from motet.engine.live.trends import TrendUnit, UnitOutgrown, select_trend_events
from motet.engine.trends import list_edges
from motet.kernels.numbering import RowIndex
from motet.kernels.tables import Events, Machine, Queries
from motet.kernels.trends import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NO_VALUE, UNEQUAL, Edges
from motet.plans.machine import MachineEdge, MergedAutomaton, Shift, Weights, build_machine, build_queries_table
from motet.plans.units import Unit
from motet.template.symbols import Symbol

# With more steps than this, totals by start are cheaper in most windows.
MAX_STEPS = 256

Ints = NDArray[np.int64]
Codes = tuple[int, ...]
Copy = tuple[int, Codes]  # a node of the machine, and the value that its copy is for
COMPARE: dict[int, Callable[[int, int], bool]] = {
    LESS: lt,
    LESS_EQUAL: le,
    GREATER: gt,
    GREATER_EQUAL: ge,
    EQUAL: eq,
    UNEQUAL: ne,
}


@dataclass(frozen=True, slots=True)
class ValuedSymbol(Symbol):
    """A symbol of events that have the value of this number in conditions."""

    value: int = 0


def can_split_by_value(unit: Unit) -> bool:
    """Return whether two stacks could run a unit if it had no conditions, better than totals of its few windows."""
    compiled = unit.queries[0]
    return compiled.span.is_continuous and not compiled.needs_window_close


class ConditionedSteps:
    """Which steps of a machine are under conditions, and for which of its symbols the values of events matter."""

    def __init__(self, merged: MergedAutomaton, edges: Edges) -> None:
        self.merged = merged
        ends = list(zip(edges.source.tolist(), edges.target.tolist(), strict=True))
        spans = [range(*edges.offsets[at : at + 2].tolist()) for at in range(len(ends))]
        self.conditions = dict(zip(ends, spans, strict=True))
        self.compare = [COMPARE[operator] for operator in edges.operator.tolist()]
        # Settled nodes whose matches are told apart by the values of their last events, for each condition.
        self.split = [self._lead_to(source) for (source, _), span in self.conditions.items() for _ in span]
        self.is_split = [any(merged.fold[node] in nodes for nodes in self.split) for node in range(merged.size)]
        self.valued = frozenset(edge.symbol for edge in merged.edges if self.needs_value(edge))

    def needs_value(self, edge: MachineEdge) -> bool:
        """Return whether a step depends on the value of its event, or leads to a node that does."""
        return (edge.source, edge.target) in self.conditions or self.is_split[edge.target]

    def _lead_to(self, node: int) -> set[int]:
        """Return the nodes whose matches may be moved to a node, and that node."""
        found = {node}
        while more := {shift.source for shift in self.merged.shifts if shift.target in found} - found:
            found |= more
        return found

    def find_relevant(self, classes: Classes) -> NDArray[np.bool_]:
        """Return, by condition and class of events, whether they may be the earlier one, and so for the later one."""
        merged = self.merged
        before = [{edge.symbol for edge in merged.edges if merged.fold[edge.target] in nodes} for nodes in self.split]
        after = [
            {edge.symbol for edge in merged.edges if (edge.source, edge.target) == ends}
            for ends, span in self.conditions.items()
            for _ in span
        ]
        return np.array([[bool(own & found) for own in classes] for found in (*before, *after)], np.bool_)

    def split_by_value(self, values: Sequence[Codes], numbers: Mapping[Symbol, set[int]]) -> MergedAutomaton:
        """Build the machine that has a node for each value, given which values the events of each symbol have.

        The codes of a value are those of an earlier event, by condition, and then those of a later one.
        """
        merged, size = self.merged, len(self.compare)
        copies = self._find_copies([codes[:size] for codes in values], numbers)
        steps: list[tuple[Symbol, Copy, Copy, Weights]] = []
        for edge in merged.edges:
            span = self.conditions.get((edge.source, edge.target), range(0))
            for number in sorted(numbers.get(edge.symbol, ())) if self.needs_value(edge) else (None,):
                symbol = edge.symbol if number is None else set_value(edge.symbol, number)
                later = () if number is None else values[number][size:]
                target = edge.target, values[number][:size] if number is not None and self.is_split[edge.target] else ()
                for earlier in copies[edge.source]:
                    if all(self._holds(c, earlier[c], later[c]) for c in span):
                        steps.append((symbol, (edge.source, earlier), target, edge.weights))
        shifts: list[tuple[Symbol, Copy, Copy | None]] = []
        for shift in merged.shifts:
            for codes in copies[shift.source]:
                end = (shift.target, codes if self.is_split[shift.target] else ()) if shift.target >= 0 else None
                shifts.append((shift.symbol, (shift.source, codes), end))
        # Conditions may leave nodes that no match can reach: tables have no place for them.
        moves = [(source, target) for _, source, target, _ in steps]
        moves += [(source, target) for _, source, target in shifts if target is not None]
        folds = {(node, codes): (merged.fold[node], codes) for node in range(merged.size) for codes in copies[node]}
        reached = _find_reached({(start, ()) for start in merged.starts}, [*moves, *folds.items()])
        keys = [key for key in folds if key in reached]
        place = {key: at for at, key in enumerate(keys)}
        return replace(
            merged,
            size=len(keys),
            edges=tuple(
                MachineEdge(symbol, place[source], place[target], weights)
                for symbol, source, target, weights in steps
                if source in reached
            ),
            shifts=tuple(
                Shift(symbol, place[source], -1 if target is None else place[target])
                for symbol, source, target in shifts
                if source in reached
            ),
            fold=tuple(place[folds[key]] for key in keys),
            starts=frozenset(place[start, ()] for start in merged.starts),
            accepting=tuple(
                tuple(place[node, codes] for node in nodes for codes in copies[node] if (node, codes) in reached)
                for nodes in merged.accepting
            ),
            nodes=(tuple(range(len(keys))),),
        )

    def _holds(self, condition: int, earlier: int, later: int) -> bool:
        return NO_VALUE not in (earlier, later) and self.compare[condition](earlier, later)

    def _find_copies(self, earlier: Sequence[Codes], numbers: Mapping[Symbol, set[int]]) -> list[list[Codes]]:
        """Return by node the codes of the values of which it has a node each: one without codes, if it is not split."""
        merged = self.merged
        found: list[set[Codes]] = [set() if is_split else {()} for is_split in self.is_split]
        for edge in merged.edges:
            if self.is_split[edge.target]:
                codes = {earlier[number] for number in numbers.get(edge.symbol, ())}
                found[edge.target] |= codes
                found[merged.fold[edge.target]] |= codes
        changed = True
        while changed:
            before = sum(map(len, found))
            for shift in merged.shifts:
                if shift.target >= 0 and self.is_split[shift.target]:
                    found[shift.target] |= found[shift.source]
                    found[merged.fold[shift.target]] |= found[shift.source]
            changed = sum(map(len, found)) > before
        return [sorted(codes) for codes in found]


def _find_reached(starts: set[Copy], moves: Sequence[tuple[Copy, Copy]]) -> set[Copy]:
    """Return the nodes that can be reached. O(moves * depth)."""
    found = set(starts)
    while more := {target for source, target in moves if source in found} - found:
        found |= more
    return found


def set_value(symbol: Symbol, value: int) -> ValuedSymbol:
    """Return the symbol of events that have this value."""
    return ValuedSymbol(symbol.type, symbol.conditions, value)


class ValueStackUnit(StackUnit):
    """A unit of one query with adjacent conditions that two stacks run, with nodes for each value seen so far.

    With a further value it begins anew, and with too many as a `TrendUnit`. So that happens a few times in all.
    """

    def __init__(self, context: RunContext, unit: Unit) -> None:
        super().__init__(context, unit)
        self.edges = list_edges(unit.queries[0])
        self._selected: tuple[EncodedEvents, Events, Edges] | None = None
        self._steps: ConditionedSteps | None = None
        self._relevant: tuple[Classes, NDArray[np.bool_]] | None = None
        self._values: RowIndex | None = None
        self._numbers: dict[Symbol, set[int]] = {}  # the values of each symbol's events
        self._classes: dict[frozenset[Symbol], int] = {}
        self._tables: tuple[int, Machine, Queries] | None = None

    def enlarge(self) -> StackUnit | TrendUnit:
        """Begin anew with the values known by now, or with totals by start."""
        assert self._steps is not None
        assert self._values is not None
        self.clear()
        if self._values.count <= MAX_STEPS:
            values = [tuple(codes) for codes in self._values.words[: self._values.count].tolist()]
            self.merged = self._steps.split_by_value(values, self._numbers)
            self._tables = None
            if len(self.merged.edges) <= MAX_STEPS:
                return self
        return TrendUnit(self.context, self.unit)

    def prepare(self, encoded: EncodedEvents) -> None:
        """Compute what conditions compare. Raises `DataError`, with the state unchanged, if some row has no such."""
        if self._selected is None or self._selected[0] is not encoded:
            self._selected = encoded, *select_trend_events(self.unit, self.edges, encoded)

    def _select_events(self, encoded: EncodedEvents) -> Events:
        """Return the unit's events, with classes that tell values apart.

        Raises `UnitOutgrown`, before any of them is processed, if some value is new.
        """
        self.prepare(encoded)
        assert self._selected is not None
        _, events, edges = self._selected
        self._selected = None
        if self._steps is None:
            self._steps, self._values = ConditionedSteps(self.unit.merged, edges), RowIndex(2 * len(edges.before))
        steps, values = self._steps, self._values
        assert values is not None
        if self._relevant is None or self._relevant[0] != encoded.classes:
            self._relevant = list(encoded.classes), steps.find_relevant(encoded.classes)
        codes = np.concatenate((edges.before, edges.after))
        value = values.number(np.where(self._relevant[1][:, events.klass], codes, NO_VALUE).T.copy())
        if values.count > MAX_STEPS:
            raise UnitOutgrown
        pair = events.klass * np.int64(values.count) + value
        found = np.flatnonzero(np.bincount(pair, minlength=1)).tolist()
        known = self._count_numbers()
        numbers = np.zeros(len(encoded.classes) * values.count, np.int32)
        numbers[found] = [self._number_class(encoded.classes[at // values.count], at % values.count) for at in found]
        if self._count_numbers() > known:
            raise UnitOutgrown
        return events._replace(klass=numbers[pair])

    def _count_numbers(self) -> int:
        return sum(map(len, self._numbers.values()))

    def _number_class(self, symbols: frozenset[Symbol], value: int) -> int:
        """Return the number of the class of events that have these symbols and a value."""
        assert self._steps is not None
        own = symbols & self.unit.merged.symbols
        for symbol in own & self._steps.valued:
            self._numbers.setdefault(symbol, set()).add(value)
        own |= {set_value(symbol, value) for symbol in own & self._steps.valued}
        return self._classes.setdefault(own, len(self._classes))

    def _build_tables(self, encoded: EncodedEvents) -> tuple[Machine, Queries]:
        if self._tables is None or self._tables[0] != len(self._classes):
            machine = build_machine(self.merged, list(self._classes))
            self._tables = len(self._classes), machine, build_queries_table(self.merged)
        return self._tables[1:]
