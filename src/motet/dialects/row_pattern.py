"""Translate the PATTERN of MATCH_RECOGNIZE, and find which variables may follow which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from motet.model.pattern import Event, Or, Pattern, Repeat, Seq, children, events
from motet.row_patterns.patterns import PatternParser, Quantified, RowAlternation, RowPattern, RowVariable, Sequence
from motet.row_patterns.tokens import SqlText
from motet.template.positions import build_positions

REFUSED_MARKS = {
    "{-": ("{- ... -} leaves rows out of ALL ROWS PER MATCH, which motet does not give", "take it off"),
    "^": ("the anchor ^ has no equal: a match may lie anywhere in its partition", "take it off"),
    "$": ("the anchor $ has no equal: a match may lie anywhere in its partition", "take it off"),
}


def parse_row_pattern(sql: SqlText, first: int, last: int) -> Pattern:
    """Parse the pattern between two tokens; its event types are variables still."""
    for at in range(first, last):
        _refuse_token(sql, first, at)
    return _to_pattern(PatternParser(sql, first, last).parse(), sql.error_at("PATTERN needs a variable here", first))


def _refuse_token(sql: SqlText, first: int, at: int) -> None:
    """Refuse what has no equal under CONTIGUOUS."""
    word = sql.word(at)
    if word in REFUSED_MARKS:
        message, hint = REFUSED_MARKS[word]
        raise sql.error_at(message, at, hint=hint)
    if word == "PERMUTE" and sql.word(at + 1) == "(":
        raise sql.error_at("PERMUTE has no equal under CONTIGUOUS", at, hint="write the orders out with |")
    if word == "?" and at > first and sql.word(at - 1) in ("*", "+", "?", "}"):
        message = "a reluctant quantifier picks the shortest match; motet gives every match"
        raise sql.error_at(message, at, hint="leave out this '?'")
    if sql.tokens[at].kind == "quoted":
        raise sql.error_at("variables in quotes are not translated", at, hint="write the name without quotes")


def _to_pattern(pattern: RowPattern, empty: Exception) -> Pattern:
    """Return a row pattern as a pattern of ours; `empty` is what to raise where a part has no variable."""
    match pattern:
        case RowVariable(name):
            return Event(name)
        case Sequence(parts) if parts:
            return Seq(tuple(_to_pattern(part, empty) for part in parts))
        case RowAlternation(parts):
            return Or(tuple(_to_pattern(part, empty) for part in parts))
        case Quantified(part, low, high):
            return Repeat(_to_pattern(part, empty), low, high)
    raise empty


@dataclass(frozen=True, slots=True)
class RowAdjacency:
    """Which variables may come first and last, and which may directly follow which."""

    nullable: bool
    first: set[str]
    last: set[str]
    follow: dict[str, set[str]]

    def before(self, name: str) -> set[str]:
        """Return the variables that may stand directly before one."""
        return {each for each, after in self.follow.items() if name in after}


def find_adjacency(pattern: Pattern) -> RowAdjacency:
    """Return which variables may follow which, in a pattern in which each is written once."""
    found = build_positions(pattern)
    names = [event.type for event in found.events]
    follow: dict[str, set[str]] = {event.type: set() for event in events(pattern)}
    for before, after in found.graph.follow:
        follow[names[before]].add(names[after])
    first, last = ({names[at] for at in ends} for ends in (found.graph.first, found.graph.last))
    return RowAdjacency(bool(found.graph.empty), first, last, follow)


def is_ambiguous(pattern: Pattern) -> bool:
    """Return whether rows of known variables may be a match in several ways, as three of B are of (B+){2}.

    O(positions squared): all pairs of paths over the same variables are followed side by side.
    """
    found = build_positions(pattern)
    names = [event.type for event in found.events]
    after: dict[int, list[int]] = {at: [] for at in found.graph.first}
    for before, at in found.graph.follow:
        after.setdefault(before, []).append(at)

    def pair(one: Iterable[int], other: Iterable[int], differ: bool) -> set[tuple[int, int, bool]]:
        return {(p, q, differ or p != q) for p, q in product(one, other) if names[p] == names[q]}

    waiting = pair(found.graph.first, found.graph.first, False)
    seen: set[tuple[int, int, bool]] = set()
    while waiting:
        p, q, differ = state = waiting.pop()
        if differ and {p, q} <= found.graph.last.keys():
            return True
        seen.add(state)
        waiting |= pair(after.get(p, ()), after.get(q, ()), differ) - seen
    return False


def is_fixed(pattern: Pattern) -> bool:
    """Return whether all matches are of one length and form."""
    match pattern:
        case Or():
            return False
        case Repeat(_, low, high) if low != high:
            return False
    return all(map(is_fixed, children(pattern)))


def find_group_loops(pattern: Pattern) -> frozenset[str]:
    """Return the variables that are repeated as part of a group."""
    match pattern:
        case Repeat(part, _, high) if (high is None or high > 1) and not isinstance(part, Event):
            return frozenset(event.type for event in events(part))
    return frozenset().union(*map(find_group_loops, children(pattern)))


def is_always_before(pattern: Pattern, one: str, other: str) -> bool:
    """Return whether every match that binds `other` has bound all of `one` before it, and at least once."""

    def holds(part: Pattern) -> set[str]:
        return {event.type for event in events(part)}

    match pattern:
        case Repeat(part, _, 1):
            return is_always_before(part, one, other)
        case Seq(parts):
            at_one = next((at for at, part in enumerate(parts) if one in holds(part)), None)
            at_other = next((at for at, part in enumerate(parts) if other in holds(part)), None)
            if at_one is None or at_other is None:
                return False
            if at_one == at_other:
                return is_always_before(parts[at_one], one, other)
            return at_one < at_other and is_certain(parts[at_one], one)
        case Or(parts):
            return any(is_always_before(part, one, other) for part in parts)
    return False


def is_certain(pattern: Pattern, name: str) -> bool:
    """Return whether a variable is bound whenever a pattern is matched."""
    match pattern:
        case Event(type):
            return type == name
        case Or():
            return False
        case Repeat(part, low):
            return low > 0 and is_certain(part, name)
    return any(is_certain(part, name) for part in children(pattern))
