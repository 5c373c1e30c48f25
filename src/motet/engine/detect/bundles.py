"""Store the bundles of events that items of a loop are bound to, numbered after the single events."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from motet.engine.encode import Ints
from motet.kernels.instances import Bundles
from motet.kernels.paths import PathList


@dataclass
class BundleStore:
    """Paths kept as bundles, numbered after the events of a branch."""

    time: Ints
    kept: list[PathList] = field(default_factory=list)
    size: int = 0
    _all: Bundles | None = None

    def keep(self, paths: PathList) -> int:
        """Add paths; return the number of the first bundle."""
        base = len(self.time) + self.size
        self.kept.append(paths)
        self.size += len(paths.first)
        self._all = None
        return base

    @property
    def all(self) -> Bundles:
        """Return events and bundles as arrays."""
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


def concat_paths(blocks: list[PathList]) -> PathList:
    """Concatenate blocks of paths."""
    sizes = np.concatenate([np.diff(block.begin) for block in blocks])
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return PathList(begin, *(np.concatenate([block[at] for block in blocks]) for at in range(1, 8)))


def take_paths(paths: PathList, rows: Ints) -> PathList:
    """Return the paths with these numbers."""
    sizes = np.diff(paths.begin)[rows]
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    entries = np.repeat(paths.begin[rows] - begin[:-1], sizes) + np.arange(begin[-1])
    return PathList(begin, paths.position[entries], paths.event[entries], *(column[rows] for column in paths[3:]))


def merge_ragged_rows(begin: Ints, other: Ints) -> tuple[Ints, Ints, Ints]:
    """Merge two ragged arrays row by row: return the row offsets, and where the entries of each go."""
    ours, theirs = np.diff(begin), np.diff(other)
    together = np.concatenate([[0], np.cumsum(ours + theirs)]).astype(np.int64)
    to_ours = np.repeat(together[:-1] - begin[:-1], ours) + np.arange(begin[-1])
    to_theirs = np.repeat(together[:-1] + ours - other[:-1], theirs) + np.arange(other[-1])
    return together, to_ours, to_theirs
