"""What items may be bound to: events by their number, and bundles of events, numbered after them as they are kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from motet.engine.encode import Ints
from motet.kernels.instances import Bundles
from motet.kernels.paths import Listed


@dataclass
class BundleStore:
    """Paths that were kept, behind the events of a branch."""

    time: Ints
    kept: list[Listed] = field(default_factory=list)
    size: int = 0
    _all: Bundles | None = None

    def keep(self, paths: Listed) -> int:
        """Add paths; the number of the first as what an item may be bound to."""
        base = len(self.time) + self.size
        self.kept.append(paths)
        self.size += len(paths.first)
        self._all = None
        return base

    @property
    def all(self) -> Bundles:
        """Events and bundles as arrays."""
        if self._all is None:
            sizes = np.concatenate([np.diff(paths.begin) for paths in self.kept] or [np.zeros(0, np.int64)])
            self._all = Bundles(
                np.concatenate([self.time, *(paths.first for paths in self.kept)]),
                np.concatenate([self.time, *(paths.last for paths in self.kept)]),
                np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
                np.concatenate([*(paths.position for paths in self.kept), np.zeros(0, np.int32)]),
                np.concatenate([*(paths.event for paths in self.kept), np.zeros(0, np.int64)]),
                len(self.time),
            )
        return self._all


def joined_paths(blocks: list[Listed]) -> Listed:
    """Paths of several blocks as one."""
    sizes = np.concatenate([np.diff(block.begin) for block in blocks])
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Listed(begin, *(np.concatenate([block[at] for block in blocks]) for at in range(1, 8)))


def chosen_paths(paths: Listed, rows: Ints) -> Listed:
    """Some of the paths."""
    sizes = np.diff(paths.begin)[rows]
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    entries = np.repeat(paths.begin[rows] - begin[:-1], sizes) + np.arange(begin[-1])
    return Listed(begin, paths.position[entries], paths.event[entries], *(column[rows] for column in paths[3:]))


def side_by_side(begin: Ints, other: Ints) -> tuple[Ints, Ints, Ints]:
    """Two ragged lists in one: where each row begins, and where the entries of the first and of the second go."""
    ours, theirs = np.diff(begin), np.diff(other)
    together = np.concatenate([[0], np.cumsum(ours + theirs)]).astype(np.int64)
    to_ours = np.repeat(together[:-1] - begin[:-1], ours) + np.arange(begin[-1])
    to_theirs = np.repeat(together[:-1] + ours - other[:-1], theirs) + np.arange(other[-1])
    return together, to_ours, to_theirs
