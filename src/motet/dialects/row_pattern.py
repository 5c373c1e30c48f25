"""Parses the PATTERN of MATCH_RECOGNIZE, and analyses which variables may follow which."""

from __future__ import annotations

import re
from dataclasses import dataclass

from motet.dialects.translation import SourceText, TokenParser, build_sequence
from motet.model.pattern import Event, Or, Pattern, Repeat, Seq, children, events
from motet.template.positions import build_positions

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<mark>\{-|-\}|[{}()|*+?,^$&])|(?P<number>\d+)|(?P<other>\S))")


def parse_row_pattern(source: SourceText, start: int, end: int) -> Pattern:
    """Parse the pattern between two offsets of a text; its event types are variables still."""
    return _RowPatternParser(source, start, end).parse()


class _RowPatternParser(TokenParser):
    """Parses alternatives of sequences of repeated variables and groups."""

    def __init__(self, source: SourceText, start: int, end: int) -> None:
        super().__init__(source, _TOKEN, start, end)

    def parse(self) -> Pattern:
        pattern = self.parse_alternatives()
        if self.at < len(self.tokens):
            raise self.error_at_token(f"unexpected '{self.token.text}' in PATTERN", "as in PATTERN (A B+ C)")
        return pattern

    def error_at_token(self, message: str, hint: str | None = None) -> Exception:
        token = self.tokens[min(self.at, len(self.tokens) - 1)] if self.tokens else self.token
        return self.source.error_at(message, token.start, token.end, hint)

    def parse_alternatives(self) -> Pattern:
        parts = [self.parse_sequence()]
        while self.accept("|"):
            parts.append(self.parse_sequence())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def parse_sequence(self) -> Pattern:
        parts = []
        while self.at < len(self.tokens) and self.token.text not in ("|", ")"):
            parts.append(self.parse_repetition())
        if not parts:
            raise self.error_at_token("PATTERN needs a variable here", "as in PATTERN (A B+ C)")
        return build_sequence(parts)

    def parse_repetition(self) -> Pattern:
        part = self.parse_primary()
        bounds = self.parse_quantifier()
        if bounds is None:
            return part
        if self.token.text == "?":
            raise self.error_at_token(
                "a reluctant quantifier picks the shortest match; motet gives every match", "leave out this '?'"
            )
        return Repeat(part, *bounds)

    def parse_quantifier(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self.token.text)
        if simple is not None:
            self.at += 1
            return simple
        if self.token.text != "{":
            return None
        inside = []
        self.at += 1
        while self.token.text not in ("}", ""):
            inside.append(self.token.text)
            self.at += 1
        self.at += 1
        found = re.fullmatch(r"(\d*)(,?)(\d*)", "".join(inside))
        if found is None or not (found[1] or found[3]):
            self.at -= 1
            raise self.error_at_token("this quantifier is not understood", "write {n}, {n,}, {,m} or {n,m}")
        low = int(found[1] or 0)
        return low, int(found[3]) if found[3] else None if found[2] else low

    def parse_primary(self) -> Pattern:
        token = self.tokens[self.at]
        if token.text.upper() == "PERMUTE":
            raise self.error_at_token("PERMUTE has no equal under CONTIGUOUS", "write the orders out with |")
        if token.kind == "name":
            self.at += 1
            return Event(token.text)
        if token.text == "(":
            self.at += 1
            inner = self.parse_alternatives()
            if self.token.text != ")":
                raise self.error_at_token("this bracket is never closed", "add a )")
            self.at += 1
            return inner
        if token.text == "{-":
            raise self.error_at_token(
                "{- ... -} leaves rows out of ALL ROWS PER MATCH, which motet does not give", "take it off"
            )
        if token.text in ("^", "$"):
            raise self.error_at_token(
                f"the anchor {token.text} has no equal: a match may lie anywhere in its partition", "take it off"
            )
        raise self.error_at_token(f"unexpected '{token.text}' in PATTERN", "as in PATTERN (A B+ C)")


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
