"""What two operand lists have in common: substrings, and what single operands make up together (MOTTO, section IV-B).

Substrings are found in the trie of one list's suffixes. Common operands that stand alone are put together in the order
that both lists have them in; where they come in reverse order, into different strings.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

# Of many ways to put single operands together, so many are taken.
MOST_STRINGS = 12


@dataclass(frozen=True, slots=True)
class CommonString:
    """Operands that two lists have in common: where they stand in one and in the other."""

    left: tuple[int, ...]
    right: tuple[int, ...]

    @property
    def is_substring(self) -> bool:
        """Whether they stand side by side in both."""
        return all(side[-1] - side[0] == len(side) - 1 for side in (self.left, self.right))


def find_common_strings(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[CommonString]:
    """The strings that interesting sub-queries are made of, each of at least two operands."""
    whole = find_maximal_substrings(left, right)
    found = [CommonString(tuple(range(a, a + n)), tuple(range(b, b + n))) for a, b, n in whole if n > 1]
    singles = [(a, b) for a, b, n in whole if n == 1]
    for chain in _chains(singles):
        if len(chain) > 1:
            found.append(CommonString(tuple(a for a, _ in chain), tuple(b for _, b in chain)))
    return found


def find_maximal_substrings(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """Common substrings that cannot be made longer: where they begin in both, and their length.

    The suffixes of one list are followed in the trie of all suffixes of the other: O(n m) at most.
    """
    trie = _suffixes(tuple(left))
    found = []
    for b in range(len(right)):
        lengths: dict[int, int] = {}
        node, depth = trie, 0
        while b + depth < len(right) and right[b + depth] in node.longer:
            node = node.longer[right[b + depth]]
            depth += 1
            lengths |= dict.fromkeys(node.begins, depth)
        found += [(a, b, n) for a, n in lengths.items() if not _is_inside_longer(a, b, left, right)]
    return sorted(found)


@dataclass(slots=True)
class _Node:
    """A node of the suffix trie: where the substring that leads to it begins, and what may follow it."""

    begins: list[int] = field(default_factory=list)
    longer: dict[Hashable, _Node] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def _suffixes(text: tuple[Hashable, ...]) -> _Node:
    """The trie of all suffixes. O(n^2): operand lists are short."""
    root = _Node()
    for begin in range(len(text)):
        node = root
        for operand in text[begin:]:
            node = node.longer.setdefault(operand, _Node())
            node.begins.append(begin)
    return root


def _is_inside_longer(a: int, b: int, left: Sequence[Hashable], right: Sequence[Hashable]) -> bool:
    """Whether what begins at two places is the end of something longer."""
    return a > 0 and b > 0 and left[a - 1] == right[b - 1]


def _chains(places: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], ...]]:
    """The longest runs of places that go up in both lists, so that none can be put into another."""
    after = {
        place: [
            other
            for other in places
            if _precedes(place, other)
            and not any(_precedes(place, between) and _precedes(between, other) for between in places)
        ]
        for place in places
    }
    begin = [place for place in places if not any(_precedes(other, place) for other in places)]
    pending: list[tuple[tuple[int, int], ...]] = [(place,) for place in reversed(begin)]
    given = 0
    while pending and given < MOST_STRINGS:
        chain = pending.pop()
        if after[chain[-1]]:
            pending += [(*chain, place) for place in reversed(after[chain[-1]])]
        else:
            given += 1
            yield chain


def _precedes(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[0] and one[1] < other[1]
