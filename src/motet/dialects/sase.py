"""Translates SASE and SASE+: their text is near enough to ours to be rewritten and then parsed."""

from __future__ import annotations

import re
from dataclasses import replace

from motet.dialects.translation import SourceText, Translation
from motet.errors import QueryError
from motet.language.parser import parse

_CLAUSES = re.compile(r"\b(EVENT|PATTERN|WHERE|WITHIN|RETURN|FROM|HAVING)\b", re.IGNORECASE)
_STRATEGY = re.compile(r"\s*(?P<name>\w+)\s*\([^)]*\)\s*\{(?P<conditions>.*)\}\s*$", re.DOTALL)
_NEGATED = re.compile(r"[!~]\s*\(\s*(\w+)(\s+\w+)?\s*\)")
_ELEMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*\[\s*(?P<index>[^\]]*?)\s*\](?P<rest>\s*\.\s*(?P<column>\w+))?")
_AND = re.compile(r"(\bAND\b|∧|\s\^\s|&&|,(?![^()\[\]]*[)\]]))", re.IGNORECASE)

STRATEGIES = {
    "skip_till_any_match": "SKIP TILL ANY",
    "skip_till_next_match": "SKIP TILL NEXT",
    "partition_contiguity": "CONTIGUOUS",
    "strict_contiguity": "CONTIGUOUS",
}
NOTES = ("the same as SASE's query where no two events of a partition share a time",)


def translate_source(source: SourceText) -> Translation:
    """Translate a text such as PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match(a, b[]) { [id] } WITHIN 1 h."""
    clauses = _find_clauses(source)
    if "PATTERN" not in clauses:
        raise source.error_at("there is no PATTERN (or EVENT) clause here", 0, hint="as in PATTERN SEQ(A a, B b)")
    policy = ""
    text = f"QUERY {source.name}\n"
    if "RETURN" in clauses:
        text += f"RETURN {_rewrite_return(source, *clauses['RETURN'])}\n"
    text += f"PATTERN {_rewrite_pattern(source, *clauses['PATTERN'])}\n"
    if "WHERE" in clauses:
        conditions, policy = _rewrite_where(source, *clauses["WHERE"])
        text += f"WHERE {conditions}\n" if conditions.strip() else ""
    if "WITHIN" in clauses:
        start, end = clauses["WITHIN"]
        text += f"WITHIN {source.text[start:end].strip()}\n"
    try:
        workload = parse(f"{text}{policy}\n")
    except QueryError as error:
        raise source.errors_at(error.diagnostics, *_find_clause(clauses, error)) from None
    return Translation(replace(workload, text=""), NOTES)


def _find_clauses(source: SourceText) -> dict[str, tuple[int, int]]:
    """Return where the body of each clause lies; the older EVENT clause is PATTERN."""
    found = list(_CLAUSES.finditer(source.text))
    before = source.text[: found[0].start()] if found else ""
    if before.strip():
        message = "a SASE query begins with PATTERN (or EVENT)"
        raise source.error_at(message, len(before) - len(before.lstrip()), len(before), "take away what stands before")
    bodies: dict[str, tuple[int, int]] = {}
    for at, word in enumerate(found):
        end = found[at + 1].start() if at + 1 < len(found) else len(source.text)
        kind = {"EVENT": "PATTERN"}.get(word[0].upper(), word[0].upper())
        if kind == "HAVING":
            raise source.error_at("HAVING has no equal", word.start(), end, "conditions go into WHERE")
        if kind != "FROM":  # the name of the stream says nothing of what a query means
            bodies[kind] = (word.end(), end)
    return bodies


def _find_clause(clauses: dict[str, tuple[int, int]], error: QueryError) -> tuple[int, int]:
    """Return the clause that an error in the rewritten text is about, by the word its line begins with."""
    span = error.diagnostics[0].span
    line = error.text.splitlines()[span.line - 1] if span is not None else ""
    return clauses.get(line.partition(" ")[0], clauses["PATTERN"])


def _rewrite_pattern(source: SourceText, start: int, end: int) -> str:
    text = source.text[start:end]
    text = _NEGATED.sub(lambda found: f"NOT {found[1]}{found[2] or ''}", text)
    return re.sub(r"\[\s*\]", "", text).strip()


def _rewrite_where(source: SourceText, start: int, end: int) -> tuple[str, str]:
    """Return the conditions of a WHERE clause, and the policy that its strategy asks for."""
    found = _STRATEGY.match(source.text, start, end)
    policy = ""
    if found is not None:
        strategy = found["name"].lower()
        if strategy not in STRATEGIES:
            hint = f"known are {', '.join(STRATEGIES)}"
            raise source.error_at(
                f"the strategy {found['name']} is unknown", found.start("name"), found.end("name"), hint
            )
        policy = STRATEGIES[strategy]
        start, end = found.span("conditions")
        if strategy == "strict_contiguity" and re.search(r"(?<!\w)\[\s*[A-Za-z_]", source.text[start:end]):
            message = "strict_contiguity asks for neighbours in all of the stream; with [attribute] that has no equal"
            place = found.start("name"), found.end("name")
            raise source.error_at(message, *place, "partition_contiguity means neighbours of one partition")
    pieces = _AND.split(source.text[start:end])
    offset = start
    conditions = []
    for piece in pieces:
        if not _AND.fullmatch(piece) and piece.strip():
            conditions.append(_rewrite_condition(source, piece, offset))
        offset += len(piece)
    return " AND ".join(conditions), policy


def _rewrite_condition(source: SourceText, text: str, offset: int) -> str:
    """Rewrite SASE's elements of a repeated variable, b[i], b[i-1], b[1], b[b.LEN], b[], in a condition."""
    indices = {re.sub(r"\s", "", found["index"]).lower() for found in _ELEMENT.finditer(text)}
    in_pairs = "i-1" in indices

    def element(found: re.Match[str]) -> str:
        name, rest = found["name"], found["rest"] or ""
        index = re.sub(r"\s", "", found["index"]).lower()
        if index == "":
            return f"{name}{rest}"
        if index == "i":
            return f"NEXT({name}){rest}" if in_pairs else f"{name}{rest}"
        if index == "i-1":
            return f"{name}{rest}"
        if index == "1":
            return f"FIRST({name}){rest}"
        if index in (f"{name.lower()}.len", "last"):
            return f"LAST({name}){rest}"
        start = offset + found.start()
        message = f"{name}[{found['index']}] has no equal"
        hint = "b[i], b[i-1], b[1], b[b.LEN] and b[] have"
        raise source.error_at(message, start, offset + found.end(), hint)

    return _ELEMENT.sub(element, text).strip()


def _rewrite_return(source: SourceText, start: int, end: int) -> str:
    return ", ".join(_rewrite_condition(source, item, start) for item in source.text[start:end].split(","))
