"""Words for people: how many of a thing there are, and what queries say of themselves."""

from __future__ import annotations

from motet.model.query import Query, Workload

MARKS = ("--", "#")


def format_count(number: int, thing: str) -> str:
    """`1 row`, `2 rows`, `3 queries`, `4 branches`."""
    if number == 1:
        return f"1 {thing}"
    if thing.endswith("y"):
        return f"{number:,} {thing[:-1]}ies"
    return f"{number:,} {thing}{'es' if thing.endswith('ch') else 's'}"


def find_leading_comment(query: Query, workload: Workload) -> str:
    """The comment lines directly above a query, as one text; empty where there are none."""
    if query.span is None:
        return ""
    words: list[str] = []
    for line in reversed(workload.text.splitlines()[: query.span.line - 1]):
        line = line.strip()
        mark = next((mark for mark in MARKS if line.startswith(mark)), None)
        if mark is None:
            break
        words.insert(0, line.removeprefix(mark).strip())
    return " ".join(words)


def format_number(value: float) -> str:
    """A score or a cost without digits that say nothing."""
    if 0 < abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def escape_mermaid(text: str) -> str:
    """Text inside a label of a drawing: what Mermaid would read as markup is written by code."""
    for mark, code in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(mark, code)
    return text
