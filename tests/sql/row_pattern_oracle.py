"""A plain matcher of SQL row patterns, written from the standard's definitions and sharing no code with motet.

Patterns and expressions are tuples. `to_sql` writes them, `run` finds what a MATCH_RECOGNIZE of them gives.

    pattern:     ("var", V) | ("seq", *p) | ("alt", *p) | ("permute", *p) | ("empty",) | ("start",) | ("end",)
                 | ("exclude", p) | ("repeat", p, low, high or None, greedy)
    expression:  ("lit", v) | ("col", V or None, c) | ("first" | "last", V or None, c, offset, semantics)
                 | ("prev" | "next", ("col" | "first" | "last" ...), offset) | ("classifier", V or None) | ("number",)
                 | ("label", "first" | "last", V or None, offset, semantics)
                 | ("prevlabel" | "nextlabel", ("classifier" | "label" ...), offset)
                 | ("agg", function, V or None, c or None, semantics) | (operator, one, other)
                 | ("not", e) | ("isnull", e) | ("coalesce", e, e) | ("in", e, *e) | ("between", e, e, e)
                 | ("case", condition, e, e) | ("abs", e) | ("negative", e) | ("distinct", e, e)
                 | ("GREATEST" | "LEAST" | "NULLIF", e, e)
                 | ("aggof", function, V or None, label, c, semantics): of rows with that label

A column c may be (operator, c, c) inside of a navigation or an aggregate.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from typing import Any

Pattern = tuple[Any, ...]
Expr = tuple[Any, ...]
Row = dict[str, Any]


# ----- as text


def pattern_to_sql(pattern: Pattern) -> str:
    match pattern:
        case ("var", name):
            return name
        case ("empty",):
            return "()"
        case ("start",):
            return "^"
        case ("end",):
            return "$"
        case ("exclude", part):
            return "{- " + pattern_to_sql(part) + " -}"
        case ("seq", *parts):
            return "(" + " ".join(map(pattern_to_sql, parts)) + ")"
        case ("alt", *parts):
            return "(" + " | ".join(map(pattern_to_sql, parts)) + ")"
        case ("permute", *parts):
            return "PERMUTE(" + ", ".join(map(pattern_to_sql, parts)) + ")"
        case ("repeat", part, low, high, greedy):
            bounds = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
            if bounds is None:
                bounds = f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"
            return f"({pattern_to_sql(part)}){bounds}" + ("" if greedy else "?")
    raise ValueError(pattern)


def expr_to_sql(expr: Expr) -> str:
    def column(variable: str | None, name: Any) -> str:
        if isinstance(name, tuple):
            return f"({column(variable, name[1])} {name[0]} {column(variable, name[2])})"
        return name if variable is None else f"{variable}.{name}"

    match expr:
        case ("lit", None):
            return "NULL"
        case ("lit", str(text)):
            return "'" + text.replace("'", "''") + "'"
        case ("lit", value):
            return str(value)
        case ("col", variable, name):
            return column(variable, name)
        case ("first" | "last" as function, variable, name, offset, semantics):
            return f"{semantics or ''} {function.upper()}({column(variable, name)}, {offset})".strip()
        case ("prev" | "next" as function, inner, offset):
            return f"{function.upper()}({expr_to_sql(inner)}, {offset})"
        case ("classifier", variable):
            return f"CLASSIFIER({variable or ''})"
        case ("label", function, variable, offset, semantics):
            return f"{semantics or ''} {function.upper()}(CLASSIFIER({variable or ''}), {offset})".strip()
        case ("prevlabel" | "nextlabel" as function, inner, offset):
            return f"{function.removesuffix('label').upper()}({expr_to_sql(inner)}, {offset})"
        case ("number",):
            return "MATCH_NUMBER()"
        case ("agg", function, variable, name, semantics):
            inside = ("*" if variable is None else f"{variable}.*") if name is None else column(variable, name)
            return f"{semantics or ''} {function}({inside})".strip()
        case ("aggof", function, variable, name, c, semantics):
            inside = f"CASE WHEN CLASSIFIER({variable or ''}) = '{name}' THEN {column(variable, c)} END"
            return f"{semantics or ''} {function}({inside})".strip()
        case ("distinct", one, other):
            return f"({expr_to_sql(one)} IS DISTINCT FROM {expr_to_sql(other)})"
        case ("not", part):
            return f"(NOT {expr_to_sql(part)})"
        case ("isnull", part):
            return f"({expr_to_sql(part)} IS NULL)"
        case ("coalesce", one, other):
            return f"COALESCE({expr_to_sql(one)}, {expr_to_sql(other)})"
        case ("in", one, *options):
            return f"({expr_to_sql(one)} IN ({', '.join(map(expr_to_sql, options))}))"
        case ("between", one, low, high):
            return f"({expr_to_sql(one)} BETWEEN {expr_to_sql(low)} AND {expr_to_sql(high)})"
        case ("case", condition, one, other):
            return f"CASE WHEN {expr_to_sql(condition)} THEN {expr_to_sql(one)} ELSE {expr_to_sql(other)} END"
        case ("abs", part):
            return f"ABS({expr_to_sql(part)})"
        case ("negative", part):
            return f"(- {expr_to_sql(part)})"
        case ("GREATEST" | "LEAST" | "NULLIF" as function, one, other):
            return f"{function}({expr_to_sql(one)}, {expr_to_sql(other)})"
        case (op, one, other):
            return f"({expr_to_sql(one)} {op} {expr_to_sql(other)})"
    raise ValueError(expr)


# ----- what expressions are


@dataclass(frozen=True)
class Scope:
    """Where an expression is evaluated: rows of a partition, a match from `start` whose rows have `labels`, seen from
    its `last` row (that before `start` where there is none), and how far the match is known (`whole`).
    """

    rows: list[Row]
    start: int
    labels: tuple[str, ...]
    last: int
    whole: int
    number: int
    subsets: dict[str, list[str]]

    def rows_of(self, variable: str | None, final: bool) -> list[int]:
        end = self.whole if final else self.last
        wanted = None if variable is None else self.subsets.get(variable, [variable])
        return [row for row in range(self.start, end + 1) if wanted is None or self.labels[row - self.start] in wanted]


def evaluate(expr: Expr, scope: Scope) -> Any:
    """Return the value of an expression; None is null."""

    def value(row: int | None, name: Any) -> Any:
        if isinstance(name, tuple):
            one, other = value(row, name[1]), value(row, name[2])
            return None if one is None or other is None else OPERATORS[name[0]](one, other)
        return None if row is None or not 0 <= row < len(scope.rows) else scope.rows[row][name]

    def label(row: int | None) -> str | None:
        return scope.labels[row - scope.start] if row is not None and scope.start <= row <= scope.whole else None

    match expr:
        case ("lit", value_):
            return value_
        case ("number",):
            return scope.number
        case ("classifier" | "label", *_):
            return label(find_row(expr, scope))
        case ("prevlabel" | "nextlabel" as function, inner, offset):
            row = find_row(inner, scope)
            return None if row is None else label(row + (offset if function == "nextlabel" else -offset))
        case ("col", _, name):
            return value(find_row(expr, scope), name)
        case ("first" | "last", _, name, _, _):
            return value(find_row(expr, scope), name)
        case ("prev" | "next" as function, inner, offset):
            row = find_row(inner, scope)
            return None if row is None else value(row + (offset if function == "next" else -offset), inner[2])
        case ("agg", function, variable, name, semantics):
            rows = scope.rows_of(variable, semantics == "FINAL")
            if name is None:
                return len(rows)
            return aggregate(function, [v for row in rows if (v := value(row, name)) is not None])
        case ("aggof", function, variable, name, c, semantics):
            rows = [row for row in scope.rows_of(variable, semantics == "FINAL") if label(row) == name]
            return aggregate(function, [v for row in rows if (v := value(row, c)) is not None])
        case ("distinct", one, other):
            return evaluate(one, scope) != evaluate(other, scope)
        case ("not", part):
            held = evaluate(part, scope)
            return None if held is None else not held
        case ("isnull", part):
            return evaluate(part, scope) is None
        case ("coalesce", one, other):
            first = evaluate(one, scope)
            return evaluate(other, scope) if first is None else first
        case ("in", one, *options):
            return evaluate(reduce(lambda a, b: ("OR", a, b), (("=", one, option) for option in options)), scope)
        case ("between", one, low, high):
            return evaluate(("AND", (">=", one, low), ("<=", one, high)), scope)
        case ("case", condition, one, other):
            return evaluate(one if evaluate(condition, scope) is True else other, scope)
        case ("abs" | "negative" as op, part):
            number = evaluate(part, scope)
            return None if number is None else abs(number) if op == "abs" else -number
        case ("AND" | "OR" as op, one, other):
            both = evaluate(one, scope), evaluate(other, scope)
            decisive = op == "OR"
            return decisive if decisive in both else None if None in both else not decisive
        case ("NULLIF", one, other):
            x, y = evaluate(one, scope), evaluate(other, scope)
            return None if x == y else x
        case ("GREATEST" | "LEAST" as function, *options):
            known = [value for value in (evaluate(option, scope) for option in options) if value is not None]
            return None if not known else max(known) if function == "GREATEST" else min(known)
        case (op, one, other):
            x, y = evaluate(one, scope), evaluate(other, scope)
            return None if x is None or y is None else OPERATORS[op](x, y)
    raise ValueError(expr)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def find_row(expr: Expr, scope: Scope) -> int | None:
    match expr:
        case ("col", variable, _) | ("classifier", variable):
            found = scope.rows_of(variable, False)
            return found[-1] if found else None
        case ("label", which, variable, offset, semantics):
            return find_row((which, variable, None, offset, semantics), scope)
        case ("first", variable, _, offset, semantics):
            found = scope.rows_of(variable, semantics == "FINAL")
            return found[offset] if offset < len(found) else None
        case ("last", variable, _, offset, semantics):
            found = scope.rows_of(variable, semantics == "FINAL")
            return found[-1 - offset] if offset < len(found) else None
    raise ValueError(expr)


def aggregate(function: str, values: list[Any]) -> Any:
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    return {"SUM": sum, "MIN": min, "MAX": max, "AVG": lambda v: sum(v) / len(v)}[function](values)


# ----- what matches


@dataclass(frozen=True)
class Query:
    """A MATCH_RECOGNIZE. `skip`: PAST LAST ROW, TO NEXT ROW, or TO FIRST / LAST and a variable. `rows`: one, show, omit
    or unmatched.
    """

    pattern: Pattern
    define: dict[str, Expr]
    measures: dict[str, Expr]
    subsets: dict[str, list[str]]
    rows: str = "one"
    skip: str = "PAST LAST ROW"

    def to_sql(self, partition: str, order: str, table: str = "t") -> str:
        rows = {
            "one": "ONE ROW PER MATCH",
            "show": "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
            "omit": "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
            "unmatched": "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
        }[self.rows]
        measures = ", ".join(f"{expr_to_sql(expr)} AS {name}" for name, expr in self.measures.items())
        subsets = ", ".join(f"{name} = ({', '.join(members)})" for name, members in self.subsets.items())
        define = ", ".join(f"{name} AS {expr_to_sql(expr)}" for name, expr in self.define.items())
        return (
            f"SELECT * FROM {table} MATCH_RECOGNIZE (PARTITION BY {partition} ORDER BY {order}\n"
            f"MEASURES {measures}\n{rows}\nAFTER MATCH SKIP {self.skip}\nPATTERN ({pattern_to_sql(self.pattern)})\n"
            + (f"SUBSET {subsets}\n" if subsets else "")
            + (f"DEFINE {define}\n" if define else "")
            + ")"
        )


class SkipError(Exception):
    """AFTER MATCH SKIP leads nowhere."""


class TooLongError(Exception):
    """The search takes too long for a test."""


Taken = tuple[tuple[str, bool], ...]  # variable, and whether it is excluded


@dataclass
class Matcher:
    """Enumerates the matches of a pattern from a row, the preferred ones first."""

    query: Query
    rows: list[Row]
    start: int
    number: int
    budget: int = 20_000

    def find(self) -> Taken | None:
        return next(self.parses(self.query.pattern, (), False), None)

    def parses(self, pattern: Pattern, taken: Taken, excluded: bool) -> Iterator[Taken]:
        self.budget -= 1
        if self.budget < 0:
            raise TooLongError
        match pattern:
            case ("var", name):
                row = self.start + len(taken)
                if row < len(self.rows) and self.holds(name, taken):
                    yield (*taken, (name, excluded))
            case ("empty",):
                yield taken
            case ("start",):
                if self.start + len(taken) == 0:
                    yield taken
            case ("end",):
                if self.start + len(taken) == len(self.rows):
                    yield taken
            case ("exclude", part):
                yield from self.parses(part, taken, True)
            case ("seq",):
                yield taken
            case ("seq", first, *others):
                for found in self.parses(first, taken, excluded):
                    yield from self.parses(("seq", *others), found, excluded)
            case ("alt", *parts):
                for part in parts:
                    yield from self.parses(part, taken, excluded)
            case ("permute", *parts):
                for order in permutations(parts):
                    yield from self.parses(("seq", *order), taken, excluded)
            case ("repeat", part, low, high, greedy):
                yield from self.rounds(part, low, high, greedy, taken, excluded)

    def rounds(
        self, part: Pattern, low: int, high: int | None, greedy: bool, taken: Taken, excluded: bool
    ) -> Iterator[Taken]:
        """Enumerate further rounds of a loop, so many of which are still needed or allowed."""

        def more() -> Iterator[Taken]:
            for found in self.parses(part, taken, excluded):
                if high is None and low <= 1 and len(found) == len(taken):
                    yield found  # a round without a row is the last of a loop without end
                else:
                    left = None if high is None else high - 1
                    yield from self.rounds(part, max(low - 1, 0), left, greedy, found, excluded)

        if low > 0:
            yield from more()
        elif high == 0:
            yield taken
        elif greedy:
            yield from more()
            yield taken
        else:
            yield taken
            yield from more()

    def holds(self, name: str, taken: Taken) -> bool:
        condition = self.query.define.get(name)
        if condition is None:
            return True
        labels = (*(variable for variable, _ in taken), name)
        last = self.start + len(taken)
        scope = Scope(self.rows, self.start, labels, last, last, self.number, self.query.subsets)
        return evaluate(condition, scope) is True


def run(query: Query, partitions: list[list[Row]]) -> list[list[Any]]:
    """Return what comes out for partitions of ordered rows: the measures of each output row, and for ALL ROWS PER MATCH
    its number in the column `id`.
    """
    return [out for rows in partitions for out in run_partition(query, rows)]


def run_partition(query: Query, rows: list[Row]) -> Iterator[list[Any]]:
    number, start, matched = 0, 0, set()
    one = query.rows == "one"
    while start < len(rows):
        taken = Matcher(query, rows, start, number + 1).find()
        if taken is None:
            if query.rows == "unmatched" and start not in matched:
                yield [None for _ in query.measures] + [rows[start]["id"]]
            start += 1
            continue
        number += 1
        labels = tuple(variable for variable, _ in taken)
        end = start + len(taken)
        if not taken:
            if query.rows != "omit":
                scope = Scope(rows, start, (), start - 1, start - 1, number, query.subsets)
                yield [evaluate(e, scope) for e in query.measures.values()] + ([] if one else [rows[start]["id"]])
            matched.add(start)
            start += 1
            continue
        matched.update(range(start, end))
        for row in [end - 1] if one else range(start, end):
            if one or not taken[row - start][1]:
                scope = Scope(rows, start, labels, row, end - 1, number, query.subsets)
                yield [evaluate(e, scope) for e in query.measures.values()] + ([] if one else [rows[row]["id"]])
        start = next_start(query, labels, start)


def next_start(query: Query, labels: tuple[str, ...], start: int) -> int:
    match query.skip.split():
        case ["PAST", *_]:
            return start + len(labels)
        case ["TO", "NEXT", _]:
            return start + 1
        case ["TO", which, name]:
            members = query.subsets.get(name, [name])
            found = [at for at, label in enumerate(labels) if label in members]
            if not found or found[0 if which == "FIRST" else -1] == 0:
                raise SkipError
            return start + found[0 if which == "FIRST" else -1]
    raise ValueError(query.skip)
