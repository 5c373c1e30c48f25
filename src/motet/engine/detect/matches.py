"""Find the matches of an alternative: list them from the instances of its root, and filter them.

The filter tests conditions that need the whole match, the policy, and absences at its ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.bindings import check_overflow, longest_match, mask_bindings, match_times
from motet.engine.detect.instances import BLOCK_ROWS, NodeRunner, position_tables
from motet.engine.detect.match_limit import MatchLimit
from motet.engine.detect.rules import QueryCode, build_query_conditions, build_rules
from motet.engine.encode import Ints
from motet.kernels.expressions import Stack
from motet.kernels.join import flatten_bindings
from motet.kernels.match_filter import (
    SKIP_TILL_ANY,
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
from motet.kernels.ragged import merge_rows, row_numbers
from motet.plans.detect.build import PlannedAlternative
from motet.plans.detect.nodes import JoinNode, LoopNode, PathScanNode
from motet.plans.detect.query import DetectQuery


@dataclass
class MatchLister:
    """Lister of the matches of one alternative.

    Instances are kept only if `is_shared`: other nodes or queries read them too. Of paths with the same last event at
    most `most` are listed, none that ends before `since`, and none beyond the limit.
    """

    runner: NodeRunner
    planned: PlannedAlternative
    is_shared: bool
    most: int
    since: int
    match_limit: MatchLimit

    def __post_init__(self) -> None:
        self.starts, self.positions = position_tables(self.planned.root, self.planned.positions)

    def list(self) -> Iterator[Matches]:
        """Yield matches in blocks."""
        runner, node = self.runner, self.planned.root
        if self.is_shared or node in runner.kept:
            return self._list_instances()
        match node:
            case LoopNode():
                return self._list_paths(node)
            case PathScanNode() if runner.oldest[node] is runner.oldest[node.loop]:
                return self._list_paths(node.loop)
            case JoinNode(inner=LoopNode() as loop):
                return self._list_joins_with_paths(node, loop)
            case JoinNode():
                return self._list_joins(node)
        return self._list_instances()

    def _list_instances(self) -> Iterator[Matches]:
        found = self.runner.instances(self.planned.root)
        keys = row_numbers(found.offsets)
        for at in range(0, max(len(found.first), 1), BLOCK_ROWS):
            columns = np.ascontiguousarray(found.columns[:, at : at + BLOCK_ROWS])
            bindings = flatten_bindings(columns, self.starts, self.positions, self.runner.bundles)
            yield Matches(*bindings, keys[at : at + BLOCK_ROWS].copy())

    def _list_paths(self, loop: LoopNode) -> Iterator[Matches]:
        for block in self.runner.path_blocks(loop, self.most, self.since, self.match_limit):
            yield Matches(block.begin, self.positions[block.position], block.event, block.key)

    def _list_joins(self, node: JoinNode) -> Iterator[Matches]:
        for block in self.runner.join_blocks(node, self.since):
            bindings = flatten_bindings(block.columns, self.starts, self.positions, self.runner.bundles)
            yield Matches(*bindings, block.key)

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
        work = new_match_scratch(len(self.query.slots), longest_match(found) + 2)
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
