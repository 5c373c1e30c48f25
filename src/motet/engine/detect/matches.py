"""List the matches of a root: its instances as positions and events, in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from motet.engine.detect.instances import BLOCK_ROWS, NodeRunner, position_tables
from motet.engine.detect.match_limit import MatchLimit
from motet.kernels.join import flatten_bindings
from motet.kernels.match_filter import Matches
from motet.kernels.ragged import merge_rows, row_numbers
from motet.plans.detect.build import PlannedAlternative
from motet.plans.detect.nodes import JoinNode, LoopNode, PathScanNode


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
