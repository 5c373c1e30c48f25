"""What two operand lists have in common: substrings, and strings of single operands (MOTTO, section IV-B).

Common operands that stand alone are combined in the order that both lists have them in; where they come in reverse
order, into different strings.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

# Of many ways to combine single operands, so many are taken.
MOST_STRINGS = 12

Place = tuple[int, int]  # of a common operand in one list and in the other


@dataclass(frozen=True, slots=True)
class CommonString:
    """Operands that two lists have in common, by their places in one and in the other."""

    left: tuple[int, ...]
    right: tuple[int, ...]

    @property
    def is_substring(self) -> bool:
        """Whether they are adjacent in both lists."""
        return all(side[-1] - side[0] == len(side) - 1 for side in (self.left, self.right))


def find_common_strings(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[CommonString]:
    """Return the strings that interesting sub-queries are made of, each of at least two operands."""
    substrings = find_maximal_substrings(left, right)
    found = [CommonString(tuple(range(a, a + n)), tuple(range(b, b + n))) for a, b, n in substrings if n > 1]
    for chain in _find_chains([(a, b) for a, b, n in substrings if n == 1]):
        if len(chain) > 1:
            found.append(CommonString(tuple(a for a, _ in chain), tuple(b for _, b in chain)))
    return found


def find_maximal_substrings(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """Return the common substrings that cannot be made longer: where they begin in both, and their length. O(n m)."""
    begins: dict[Hashable, list[int]] = {}
    for a, operand in enumerate(left):
        begins.setdefault(operand, []).append(a)
    found = []
    for b, operand in enumerate(right):
        for a in begins.get(operand, ()):
            if a and b and left[a - 1] == right[b - 1]:
                continue  # the end of something longer
            length = 1
            while a + length < len(left) and b + length < len(right) and left[a + length] == right[b + length]:
                length += 1
            found.append((a, b, length))
    return sorted(found)


def _find_chains(places: Sequence[Place]) -> Iterator[tuple[Place, ...]]:
    """Yield the longest chains of places that ascend in both lists, so that none can be put into another."""
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
    pending: list[tuple[Place, ...]] = [(place,) for place in reversed(begin)]
    count = 0
    while pending and count < MOST_STRINGS:
        chain = pending.pop()
        if after[chain[-1]]:
            pending += [(*chain, place) for place in reversed(after[chain[-1]])]
        else:
            count += 1
            yield chain


def _precedes(one: Place, other: Place) -> bool:
    return one[0] < other[0] and one[1] < other[1]
