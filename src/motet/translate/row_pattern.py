"""The PATTERN of MATCH_RECOGNIZE: read into ours, and what of it decides whether the two mean the same."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from motet.model.pattern import Event, Or, Pattern, Repeat, Seq, children, events
from motet.translate.outcome import Source

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<mark>\{-|-\}|[{}()|*+?,^$&])|(?P<number>\d+)|(?P<other>\S))")


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    kind: str
    start: int
    end: int


def parse_rows(source: Source, start: int, end: int) -> Pattern:
    """The pattern between two offsets of a text; its events are variables yet."""
    return _Parser(source, start, end).parse()


class _Parser:
    """Alternatives of sequences of repeated variables and groups."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.tokens = [
            _Token(found.group(found.lastgroup), found.lastgroup, found.start(found.lastgroup), found.end())
            for found in _TOKEN.finditer(source.text, start, end)
            if found.lastgroup is not None
        ]
        self.end = end
        self.at = 0

    def parse(self) -> Pattern:
        pattern = self.alternatives()
        if self.at < len(self.tokens):
            raise self.refusal(f"unexpected '{self.tokens[self.at].text}' in PATTERN", "as in PATTERN (A B+ C)")
        return pattern

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def refusal(self, message: str, hint: str | None = None) -> Exception:
        token = self.tokens[min(self.at, len(self.tokens) - 1)] if self.tokens else _Token("", "", self.end - 1, 0)
        return self.source.refusal(message, token.start, token.end, hint)

    def alternatives(self) -> Pattern:
        parts = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def sequence(self) -> Pattern:
        parts = []
        while self.at < len(self.tokens) and self.peek() not in ("|", ")"):
            parts.append(self.repeated())
        if not parts:
            raise self.refusal("PATTERN needs a variable here", "as in PATTERN (A B+ C)")
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def repeated(self) -> Pattern:
        part = self.single()
        bounds = self.quantifier()
        if bounds is None:
            return part
        if self.peek() == "?":
            raise self.refusal(
                "a reluctant quantifier picks the shortest match; motet gives every match", "leave out this '?'"
            )
        return Repeat(part, *bounds)

    def quantifier(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self.peek())
        if simple is not None:
            self.at += 1
            return simple
        if self.peek() != "{":
            return None
        inside = []
        self.at += 1
        while self.peek() not in ("}", ""):
            inside.append(self.peek())
            self.at += 1
        self.at += 1
        found = re.fullmatch(r"(\d*)(,?)(\d*)", "".join(inside))
        if found is None or not (found[1] or found[3]):
            self.at -= 1
            raise self.refusal("this quantifier is not understood", "write {n}, {n,}, {,m} or {n,m}")
        low = int(found[1] or 0)
        return low, int(found[3]) if found[3] else None if found[2] else low

    def single(self) -> Pattern:
        token = self.tokens[self.at]
        if token.text.upper() == "PERMUTE":
            raise self.refusal("PERMUTE has no equal under CONTIGUOUS", "write the orders out with |")
        if token.kind == "name":
            self.at += 1
            return Event(token.text)
        if token.text == "(":
            self.at += 1
            inner = self.alternatives()
            if self.peek() != ")":
                raise self.refusal("this bracket is never closed", "add a )")
            self.at += 1
            return inner
        if token.text == "{-":
            raise self.refusal(
                "{- ... -} leaves rows out of ALL ROWS PER MATCH, which motet does not give", "take it off"
            )
        if token.text in ("^", "$"):
            raise self.refusal(
                f"the anchor {token.text} has no equal: a match may lie anywhere in its partition", "take it off"
            )
        raise self.refusal(f"unexpected '{token.text}' in PATTERN", "as in PATTERN (A B+ C)")


@dataclass
class Shape:
    """Which variables may come first and last, and which may directly follow which."""

    nullable: bool
    first: set[str]
    last: set[str]
    follow: dict[str, set[str]] = field(default_factory=dict)

    def before(self, name: str) -> set[str]:
        """The variables that may stand directly before one."""
        return {each for each, after in self.follow.items() if name in after}


def shape_of(pattern: Pattern) -> Shape:
    """The shape of a pattern in which each variable is written once."""
    follow: dict[str, set[str]] = {event.type: set() for event in events(pattern)}

    def join(last: set[str], first: set[str]) -> None:
        for name in last:
            follow[name] |= first

    def walk(part: Pattern) -> Shape:
        match part:
            case Event(name):
                return Shape(False, {name}, {name})
            case Or(parts):
                shapes = [walk(each) for each in parts]
                return Shape(
                    any(shape.nullable for shape in shapes),
                    set().union(*(shape.first for shape in shapes)),
                    set().union(*(shape.last for shape in shapes)),
                )
            case Repeat(inner, low, high):
                once = walk(inner)
                if high is None or high > 1:
                    join(once.last, once.first)
                return Shape(once.nullable or low == 0, once.first, once.last)
        found = Shape(True, set(), set())
        for each in children(part):
            after = walk(each)
            join(found.last, after.first)
            found = Shape(
                found.nullable and after.nullable,
                found.first | after.first if found.nullable else found.first,
                found.last | after.last if after.nullable else after.last,
            )
        return found

    whole = walk(pattern)
    whole.follow = follow
    return whole


def is_fixed(pattern: Pattern) -> bool:
    """Whether all matches are of one length and form."""
    match pattern:
        case Or():
            return False
        case Repeat(_, low, high) if low != high:
            return False
    return all(map(is_fixed, children(pattern)))


def loops(pattern: Pattern) -> frozenset[str]:
    """The variables that are repeated, alone or in a group."""
    match pattern:
        case Repeat(part, _, high) if high is None or high > 1:
            return frozenset(event.type for event in events(part))
    return frozenset().union(*map(loops, children(pattern)))


def loops_in_groups(pattern: Pattern) -> frozenset[str]:
    """The variables that are repeated together with others."""
    match pattern:
        case Repeat(part, _, high) if (high is None or high > 1) and not isinstance(part, Event):
            return frozenset(event.type for event in events(part))
    return frozenset().union(*map(loops_in_groups, children(pattern)))


def always_before(pattern: Pattern, one: str, other: str) -> bool:
    """Whether every match that binds `other` has bound all of `one` before it, and at least once."""

    def holds(part: Pattern) -> set[str]:
        return {event.type for event in events(part)}

    match pattern:
        case Repeat(part, _, 1):
            return always_before(part, one, other)
        case Seq(parts):
            at_one = next((at for at, part in enumerate(parts) if one in holds(part)), None)
            at_other = next((at for at, part in enumerate(parts) if other in holds(part)), None)
            if at_one is None or at_other is None:
                return False
            if at_one == at_other:
                return always_before(parts[at_one], one, other)
            return at_one < at_other and _is_certain(parts[at_one], one)
        case Or(parts):
            return any(always_before(part, one, other) for part in parts)
    return False


def _is_certain(pattern: Pattern, name: str) -> bool:
    """Whether a variable is bound whenever a pattern is matched."""
    match pattern:
        case Event(type):
            return type == name
        case Or():
            return False
        case Repeat(part, low):
            return low > 0 and _is_certain(part, name)
    return any(_is_certain(part, name) for part in children(pattern))
