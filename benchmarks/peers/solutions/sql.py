"""The question in SQL, in four forms; dialects differ in how they divide and how they make many rows of one.

A window begins at pane w and has n panes, so events of panes p and q are both in it if q - n < w <= p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness import Question


@dataclass(frozen=True)
class Dialect:
    """`divide` makes a whole division of two texts, `unfold` a column of all whole numbers from one to another; where
    that takes a table with the numbers from 0 on, `beside` joins it.
    """

    divide: Callable[[str, str], str]
    unfold: Callable[[str, str], str]
    wide: str = "BIGINT"
    beside: Callable[[int], str] = lambda count: ""


DUCKDB = Dialect(lambda a, b: f"({a} // {b})", lambda low, high: f"unnest(range({low}, {high} + 1))", "HUGEINT")
CHDB = Dialect(lambda a, b: f"intDiv({a}, {b})", lambda low, high: f"arrayJoin(range({low}, {high} + 1))", "Int128")
SPARK = Dialect(lambda a, b: f"({a} div {b})", lambda low, high: f"explode(sequence({low}, {high}))")
FLINK = Dialect(
    lambda a, b: f"({a} / {b})",
    lambda low, high: f"({high} - n)",
    beside=lambda count: f" CROSS JOIN (VALUES {', '.join(f'({n})' for n in range(count))}) AS numbers(n)",
)


def self_join(question: Question, dialect: Dialect, events: str) -> str:
    """Make every match a row of a join; count by first and last pane, then by window."""
    parts = []
    for number, pattern in enumerate(question.patterns):
        last = len(pattern) - 1
        joins = " ".join(f"JOIN {events} e{at} ON e0.key = e{at}.key" for at in range(1, len(pattern)))
        conditions = [f"e{at}.type = '{type}'" for at, type in enumerate(pattern)]
        conditions += [f"e{at}.time < e{at + 1}.time" for at in range(last)]
        conditions.append(f"e{last}.time < e0.time + {question.within}")
        first, final = (dialect.divide(f"e{at}.time", str(question.slide)) for at in (0, last))
        parts.append(
            f"SELECT {number} AS q, key, w, sum(n) AS total FROM (SELECT key, n, "
            f"{dialect.unfold(f'final - {question.panes - 1}', 'first')} AS w FROM ("
            f"SELECT e0.key AS key, {first} AS first, {final} AS final, count(*) AS n FROM {events} e0 {joins} "
            f"WHERE {' AND '.join(conditions)} GROUP BY 1, 2, 3) matches "
            f"WHERE final - first < {question.panes}) spread GROUP BY key, w"
        )
    return "\nUNION ALL\n".join(parts)


def expand_windows(question: Question, dialect: Dialect, events: str, types: list[str]) -> str:
    """Put events of some types beside each window that they are in."""
    pane = dialect.divide("time", str(question.slide))
    listed = ", ".join(f"'{type}'" for type in types)
    return (
        f"(SELECT key, type, time, {dialect.unfold(f'{pane} - {question.panes - 1}', pane)} AS w "
        f"FROM {events}{dialect.beside(question.panes)} WHERE type IN ({listed}))"
    )


def stacked(question: Question, dialect: Dialect, events: str) -> str:
    """Return running sums over running sums: what ends at a position is the sum of what ended at the one before."""
    parts = []
    for number, pattern in enumerate(question.patterns):
        inner = (
            f"(SELECT key, w, time, type, "
            f"CASE WHEN type = '{pattern[0]}' THEN CAST(1 AS {dialect.wide}) ELSE 0 END AS c "
            f"FROM {expand_windows(question, dialect, events, pattern)} x0)"
        )
        for place, type in enumerate(pattern[1:], start=1):
            inner = (
                f"(SELECT key, w, time, type, CASE WHEN type = '{type}' THEN coalesce(s, 0) ELSE 0 END AS c FROM "
                f"(SELECT key, w, time, type, sum(c) OVER (PARTITION BY key, w ORDER BY time "
                f"RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS s FROM {inner} y{place}) z{place})"
            )
        parts.append(
            f"SELECT {number} AS q, key, w, sum(c) AS total FROM {inner} last GROUP BY key, w HAVING sum(c) > 0"
        )
    return "\nUNION ALL\n".join(parts)


def asof(question: Question, dialect: Dialect, events: str) -> str:
    """Join each event with the running sum just before it (ASOF)."""
    parts = []
    for number, pattern in enumerate(question.patterns):
        own = [expand_windows(question, dialect, events, [type]) for type in pattern]
        running = "OVER (PARTITION BY {0}key, {0}w ORDER BY {0}time)"
        inner = f"(SELECT key, w, time, CAST(count(*) {running.format('')} AS {dialect.wide}) AS s FROM {own[0]} x0)"
        for place in range(1, len(pattern)):
            over = running.format("e.")
            inner = (
                f"(SELECT e.key AS key, e.w AS w, e.time AS time, sum(p.s) {over} AS s FROM {own[place]} e "
                f"ASOF JOIN {inner} p ON e.key = p.key AND e.w = p.w AND e.time > p.time)"
            )
        parts.append(f"SELECT {number} AS q, key, w, max(s) AS total FROM {inner} last GROUP BY key, w")
    return "\nUNION ALL\n".join(parts)


def fold(question: Question, dialect: Dialect, events: str) -> str:
    """Fold the events of a key and window as a sorted array, with Spark's higher-order functions.

    `c` counts what ended at each position before the present time, `p` with it, so that events of one time do not see
    each other.
    """
    parts = []
    for number, pattern in enumerate(question.patterns):
        place = " ".join(f"WHEN '{type}' THEN {at}" for at, type in enumerate(pattern))
        zeros = f"array_repeat(CAST(0 AS BIGINT), {len(pattern)})"
        before = "IF(e.time > a.t, a.p, a.c)"
        more = f"IF(i = e.place, coalesce(get({before}, e.place - 1), CAST(1 AS BIGINT)), CAST(0 AS BIGINT))"
        parts.append(
            f"SELECT {number} AS q, key, w, total FROM (SELECT key, w, aggregate("
            f"array_sort(collect_list(struct(time, place))), "
            f"named_struct('t', CAST(-1 AS BIGINT), 'c', {zeros}, 'p', {zeros}), "
            f"(a, e) -> named_struct('t', e.time, 'c', {before}, 'p', transform(a.p, (x, i) -> x + {more})), "
            f"a -> a.p[{len(pattern) - 1}]) AS total "
            f"FROM (SELECT key, w, time, CASE type {place} END AS place "
            f"FROM {expand_windows(question, dialect, events, pattern)} x) y GROUP BY key, w) z WHERE total > 0"
        )
    return "\nUNION ALL\n".join(parts)
