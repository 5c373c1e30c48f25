"""Writes queries and what they consist of as canonical text, which parses back to an equal model, and as HTML."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from html import escape

from motet.language.keywords import RESERVED
from motet.model import expression as ex
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq
from motet.model.query import (
    AfterMatch,
    Aggregate,
    AllVariables,
    Computed,
    EventDefinition,
    GroupKey,
    Policy,
    Query,
    ReturnItem,
    Variable,
    Workload,
)
from motet.model.window import UNITS, CountWindow, TimeWindow, Window

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
_PRINTED_UNITS = ("day", "h", "min", "s", "ms", "us")
_ESCAPED = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

# How a notebook shows queries.
MOST_OPEN = 3  # queries that are shown open
MOST_QUERIES = 50
TEXT = "margin: 0.2em 0 0.6em; padding: 0.6em 0.9em; border-left: 3px solid #8888; overflow: auto; text-align: left"

# How tightly each kind of expression binds; an operand that binds less than its place asks for is put in brackets.
_OR, _AND, _NOT, _PREDICATE, _SUM, _PRODUCT, _UNARY, _ATOM = range(8)


def to_text(node: Workload | Query | EventDefinition) -> str:
    """Return the canonical text of a workload, a query or an event definition."""
    match node:
        case Workload(queries, definitions):
            return "\n".join([*map(to_text, definitions), *map(to_text, queries)])
        case EventDefinition(name, condition):
            return f"EVENT {name_text(name)} AS {expression_text(condition)}\n"
        case Query():
            return "\n".join([f"QUERY {name_text(node.name)}", *_clause_lines(node)]) + "\n"


def _clause_lines(query: Query) -> Iterable[str]:
    yield f"RETURN {', '.join(map(_item_text, query.returns))}"
    yield f"PATTERN {pattern_text(query.pattern)}"
    conditions = [_text_at(condition, _NOT) for condition in query.conditions]
    if query.equivalence:
        conditions.insert(0, f"[{_format_names(query.equivalence)}]")
    if conditions:
        yield f"WHERE {' AND '.join(conditions)}"
    if query.group_by:
        yield f"GROUP BY {_format_names(query.group_by)}"
    if query.having is not None:
        yield f"HAVING {expression_text(query.having)}"
    if query.window is not None:
        yield window_text(query.window)
    if query.policy is not Policy.SKIP_TILL_ANY:
        yield str(query.policy)
    if query.after_match is not AfterMatch.ALL:
        yield str(query.after_match)


def name_text(name: str) -> str:
    """Return a name as it stands in text: in double quotes where it is no plain word or could be read as a keyword."""
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in RESERVED:
        return name
    if not name or "\n" in name:
        raise ValueError(f"the name {name!r} cannot be written in text: it is empty or holds a line break")
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(map(name_text, names))


def pattern_text(pattern: Pattern) -> str:
    """Return the canonical text of a pattern."""
    match pattern:
        case Event(kind, variable):
            return name_text(kind) if variable is None else f"{name_text(kind)} {name_text(variable)}"
        case Seq(parts) | And(parts) | Or(parts):
            return f"{type(pattern).__name__.upper()}({', '.join(map(pattern_text, parts))})"
        case Repeat(part, low, high):
            inner = pattern_text(part)
            return f"{f'({inner})' if isinstance(part, Not) else inner}{_format_repetition(low, high)}"
        case Not(event):
            return f"NOT {pattern_text(event)}"
        case Neg(event):
            return f"NEG({pattern_text(event)})"


def _format_repetition(low: int, high: int | None) -> str:
    match low, high:
        case 1, None:
            return "+"
        case 0, None:
            return "*"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{low},}}"
    return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def window_text(window: Window) -> str:
    """Return the WITHIN clause of a window, with its SLIDE."""
    match window:
        case CountWindow(size):
            return f"WITHIN {size} EVENTS"
        case TimeWindow(size, slide, ticks):
            within = f"WITHIN {_format_length(size, ticks)}"
            return within if slide is None else f"{within} SLIDE {_format_length(slide, ticks)}"


def _format_length(amount: int, ticks: bool) -> str:
    if ticks:
        return str(amount)
    unit = next(unit for unit in _PRINTED_UNITS if amount % UNITS[unit] == 0)
    return f"{amount // UNITS[unit]} {unit}"


def _item_text(item: ReturnItem) -> str:
    match item:
        case AllVariables():
            return "*"
        case GroupKey(name):
            return name_text(name)
        case Variable(name, alias):
            return _with_alias(name_text(name), alias)
        case Aggregate(function, variable, name, alias, distinct=distinct):
            path = "*" if name is None else name_text(name)
            path = path if variable is None else _format_path(variable, name)
            return _with_alias(f"{function}({'DISTINCT ' if distinct else ''}{path})", alias)
        case Computed(expression, alias):
            text = expression_text(expression)
            # In brackets an aggregate is over the events of each match, not over all matches.
            shown = f"({text})" if isinstance(expression, ex.KleeneAggregate) else text
            return _with_alias(shown, None if alias == text else alias)


def _with_alias(text: str, alias: str | None) -> str:
    return text if alias is None else f"{text} AS {name_text(alias)}"


def _format_path(variable: str, name: str | None) -> str:
    """Return an attribute of a variable as it stands in text, with fields of structs after further dots."""
    return name_text(variable) if name is None else f"{name_text(variable)}.{_quote_path(name)}"


def _quote_path(name: str) -> str:
    parts = name.split(".")
    return ".".join(map(name_text, parts)) if all(parts) else name_text(name)


def expression_text(expression: ex.Expression) -> str:
    """Return the canonical text of an expression, with no more brackets than it needs."""
    return _text_at(expression, _OR)


def _text_at(expression: ex.Expression, least: int) -> str:
    """Return the text of an operand in a place that asks for a binding of at least `least`."""
    binding, text = _print_expression(expression)
    return text if binding >= least else f"({text})"


def _print_expression(expression: ex.Expression) -> tuple[int, str]:
    """Return the text of an expression and how tightly it binds."""
    match expression:
        case ex.Literal(value):
            return _ATOM, _literal_text(value)
        case ex.Attribute("", name):
            return _ATOM, name_text(name)
        case ex.Attribute(variable, name, ex.At.EACH):
            return _ATOM, _format_path(variable, name)
        case ex.Attribute(variable, name, at):
            return _ATOM, f"{at.upper()}({name_text(variable)}).{_quote_path(name)}"
        case ex.KleeneAggregate(function, variable, name):
            return _ATOM, f"{function}({_format_path(variable, name)})"
        case ex.Call(function, arguments):
            return _ATOM, f"{function}({', '.join(map(expression_text, arguments))})"
        case ex.Negative(operand):
            # -5 is a literal and -- a comment, so what is negated keeps brackets.
            bracketed = isinstance(operand, ex.Literal | ex.Negative)
            return _UNARY, f"-({expression_text(operand)})" if bracketed else f"-{_text_at(operand, _UNARY)}"
        case ex.Arithmetic(operator, left, right):
            binding = _SUM if operator in "+-" else _PRODUCT
            return binding, f"{_text_at(left, binding)} {operator} {_text_at(right, binding + 1)}"
        case ex.Comparison(operator, left, right):
            return _PREDICATE, f"{_text_at(left, _SUM)} {operator} {_text_at(right, _SUM)}"
        case ex.IsNull(operand, negated):
            return _PREDICATE, f"{_text_at(operand, _SUM)} IS {'NOT ' if negated else ''}NULL"
        case ex.Membership(operand, options, negated):
            shown = ", ".join(_literal_text(option.value) for option in options)
            return _PREDICATE, f"{_text_at(operand, _SUM)} {'NOT ' if negated else ''}IN ({shown})"
        case ex.Like(operand, pattern, negated):
            return _PREDICATE, f"{_text_at(operand, _SUM)} {'NOT ' if negated else ''}LIKE {_literal_text(pattern)}"
        case ex.Inverse(operand):
            return _NOT, f"NOT {_text_at(operand, _ATOM)}"
        case ex.Logical(operator, operands):
            binding = _OR if operator == "OR" else _AND
            return binding, f" {operator} ".join(_text_at(operand, binding + 1) for operand in operands)


def _literal_text(value: int | float | str | bool | dt.datetime | dt.timedelta | None) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return _string_text(value)
        case dt.timedelta():
            return _format_length(value // dt.timedelta(microseconds=1), ticks=False)
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case float():
            return repr(value).replace("inf", "1e999")  # the one spelling of infinity that reads as a number
        case int():
            return str(value)


def _string_text(text: str) -> str:
    """Quote a text; in the escaped form E'...' where it holds characters that end or hide in a line."""
    if all(character.isprintable() for character in text):
        return "'" + text.replace("'", "''") + "'"
    return "E'" + "".join(_escape(character) for character in text) + "'"


def _escape(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    if character.isprintable() or ord(character) > 0xFFFF:
        return character
    return f"\\u{ord(character):04x}"


def query_html(query: Query) -> str:
    """Format the text of a query."""
    return f'<pre style="{TEXT}">{escape(to_text(query).rstrip())}</pre>'


def workload_html(workload: Workload) -> str:
    """Format the queries of a workload, by name and pattern; the text of each unfolds."""
    queries = workload.queries
    parts = [f"<p><b>{len(queries):,} {'query' if len(queries) == 1 else 'queries'}</b></p>"]
    parts += [f'<pre style="{TEXT}">{escape(to_text(each).rstrip())}</pre>' for each in workload.definitions]
    is_open = " open" if len(queries) <= MOST_OPEN else ""
    for query in queries[:MOST_QUERIES]:
        head = f"<b>{escape(query.name)}</b> <code>{escape(pattern_text(query.pattern))}</code>"
        parts.append(f"<details{is_open}><summary>{head}</summary>{query_html(query)}</details>")
    if len(queries) > MOST_QUERIES:
        parts.append(f"<p>... and {len(queries) - MOST_QUERIES:,} more</p>")
    return "".join(parts)


def show_in_notebooks() -> None:
    """Give queries and workloads their HTML form for notebooks: the model itself knows nothing of text."""
    for kind, show in ((Query, query_html), (Workload, workload_html)):
        setattr(kind, "_repr_html_", show)  # noqa: B010
