"""Filter the matches of a query: conditions that need the whole match, its policy, and absences at its ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.bindings import check_overflow, longest_match, mask_bindings, match_times
from motet.engine.detect.instances import NodeRunner
from motet.engine.detect.rules import QueryCode, build_query_conditions, build_rules
from motet.engine.encode import Ints
from motet.kernels.expressions import Stack
from motet.kernels.match_filter import (
    SKIP_TILL_ANY,
    KeyedEvents,
    Matches,
    OuterAbsences,
    check_outer_absences,
    filter_matches,
    new_match_scratch,
    sort_steps,
)
from motet.plans.detect.build import PlannedAlternative
from motet.plans.detect.query import DetectQuery


@dataclass
class MatchFilter:
    """Filter for the matches of one alternative of a query."""

    query: DetectQuery
    planned: PlannedAlternative
    codes: QueryCode
    runner: NodeRunner
    oldest: Ints | None  # what the query's own window allows, where its nodes allow more

    def __post_init__(self) -> None:
        encoded = self.runner.encoded
        self.conditions = build_query_conditions(self.query, self.codes, self.runner.expressions.code)
        self.absences = self.runner.absences_of(self.query.absent)
        self.rules = build_rules(self.query, self.planned, self.codes, encoded.classes)
        self.partition = KeyedEvents(encoded.offsets, encoded.time, encoded.enter, encoded.leave, encoded.klass)
        self.is_needed = bool(
            len(self.planned.residual)
            or len(self.planned.deferred)
            or self.rules.step_ways.size
            or self.rules.policy != SKIP_TILL_ANY
        )

    def filter(self, found: Matches) -> Matches:
        """Return the matches that satisfy all but what depends on the window, their events in time order."""
        sort_steps(found, self.runner.encoded.time)
        if self.oldest is not None and len(found.key):
            first, _ = match_times(found, self.runner.encoded)
            found = mask_bindings(found, first >= self.oldest[found.event[found.begin[1:] - 1]])
        if self.is_needed and len(found.key):
            work = new_match_scratch(len(self.query.slots), longest_match(found) + 2)
            runner = self.runner
            kept = filter_matches(
                found, self.rules, self.partition, self.absences, self.conditions, runner.expressions.values, work
            )
            self._check(work.stack)
            found = mask_bindings(found, kept)
        return found

    def check_ends(
        self, found: Matches, which: Ints, closes: Ints, never_after: Ints, never_before: Ints
    ) -> tuple[NDArray[np.bool_], Ints]:
        """Check absences before and after each match in each window; see `check_outer_absences`."""
        ends = OuterAbsences(
            np.array(sorted(self.planned.alternative.opening), np.int32),
            np.array(sorted(self.planned.alternative.closing), np.int32),
            np.array(self.query.negs, np.int32),
        )
        work = new_match_scratch(len(self.query.slots), longest_match(found) + 2)
        runner = self.runner
        result = check_outer_absences(
            found, which, closes, never_after, never_before, ends, self.rules, self.partition, self.absences,
            self.conditions, runner.expressions.values, work,
        )  # fmt: skip
        self._check(work.stack)
        return result

    @property
    def has_open_ends(self) -> bool:
        """Whether something must be absent before or after the match."""
        alternative = self.planned.alternative
        return bool(alternative.opening or alternative.closing or len(self.query.negs))

    @property
    def looks_back(self) -> bool:
        """Whether something must be absent before the match."""
        return bool(self.planned.alternative.opening)

    def _check(self, stack: Stack) -> None:
        check_overflow(stack, f"query {self.query.query.name}: a whole number in a condition")
