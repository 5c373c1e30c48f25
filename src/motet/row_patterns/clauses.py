"""Parse the clauses of MATCH_RECOGNIZE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from motet.row_patterns.patterns import PatternParser, RowPattern, RowVariable, has_exclusion, list_variables
from motet.row_patterns.tokens import SqlText, TokenReader

Empty = Literal["show", "omit", "unmatched"]
Skip = Literal["past last", "to next", "to first", "to last"]


@dataclass(frozen=True, slots=True)
class SortKey:
    """An expression of ORDER BY, by its tokens."""

    first: int
    last: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Named:
    """An expression with a name: a measure, or the condition of a variable; by its tokens."""

    name: str
    token: int
    first: int
    last: int


@dataclass
class MatchClause:
    """MATCH_RECOGNIZE as it is written. Tokens `first` to `last` are the whole relation, `relation_end` is the place of
    the word MATCH_RECOGNIZE; expressions are still tokens.
    """

    sql: SqlText
    first: int
    relation_end: int
    last: int
    pattern: RowPattern = field(default_factory=lambda: RowVariable(""))
    pattern_at: tuple[int, int] = (0, 0)
    partition: list[tuple[int, int]] = field(default_factory=list)
    order: list[SortKey] = field(default_factory=list)
    measures: list[Named] = field(default_factory=list)
    all_rows: bool = False
    empty: Empty = "show"
    skip: Skip = "past last"
    skip_to: str | None = None
    subsets: dict[str, list[str]] = field(default_factory=dict)
    conditions: list[Named] = field(default_factory=list)

    @property
    def variables(self) -> list[str]:
        """The variables of the pattern."""
        return list_variables(self.pattern)

    @property
    def relation_name(self) -> str | None:
        """The name of the relation, in lower case: its alias, or what the table itself is called."""
        at = self.relation_end - 1
        if self.sql.word(at) == ")":  # a subquery, or the columns behind an alias
            at = self.sql.find_opening(at, self.first) - 1
        name = self.sql.tokens[at].identifier if at >= self.first else None
        return None if name is None else name.lower()


_CLAUSES = (
    "PARTITION", "ORDER", "MEASURES", "ONE", "ALL", "AFTER", "PATTERN", "SUBSET", "DEFINE", "WITHIN", "INITIAL",
    "SEEK",
)  # fmt: skip
# What follows the first word of a clause, where that is always the same.
_SECOND_WORDS = {
    "PARTITION": "BY", "ORDER": "BY", "ONE": "ROW", "ALL": "ROWS", "AFTER": "MATCH", "PATTERN": "(",
    "INITIAL": "PATTERN", "SEEK": "PATTERN",
}  # fmt: skip


def parse_clause(sql: SqlText, first: int, keyword: int) -> MatchClause:
    """Parse the MATCH_RECOGNIZE at a place, whose relation begins at token `first`."""
    if sql.word(keyword + 1) != "(":
        raise sql.error_at("MATCH_RECOGNIZE needs its clauses in ( )", keyword)
    closing = sql.find_closing(keyword + 1)
    clause = MatchClause(sql, first, keyword, closing + 1)
    _ClauseParser(sql, keyword + 2, closing, clause).parse()
    return clause


class _ClauseParser(TokenReader):
    def __init__(self, sql: SqlText, first: int, last: int, clause: MatchClause) -> None:
        super().__init__(sql, first, last)
        self.clause = clause

    def parse(self) -> None:
        first, seen = self.at, {}
        parsers: dict[str, Callable[[], None]] = {
            "PARTITION": self.parse_partition,
            "ORDER": self.parse_order,
            "MEASURES": self.parse_measures,
            "ONE": self.parse_rows,
            "ALL": self.parse_rows,
            "AFTER": self.parse_skip,
            "PATTERN": self.parse_pattern,
            "SUBSET": self.parse_subsets,
            "DEFINE": self.parse_conditions,
        }
        while self.at < self.last:
            word, at = self.sql.word(self.at), self.at
            if word not in parsers:
                self.refuse(word)
            kind = "ONE" if word == "ALL" else word
            if kind in seen:
                raise self.sql.error_at(f"{word} is written twice", at)
            seen[kind] = at
            parsers[word]()
        if "PATTERN" not in seen:
            raise self.sql.error_at("MATCH_RECOGNIZE needs a PATTERN", first - 2, hint="as in PATTERN (A B+)")
        self.check(seen)

    def refuse(self, word: str) -> None:
        if word in ("INITIAL", "SEEK"):
            raise self.sql.error_at(f"{word} belongs to row patterns in windows, which are not supported", self.at)
        if word == "WITHIN":
            hint = "write it as a condition: DEFINE C AS C.ts <= FIRST(ts) + INTERVAL '1' HOUR"
            raise self.sql.error_at("WITHIN is not part of SQL's MATCH_RECOGNIZE", self.at, hint=hint)
        shown = self.sql.tokens[self.at].text
        raise self.sql.error_at(
            f"{shown!r} is not understood here", self.at, hint="a clause such as MEASURES or PATTERN follows"
        )

    def check(self, seen: dict[str, int]) -> None:
        clause, variables = self.clause, self.clause.variables
        for name, members in clause.subsets.items():
            if name in variables:
                raise self.sql.error_at(f"SUBSET {name} has the name of a variable of PATTERN", seen["SUBSET"])
            for member in members:
                if member not in variables:
                    raise self.sql.error_at(f"{member} of SUBSET {name} is not in PATTERN", seen["SUBSET"])
        for condition in clause.conditions:
            if condition.name not in variables:
                hint = "only variables of PATTERN are defined" + (
                    ", not subsets" if condition.name in clause.subsets else ""
                )
                raise self.sql.error_at(f"{condition.name} is not in PATTERN", condition.token, hint=hint)
        if clause.skip_to is not None and clause.skip_to not in (*variables, *clause.subsets):
            raise self.sql.error_at(f"AFTER MATCH SKIP: {clause.skip_to} is not in PATTERN", seen["AFTER"])
        if clause.empty == "unmatched" and has_exclusion(clause.pattern):
            raise self.sql.error_at("WITH UNMATCHED ROWS and {- -} do not go together", seen["ONE"])

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.sql.error_at(f"{' '.join(words)} is expected here", self.at)

    def find_end(self) -> int:
        """Return where the current list ends: at the next clause outside of brackets."""
        at = self.at
        while at < self.last:
            word = self.sql.word(at)
            if word == "(":
                at = self.sql.find_closing(at)
            elif at > self.at and word in _CLAUSES and self.starts_clause(at):
                break
            at += 1
        return at

    def starts_clause(self, at: int) -> bool:
        word, following = self.sql.word(at), self.sql.word(at + 1)
        if self.sql.word(at - 1) in (".", "AS", ",", "BY"):
            return False
        if word == "MEASURES":
            return True
        if word in _SECOND_WORDS:
            return following == _SECOND_WORDS[word]
        return at + 1 < self.last and self.sql.tokens[at + 1].kind in ("name", "quoted", "text", "number")

    def parse_list(self) -> list[tuple[int, int]]:
        end = self.find_end()
        if end == self.at:
            raise self.sql.error_at("a list is expected here", self.at)
        parts = self.sql.split_at_commas(self.at, end)
        for first, last in parts:
            if first == last:
                raise self.sql.error_at("something is missing between commas", first)
        self.at = end
        return parts

    def parse_partition(self) -> None:
        self.expect("PARTITION", "BY")
        self.clause.partition = self.parse_list()

    def parse_order(self) -> None:
        self.expect("ORDER", "BY")
        for first, last in self.parse_list():
            words = [self.sql.word(at) for at in range(first + 1, last)]
            nulls_first = words[-2:] == ["NULLS", "FIRST"]
            if nulls_first or words[-2:] == ["NULLS", "LAST"]:
                words = words[:-2]
            descending = words[-1:] == ["DESC"]
            if words[-1:] in (["ASC"], ["DESC"]):
                words = words[:-1]
            self.clause.order.append(SortKey(first, first + 1 + len(words), descending, nulls_first))

    def parse_measures(self) -> None:
        self.expect("MEASURES")
        for first, last in self.parse_list():
            name = self.sql.tokens[last - 1].identifier
            if name is None or last - first < 3 or self.sql.word(last - 2) != "AS":
                raise self.sql.error_at("a measure needs a name", first, last, "as in LAST(B.price) AS low")
            self.clause.measures.append(Named(name, last - 1, first, last - 2))

    def parse_rows(self) -> None:
        if self.accept("ONE", "ROW", "PER", "MATCH"):
            return
        self.expect("ALL", "ROWS", "PER", "MATCH")
        self.clause.all_rows = True
        if self.accept("OMIT", "EMPTY", "MATCHES"):
            self.clause.empty = "omit"
        elif self.accept("WITH", "UNMATCHED", "ROWS"):
            self.clause.empty = "unmatched"
        else:
            self.accept("SHOW", "EMPTY", "MATCHES")

    def parse_skip(self) -> None:
        self.expect("AFTER", "MATCH", "SKIP")
        if self.accept("PAST", "LAST", "ROW"):
            return
        self.expect("TO")
        if self.accept("NEXT", "ROW"):
            self.clause.skip = "to next"
            return
        # FIRST and LAST may be names of variables too.
        named = self.at + 1 < self.last and self.sql.tokens[self.at + 1].variable is not None
        named = named and self.sql.word(self.at + 1) not in ("PATTERN", "SUBSET", "DEFINE")
        if named and self.accept("FIRST"):
            self.clause.skip = "to first"
        else:
            if named:
                self.accept("LAST")
            self.clause.skip = "to last"
        self.clause.skip_to = self.sql.tokens[self.at].variable if self.at < self.last else None
        if self.clause.skip_to is None:
            raise self.sql.error_at("a variable is expected here", self.at)
        self.at += 1

    def parse_pattern(self) -> None:
        self.expect("PATTERN", "(")
        closing = self.sql.find_closing(self.at - 1)
        if closing == self.at:
            raise self.sql.error_at(
                "PATTERN needs a variable", closing, hint="the empty pattern is written PATTERN (())"
            )
        self.clause.pattern = PatternParser(self.sql, self.at, closing).parse()
        self.clause.pattern_at = (self.at, closing)
        self.at = closing + 1

    def parse_subsets(self) -> None:
        self.expect("SUBSET")
        for first, last in self.parse_list():
            name = self.sql.tokens[first].variable
            members = [self.sql.tokens[at].variable for at in range(first + 3, last - 1, 2)]
            commas = [self.sql.word(at) for at in range(first + 4, last - 1, 2)]
            shape = [self.sql.word(first + 1), self.sql.word(first + 2), self.sql.word(last - 1)]
            if name is None or shape != ["=", "(", ")"] or not members or set(commas) - {","} or None in members:
                raise self.sql.error_at("this SUBSET is not understood", first, last, "as in SUBSET U = (A, B)")
            if name in self.clause.subsets:
                raise self.sql.error_at(f"SUBSET {name} is written twice", first)
            self.clause.subsets[name] = [member for member in members if member is not None]

    def parse_conditions(self) -> None:
        self.expect("DEFINE")
        for first, last in self.parse_list():
            name = self.sql.tokens[first].variable
            if name is None or self.sql.word(first + 1) != "AS" or last - first < 3:
                raise self.sql.error_at("this definition is not understood", first, last, "as in A AS price > 10")
            if any(name == known.name for known in self.clause.conditions):
                raise self.sql.error_at(f"{name} is defined twice", first)
            self.clause.conditions.append(Named(name, first, first + 2, last))
