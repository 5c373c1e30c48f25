"""Run a statement: each MATCH_RECOGNIZE becomes a relation of its own, and the engine runs the statement around them.

The statement is passed on as it is written, with the name of a relation in the place of each MATCH_RECOGNIZE.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa

from motet.errors import DataError, Diagnostic, QueryError
from motet.row_patterns.clauses import parse_clause
from motet.row_patterns.compiler import HIDDEN, ClauseDraft, draft_clause
from motet.row_patterns.expressions import AGGREGATES_HINT
from motet.row_patterns.tokens import Dialect, SqlText

_CHANGES = {("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("DELETE", "FROM"), ("MERGE", "INTO")}
_BEGINNINGS = ("SELECT", "WITH", "FROM", "VALUES", "(", "TABLE")


class EngineError(QueryError):
    """What an engine says of a query, and the offset in the query that it speaks of, where it names one."""

    def __init__(self, engine: str, message: str, offset: int | None = None) -> None:
        super().__init__([Diagnostic(message)], origin=engine)
        self.message = f"{engine}: {message}"
        self.offset = offset


class SqlEngine(Protocol):
    """What evaluates expressions of one row and runs the statement around MATCH_RECOGNIZE."""

    dialect: Dialect

    def read_schema(self, query: str) -> pa.Schema:
        """Return the columns of a query."""

    def add_matches(self, draft: ClauseDraft, relation: Relation) -> str:
        """Match the rows of a relation, and return the name of the view of what measures read."""

    def add_view(self, query: str) -> str:
        """Return the name of a view that a query is."""

    def query(self, text: str) -> Any:
        """Return the result of a query."""


@dataclass(frozen=True, slots=True)
class Relation:
    """What MATCH_RECOGNIZE is applied to: a text for FROM, and the WITH clause whose names it may use."""

    text: str
    definitions: str = ""

    def select(self, query: str) -> str:
        """Return a query that reads it."""
        return self.definitions + query


@dataclass(frozen=True, slots=True)
class _Definition:
    """A name that WITH defines, as tokens; it is known up to the token `scope`."""

    name: str
    first: int
    last: int
    scope: int
    recursive: bool


def run_statement(text: str, origin: str, engine: SqlEngine) -> Any:
    """Run a SELECT statement, in which any number of relations may have a MATCH_RECOGNIZE.

    Args:
        text: The statement.
        origin: What to call it in messages.
        engine: What runs all but the row patterns.

    Raises:
        QueryError: The statement is wrong, or asks for something that is not supported.
    """
    sql = SqlText(text, origin, engine.dialect)
    while sql.word(len(sql.tokens) - 1) == ";":
        sql.tokens.pop()
    _require_query(sql)
    replaced: dict[int, tuple[int, str]] = {}
    definitions = _find_definitions(sql)
    behind = 0  # the last clause
    for keyword in range(len(sql.tokens)):
        _refuse_window_pattern(sql, keyword, behind)
        if sql.word(keyword) != "MATCH_RECOGNIZE" or sql.word(keyword - 1) == ".":
            continue
        first = _find_relation(sql, keyword)
        try:
            clause = parse_clause(sql, first, keyword)
            relation = Relation(
                sql.render(first, keyword, replaced), _render_definitions(sql, definitions, keyword, replaced)
            )
            columns = _read_columns(engine, relation, sql, (first, keyword), replaced)
            draft = draft_clause(clause, columns)
            behind = clause.last
            replaced[first] = (clause.last, _add_matches(engine, draft, relation, keyword))
        except RecursionError:
            hint = "with fewer brackets in each other, or fewer operators in a row"
            raise sql.error_at("this MATCH_RECOGNIZE is nested too deeply", keyword, hint=hint) from None
    try:
        return engine.query(sql.render(0, len(sql.tokens), replaced))
    except EngineError as error:
        if error.offset is None:
            raise
        raise sql.error_at(error.message, *sql.find_rendered(0, len(sql.tokens), replaced, error.offset)) from None


def _read_columns(
    engine: SqlEngine, relation: Relation, sql: SqlText, tokens: tuple[int, int], replaced: dict[int, tuple[int, str]]
) -> pa.Schema:
    """Return the columns of a relation, which is these tokens."""
    query = relation.select("SELECT * FROM ")
    try:
        return engine.read_schema(f"{query}{relation.text} LIMIT 0")
    except EngineError as error:
        place = tokens
        if error.offset is not None and error.offset >= len(query):
            place = sql.find_rendered(*tokens, replaced, error.offset - len(query))
        raise sql.error_at(error.message, *place) from None


def _refuse_window_pattern(sql: SqlText, at: int, behind: int) -> None:
    """Refuse the PATTERN of a window; one of MATCH_RECOGNIZE stands before token `behind`."""
    is_pattern = at >= behind and (sql.word(at), sql.word(at + 1)) == ("PATTERN", "(")
    if is_pattern and sql.word(sql.find_closing(at + 1) + 1) in ("SUBSET", "DEFINE"):
        hint = "write them in a MATCH_RECOGNIZE"
        raise sql.error_at("row patterns in windows are not supported", at, hint=hint)


def _add_matches(engine: SqlEngine, draft: ClauseDraft, relation: Relation, keyword: int) -> str:
    """Match the rows of a relation, and return the name of the view that comes out."""
    source, places = relation.text, draft.input_places
    try:
        source = matched = engine.add_matches(draft, relation)
        places = draft.measure_places
        return engine.add_view(relation.select(draft.select_measures(matched)))
    except EngineError as error:
        place = _find_refused(engine, relation, source, places) or (keyword, keyword + 1)
        # Beside columns, which there always are, an engine takes no aggregate of its own.
        if "GROUP BY" in error.message and "GROUP BY" not in relation.text.upper():
            raise draft.clause.sql.error_at(
                "MEASURES or DEFINE has an aggregate that is not supported", *place, hint=AGGREGATES_HINT
            ) from None
        raise draft.clause.sql.error_at(error.message, *place) from None


def _find_refused(
    engine: SqlEngine, relation: Relation, source: str, places: dict[str, tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the tokens of the expression over a source that an engine refuses or fails on; None if each runs alone."""
    refused = ((text, f"SELECT *, {text} AS {HIDDEN}tried FROM {source} LIMIT 0") for text in places)
    # What is guarded may fail alone, so conditions that are evaluated as one, which come last, are tried before.
    failing = ((text, f"SELECT COUNT({text}) AS {HIDDEN}tried FROM {source}") for text in reversed(places))
    for text, query in chain(refused, failing):
        try:
            engine.read_schema(relation.select(query))
        except EngineError:
            return places[text]
    return None


def read_statement(path: Any) -> str:
    """Return the text of a file."""
    try:
        return str(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DataError(f"there is no file {str(path)!r}") from None
    except UnicodeDecodeError:
        raise DataError(f"the file {str(path)!r} is not UTF-8 text") from None


def _require_query(sql: SqlText) -> None:
    if not sql.tokens:
        raise sql.error_at("there is no statement here", 0)
    if sql.word(0) not in _BEGINNINGS:
        raise sql.error_at("only queries are run", 0, hint="a statement begins with SELECT or WITH")
    depth = 0
    for at in range(len(sql.tokens)):
        depth += {"(": 1, ")": -1}.get(sql.word(at), 0)
        if depth == 0 and (sql.word(at), sql.word(at + 1)) in _CHANGES:
            raise sql.error_at("only queries are run: this one changes a table", at, at + 2)
        if sql.word(at) == ";":
            raise sql.error_at("there is more than one statement", at + 1, hint="run them one by one")


def _find_relation(sql: SqlText, keyword: int) -> int:
    """Return the first token of the relation before MATCH_RECOGNIZE."""
    at, depth = keyword - 1, 0
    while at >= 0:
        word = sql.word(at)
        depth += {")": 1, "(": -1}.get(word, 0)
        if depth < 0 or (depth == 0 and word in ("FROM", "JOIN", ",", "LATERAL")):
            break
        at -= 1
    if at + 1 == keyword or at < 0:
        raise sql.error_at(
            "a table is expected before MATCH_RECOGNIZE", keyword, hint="as in FROM trades MATCH_RECOGNIZE ("
        )
    return at + 1


def _find_definitions(sql: SqlText) -> list[_Definition]:
    """Return all names that WITH clauses define, in order."""
    found = []
    for at in range(len(sql.tokens)):
        if sql.word(at) != "WITH":
            continue
        recursive = sql.word(at + 1) == "RECURSIVE"
        place, scope = at + 1 + recursive, _find_scope(sql, at)
        while (definition := _read_definition(sql, place, scope, recursive)) is not None:
            found.append(definition)
            if sql.word(definition.last) != ",":
                break
            place = definition.last + 1
    return found


def _read_definition(sql: SqlText, first: int, scope: int, recursive: bool) -> _Definition | None:
    if first >= len(sql.tokens) or sql.tokens[first].identifier is None:
        return None
    at = first + 1
    if sql.word(at) == "(":
        at = sql.find_closing(at) + 1
    if sql.word(at) != "AS":
        return None
    at += 1
    while sql.word(at) in ("NOT", "MATERIALIZED"):
        at += 1
    if sql.word(at) != "(":
        return None
    name = sql.tokens[first].identifier or ""
    return _Definition(name.lower(), first, sql.find_closing(at) + 1, scope, recursive)


def _find_scope(sql: SqlText, at: int) -> int:
    """Return the end of the brackets that a token stands in."""
    depth = 0
    for place in range(at, len(sql.tokens)):
        depth += {"(": 1, ")": -1}.get(sql.word(place), 0)
        if depth < 0:
            return place
    return len(sql.tokens)


def _render_definitions(
    sql: SqlText, definitions: list[_Definition], keyword: int, replaced: dict[int, tuple[int, str]]
) -> str:
    """Return a WITH clause of the names that are known at a place; an inner one hides an outer one."""
    known: dict[str, _Definition] = {}
    for each in definitions:
        if each.last <= keyword < each.scope:
            known.pop(each.name, None)
            known[each.name] = each
    if not known:
        return ""
    recursive = "RECURSIVE " if any(each.recursive for each in known.values()) else ""
    return f"WITH {recursive}{', '.join(sql.render(each.first, each.last, replaced) for each in known.values())} "
