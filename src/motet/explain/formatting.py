"""Formats numbers, durations, lists and labels for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from motet.language.printer import window_text
from motet.model.query import Query, Workload
from motet.model.window import TimeWindow

COMMENT_MARKS = ("--", "#")
EQUAL_RATES = "no statistics given: as many events of every symbol assumed"


def format_count(number: int, thing: str) -> str:
    """Return `1 row`, `2 rows`, `3 queries` or `4 branches`."""
    if number == 1:
        return f"1 {thing}"
    if thing.endswith("y"):
        return f"{number:,} {thing[:-1]}ies"
    return f"{number:,} {thing}{'es' if thing.endswith('ch') else 's'}"


def format_number(value: float) -> str:
    """Return a score or a cost without digits that say nothing."""
    if 0 < abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def format_time(nanoseconds: float) -> str:
    """Return a time in the unit that fits, to three digits: `850 ns`, `1.2 µs`, `35 ms`."""
    value, unit = nanoseconds, "ns"
    for larger in ("µs", "ms", "s"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{format_number(float(f'{value:.3g}'))} {unit}"


def format_costs(costs: Mapping[str, float]) -> str:
    """Return costs by name, as in `none 12, share 8.5`."""
    return ", ".join(f"{name} {format_number(cost)}" for name, cost in costs.items())


def format_expected(expected: float | None) -> str:
    """Return what to add to a count that was estimated before; nothing where there was no estimate."""
    return "" if expected is None else f", {format_number(round(expected))} expected"


def format_phases(seconds: Mapping[str, float]) -> str:
    """Return how long each phase of a search took."""
    return "time: " + ", ".join(f"{phase} {took:.3f} s" for phase, took in seconds.items())


def limit_lines(lines: Sequence[str], most: int, indent: str) -> Iterator[str]:
    """Yield the first lines, and how many more there are."""
    yield from (f"{indent}{line}" for line in lines[:most])
    if len(lines) > most:
        yield f"{indent}and {len(lines) - most:,} more (all in --format json)"


def format_names(names: Sequence[str], most: int = 6) -> str:
    """Return the names of queries, the first few of many."""
    listed = ", ".join(names[:most])
    return listed if len(names) <= most else f"{listed} and {len(names) - most:,} more"


def format_duration(microseconds: int) -> str:
    """Return a length of time in the largest unit that fits."""
    return window_text(TimeWindow(microseconds)).removeprefix("WITHIN ")


def round_digits(value: float) -> float:
    """Return an estimate to four digits."""
    return float(f"{value:.4g}")


def escape_mermaid(text: str) -> str:
    """Return text for a label of a drawing: what Mermaid would read as markup is written by code."""
    marks = (("#", "#35;"), ("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("\n", " "), ("\r", " "))
    for mark, code in marks:
        text = text.replace(mark, code)
    return text


def find_leading_comment(query: Query, workload: Workload) -> str:
    """Return the comment lines directly above a query, as one text; empty where there are none."""
    if query.span is None:
        return ""
    words: list[str] = []
    for line in reversed(workload.text.splitlines()[: query.span.line - 1]):
        line = line.strip()
        mark = next((mark for mark in COMMENT_MARKS if line.startswith(mark)), None)
        if mark is None:
            break
        words.insert(0, line.removeprefix(mark).strip())
    return " ".join(words)
