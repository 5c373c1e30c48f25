"""Row pattern matching as the SQL standard has it, by plain backtracking: what a translation must agree with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from motet.model.pattern import Event, Or, Pattern, Repeat, Seq

Row = dict[str, Any]
Bound = tuple[tuple[str, int], ...]  # variables and the rows they take, in order
# Whether a row may take its variable, given the rows of the partition, those bound before it, and its own number.
Define = Callable[[Sequence[Row], Bound, int], bool]


def preferred(pattern: Pattern, rows: Sequence[Row], defines: Mapping[str, Define], start: int) -> Bound | None:
    """The match that begins at a row and comes first in the standard's order of preference."""
    return next(_ways(pattern, rows, defines, start, ()), None)


def _ways(
    pattern: Pattern, rows: Sequence[Row], defines: Mapping[str, Define], at: int, bound: Bound
) -> Iterator[Bound]:
    """All ways to go on, the preferred first: quantifiers are greedy, alternatives go from left to right."""
    match pattern:
        case Event(name):
            if at < len(rows) and defines.get(name, lambda *_: True)(rows, bound, at):
                yield (*bound, (name, at))
        case Seq(parts):
            if not parts:
                yield bound
            else:
                for begun in _ways(parts[0], rows, defines, at, bound):
                    yield from _ways(Seq(parts[1:]), rows, defines, at + len(begun) - len(bound), begun)
        case Or(parts):
            for part in parts:
                yield from _ways(part, rows, defines, at, bound)
        case Repeat(part, low, high):
            if high is None or high > 0:
                rest = Repeat(part, max(low - 1, 0), None if high is None else high - 1)
                for begun in _ways(part, rows, defines, at, bound):
                    if len(begun) > len(bound):
                        yield from _ways(rest, rows, defines, at + len(begun) - len(bound), begun)
            if low == 0:
                yield bound


def matches(pattern: Pattern, rows: Sequence[Row], defines: Mapping[str, Define], past_last_row: bool) -> list[Bound]:
    """The matches of one partition, rows in order of time, with AFTER MATCH SKIP PAST LAST ROW or TO NEXT ROW."""
    found = []
    start = 0
    while start < len(rows):
        match = preferred(pattern, rows, defines, start)
        if match:
            found.append(match)
            start = match[-1][1] + 1 if past_last_row else start + 1
        else:
            start += 1
    return found
