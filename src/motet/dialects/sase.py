"""Translates SASE and SASE+: their text is near enough to ours to be rewritten and then parsed."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from motet.dialects.translation import SourceText, Translation
from motet.errors import QueryError
from motet.language.parser import parse
from motet.model.expression import At, Expression, attributes, has_aggregate, is_local, variables
from motet.model.pattern import Event, Not, Pattern, Repeat, Seq, events
from motet.model.query import Policy, Query

_CLAUSES = ("EVENT", "PATTERN", "WHERE", "WITHIN", "RETURN", "FROM", "HAVING")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_FIRST_MARK, _LAST_MARK = 0xE000, 0xF8FF  # each text in quotes is rewritten as a character of its own
_STRATEGY = re.compile(r"\s*(?P<name>\w+)\s*\((?P<names>[^)]*)\)\s*\{(?P<conditions>.*)\}\s*", re.DOTALL)
_NEGATED = re.compile(r"[!~]\s*\(\s*(\w+)(\s+\w+)?\s*\)")
_ELEMENT = re.compile(
    r"(?P<name>[A-Za-z_]\w*)\s*(?:\[\s*(?P<index>[^\]]*?)\s*\](?P<rest>\s*\.\s*(?P<column>\w+))?|\.\s*(?P<size>LEN)\b)",
    re.IGNORECASE,
)
_REPEATED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*\[\s*\]")
_AND = re.compile(r"(\bAND\b|∧|\s\^\s|&&|,(?![^()\[\]]*[)\]]))", re.IGNORECASE)
_AGGREGATE = re.compile(r"\b(?:AVG|SUM|MIN|MAX|COUNT)\s*\(", re.IGNORECASE)
_ALIAS = re.compile(r"\s+AS\s+\w+\s*$", re.IGNORECASE)

STRATEGIES = {
    "skip_till_any_match": "SKIP TILL ANY",
    "skip_till_next_match": "SKIP TILL NEXT",
    "partition_contiguity": "CONTIGUOUS",
    "strict_contiguity": "CONTIGUOUS",
}
NOTES = (
    "the same as SASE's query where no two events of a partition share a time",
    "an event exactly WITHIN after the first is outside of the window (SASE's documentation leaves it open)",
)


def translate_source(source: SourceText) -> Translation:
    """Translate a text such as PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match(a, b[]) { [id] } WITHIN 1 h."""
    texts: list[str] = []
    hidden = replace(source, text=_QUOTED.sub(lambda found: _hide(found[0], texts), source.text))
    clauses = _find_clauses(hidden)
    if "PATTERN" not in clauses:
        raise source.error_at("there is no PATTERN (or EVENT) clause here", 0, hint="as in PATTERN SEQ(A a, B b)")
    strategy = None
    text = f"QUERY {source.name}\n"
    if "RETURN" in clauses:
        text += f"RETURN {_rewrite_return(hidden, *clauses['RETURN'])}\n"
    text += f"PATTERN {_rewrite_pattern(hidden, *clauses['PATTERN'])}\n"
    if "WHERE" in clauses:
        strategy = _find_strategy(hidden, *clauses["WHERE"])
        body = clauses["WHERE"] if strategy is None else strategy.span("conditions")
        conditions = _rewrite_where(hidden, *body)
        text += f"WHERE {conditions}\n" if conditions.strip() else ""
    if "WITHIN" in clauses:
        start, end = clauses["WITHIN"]
        if not re.fullmatch(r"\s*\d+(?:\.\d+)?\s*[A-Za-z]*\s*", hidden.text[start:end]):
            raise source.error_at("WITHIN takes a length of time", start, end, "as in WITHIN 12 hours")
        text += f"WITHIN {hidden.text[start:end].strip()}\n"
    text += "" if strategy is None else STRATEGIES[strategy["name"].lower()]
    try:
        workload = parse(
            re.sub(rf"([{chr(_FIRST_MARK)}-{chr(_LAST_MARK)}])\1*", lambda found: _show(found[1], texts), text)
        )
    except QueryError as error:
        raise source.errors_at(error.diagnostics, *_find_clause(clauses, error)) from None
    if strategy is not None:
        _check_strategy(source, strategy, workload.queries[0])
    return Translation(replace(workload, text=""), NOTES)


def _hide(text: str, texts: list[str]) -> str:
    texts.append(text)
    return chr(_FIRST_MARK + len(texts) - 1) * len(text)


def _show(mark: str, texts: list[str]) -> str:
    return texts[ord(mark) - _FIRST_MARK]


def _find_clauses(source: SourceText) -> dict[str, tuple[int, int]]:
    """Return where the body of each clause lies; the older EVENT clause is PATTERN."""
    found = _find_clause_words(source)
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
        if kind in bodies:
            raise source.error_at(f"there is a second {kind} here", word.start(), word.end(), "write it once")
        # The name of the stream says nothing of what a query means.
        if kind == "FROM" and not re.fullmatch(r"\s*\w+\s*", source.text[word.end() : end]):
            raise source.error_at("FROM names one stream", word.start(), end, "take away what stands after the name")
        bodies[kind] = (word.end(), end)
    return bodies


def _find_clause_words(source: SourceText) -> list[re.Match[str]]:
    """Return the words that open clauses: outside of brackets, and no attribute of that name."""
    found, depth = [], 0
    for token in re.finditer(r"[A-Za-z_]\w*|\S", source.text):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        around = source.text[: token.start()].rstrip()[-1:], source.text[token.end() :].lstrip()[:1]
        if depth == 0 and token[0].upper() in _CLAUSES and "." not in around:
            found.append(token)
    return found


def _find_clause(clauses: dict[str, tuple[int, int]], error: QueryError) -> tuple[int, int]:
    """Return the clause that an error in the rewritten text is about, by the word its line begins with."""
    span = error.diagnostics[0].span
    line = error.text.splitlines()[span.line - 1] if span is not None else ""
    return clauses.get(line.partition(" ")[0], clauses["PATTERN"])


def _rewrite_pattern(source: SourceText, start: int, end: int) -> str:
    text = source.text[start:end]
    text = _NEGATED.sub(lambda found: f"NOT {found[1]}{found[2] or ''}", text)
    return re.sub(r"\[\s*\]", "", text).strip()


# Strategies


def _find_strategy(source: SourceText, start: int, end: int) -> re.Match[str] | None:
    """Return the strategy around the conditions of a WHERE clause, if there is one."""
    found = _STRATEGY.fullmatch(source.text, start, end)
    if found is None:
        return None
    place = found.start("name"), found.end("name")
    strategy = found["name"].lower()
    if strategy not in STRATEGIES:
        hint = f"known are {', '.join(STRATEGIES)}"
        raise source.error_at(f"the strategy {found['name']} is unknown", *place, hint)
    if strategy == "strict_contiguity" and re.search(r"(?<!\w)\[\s*[A-Za-z_]", found["conditions"]):
        message = "strict_contiguity asks for neighbours in all of the stream; with [attribute] that has no equal"
        raise source.error_at(message, *place, "partition_contiguity means neighbours of one partition")
    return found


def _check_strategy(source: SourceText, found: re.Match[str], query: Query) -> None:
    """Check that a strategy is said of the whole pattern, and that motet follows it as SASE does."""
    named = {re.sub(r"\s*\[\s*\]$", "", name.strip()) for name in found["names"].split(",")}
    bound = {event.name for event in events(query.pattern)}
    known = set(re.findall(r"\w+", source.text[: found.start()]))
    if not bound <= named or not named <= known:
        message = f"{found['name']} must name all variables of the pattern: {', '.join(sorted(bound))}"
        raise source.error_at(message, found.start("names"), found.end("names"))
    if query.policy is not Policy.SKIP_TILL_NEXT:
        return
    parts = query.pattern.parts if isinstance(query.pattern, Seq) else ()
    if any(isinstance(one, Repeat) and isinstance(other, Not) for one, other in pairwise(parts)):
        message = "under skip_till_next_match a negation right after a repeated event has no equal"
        raise source.error_at(message, found.start("name"), found.end("name"), "skip_till_any_match has an equal")
    for condition in query.conditions:
        if not is_local(condition) and not _is_between_neighbours(condition, query.pattern):
            message = (
                "SASE passes over events that fail a condition on earlier ones; SKIP TILL NEXT goes only by conditions"
                " on one event, or on two that are neighbours in every match"
            )
            hint = "skip_till_any_match has an equal"
            raise source.error_at(message, found.start("name"), found.end("name"), hint)


def _is_between_neighbours(condition: Expression, pattern: Pattern) -> bool:
    """Return whether a condition is on b[i] and b[i-1], or on two single events that stand side by side in a SEQ."""
    parts = pattern.parts if isinstance(pattern, Seq) else (pattern,)
    single = [part for part in parts if isinstance(part, Event | Repeat)]
    if has_aggregate(condition) or not all(isinstance(part, Event) or isinstance(part.part, Event) for part in single):
        return False
    used = {attribute.at for attribute in attributes(condition)}
    if used == {At.NEXT, At.EACH}:
        return len(variables(condition)) == 1
    sides = [
        {one.name, other.name} for one, other in pairwise(single) if isinstance(one, Event) and isinstance(other, Event)
    ]
    return used == {At.EACH} and set(variables(condition)) in sides


# Conditions


def _rewrite_where(source: SourceText, start: int, end: int) -> str:
    """Return the conditions of a WHERE clause."""
    offset = start
    conditions = []
    pieces = _AND.split(source.text[start:end])
    for at, piece in enumerate(pieces):
        if at % 2 == 0 and piece.strip():
            conditions.append(_rewrite_condition(source, piece, offset))
        elif at % 2 == 0 and len(pieces) > 1:
            raise source.error_at("a condition is missing here", max(offset - 1, start), offset)
        offset += len(piece)
    return " AND ".join(conditions)


def _rewrite_condition(source: SourceText, text: str, offset: int) -> str:
    """Rewrite SASE's elements of a repeated variable, b[i], b[i-1], b[1], b[b.LEN], b[], b.LEN, in a condition."""
    if "/" in text:
        at = offset + text.index("/")
        message = "a division gives whole numbers in some systems and fractions in others; in motet it gives fractions"
        raise source.error_at(message, at, at + 1, "multiply instead: a.x > b.x / 2 is 2 * a.x > b.x")
    repeated = set(_REPEATED.findall(source.text))
    found = [
        (each["name"], re.sub(r"\s", "", each["index"]).lower()) for each in _ELEMENT.finditer(text) if not each["size"]
    ]
    paired = {name for name, index in found if index in ("i", "i-1")}
    in_pairs = any(index == "i-1" for _, index in found)
    if in_pairs and (len(paired) > 1 or "i" not in {index for _, index in found}):
        message = "b[i-1] has an equal only beside b[i] of the same variable"
        raise source.error_at(message, offset, offset + len(text), "as in b[i].x > b[i-1].x")

    def translate_element(found: re.Match[str]) -> str:
        name, rest = found["name"], found["rest"] or ""
        if found["size"]:
            return f"COUNT({name})" if name in repeated else found[0]
        index = re.sub(r"\s", "", found["index"]).lower()
        if index in ("", "i-1") or (index == "i" and not in_pairs):
            return f"{name}{rest}"
        if index == "i":
            return f"NEXT({name}){rest}"
        if index == "1":
            return f"FIRST({name}){rest}"
        if index == f"{name.lower()}.len":
            return f"LAST({name}){rest}"
        start = offset + found.start()
        message = f"{name}[{found['index']}] has no equal"
        hint = "b[i], b[i-1], b[1], b[b.LEN] and b[] have"
        raise source.error_at(message, start, offset + found.end(), hint)

    return _ELEMENT.sub(translate_element, text).strip()


def _rewrite_return(source: SourceText, start: int, end: int) -> str:
    """Rewrite the items of RETURN; an aggregate is over each match, which motet says by brackets."""
    items = []
    for item in re.split(r",(?![^()]*\))", source.text[start:end]):
        text = _rewrite_condition(source, item, start)
        alias = _ALIAS.search(text)
        value = text if alias is None else text[: alias.start()]
        items.append(f"({value}){text[len(value) :]}" if _AGGREGATE.search(value) else text)
    return ", ".join(items)
