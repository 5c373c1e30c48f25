"""Filter the matches of a query: conditions that need the whole match, its policy, and absences at its ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.code import ExpressionCompiler, build_conditions
from motet.engine.detect.instances import NodeRunner
from motet.engine.encode import EncodedEvents, Ints
from motet.errors import DataError
from motet.kernels.expressions import OVERFLOW, Bytecode
from motet.kernels.match_filter import (
    CONTIGUOUS,
    SKIP_TILL_ANY,
    SKIP_TILL_NEXT,
    CompiledConditions,
    KeyedEvents,
    Matches,
    OuterAbsences,
    Rules,
    check_outer_absences,
    filter_matches,
    new_match_scratch,
    sort_steps,
)
from motet.model.expression import variables
from motet.model.query import Computed, Policy
from motet.plans.detect.build import PlannedAlternative
from motet.plans.detect.query import DetectQuery
from motet.template.alternatives import Leaf, Loop

POLICIES = {
    Policy.SKIP_TILL_ANY: SKIP_TILL_ANY,
    Policy.SKIP_TILL_NEXT: SKIP_TILL_NEXT,
    Policy.CONTIGUOUS: CONTIGUOUS,
}


@dataclass(frozen=True)
class QueryCode:
    """The numbers of a query's compiled conditions: on the match, on each absence, and of what RETURN computes."""

    match_conditions: tuple[int, ...]
    absent: tuple[tuple[int, ...], ...]
    computed: dict[str, int]  # by label of RETURN


def compile_conditions(query: DetectQuery, compiler: ExpressionCompiler) -> QueryCode:
    """Compile what is tested on whole matches, and what RETURN computes from them."""
    return QueryCode(
        tuple(compiler.add(condition, query.names) for condition in query.match_conditions),
        tuple(tuple(compiler.add(condition, query.names) for condition in each) for each in query.absence_conditions),
        {
            item.label: compiler.add(item.expression, query.names, bound=False)
            for item in query.query.returns
            if isinstance(item, Computed)
        },
    )


@dataclass
class MatchFilter:
    """Filter for the matches of one alternative of a query."""

    query: DetectQuery
    reading: PlannedAlternative
    numbers: QueryCode
    code: Bytecode
    runner: NodeRunner
    oldest: Ints | None  # what the query's own window allows, where its nodes allow more

    def __post_init__(self) -> None:
        query = self.query
        numbered = dict(zip(self.numbers.match_conditions, query.match_conditions, strict=True))
        for numbers, expressions in zip(self.numbers.absent, query.absence_conditions, strict=True):
            numbered |= dict(zip(numbers, expressions, strict=True))
        self.conditions: CompiledConditions = build_conditions(numbered, query.names, self.code)
        self.absences = self.runner.absences_of(query.absent)
        self.rules = self._rules()
        encoded = self.runner.encoded
        self.partition = KeyedEvents(encoded.offsets, encoded.time, encoded.enter, encoded.leave, encoded.klass)
        self.needed = bool(
            len(self.reading.residual)
            or len(self.reading.deferred)
            or self.rules.step_ways.size
            or self.rules.policy != SKIP_TILL_ANY
        )

    def keep(self, found: Matches) -> Matches:
        """Return the matches that satisfy all but what depends on the window, their events in time order."""
        sort_steps(found, self.runner.encoded.time)
        if self.oldest is not None and len(found.key):
            first = self.runner.encoded.time[found.event[found.begin[:-1]]]
            found = mask_matches(found, first >= self.oldest[found.event[found.begin[1:] - 1]])
        if self.needed and len(found.key):
            work = new_match_scratch(len(self.query.slots), _longest(found))
            runner = self.runner
            kept = filter_matches(
                found, self.rules, self.partition, self.absences, self.conditions, runner.values, work
            )
            self._check(int(work.stack.status[0]))
            found = mask_matches(found, kept)
        return found

    def ends(
        self, found: Matches, which: Ints, closes: Ints, never_after: Ints, never_before: Ints
    ) -> tuple[NDArray[np.bool_], Ints]:
        """Check absences before and after each match in each window; see `check_outer_absences`."""
        reading = self.reading.alternative
        ends = OuterAbsences(
            np.array(sorted(reading.opening), np.int32),
            np.array(sorted(reading.closing), np.int32),
            np.array(self.query.negs, np.int32),
        )
        work = new_match_scratch(len(self.query.slots), _longest(found))
        runner = self.runner
        result = check_outer_absences(
            found, which, closes, never_after, never_before, ends, self.rules, self.partition, self.absences,
            self.conditions, runner.values, work,
        )  # fmt: skip
        self._check(int(work.stack.status[0]))
        return result

    @property
    def has_open_ends(self) -> bool:
        reading = self.reading.alternative
        return bool(reading.opening or reading.closing or len(self.query.negs))

    @property
    def looks_back(self) -> bool:
        """Whether something must be absent before the match."""
        return bool(self.reading.alternative.opening)

    def _rules(self) -> Rules:
        query, runner = self.query, self.runner
        size = len(query.written.events)
        slot = np.full(size, -1, np.int32)
        for number, positions in enumerate(query.slots):
            slot[list(positions)] = number
        gap = np.zeros((len(self.reading.deferred), size), np.int8)
        for g, (_, after, before) in enumerate(self.reading.deferred):
            gap[g, list(after)] = 1
            gap[g, list(before)] = 2
        loop, step_ways, forbids, forbidden = self._steps(size)
        moves, pair_begin, pair_condition = self._policy(size)
        return Rules(
            slot=slot,
            match_conditions=np.array([self.numbers.match_conditions[at] for at in self.reading.residual], np.int32),
            absent=np.cumsum([0, *map(len, self.numbers.absent)]).astype(np.int64),
            absent_condition=np.array([c for numbers in self.numbers.absent for c in numbers] or [0], np.int32),
            gap=gap,
            gap_absence=np.array([a for a, _, _ in self.reading.deferred] or [0], np.int32),
            loop=loop,
            step_ways=step_ways,
            forbids=forbids,
            forbidden=forbidden,
            policy=POLICIES[query.query.policy],
            moves=moves,
            binds=np.array([[symbol in found for symbol in query.symbols] for found in runner.encoded.classes] or
                           np.zeros((1, size)), np.bool_),
            pair_begin=pair_begin,
            pair_condition=pair_condition,
        )  # fmt: skip

    def _steps(self, size: int) -> tuple[NDArray[np.int32], NDArray[np.int64], Ints, NDArray[np.int32]]:
        """Return the steps of loops whose absences depend on the match."""
        loop = np.full(size, -1, np.int32)
        steps: dict[tuple[int, int], list[list[int]]] = {}
        for number, item in enumerate(self.reading.alternative.items):
            if not isinstance(item, Loop):
                continue
            for (p, q), ways in item.line.follow.items():
                one, other = item.line.items[p], item.line.items[q]
                if isinstance(one, Leaf) and isinstance(other, Leaf) and self._depends(ways):
                    steps[one.position, other.position] = [list(guards) for guards in ways]
                    loop[list(item.positions)] = number
        if not steps:
            return loop, np.zeros((0, 0, 2), np.int64), np.zeros(1, np.int64), np.zeros(1, np.int32)
        step_ways = np.zeros((size, size, 2), np.int64)
        flat: list[list[int]] = []
        for (one_position, other_position), listed in steps.items():
            step_ways[one_position, other_position] = (len(flat), len(flat) + len(listed))
            flat += listed
        forbids = np.cumsum([0, *map(len, flat)]).astype(np.int64)
        return loop, step_ways, forbids, np.array([a for way in flat for a in way] or [0], np.int32)

    def _depends(self, ways: frozenset[frozenset[int]]) -> bool:
        return frozenset() not in ways and any(not self.query.is_free(a) for guards in ways for a in guards)

    def _policy(self, size: int) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        """Return, for SKIP TILL NEXT, what may come next and the adjacent conditions of each pair of positions."""
        query = self.query
        pair_begin = np.zeros((size, size, 2), np.int64)
        if query.progress is None:
            return np.zeros((0, 0), np.int32), pair_begin, np.zeros(1, np.int32)
        moves = np.full((len(query.progress.moves), size), -1, np.int32)
        for state, onward in enumerate(query.progress.moves):
            for position, target in onward.items():
                moves[state, position] = target
        found: list[int] = []
        adjacent = [(self.numbers.match_conditions[query.match_conditions.index(c)], c) for c in query.adjacent]
        for p in range(size):
            for q in range(size):
                own = [
                    number
                    for number, condition in adjacent
                    if all({p, q} & query.slots[query.names[name]] for name in variables(condition))
                ]
                pair_begin[p, q] = (len(found), len(found) + len(own))
                found += own
        return moves, pair_begin, np.array(found or [0], np.int32)

    def _check(self, status: int) -> None:
        if status == OVERFLOW:
            raise DataError(
                f"query {self.query.query.name}: a whole number in a condition does not fit in 64 bits "
                "(multiplied by 1.0 it is computed as a floating number)"
            )


def _longest(found: Matches) -> int:
    return int(np.diff(found.begin).max(initial=0)) + 2


def mask_matches(found: Matches, kept: NDArray[np.bool_]) -> Matches:
    """Return the matches where a mask is set."""
    if kept.all():
        return found
    return take_matches(found, np.flatnonzero(kept))


def take_matches(found: Matches, rows: Ints) -> Matches:
    """Return the matches with these numbers, in their order."""
    sizes = np.diff(found.begin)[rows]
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    entries = np.repeat(found.begin[rows] - begin[:-1], sizes) + np.arange(begin[-1])
    return Matches(begin, found.position[entries], found.event[entries], found.key[rows])


def concat_matches(blocks: Sequence[Matches]) -> Matches:
    """Concatenate blocks of matches."""
    sizes = np.concatenate([np.diff(block.begin) for block in blocks] or [np.zeros(0, np.int64)])
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if not blocks:
        return Matches(begin, np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Matches(begin, *(np.concatenate([block[at] for block in blocks]) for at in range(1, 4)))


def match_of_entries(found: Matches) -> Ints:
    """Return, for each event that matches bind, the number of the match."""
    return np.repeat(np.arange(len(found.key)), np.diff(found.begin))


def match_identities(found: Matches) -> list[bytes]:
    """Return what each match binds as bytes: equal only for the same events at the same positions."""
    pairs = np.stack([found.position.astype(np.int64), found.event], axis=1)
    return [pairs[a:b].tobytes() for a, b in zip(found.begin[:-1].tolist(), found.begin[1:].tolist(), strict=True)]


def match_times(found: Matches, encoded: EncodedEvents) -> tuple[Ints, Ints]:
    """Return the times of the first and last event of each match."""
    return encoded.time[found.event[found.begin[:-1]]], encoded.time[found.event[found.begin[1:] - 1]]
