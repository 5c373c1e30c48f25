"""Parse the PATTERN of MATCH_RECOGNIZE, and compile it to the program that the kernel runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.row_patterns import AT_END, AT_START, FOUND, SPLIT, TAKE
from motet.row_patterns.tokens import TokenReader

MAX_INSTRUCTIONS = 20_000


@dataclass(frozen=True, slots=True)
class RowVariable:
    """A row of a variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after another; no part at all is the empty pattern."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class RowAlternation:
    """One of the parts, the earlier ones preferred."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Permutation:
    """All parts in any order, preferred as they are written."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Quantified:
    """A part so many times (`high` None: without end), more preferred where greedy, else fewer."""

    part: RowPattern
    low: int
    high: int | None
    greedy: bool


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start or the end of the partition."""

    at_start: bool


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A part whose rows are left out of the output of ALL ROWS PER MATCH."""

    part: RowPattern


RowPattern = RowVariable | Sequence | RowAlternation | Permutation | Quantified | Anchor | Exclusion


def list_variables(pattern: RowPattern) -> list[str]:
    """Return the variables of a pattern, in order of their first place."""
    match pattern:
        case RowVariable(name):
            return [name]
        case Sequence(parts) | RowAlternation(parts) | Permutation(parts):
            return list(dict.fromkeys(name for part in parts for name in list_variables(part)))
        case Quantified(part) | Exclusion(part):
            return list_variables(part)
    return []


def has_exclusion(pattern: RowPattern) -> bool:
    """Return whether some rows are left out of the output."""
    match pattern:
        case Sequence(parts) | RowAlternation(parts) | Permutation(parts):
            return any(map(has_exclusion, parts))
        case Quantified(part):
            return has_exclusion(part)
    return isinstance(pattern, Exclusion)


class PatternParser(TokenReader):
    """Parses the tokens of a pattern between two places."""

    def parse(self) -> RowPattern:
        """Parse all of it."""
        pattern = self.parse_alternation()
        if self.at < self.last:
            raise self.make_error()
        return pattern

    def make_error(self) -> Exception:
        shown = self.sql.tokens[self.at].text if self.at < self.last else "the end"
        return self.sql.error_at(
            f"{shown!r} is not understood here in PATTERN", self.at, hint="as in PATTERN (A B+ C?)"
        )

    def parse_alternation(self) -> RowPattern:
        parts = [self.parse_sequence()]
        while self.accept("|"):
            parts.append(self.parse_sequence())
        return parts[0] if len(parts) == 1 else RowAlternation(tuple(parts))

    def parse_sequence(self) -> RowPattern:
        parts: list[RowPattern] = []
        while self.at < self.last and self.word not in ("|", ")", ",", "-}"):
            parts.append(self.parse_quantified())
        if not parts:
            raise self.sql.error_at("PATTERN needs a variable here", self.at, hint="the empty pattern is written ()")
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def parse_quantified(self) -> RowPattern:
        part = self.parse_primary()
        bounds = self.parse_bounds()
        if bounds is None:
            return part
        greedy = not self.accept("?")
        if self.word in ("*", "+", "?", "{"):
            raise self.sql.error_at("a quantifier follows a quantifier", self.at, hint="put the part before it in ( )")
        return Quantified(part, *bounds, greedy)

    def parse_bounds(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self.word in simple:
            self.at += 1
            return simple[self.sql.word(self.at - 1)]
        first = self.at
        if not self.accept("{"):
            return None
        low = self.parse_number()
        comma = self.accept(",")
        high = self.parse_number() if comma else low
        if self.word != "}" or (low is None and not comma):
            raise self.sql.error_at(
                "this quantifier is not understood", first, self.at + 1, "write {n}, {n,}, {,m} or {n,m}"
            )
        self.at += 1
        if high is not None and (high < (low or 0) or (comma and high == 0)):
            raise self.sql.error_at(
                "this quantifier allows nothing", first, self.at, "in {n,m} m is at least n and at least 1"
            )
        return low or 0, high

    def parse_number(self) -> int | None:
        token = self.sql.tokens[self.at]
        if self.at < self.last and token.kind == "number" and token.text.isdigit():
            self.at += 1
            return int(token.text)
        return None

    def parse_primary(self) -> RowPattern:
        if self.at >= self.last:
            raise self.make_error()
        token = self.sql.tokens[self.at]
        self.at += 1
        if self.sql.word(self.at - 1) == "PERMUTE" and self.word == "(":
            return self.parse_permutation()
        if token.variable is not None:
            return RowVariable(token.variable)
        match token.text:
            case "(":
                if self.accept(")"):
                    return Sequence(())
                return self.parse_until(")")
            case "{-":
                return Exclusion(self.parse_until("-}"))
            case "^":
                return Anchor(True)
            case "$":
                return Anchor(False)
        self.at -= 1
        raise self.make_error()

    def parse_until(self, closing: str) -> RowPattern:
        first = self.at - 1
        inside = self.parse_alternation()
        if not self.accept(closing):
            raise self.sql.error_at("this bracket is never closed in PATTERN", first, hint=f"add a {closing}")
        return inside

    def parse_permutation(self) -> RowPattern:
        first = self.at - 1
        parts = []
        while self.word in ("(", ","):
            self.at += 1
            parts.append(self.parse_alternation())
        if not self.accept(")"):
            raise self.make_error()
        if len(parts) > 6:
            hint = "6 have 720 orders already"
            raise self.sql.error_at(f"PERMUTE of {len(parts)} parts has too many orders", first, self.at, hint)
        return Permutation(tuple(parts))


@dataclass(slots=True)
class _Node:
    """A step of a pattern. `op` is an instruction, or that a loop begins or ends whose body may be empty."""

    op: int
    value: int = 0  # the variable, or the number of a loop
    first: _Node | None = None
    second: _Node | None = None
    excluded: bool = False


_LOOP_BEGIN, _LOOP_END = -1, -2


class _Builder:
    """Builds the steps of a pattern from its end."""

    def __init__(self, variables: dict[str, int], too_large: Exception) -> None:
        self.variables = variables
        self.too_large = too_large
        self.nodes = self.loops = 0

    def node(self, op: int, **fields: object) -> _Node:
        self.nodes += 1
        if self.nodes > MAX_INSTRUCTIONS:
            raise self.too_large
        return _Node(op, **fields)  # type: ignore[arg-type]

    def split(self, preferred: _Node | None, other: _Node | None, greedy: bool = True) -> _Node:
        first, second = (preferred, other) if greedy else (other, preferred)
        return self.node(SPLIT, first=first, second=second)

    def build(self, pattern: RowPattern, after: _Node, excluded: bool = False) -> _Node:
        """Return the step at which a pattern begins that goes on to another step."""
        match pattern:
            case RowVariable(name):
                return self.node(TAKE, value=self.variables[name], first=after, excluded=excluded)
            case Anchor(at_start):
                return self.node(AT_START if at_start else AT_END, first=after)
            case Exclusion(part):
                return self.build(part, after, True)
            case Sequence(parts):
                for part in reversed(parts):
                    after = self.build(part, after, excluded)
                return after
            case RowAlternation(parts):
                return self.build_alternatives(parts, after, excluded)
            case Permutation(parts):
                return self.build_alternatives(map(Sequence, permutations(parts)), after, excluded)
            case Quantified(part, low, None, greedy):
                return self.build_loop(part, low, greedy, after, excluded)
            case Quantified(part, low, high, greedy):
                end = after
                for _ in range((high or 0) - low):
                    after = self.split(self.build(part, after, excluded), end, greedy)
                return self.build_copies(part, low, after, excluded)

    def build_copies(self, part: RowPattern, count: int, after: _Node, excluded: bool) -> _Node:
        for _ in range(count):
            begin = self.build(part, after, excluded)
            if begin is after:  # the empty pattern: any number of it is none
                break
            after = begin
        return after

    def build_alternatives(self, parts: Iterable[RowPattern], after: _Node, excluded: bool) -> _Node:
        ways = [self.build(part, after, excluded) for part in parts]
        found = ways[-1]
        for way in reversed(ways[:-1]):
            found = self.split(way, found)
        return found

    def build_loop(self, part: RowPattern, low: int, greedy: bool, after: _Node, excluded: bool) -> _Node:
        if not is_nullable(part):
            again = self.split(None, after, greedy)
            body = self.build(part, again, excluded)
            again.first, again.second = (body, after) if greedy else (after, body)
            return self.build_copies(part, low - 1, body, excluded) if low else again
        # A round of a loop that takes no row is its last: another would be the same again.
        self.loops += 1
        end = self.node(_LOOP_END, value=self.loops, second=after)
        begin = self.node(_LOOP_BEGIN, value=self.loops, first=self.build(part, end, excluded))
        end.first = self.split(begin, after, greedy)
        return self.build_copies(part, low - 1, begin, excluded) if low else self.split(begin, after, greedy)


def is_nullable(pattern: RowPattern) -> bool:
    """Return whether a pattern can match without a row."""
    match pattern:
        case RowVariable():
            return False
        case Sequence(parts) | Permutation(parts):
            return all(map(is_nullable, parts))
        case RowAlternation(parts):
            return any(map(is_nullable, parts))
        case Quantified(part, low):
            return low == 0 or is_nullable(part)
        case Exclusion(part):
            return is_nullable(part)
    return True


@dataclass(frozen=True)
class CompiledPattern:
    """The program of a pattern: what `row_patterns.PatternCode` has of it."""

    words: NDArray[np.int32]
    memo: NDArray[np.int32]
    excluded: NDArray[np.bool_]


def compile_pattern(
    pattern: RowPattern, variables: dict[str, int], dependent: frozenset[int], too_large: Exception
) -> CompiledPattern:
    """Compile a pattern.

    Args:
        pattern: The pattern.
        variables: The number of each variable.
        dependent: Variables whose conditions speak of the match so far: what failed once may succeed another time.
        too_large: What to raise if it has too many steps.
    """
    builder = _Builder(variables, too_large)
    begin = builder.build(pattern, builder.node(FOUND))
    places: dict[tuple[int, frozenset[int]], int] = {}
    waiting: list[tuple[_Node, frozenset[int]]] = []

    def place_of(node: _Node | None, fresh: frozenset[int]) -> int:
        """Return the place of a step in the program; `fresh` are the loops in which no row was taken yet."""
        while node is not None and node.op < 0:
            if node.op == _LOOP_BEGIN:
                fresh, node = fresh | {node.value}, node.first
            else:
                loop = node.value
                node, fresh = (node.second if loop in fresh else node.first), fresh - {loop}
        assert node is not None
        key = (id(node), fresh)
        if key not in places:
            if len(places) >= MAX_INSTRUCTIONS:
                raise too_large
            places[key] = len(places)
            waiting.append((node, fresh))
        return places[key]

    place_of(begin, frozenset())
    words: list[tuple[int, int, int]] = []
    excluded: list[bool] = []
    while len(words) < len(waiting):
        node, fresh = waiting[len(words)]
        match node.op:
            case op if op == SPLIT:
                words.append((SPLIT, place_of(node.first, fresh), place_of(node.second, fresh)))
            case op if op == FOUND:
                words.append((FOUND, 0, 0))
            case op:
                words.append((op, node.value, place_of(node.first, frozenset() if op == TAKE else fresh)))
        excluded.append(node.excluded)
    code = np.array(words, np.int32).reshape(-1, 3)
    return CompiledPattern(code, _number_memos(code, dependent), np.array(excluded, np.bool_))


def _number_memos(code: NDArray[np.int32], dependent: frozenset[int]) -> NDArray[np.int32]:
    """Assign numbers to the splits from which no condition on the match so far is reached; -1 for all other steps."""
    before: dict[int, list[int]] = {}
    for at, (op, one, other) in enumerate(code.tolist()):
        for target in {SPLIT: (one, other), FOUND: ()}.get(op, (other,)):
            before.setdefault(target, []).append(at)
    waiting = [at for at, (op, variable, _) in enumerate(code.tolist()) if op == TAKE and variable in dependent]
    reaching = set(waiting)
    while waiting:
        for at in before.get(waiting.pop(), ()):
            if at not in reaching:
                reaching.add(at)
                waiting.append(at)
    splits = [at for at in range(len(code)) if code[at, 0] == SPLIT and at not in reaching]
    memo = np.full(len(code), -1, np.int32)
    memo[splits] = np.arange(len(splits))
    return memo
