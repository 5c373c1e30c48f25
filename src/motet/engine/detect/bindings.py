"""Cut and store what instances bind: positions and events, ragged by match or path."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from motet.engine.encode import EncodedEvents, Ints
from motet.errors import DataError
from motet.kernels.expressions import OVERFLOW, Stack
from motet.kernels.instances import Bundles
from motet.kernels.match_filter import Matches
from motet.kernels.paths import PathList
from motet.kernels.ragged import concat_offsets, row_numbers, take_rows

# Their fields are offsets, positions and events, and then columns of one value for each row.
B = TypeVar("B", Matches, PathList)


def mask_bindings(found: B, mask: NDArray[np.bool_]) -> B:
    """Return the matches or paths where a mask is set."""
    return found if mask.all() else take_bindings(found, np.flatnonzero(mask))


def take_bindings(found: B, rows: Ints) -> B:
    """Return the matches or paths with these numbers, in their order."""
    begin, entries = take_rows(found.begin, rows)
    columns = (column[rows] for column in found[3:])
    return type(found)(begin, found.position[entries], found.event[entries], *columns)


def concat_bindings(blocks: Sequence[B]) -> B:
    """Concatenate blocks of matches or paths, at least one."""
    columns = (np.concatenate(parts) for parts in zip(*(block[1:] for block in blocks), strict=True))
    return type(blocks[0])(concat_offsets([block.begin for block in blocks]), *columns)


def match_identities(found: Matches) -> list[bytes]:
    """Return what each match binds as bytes: equal only for the same events at the same positions."""
    pairs = np.stack([found.position.astype(np.int64), found.event], axis=1)
    return [pairs[a:b].tobytes() for a, b in zip(found.begin[:-1].tolist(), found.begin[1:].tolist(), strict=True)]


def match_times(found: Matches, encoded: EncodedEvents) -> tuple[Ints, Ints]:
    """Return the times of the first and last event of each match."""
    return encoded.time[found.event[found.begin[:-1]]], encoded.time[found.event[found.begin[1:] - 1]]


def entries_at(found: Matches, positions: Collection[int]) -> tuple[Ints, Ints]:
    """Return the places of what matches bind at some positions, and the match of each."""
    wanted = np.zeros(int(max(found.position.max(initial=0), *positions)) + 1, np.bool_)
    wanted[list(positions)] = True
    entries = np.flatnonzero(wanted[found.position])
    return entries, row_numbers(found.begin)[entries]


def longest_match(found: Matches) -> int:
    """Return how many events the longest match binds."""
    return int(np.diff(found.begin).max(initial=0))


def check_overflow(stack: Stack, where: str) -> None:
    """Raise an error if an integer in an expression did not fit in 64 bits."""
    if stack.status[0] == OVERFLOW:
        raise DataError(f"{where} does not fit in 64 bits (multiplied by 1.0 it is computed as a floating number)")


@dataclass
class BundleStore:
    """Paths kept as bundles, numbered after the events of a branch."""

    time: Ints
    kept: list[PathList] = field(default_factory=list)
    size: int = 0
    _arrays: Bundles | None = None

    def add(self, paths: PathList) -> int:
        """Add paths; return the number of the first bundle."""
        base = len(self.time) + self.size
        self.kept.append(paths)
        self.size += len(paths.first)
        self._arrays = None
        return base

    @property
    def arrays(self) -> Bundles:
        """Events and bundles: all that items may be bound to."""
        if self._arrays is None:
            self._arrays = Bundles(
                np.concatenate([self.time, *(paths.first for paths in self.kept)]),
                np.concatenate([self.time, *(paths.last for paths in self.kept)]),
                concat_offsets([paths.begin for paths in self.kept]),
                np.concatenate([np.zeros(0, np.int32), *(paths.position for paths in self.kept)]),
                np.concatenate([np.zeros(0, np.int64), *(paths.event for paths in self.kept)]),
                len(self.time),
            )
        return self._arrays
