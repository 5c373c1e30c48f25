"""Reads query text into the model, and reports every problem of a file at once.

A file holds statements. A query begins with `QUERY name`, a label `q1:`, `q1 = ` or a bare name on the line before
RETURN, or has no name at all (it is then called q and its number); its clauses follow in any order. `EVENT name AS
condition` defines an event type. Semicolons between statements are allowed.

A query that is only a pattern takes RETURN, WHERE, GROUP BY, window and policy from the last full query before it, or
from the header `Query:` whose pattern is a lone placeholder. A query without RETURN and with nothing to take it from
returns its matches (`RETURN *`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import ParamSpec, TypeVar

from lark import Token, Tree

from motet.errors import DataError, Diagnostic, QueryError
from motet.language.clauses import (
    drop_event,
    make_window,
    read_after_match,
    read_aggregation,
    read_item,
    read_names,
    read_policy,
    resolve_group_keys,
    split_where,
)
from motet.language.durations import read_length
from motet.language.expressions import read_expression, read_having
from motet.language.patterns import read_pattern
from motet.language.statements import Clause, Statement, split_statements
from motet.language.syntax import ClauseError, parse_clause, span_of, subtrees
from motet.language.tokens import tokenize
from motet.model.expression import Expression, conjuncts
from motet.model.names import resolve_variables
from motet.model.pattern import Event, Pattern, Seq
from motet.model.query import AfterMatch, AllVariables, EventDefinition, Policy, Query, ReturnItem, Workload
from motet.model.span import Span
from motet.model.validate import find_problems
from motet.model.window import Window

P = ParamSpec("P")
Result = TypeVar("Result")

# Tokens that mean something in conditions but are plain names in a pattern.
_NAMES_IN_PATTERNS = frozenset({"IS", "IN", "LIKE", "BETWEEN", "NULL", "TRUE", "FALSE"})
# Where one of these cannot be read, the rest of its query can still be validated without false alarms.
_SKIPPABLE = frozenset({"WHERE", "WITHIN", "SLIDE", "POLICY", "AFTER_MATCH", "HAVING"})


def parse(text: str, origin: str = "<text>") -> Workload:
    """Parse the text of queries.

    Args:
        text: One or more queries, and definitions of event types.
        origin: What messages call the text, such as the path of its file.

    Returns:
        The workload. A query that is only a pattern takes RETURN, WHERE, GROUP BY, window and policy from the last full
        query before it.

    Raises:
        QueryError: All that is wrong with the text, with the place of each mistake.

    Examples:
        >>> import motet
        >>> motet.parse("QUERY ab RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 min").queries[0].name
        'ab'
    """
    draft = read_draft(text, origin)
    found = [
        *draft.problems,
        *(draft.explain(problem) for problem in find_problems(draft.workload) if not problem.warning),
    ]
    if found:
        found.sort(key=lambda problem: problem.span.start if problem.span else -1)
        raise QueryError(found, draft.workload.text, origin)
    return draft.workload


def read(source: str | Path) -> Workload:
    """Read queries from a file, or from a text.

    Args:
        source: The path of a query file, or the text itself. A string is a path if it is one line and ends in `.motet`,
            has neither spaces nor brackets, or names a file that exists.

    Returns:
        The workload.

    Raises:
        QueryError: All that is wrong with the text, with the place of each mistake.
        DataError: The file cannot be read.

    Examples:
        >>> import motet
        >>> len(motet.read("PATTERN SEQ(A, B) WITHIN 10 min").queries)
        1
    """
    if isinstance(source, str) and not _is_file_name(source):
        return parse(source)
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"there is no query file {str(path)!r}") from None
    except OSError as error:
        raise DataError(f"cannot read the query file {str(path)!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"the query file {str(path)!r} is not UTF-8 text") from error
    return parse(text, str(path))


def _is_file_name(source: str) -> bool:
    if "\n" in source or not source.strip():
        return False
    if source.endswith(".motet") or not any(mark in source for mark in " ("):
        return True
    try:
        return Path(source).is_file()
    except (OSError, ValueError):  # a long query is no possible file name
        return False


@dataclass
class Draft:
    """What could be read of a text: the queries worth validating, and the problems of the rest."""

    workload: Workload
    problems: list[Diagnostic]
    sources: dict[str, str] = field(default_factory=dict)  # query -> the one it takes its clauses from

    def explain(self, problem: Diagnostic) -> Diagnostic:
        """Say where a query has a faulty clause from when it stands in another."""
        if problem.query not in self.sources or problem.span is None:
            return problem
        own = self.workload[problem.query].span
        if own is None or own.start <= problem.span.start < own.end:
            return problem
        source = f"{problem.query} takes this clause from {self.sources[problem.query]}"
        return replace(problem, hint=source if problem.hint is None else f"{problem.hint} ({source})")


def read_draft(text: str, origin: str = "<text>") -> Draft:
    """Read a text as far as it can be read, without judging what the queries mean."""
    text = text.removeprefix("\ufeff")
    tokens, found = tokenize(text)
    statements = split_statements(tokens, found)
    if not statements and not found:
        found.append(Diagnostic("there is no query here", hint="as in QUERY q1 RETURN COUNT(*) PATTERN SEQ(A, B)"))
    reader = _Reader(found)
    for name, statement in zip(_name_statements(statements), statements, strict=True):
        reader.read(name, statement)
    reader.finish()
    found = [_with_query(problem, reader.places) for problem in found]
    return Draft(Workload(tuple(reader.queries), tuple(reader.definitions), text, origin), found, reader.sources)


def _with_query(problem: Diagnostic, places: Sequence[tuple[int, str | None]]) -> Diagnostic:
    """Add its query to a problem of letters or words, which was found before there were queries."""
    if problem.query is not None or problem.span is None:
        return problem
    before = [name for start, name in places if start <= problem.span.start]
    return replace(problem, query=before[-1]) if before else problem


def _name_statements(statements: Sequence[Statement]) -> list[str]:
    """Name each statement; a query without a name is q and its number."""
    used_names = {str(statement.name) for statement in statements if statement.name is not None}
    names = []
    number = 1
    for statement in statements:
        if statement.name is None and statement.kind == "QUERY":
            names.append(next(name for name in (f"q{n}" for n in count(number)) if name not in used_names))
            used_names.add(names[-1])
        else:
            names.append(str(statement.name or statement.opening))
        number += statement.kind == "QUERY"
    return names


@dataclass(frozen=True)
class _Frame:
    """A query whose pattern is still to come; `broken` names the clauses that could not be read."""

    query: Query
    broken: frozenset[str]
    paths: frozenset[str]  # attributes of GROUP BY and `[...]` that may have an event before them

    def complete(self, name: str, pattern: Pattern, span: Span) -> Query:
        """Return the query with its pattern."""
        query = self.query
        names = {path: drop_event(path, pattern) for path in self.paths}
        group_by = tuple(dict.fromkeys(names.get(attribute, attribute) for attribute in query.group_by))
        equivalence = tuple(dict.fromkeys(names.get(attribute, attribute) for attribute in query.equivalence))
        return replace(
            query,
            name=name,
            pattern=pattern,
            returns=resolve_group_keys(query.returns, group_by, (*group_by, *equivalence)),
            equivalence=equivalence,
            group_by=group_by,
            places=tuple((names.get(attribute, attribute), place) for attribute, place in query.places),
            span=span,
        )


class _Reader:
    """Reads statement after statement; remembers the last full query, whose clauses bare patterns take."""

    def __init__(self, found: list[Diagnostic]) -> None:
        self.found = found
        self.queries: list[Query] = []
        self.definitions: list[EventDefinition] = []
        self.sources: dict[str, str] = {}
        self.places: list[tuple[int, str | None]] = []  # where statements begin, and the names of queries
        self.unreadable: set[str] = set()  # queries that could not be read
        self.name: str | None = None
        self.frame: _Frame | None = None
        self.unused_header: Statement | None = None
        self.broken: set[str] = set()

    def read(self, name: str, statement: Statement) -> None:
        """Add what a statement says, or reports why it cannot."""
        self.broken = set()
        self.name = None if statement.kind == "EVENT" else name
        self.places.append((statement.span.start, self.name))
        if statement.kind == "EVENT":
            self._read_definition(name, statement)
            return
        if statement.is_bare and self.frame is not None:
            frame = self.frame
            self.sources[name] = frame.query.name
            self.unused_header = None
        else:
            frame = self._read_frame(name, statement)
            if not statement.is_bare:
                self.frame = frame
        pattern = self._read_pattern(statement)
        if statement.kind == "HEADER" and (statement.clause("PATTERN") is None or _is_placeholder(pattern)):
            self.unused_header = statement
        else:
            self._add_query(name, pattern, frame, statement.span)

    def finish(self) -> None:
        """Report what can only be known at the end of the file."""
        if self.unused_header is not None:
            hint = "as in q1: SEQ(A, B), on a line of its own"
            self.found.append(
                Diagnostic("no pattern follows this header", span_of(self.unused_header.opening), hint=hint)
            )

    def _add_query(self, name: str, pattern: Pattern | None, frame: _Frame, span: Span) -> None:
        """Add a query if enough of it could be read to say more about it."""
        readable = pattern is not None and frame.broken <= _SKIPPABLE
        known = self.unreadable if readable else self.unreadable | {query.name for query in self.queries}
        if name in known:
            self.found.append(Diagnostic(f"there is already a query called '{name}'", span, hint="choose another name"))
        if pattern is not None and readable:
            self.queries.append(resolve_variables(frame.complete(name, pattern, span)))
        else:
            self.unreadable.add(name)

    def _read_definition(self, name: str, statement: Statement) -> None:
        clause = statement.clauses[0]
        tree = self._parse("condition", clause)
        if tree is None or statement.name is None:
            return
        condition = self._try(clause, read_expression, subtrees(tree)[0], bare=True)
        if condition is not None:
            self.definitions.append(EventDefinition(name, condition, span=statement.span))

    def _read_pattern(self, statement: Statement) -> Pattern | None:
        clause = statement.clause("PATTERN")
        if clause is None:
            if statement.kind == "QUERY":
                place = span_of(statement.name or statement.opening)
                self._report("this query has no PATTERN", place, "as in PATTERN SEQ(A, B)")
            return None
        return self._read("pattern", clause, read_pattern)

    def _read_frame(self, name: str, statement: Statement) -> _Frame:
        """Read all clauses but PATTERN."""
        clauses = {clause.kind: clause for clause in statement.clauses}
        group_by = self._read_names(clauses.get("GROUP_BY"))
        conditions, equivalence = self._read_where(clauses.get("WHERE"))
        query = Query(
            name,
            Seq(()),
            self._read_returns(clauses.get("RETURN") or clauses.get("AGG"), tuple(group_by)),
            conditions,
            tuple(equivalence),
            tuple(group_by),
            self._read_window(clauses.get("WITHIN"), clauses.get("SLIDE")),
            self._read_policy(clauses.get("POLICY"), clauses.get("SKIP_TILL")),
            self._read_after_match(clauses.get("AFTER_MATCH"), clauses.get("AFTER_SKIP")),
            places=tuple({**equivalence, **group_by}.items()),
        )
        query = replace(query, having=self._read_having(clauses.get("HAVING"), query.returns))
        paths = {attribute for attribute, place in query.places if "." in attribute and _is_path(statement, place)}
        return _Frame(query, frozenset(self.broken), frozenset(paths))

    def _read_names(self, clause: Clause | None) -> dict[str, Span]:
        return self._read("names", clause, read_names) or {}

    def _read_where(self, clause: Clause | None) -> tuple[tuple[Expression, ...], dict[str, Span]]:
        """Read the conditions of WHERE, and the attributes of its `[attr]` with their places."""
        conditions: list[Expression] = []
        equivalence: dict[str, Span] = {}
        tree = self._parse("where", clause)
        if tree is None or clause is None:
            return (), {}
        for entry in self._try(clause, lambda: list(split_where(tree))) or ():
            if entry.data == "equivalence":
                for name, place in (self._try(clause, read_names, entry) or {}).items():
                    equivalence.setdefault(name, place)
            else:
                condition = self._try(clause, read_expression, entry)
                conditions += () if condition is None else conjuncts(condition)
        return tuple(conditions), equivalence

    def _read_returns(self, clause: Clause | None, group_by: tuple[str, ...]) -> tuple[ReturnItem, ...]:
        tree = self._parse("returns", clause)
        if tree is None or clause is None:
            return (AllVariables(),)
        read = read_aggregation if clause.kind == "AGG" else read_item
        items = [self._try(clause, read, item, group_by) for item in subtrees(tree)]
        return tuple(item for item in items if item is not None)

    def _read_window(self, within: Clause | None, slide: Clause | None) -> Window | None:
        if within is None and slide is not None:
            self._report("SLIDE needs WITHIN", span_of(slide.opening), "as in WITHIN 10 min SLIDE 1 min")
            return None
        trees = [self._parse("duration", clause) for clause in (within, slide) if clause is not None]
        if within is None or None in trees:
            return None
        lengths = [self._try(within, read_length, tree) for tree in trees if tree is not None]
        size, step = lengths[0], lengths[-1]
        if size is None or step is None:
            return None
        return self._try(within, make_window, size, None if slide is None else step)

    def _read_policy(self, clause: Clause | None, unfinished: Clause | None) -> Policy:
        if unfinished is not None:
            self._report("SKIP TILL must be followed by ANY or NEXT", unfinished.end, "as in SKIP TILL NEXT")
        if clause is None:
            return Policy.SKIP_TILL_ANY
        self._expect_nothing_after(clause, "a policy")
        return read_policy(clause.opening)

    def _read_after_match(self, clause: Clause | None, unfinished: Clause | None) -> AfterMatch:
        if unfinished is not None:
            message = "AFTER MATCH SKIP must be followed by PAST LAST EVENT or TO NEXT EVENT"
            self._report(message, unfinished.end, "as in AFTER MATCH SKIP PAST LAST EVENT")
        if clause is None:
            return AfterMatch.ALL
        self._expect_nothing_after(clause, "AFTER MATCH SKIP ...")
        return read_after_match(clause.opening)

    def _expect_nothing_after(self, clause: Clause, what: str) -> None:
        if clause.body:
            hint = f"nothing follows {what} but another clause"
            self._report(f"unexpected '{clause.body[0]}' after {clause.opening}", span_of(clause.body[0]), hint)

    def _read_having(self, clause: Clause | None, returns: tuple[ReturnItem, ...]) -> Expression | None:
        return self._read("condition", clause, lambda tree: read_having(subtrees(tree)[0], returns))

    def _parse(self, start: str, clause: Clause | None) -> Tree[Token] | None:
        """Parse a clause into its syntax tree, where there is one and it can be read."""
        if clause is None:
            return None
        tokens = [_retype_as_name(token) for token in clause.body] if start == "pattern" else clause.body
        return self._try(clause, parse_clause, start, tokens, clause.title, clause.opening)

    def _read(self, start: str, clause: Clause | None, read: Callable[[Tree[Token]], Result]) -> Result | None:
        """Return what a clause says, where there is one and it can be read."""
        tree = self._parse(start, clause)
        return None if tree is None or clause is None else self._try(clause, read, tree)

    def _try(self, clause: Clause, action: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result | None:
        """Return what an action gives; where it fails, report that and return None."""
        try:
            return action(*args, **kwargs)
        except ClauseError as wrong:
            diagnostic = wrong.diagnostic
        except RecursionError:
            diagnostic = Diagnostic(
                f"{clause.title} is nested too deeply", span_of(clause.opening), hint="write it with fewer brackets"
            )
        self.broken.add(clause.kind)
        self.found.append(replace(diagnostic, query=self.name))
        return None

    def _report(self, message: str, span: Span, hint: str | None = None) -> None:
        self.found.append(Diagnostic(message, span, self.name, hint))


def _is_path(statement: Statement, place: Span) -> bool:
    """Return whether an attribute is written with dots, and not as one name in quotes."""
    tokens = (token for clause in statement.clauses for token in clause.body)
    return any(token.type == "DOT" and place.start <= span_of(token).start < place.end for token in tokens)


def _is_placeholder(pattern: Pattern | None) -> bool:
    """Return whether a header's pattern only stands for the patterns that follow."""
    return isinstance(pattern, Event) and pattern.variable is None


def _retype_as_name(token: Token) -> Token:
    return Token.new_borrow_pos("NAME", str(token), token) if token.type in _NAMES_IN_PATTERNS else token
