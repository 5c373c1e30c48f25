"""Find the matches of an alternative: list them from the instances of its root, and filter them.

The filter tests conditions that need the whole match, the policy, and absences at its ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.bindings import check_overflow, longest_match, mask_bindings, match_times
from motet.engine.detect.instances import BLOCK_ROWS, UNLIMITED, PlanRunner
from motet.engine.detect.match_limit import MatchLimit
from motet.engine.detect.rules import QueryCode, build_query_conditions, build_rules
from motet.engine.detect.tables import position_starts
from motet.engine.encode import Ints
from motet.kernels.expressions import Stack
from motet.kernels.match_filter import (
    SKIP_TILL_ANY,
    SKIP_TILL_NEXT,
    KeyedEvents,
    MatchContext,
    Matches,
    MatchWindows,
    OuterAbsences,
    check_outer_absences,
    filter_matches,
    new_match_scratch,
    sort_steps,
)
from motet.kernels.operators import MatchOutput, flatten_bindings
from motet.kernels.order import rank_events
from motet.kernels.ragged import merge_rows, row_numbers
from motet.plans.detect.build import PlannedAlternative
from motet.plans.detect.nodes import JoinNode, LoopNode, PathScanNode, column_items
from motet.plans.detect.query import DetectQuery


def as_matches(found: MatchOutput, planned: PlannedAlternative, runner: PlanRunner) -> Matches:
    """Return the instances that a sink got as matches of an alternative."""
    items = column_items(planned.root)
    columns = np.ascontiguousarray(found.columns[: len(items)])
    positions = np.array(planned.positions, np.int32)
    return Matches(*flatten_bindings(columns, position_starts(items), positions, runner.bundles), found.key.copy())


@dataclass
class MatchLister:
    """Lister of the matches of one alternative whose root is not run by the kernel.

    Of paths with the same last event at most `most` are listed, none that ends before `since`, and none beyond the
    limit.
    """

    runner: PlanRunner
    planned: PlannedAlternative
    most: int
    since: int
    match_limit: MatchLimit

    def __post_init__(self) -> None:
        self.starts = position_starts(column_items(self.planned.root))
        self.positions = np.array(self.planned.positions, np.int32)

    def list(self) -> Iterator[Matches]:
        """Yield matches in blocks; instances are listed from the arena where they are kept for others too."""
        runner, node = self.runner, self.planned.root
        if runner.plan.is_kept(runner.plan.number[node]):
            return self._list_instances()
        match node:
            case LoopNode():
                return self._list_paths(node)
            case PathScanNode():
                return self._list_scanned(node)
            case JoinNode(inner=LoopNode() as loop):
                return self._list_joins_with_paths(node, loop)
        raise TypeError(f"the kernel runs {type(node).__name__}")

    def _list_instances(self) -> Iterator[Matches]:
        found = self.runner.instances(self.planned.root)
        keys = row_numbers(found.offsets)
        for at in range(0, len(found.first), BLOCK_ROWS):
            columns = np.ascontiguousarray(found.columns[:, at : at + BLOCK_ROWS])
            bindings = flatten_bindings(columns, self.starts, self.positions, self.runner.bundles)
            yield Matches(*bindings, keys[at : at + BLOCK_ROWS].copy())

    def _list_paths(self, loop: LoopNode) -> Iterator[Matches]:
        for block in self.runner.path_blocks(loop, self.most, self.since, self.match_limit):
            yield Matches(block.begin, self.positions[block.position], block.event, block.key)

    def _list_scanned(self, node: PathScanNode) -> Iterator[Matches]:
        """Yield the paths of a loop that serves larger windows too."""
        oldest = self.runner.oldest(node)
        for block in self.runner.path_blocks(node.loop, UNLIMITED, self.since, self.match_limit):
            own = mask_bindings(block, block.first >= oldest[block.end])
            yield Matches(own.begin, self.positions[own.position], own.event, own.key)

    def _list_joins_with_paths(self, node: JoinNode, loop: LoopNode) -> Iterator[Matches]:
        """Yield outer instances with the paths that fit them; no path is kept."""
        (inner_item,) = node.inner_items
        outer_starts = self.starts[list(node.outer_items)]
        for outer, owners, paths in self.runner.expand_paths(node, loop, self.since, self.match_limit):
            columns = np.ascontiguousarray(outer.columns[:, owners])
            begin, position, event = flatten_bindings(columns, outer_starts, self.positions, self.runner.bundles)
            offsets, ours, theirs = merge_rows(begin, paths.begin)
            positions = np.empty(offsets[-1], np.int32)
            events = np.empty(offsets[-1], np.int64)
            positions[ours], events[ours] = position, event
            positions[theirs] = self.positions[self.starts[inner_item] + paths.position]
            events[theirs] = paths.event
            yield Matches(offsets, positions, events, paths.key)


@dataclass
class MatchFilter:
    """Filter for the matches of one alternative of a query."""

    query: DetectQuery
    planned: PlannedAlternative
    codes: QueryCode
    runner: PlanRunner
    oldest: Ints | None  # what the query's own window allows, where its nodes allow more

    def __post_init__(self) -> None:
        encoded = self.runner.encoded
        self.conditions = build_query_conditions(self.query, self.codes, self.runner.expressions.code)
        self.absences = self.runner.absences_of(self.query.absent)
        self.rules = build_rules(self.query, self.planned, self.codes, encoded.classes)
        enter, leave = encoded.enter, encoded.leave
        if self.rules.policy == SKIP_TILL_NEXT:  # events are not ranked for it, only those that it passes over here
            enter, leave = rank_events(encoded.time, encoded.offsets)
        self.partition = KeyedEvents(encoded.offsets, encoded.time, enter, leave, encoded.klass)
        self.is_needed = bool(
            len(self.planned.residual)
            or len(self.planned.deferred)
            or self.rules.step_ways.size
            or self.rules.readings.settled.size
            or self.rules.policy != SKIP_TILL_ANY
        )

    def filter(self, found: Matches) -> Matches:
        """Return the matches that satisfy all but what depends on the window, their events in time order."""
        sort_steps(found, self.runner.encoded.time)
        if self.oldest is not None and len(found.key):
            first, _ = match_times(found, self.runner.encoded)
            found = mask_bindings(found, first >= self.oldest[found.event[found.begin[1:] - 1]])
        if self.is_needed and len(found.key):
            context = self._context(found)
            kept = filter_matches(found, context)
            self._check(context.work.stack)
            found = mask_bindings(found, kept)
        return found

    def check_ends(self, found: Matches, windows: MatchWindows) -> tuple[NDArray[np.bool_], Ints]:
        """Check absences before and after each match in each window; see `check_outer_absences`."""
        ends = OuterAbsences(
            np.array(sorted(self.planned.alternative.opening), np.int32),
            np.array(sorted(self.planned.alternative.closing), np.int32),
            np.array(self.query.negs, np.int32),
        )
        context = self._context(found)
        result = check_outer_absences(found, windows, ends, context)
        self._check(context.work.stack)
        return result

    def _context(self, found: Matches) -> MatchContext:
        readings = self.rules.readings.settled.size
        work = new_match_scratch(len(self.query.slots), longest_match(found) + 2, readings)
        values = self.runner.expressions.values
        return MatchContext(self.rules, self.partition, self.absences, self.conditions, values, work)

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
