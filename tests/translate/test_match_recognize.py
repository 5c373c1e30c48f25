"""A translated MATCH_RECOGNIZE gives what the standard says it gives; what would not is refused at its place."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import motet
from motet.dialects.match_recognize import DECIMALS
from motet.errors import QueryError
from motet.model.pattern import Event, Or, Pattern, Repeat, Seq
from tests.translate.row_pattern_matching import Bound, Define, Row, matches
from tests.translate.rows import try_examples

A, B, C, D = Event("a"), Event("b"), Event("c"), Event("d")


def of_type(name: str) -> Define:
    return lambda rows, bound, at: rows[at]["type"] == name


def both(*defines: Define) -> Define:
    return lambda *row: all(define(*row) for define in defines)


def falls(rows: Any, bound: Bound, at: int) -> bool:
    return at > 0 and rows[at]["x"] < rows[at - 1]["x"]


def above_first_a(rows: Any, bound: Bound, at: int) -> bool:
    return bool(rows[at]["x"] > next(rows[row]["x"] for name, row in bound if name == "a"))


def above_mean_b(rows: Any, bound: Bound, at: int) -> bool:
    values = [rows[row]["x"] for name, row in bound if name == "b"]
    return bool(values) and bool(rows[at]["x"] > sum(values) / len(values))


TYPED = {name: of_type(name) for name in "abcd"}
CASES: dict[str, tuple[str, str, Pattern, dict[str, Define], bool]] = {
    "a fixed sequence by types": (
        "(A B C)",
        "A AS type = 'a', B AS type = 'b', C AS type = 'c'",
        Seq((A, B, C)),
        TYPED,
        True,
    ),
    "a run in the middle": (
        "(A B+ C)",
        "A AS type = 'a', B AS type = 'b' AND B.x < PREV(B.x), C AS type = 'c'",
        Seq((A, Repeat(B, 1, None), C)),
        {**TYPED, "b": both(of_type("b"), falls)},
        True,
    ),
    "runs that overlap": (
        "(A+ B)",
        "A AS type = 'a', B AS type = 'b'",
        Seq((Repeat(A, 1, None), B)),
        TYPED,
        False,
    ),
    "choices and options": (
        "(A (B | C)? D)",
        "A AS type = 'a', B AS type = 'b', C AS type = 'c' AND C.x > A.x, D AS type = 'd'",
        Seq((A, Repeat(Or((B, C)), 0, 1), D)),
        {**TYPED, "c": both(of_type("c"), above_first_a)},
        True,
    ),
    "groups that repeat": (
        "(A (B C){1,2} D)",
        "A AS type = 'a', B AS type = 'b', C AS type = 'c', D AS type = 'd'",
        Seq((A, Repeat(Seq((B, C)), 1, 2), D)),
        TYPED,
        True,
    ),
    "rows without types": (
        "(A B{2} C)",
        "B AS x < PREV(x), C AS C.x > AVG(B.x)",
        Seq((A, Repeat(B, 2, 2), C)),
        {"b": falls, "c": above_mean_b},
        False,
    ),
    "aggregates of what came before": (
        "(A B+ C)",
        "A AS type = 'a' AND x > 1, B AS type = 'b', C AS type = 'c' AND C.x > AVG(B.x)",
        Seq((A, Repeat(B, 1, None), C)),
        {
            **TYPED,
            "a": both(of_type("a"), lambda rows, bound, at: rows[at]["x"] > 1),
            "c": both(of_type("c"), above_mean_b),
        },
        True,
    ),
}

ROWS = st.lists(st.tuples(st.sampled_from("aabbcd"), st.integers(0, 4), st.sampled_from("uv")), max_size=24)


def sql(pattern: str, define: str, skip: str, measures: str = "FIRST(A.ts) AS began, COUNT(*) AS size") -> str:
    """A query; what `define` says of variables that `pattern` does not have is left out."""
    define = ", ".join(part for part in re.split(r", (?=[A-D] AS )", define) if part[0] in pattern)
    return f"""SELECT * FROM events MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY ts
        MEASURES {measures}
        ONE ROW PER MATCH
        {skip}
        PATTERN {pattern}
        DEFINE {define})"""


@pytest.mark.parametrize("case", CASES)
@try_examples(25)
@given(events=ROWS)
def test_translated_queries_give_the_matches_of_the_standard(case: str, events: list[tuple[str, int, str]]) -> None:
    pattern, define, tree, defines, past_last_row = CASES[case]
    skip = "AFTER MATCH SKIP PAST LAST ROW" if past_last_row else "AFTER MATCH SKIP TO NEXT ROW"
    rows = [{"ts": at, "type": kind, "x": x, "k": key} for at, (kind, x, key) in enumerate(events)]
    wanted = []
    for key, group in groupby(sorted(rows, key=lambda row: (row["k"], row["ts"])), lambda row: row["k"]):
        own: list[Row] = list(group)
        for match in matches(tree, own, defines, past_last_row):
            wanted.append((key, own[match[0][1]]["ts"], len(match)))
    translated = motet.translate(sql(pattern, define, skip), "match-recognize", time="ts")
    schema = pa.schema({"ts": pa.int64(), "type": pa.string(), "x": pa.int64(), "k": pa.string()})
    table = pa.Table.from_pylist(rows, schema=schema)
    found = motet.run(table, translated.workload, time="ts").select(["k", "began", "size"]).to_pylist()
    assert sorted((row["k"], row["began"], row["size"]) for row in found) == sorted(wanted)


# Conditions beside the type, of a row alone, of the row before it and of rows bound before it.
MORE: list[tuple[str, Define]] = [
    ("", lambda *_: True),
    ("", lambda *_: True),
    (" AND x > 1", lambda rows, bound, at: rows[at]["x"] > 1),
    (" AND {0}.x < PREV({0}.x)", falls),
    (" AND COALESCE(PREV({0}.x), 0) < 2", lambda rows, bound, at: at == 0 or rows[at - 1]["x"] < 2),
    (" AND PREV(x) > 1", lambda rows, bound, at: at > 0 and rows[at - 1]["x"] > 1),
    (" AND {0}.x > A.x", lambda rows, bound, at: _above(rows, at, [row for name, row in bound if name == "a"][-1:])),
    (
        " AND A.x > 1",
        lambda rows, bound, at: any(rows[row]["x"] > 1 for name, row in [b for b in bound if b[0] == "a"][-1:]),
    ),
    (" AND x > AVG(B.x)", above_mean_b),
]


def _above(rows: Any, at: int, bound: list[int]) -> bool:
    return bool(bound) and bool(rows[at]["x"] > rows[bound[0]]["x"])


@st.composite
def row_patterns(draw: Any, names: str = "ABCD") -> tuple[str, Pattern]:
    """A pattern over some variables, each written once: as text and as a tree."""
    quantifier = st.sampled_from(
        [("", None), ("", None), ("+", (1, None)), ("?", (0, 1)), ("*", (0, None)), ("{2}", (2, 2)), ("{1,2}", (1, 2))]
    )

    def quantify(text: str, tree: Pattern) -> tuple[str, Pattern]:
        mark, bounds = draw(quantifier)
        return (text, tree) if bounds is None else (f"{text}{mark}", Repeat(tree, *bounds))

    parts: list[tuple[str, Pattern]] = []
    left = list(names[: draw(st.integers(1, len(names)))])
    while left:
        if len(left) > 1 and draw(st.integers(0, 3)) == 0:
            one, other = (quantify(name, Event(name.lower())) for name in (left.pop(0), left.pop(0)))
            pair = one[1], other[1]
            group = draw(st.sampled_from([("|", Or(pair)), ("", Seq(pair))]))
            parts.append(quantify(f"({one[0]} {group[0]} {other[0]})", group[1]))
        else:
            name = left.pop(0)
            parts.append(quantify(name, Event(name.lower())))
    trees = tuple(tree for _, tree in parts)
    return f"({' '.join(text for text, _ in parts)})", trees[0] if len(trees) == 1 else Seq(trees)


OUTCOMES: Counter[str] = Counter()


@try_examples(100)
@given(
    events=ROWS,
    pattern=row_patterns(),
    more=st.lists(st.sampled_from(MORE), min_size=4, max_size=4),
    typed=st.booleans(),
    past_last_row=st.booleans(),
)
def test_random_patterns_give_the_matches_of_the_standard_or_are_refused(
    events: list[tuple[str, int, str]],
    pattern: tuple[str, Pattern],
    more: list[tuple[str, Define]],
    typed: bool,
    past_last_row: bool,
) -> None:
    skip = "AFTER MATCH SKIP PAST LAST ROW" if past_last_row else "AFTER MATCH SKIP TO NEXT ROW"
    defines: dict[str, Define] = {}
    said = []
    for name, (text, define) in zip("ABCD", more, strict=True):
        if name == "A" and "A.x" in text:
            text, define = MORE[2]
        kind = f"type = '{name.lower()}'" if typed else "x >= 0"
        said.append(f"{name} AS {kind}{text.format(name)}")
        defines[name.lower()] = both(of_type(name.lower()), define) if typed else define
    try:
        translated = motet.translate(
            sql(pattern[0], ", ".join(said), skip, "COUNT(*) AS size"), "match-recognize", time="ts"
        )
    except QueryError as refused:
        OUTCOMES[refused.diagnostics[0].message] += 1
        return
    OUTCOMES["translated"] += 1
    rows = [{"ts": at, "type": kind, "x": x, "k": key} for at, (kind, x, key) in enumerate(events)]
    wanted = []
    for key in "uv":
        own: list[Row] = [row for row in rows if row["k"] == key]
        wanted += [(key, len(match)) for match in matches(pattern[1], own, defines, past_last_row)]
    schema = pa.schema({"ts": pa.int64(), "type": pa.string(), "x": pa.int64(), "k": pa.string()})
    found = motet.run(pa.Table.from_pylist(rows, schema=schema), translated.workload, time="ts").to_pylist()
    OUTCOMES["with matches"] += bool(wanted)
    assert sorted((row["k"], row["size"]) for row in found) == sorted(wanted), translated.text


def test_comments_are_passed_over() -> None:
    text = sql("(A B)", TYPES, NEXT, measures="B.x AS seen").replace(
        "PATTERN", "/* PATTERN (B A) */ -- PATTERN (A)\n PATTERN"
    )
    assert "PATTERN SEQ(a a, b b)" in motet.translate(text, "match-recognize", time="ts").text


def test_a_translation_reads_as_a_query_and_says_what_to_mind() -> None:
    text = """SELECT * FROM trades MATCH_RECOGNIZE (
      PARTITION BY symbol ORDER BY ts
      MEASURES A.price AS first_price, LAST(B.price) AS low
      PATTERN (A B+ C) WITHIN INTERVAL '10' MINUTE
      DEFINE A AS type = 'quote', B AS type = 'trade' AND B.price < PREV(B.price), C AS type = 'halt')"""
    shown = motet.translate(text, "match-recognize", name="dips").text
    assert "-- the time of events is ts: run with --time ts" in shown
    assert shown.partition("\n\n")[2] == (
        "QUERY dips\n"
        "RETURN a.price AS first_price, LAST(b).price AS low\n"
        "PATTERN SEQ(quote a, trade b+, halt c)\n"
        "WHERE NEXT(b).price < b.price AND FIRST(b).price < a.price\n"
        "GROUP BY symbol\n"
        "WITHIN 10 min\n"
        "CONTIGUOUS\n"
    )


@pytest.mark.parametrize(
    ("condition", "minded"),
    [
        ("x * 1.1 > A.x", True),
        ("x > A.x + -0.5", True),
        ("x > 1.5", False),
        ("x * 2 > A.x", False),
        ("z = '1.5'", False),
    ],
)
def test_arithmetic_with_numbers_with_a_point_says_that_doubles_are_computed(condition: str, minded: bool) -> None:
    text = sql("(A B)", f"A AS type = 'a', B AS type = 'b' AND {condition}", NEXT, measures="B.x AS seen")
    assert (DECIMALS in motet.translate(text, "match-recognize", time="ts").notes) == minded


def test_the_length_of_a_text_is_translated() -> None:
    text = sql("(A B)", "A AS LENGTH(type) = 1, B AS type = 'b'", NEXT, measures="B.x AS seen")
    assert "EVENT a_row AS LENGTH(type) = 1" in motet.translate(text, "match-recognize", time="ts").text


def test_rows_of_a_variable_are_counted() -> None:
    text = sql("(A B+ C)", f"{TYPES} AND COUNT(B.*) > 1", NEXT, measures="COUNT(B.*) AS b, COUNT(A.*) + COUNT(*) AS n")
    translated = motet.translate(text, "match-recognize", time="ts")
    table = pa.table({"ts": range(7), "type": list("abcabbc"), "x": [0] * 7, "k": ["u"] * 7})
    assert motet.run(table, translated.workload, time="ts").select(["b", "n"]).to_pylist() == [{"b": 2, "n": 5}]


def test_a_variable_may_be_called_like_the_type_of_another() -> None:
    text = sql("(A B)", "A AS type = 'b', B AS type = 'a' AND x > PREV(x)", NEXT, measures="B.x AS seen")
    shown = motet.translate(text, "match-recognize", time="ts").text
    assert "PATTERN SEQ(b a_, a b_)\nWHERE b_.x > a_.x" in shown


NEXT = "AFTER MATCH SKIP TO NEXT ROW"
TYPES = "A AS type = 'a', B AS type = 'b', C AS type = 'c'"


@pytest.mark.parametrize(
    ("pattern", "define", "skip", "message", "at"),
    [
        ("(A B+? C)", TYPES, NEXT, "reluctant", "? C"),
        ("(A B+)", TYPES, NEXT, "may end at b or go on", "PATTERN"),
        ("(A B*)", "A AS x > 1, B AS x < 1", NEXT, "may take different variables", "PATTERN"),
        ("(A+ B)", TYPES, "", "drops matches that overlap", "PATTERN"),
        *(
            (f"(A {part} D)", f"{TYPES}, D AS type = 'd'", NEXT, "match here in several ways", "PATTERN")
            for part in ("(B+){2}", "(B{1,2}){2,}", "(B? C?){2}", "(B+ | C*){2,}")
        ),
        ("(A B)", TYPES, "AFTER MATCH SKIP TO FIRST B", "has no equal", "AFTER"),
        ("(A B A)", TYPES, NEXT, "more than once", "A"),
        ("(^ A B)", TYPES, NEXT, "anchor", "^"),
        ("(A {- B -} C)", TYPES, NEXT, "leaves rows out", "{-"),
        ("(PERMUTE(A, B))", TYPES, NEXT, "PERMUTE has no equal", "PERMUTE"),
        ("(A B C)", "B AS x < PREV(x, 2)", NEXT, "only PREV", "PREV(x, 2"),
        ("(A B C)", "A AS x < PREV(x)", NEXT, "may begin a match", "x < PREV"),
        (
            "(A B? C)",
            "A AS type = 'a', B AS type = 'b' AND PREV(x) > 1, C AS type = 'c'",
            NEXT,
            "may be left out",
            "PREV(x) > 1",
        ),
        (
            "(A B+ C)",
            "A AS type = 'a', B AS type = 'b' AND PREV(x) > 1, C AS type = 'c'",
            NEXT,
            "or repeated",
            "PREV(x) > 1",
        ),
        ("(A B C)", "B AS SUM(B.x) < 10", NEXT, "running aggregate", "SUM(B.x"),
        ("(A B C)", "A AS A.x > C.x", NEXT, "need not be complete", "C.x"),
        ("(A B C)", "B AS x SIMILAR TO 'a'", NEXT, "SIMILAR", "x SIM"),
        ("(A B C)", "B AS x > TIMESTAMP 'noon'", NEXT, "no timestamp", ""),
        ("()", TYPES, NEXT, "cannot be read", ""),
        ("(A B C)", "B AS x > PREV(x) / 2", NEXT, "a division gives whole numbers", "PREV(x) / 2"),
        ("(A? B*)", TYPES, NEXT, "may match no row", "PATTERN"),
        ("(A+ B C)", f"{TYPES} AND C.x > LAST(A.x, 2)", NEXT, "'2' in", "LAST(A.x, 2"),
        ("(A+ B C)", f"{TYPES} AND C.x > FIRST(A.x, 1)", NEXT, "'1' in", "FIRST(A.x, 1"),
        (
            "(A B? C)",
            "A AS type = 'a', B AS type = 'b' AND A.x > 1, C AS type = 'c'",
            NEXT,
            "may leave out B",
            "A.x > 1",
        ),
        ("(A B? C)", "A AS type = 'a', B AS type = 'b' AND 1 > 2, C AS type = 'c'", NEXT, "may leave out B", ""),
        ("(A B C)", "B AS x LIKE 'a!_' ESCAPE '!'", NEXT, "ESCAPE", "x LIKE"),
        ("(A B C)", "B AS FLOOR(x, 2) = 1", NEXT, "'2' in", "x, 2"),
        ("(A B C)", r"B AS x LIKE 'a\_'", NEXT, "a backslash in a text", r"'a\_'"),
        ("(A B C)", r"B AS x = 'a\n'", NEXT, "a backslash in a text", r"'a\n'"),
        ("(A B C)", "B AS x > 1, B AS x < 5", NEXT, "B is defined twice", ""),
        ("(A B C)", "B AS x IN (A.x, 2)", NEXT, "has no equal", "x IN"),
        ("(A B C)", "B AS x > LAST(x)", NEXT, "running aggregate", "LAST(x"),
        ("(A B C)", "B AS CLASSIFIER() = 'B'", NEXT, "has no equal", ""),
    ],
)
def test_what_would_mean_something_else_is_refused_at_its_place(
    pattern: str, define: str, skip: str, message: str, at: str
) -> None:
    text = sql(pattern, define, skip, measures="B.x AS seen")
    with pytest.raises(QueryError, match=message) as refused:
        motet.translate(text, "match-recognize", time="ts")
    span = refused.value.diagnostics[0].span
    assert span is not None
    assert text[span.start :].startswith(at)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("SELECT *", "SELECT seen, COUNT(*)", "only the MATCH_RECOGNIZE clause itself"),
        ("FROM events", "FROM (SELECT * FROM events WHERE x > 1)", "one table"),
        ("SELECT *", "SELECT DISTINCT *", "DISTINCT is not translated"),
        ("FROM events", "FROM events AS e", "ALIAS of a table"),
        ("FROM events", "FROM read('events')", "one table"),
        ("FROM events", "FROM events TABLESAMPLE (10 PERCENT)", "SAMPLE of a table"),
        ("ORDER BY ts", "ORDER BY ts DESC", "one column, ascending"),
        ("ORDER BY ts", "ORDER BY ts, x", "one column, ascending"),
        ("B.x AS seen", "B.* AS seen", "has no equal in RETURN"),
        ("B.x AS seen", "SUM(B.*) AS seen", "has no equal in RETURN"),
        ("B.x AS seen", "RUNNING LAST(B.x) AS seen", "RETURN is final"),
        ("B.x AS seen", "PREV(B.x) AS seen", "has no equal in RETURN"),
        ("B.x AS seen", "SUM(B.x) FILTER (WHERE B.x > 1) AS seen", "has no equal"),
        ("type = 'b')", "type = 'b') AS m", "'m' in"),
        ("PARTITION BY k", "PARTITION BY UPPER(k)", "PARTITION BY must name columns"),
        ("type = 'b')", "type = 'b') ORDER BY seen", "ORDER is not translated"),
        ("type = 'b')", "type = 'b', D AS type = 'd')", "PATTERN has no variable D"),
        ("B.x AS seen", "LAST(B.x, 2) AS seen", "'2' in"),
        ("B.x AS seen", "FIRST(B.x, 1) AS seen", "'1' in"),
        ("B.x AS seen", "COUNT(DISTINCT B.x) AS seen", "has no equal in RETURN"),
        ("B.x AS seen", "MAX(B.x, A.x) AS seen", "is not understood"),
    ],
)
def test_rows_around_the_clause_must_not_change(before: str, after: str, message: str) -> None:
    text = sql("(A B)", TYPES, NEXT, measures="B.x AS seen").replace(before, after)
    with pytest.raises(QueryError, match=message):
        motet.translate(text, "match-recognize", time="ts")
