"""All substrings that several sequences of numbers have in common, by a generalized suffix array with its LCP table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

IntArray = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Substrings of every length from `shortest` to `longest` that begin at exactly these places, and nowhere else.

    A place is (number of the sequence, offset).
    """

    places: tuple[tuple[int, int], ...]
    shortest: int
    longest: int


def find_repeats(sequences: Sequence[Sequence[int]]) -> Iterator[Repeat]:
    """Every substring that occurs at least twice, in classes of equal occurrences; numbers must not be negative.

    O(n log^2 n) for n numbers in all, and the size of the output.
    """
    text, owner, offset = _concatenate(sequences)
    if len(text) == 0:
        return
    order = build_suffix_array(text)
    common = build_lcp_array(text, order)
    for longest, parent, left, right in _lcp_intervals(common):
        begins = order[left:right]
        places = sorted(zip(owner[begins].tolist(), offset[begins].tolist(), strict=True))
        yield Repeat(tuple(places), parent + 1, longest)


def _concatenate(sequences: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray, IntArray]:
    """All sequences in one, each ended by a number of its own so that no substring crosses an end."""
    text: list[int] = []
    owner: list[int] = []
    offset: list[int] = []
    for number, sequence in enumerate(sequences):
        text.extend(int(each) + len(sequences) for each in sequence)
        text.append(number)
        owner.extend([number] * (len(sequence) + 1))
        offset.extend(range(len(sequence) + 1))
    return np.array(text, np.int64), np.array(owner, np.int64), np.array(offset, np.int64)


def build_suffix_array(text: IntArray) -> IntArray:
    """Where the suffixes begin, in their order: ranks by the first 1, 2, 4, ... numbers until all differ."""
    _, rank = np.unique(text, return_inverse=True)
    rank = rank.astype(np.int64)
    length = 1
    while True:
        beyond = np.full(len(text), -1, np.int64)
        beyond[: max(len(text) - length, 0)] = rank[length:]
        order = np.lexsort((beyond, rank))
        differs = (np.diff(rank[order]) != 0) | (np.diff(beyond[order]) != 0)
        fresh = np.empty(len(text), np.int64)
        fresh[order] = np.concatenate(([0], np.cumsum(differs)))
        rank = fresh
        if rank[order[-1]] == len(text) - 1:
            return order.astype(np.int64)
        length *= 2


def build_lcp_array(text: IntArray, order: IntArray) -> list[int]:
    """How many numbers each suffix has in common with the one before it in order; 0 for the first (Kasai et al.)."""
    numbers, places = text.tolist(), order.tolist()
    rank = [0] * len(numbers)
    for at, begin in enumerate(places):
        rank[begin] = at
    common = [0] * len(numbers)
    height = 0
    for begin, at in enumerate(rank):
        if at == 0:
            height = 0
            continue
        before = places[at - 1]
        while (
            begin + height < len(numbers)
            and before + height < len(numbers)
            and numbers[begin + height] == numbers[before + height]
        ):
            height += 1
        common[at] = height
        height = max(height - 1, 0)
    return common


def _lcp_intervals(common: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """The inner nodes of the suffix tree: (depth, depth of the parent, first and past the last suffix below)."""
    opened: list[tuple[int, int]] = [(0, 0)]
    for at in range(1, len(common) + 1):
        depth = common[at] if at < len(common) else 0
        left = at - 1
        while opened[-1][0] > depth:
            longest, left = opened.pop()
            yield longest, max(opened[-1][0], depth), left, at
        if opened[-1][0] < depth:
            opened.append((depth, left))
