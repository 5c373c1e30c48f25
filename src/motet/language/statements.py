"""Splits the tokens of a file into statements and their clauses, so that each is read on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lark import Token

from motet.errors import Diagnostic
from motet.language.keywords import CLAUSE_TYPES
from motet.language.syntax import span_between, span_of
from motet.language.tokens import starts_line
from motet.model.span import Span


@dataclass(eq=False)
class Clause:
    """One clause: the word that opens it (none for a bare pattern) and the tokens after that."""

    kind: str
    opening: Token
    body: list[Token] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What users call it."""
        titles = {"GROUP_BY": "GROUP BY", "AFTER_MATCH": "AFTER MATCH", "CONDITION": "the definition of an event"}
        return titles.get(self.kind, self.kind)

    @property
    def end(self) -> Span:
        """Where what follows its opening words begins; these words where nothing does."""
        return span_of(self.body[0] if self.body else self.opening)


@dataclass(eq=False)
class Statement:
    """A query, the `Query:` header that later patterns share, or an event definition."""

    kind: str  # QUERY HEADER EVENT
    opening: Token
    name: Token | None = None
    clauses: list[Clause] = field(default_factory=list)

    def clause(self, kind: str) -> Clause | None:
        return next((clause for clause in self.clauses if clause.kind == kind), None)

    @property
    def is_bare(self) -> bool:
        """Whether it is only a pattern, and so takes all else from the query before it."""
        return self.kind == "QUERY" and all(clause.kind == "PATTERN" for clause in self.clauses)

    @property
    def span(self) -> Span:
        last = self.clauses[-1] if self.clauses else None
        end = self.name or self.opening
        if last is not None:
            end = last.body[-1] if last.body else last.opening
        return span_between(self.opening, end)


def split_statements(tokens: Sequence[Token], problems: list[Diagnostic]) -> list[Statement]:
    """Split a file into its statements, in the order written."""
    statements: list[Statement] = []
    current: Statement | None = None

    def begin(kind: str, opening: Token, name: Token | None = None) -> Statement:
        statement = Statement(kind, opening, name)
        statements.append(statement)
        return statement

    index = 0
    while index < len(tokens):
        token = tokens[index]
        before = tokens[index - 1] if index else None
        index += 1
        match token.type:
            case "SEMICOLON":
                current = None
            case "LABEL":
                current = begin("QUERY", token, token)
            case "HEADER":
                current = begin("HEADER", token)
            case "QUERY" | "EVENT":
                name = tokens[index] if index < len(tokens) and tokens[index].type == "NAME" else None
                if name is None:
                    problems.append(Diagnostic(f"{token.type} needs a name", span_of(token), hint="as in QUERY q1"))
                index += name is not None
                current = begin(token.type, token, name)
                if token.type == "EVENT":
                    index += _open_definition(current, tokens[index : index + 1], problems)
            case kind if kind in CLAUSE_TYPES:
                if current is None or _begins_query(current, token, before):
                    current = begin("QUERY", token)
                current.clauses.append(Clause(kind, token))
            case _:
                if current is None:
                    current = begin("QUERY", token)
                if not current.clauses:
                    current.clauses.append(Clause("PATTERN", token))
                current.clauses[-1].body.append(token)
    for statement in statements:
        _strip_brackets(statement)
        _report_repeated(statement, problems)
    return statements


def _open_definition(statement: Statement, following: Sequence[Token], problems: list[Diagnostic]) -> int:
    """Open the condition of an event definition; says how many tokens that takes."""
    has_as = bool(following) and following[0].type == "AS"
    place = following[0] if has_as else statement.name or statement.opening
    if not has_as:
        hint = "as in EVENT BigBuy AS type = 'Trade' AND qty > 1000"
        problems.append(Diagnostic("the name of an event must be followed by AS", span_of(place), hint=hint))
    statement.clauses.append(Clause("CONDITION", place))
    return int(has_as)


def _begins_query(statement: Statement, token: Token, before: Token | None) -> bool:
    """Return whether a clause belongs to a new, unnamed query: a second RETURN or PATTERN at the start of a line."""
    if statement.kind == "EVENT":
        return True
    repeated = token.type in ("RETURN", "PATTERN") and statement.clause(token.type) is not None
    return repeated and statement.clause("PATTERN") is not None and starts_line(token, before)


def _strip_brackets(statement: Statement) -> None:
    """Take away A-Seq's brackets around clauses, `WHERE <...>` and `[WITHIN 10s]`, and commas between queries."""
    last = statement.clauses[-1] if statement.clauses else None
    for clause in statement.clauses:
        body = clause.body
        if clause is not last and body and body[-1].type == "LSQB":
            body.pop()
        if _has_extra_bracket(body):
            body.pop()
        if len(body) > 1 and body[0].type == "LT" and body[-1].type == "GT":
            del body[0], body[-1]
    if last is not None and last.kind == "PATTERN" and len(last.body) > 1 and last.body[-1].type == "COMMA":
        last.body.pop()


def _has_extra_bracket(body: Sequence[Token]) -> bool:
    if not body or body[-1].type != "RSQB":
        return False
    return sum((token.type == "LSQB") - (token.type == "RSQB") for token in body) < 0


def _report_repeated(statement: Statement, problems: list[Diagnostic]) -> None:
    """Report and drop a clause that is written twice, or RETURN beside AGG; the first one counts."""
    name = None if statement.name is None else str(statement.name)
    seen: set[str] = set()
    for clause in list(statement.clauses):
        role = "RETURN" if clause.kind == "AGG" else clause.kind
        if role in seen:
            hint = "begin each query with QUERY and its name" if role == "PATTERN" else None
            message = f"a query has only one {clause.title} clause"
            if clause.kind != role or (role == "RETURN" and statement.clause("AGG") is not None):
                message = "AGG and RETURN mean the same: write one of them"
            problems.append(Diagnostic(message, span_of(clause.opening), name, hint))
            statement.clauses.remove(clause)
        seen.add(role)
