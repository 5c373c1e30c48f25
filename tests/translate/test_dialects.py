"""Flink's patterns, SASE's queries and ClickHouse's funnels mean here what they mean there, or are refused."""

from __future__ import annotations

import sys
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import motet as library
from motet.dialects import translate
from motet.errors import MotetError, QueryError
from tests.command_line import Motet

Row = dict[str, Any]
SCHEMA = pa.schema({"time": pa.int64(), "type": pa.string(), "x": pa.int64(), "user": pa.string()})
ROWS = st.lists(st.tuples(st.sampled_from("abcz"), st.integers(0, 3), st.integers(1, 3)), max_size=14)


def rows_of(drawn: list[tuple[str, int, int]]) -> list[Row]:
    """Rows of one user with times that differ."""
    time, rows = 0, []
    for kind, x, later in drawn:
        time += later
        rows.append({"time": time, "type": kind, "x": x, "user": "u"})
    return rows


def found_times(text: str, source: str, rows: list[Row]) -> list[tuple[int, ...]]:
    """The times of the events of each match, by a translated query."""
    workload = translate(text, source).workload
    result = library.run(pa.Table.from_pylist(rows, SCHEMA), workload)
    own = [name for name in result.column_names if name not in ("query", "start", "end")]
    matches = []
    for row in result.to_pylist():
        bound = [event for name in own for event in (row[name] if isinstance(row[name], list) else [row[name]])]
        matches.append(tuple(sorted(event["time"] for event in bound if event is not None)))
    return sorted(matches)


def is_a(row: Row) -> bool:
    return bool(row["type"] == "a" and row["x"] > 0)


def is_b(row: Row) -> bool:
    return bool(row["type"] == "b")


def is_c(row: Row) -> bool:
    return bool(row["type"] == "c")


START = """Pattern.<Event>begin("start").where(e -> e.getType().equals("a") && e.getX() > 0)"""
LATER = (
    """.{0}("middle").where(e -> e.type.equals("b")).{0}("end").where(e -> e.type == "c").within(Time.seconds(9));"""
)


@settings(max_examples=25)
@given(drawn=ROWS)
@pytest.mark.parametrize("step", ["next", "followedBy", "followedByAny"])
def test_flink_steps_take_the_events_that_flink_takes(step: str, drawn: list[tuple[str, int, int]]) -> None:
    rows = rows_of(drawn)

    def allowed(one: int, other: int, wanted: Any) -> bool:
        if step == "next":
            return other == one + 1
        return step == "followedByAny" or not any(wanted(row) for row in rows[one + 1 : other])

    wanted = [
        (rows[i]["time"], rows[j]["time"], rows[k]["time"])
        for i, j, k in combinations(range(len(rows)), 3)
        if is_a(rows[i]) and is_b(rows[j]) and is_c(rows[k])
        if allowed(i, j, is_b) and allowed(j, k, is_c)
        if rows[k]["time"] - rows[i]["time"] < 9
    ]
    assert found_times(START + LATER.format(step), "flink-cep", rows) == sorted(wanted)


@settings(max_examples=25)
@given(drawn=ROWS)
def test_flink_repetitions_combine_as_they_say(drawn: list[tuple[str, int, int]]) -> None:
    rows = rows_of(drawn)
    text = (
        START
        + """.followedByAny("many").where(e -> e.type.equals("b")).oneOrMore().allowCombinations()
        .notFollowedBy("none").where(e -> e.type.equals("z"))
        .followedByAny("last").where(e -> e.type.equals("c"))"""
    )
    wanted = []
    for i, k in combinations(range(len(rows)), 2):
        if not (is_a(rows[i]) and is_c(rows[k])):
            continue
        between = [j for j in range(i + 1, k) if is_b(rows[j])]
        for size in range(1, len(between) + 1):
            for chosen in combinations(between, size):
                if not any(row["type"] == "z" for row in rows[chosen[-1] + 1 : k]):
                    wanted.append(tuple(rows[at]["time"] for at in (i, *chosen, k)))
    assert found_times(text, "flink-cep", rows) == sorted(wanted)


@settings(max_examples=25)
@given(drawn=ROWS)
@pytest.mark.parametrize("step", ["next", "followedBy"])
def test_flink_repeats_a_step_by_the_rule_of_its_steps(step: str, drawn: list[tuple[str, int, int]]) -> None:
    rows = rows_of(drawn)
    inside = ".consecutive()" if step == "next" else ""
    text = START + f""".{step}("two").where(e -> e.type.equals("b")).times(2){inside}"""

    def allowed(one: int, other: int) -> bool:
        return other == one + 1 if step == "next" else not any(is_b(row) for row in rows[one + 1 : other])

    wanted = [
        (rows[i]["time"], rows[j]["time"], rows[k]["time"])
        for i, j, k in combinations(range(len(rows)), 3)
        if is_a(rows[i]) and is_b(rows[j]) and is_b(rows[k]) and allowed(i, j) and allowed(j, k)
    ]
    assert found_times(text, "flink-cep", rows) == sorted(wanted)


@settings(max_examples=25)
@given(drawn=ROWS)
def test_flink_options_are_taken_and_left(drawn: list[tuple[str, int, int]]) -> None:
    rows = rows_of(drawn)
    text = START + """.next("maybe").where(e -> e.type.equals("b")).optional().next("last").where(e -> e.type == "c")"""
    wanted = [
        tuple(row["time"] for row in run)
        for size in (2, 3)
        for run in (rows[at : at + size] for at in range(len(rows) - size + 1))
        if is_a(run[0]) and is_c(run[-1]) and all(map(is_b, run[1:-1]))
    ]
    assert found_times(text, "flink-cep", rows) == sorted(wanted)


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("no pattern", "no Pattern.begin", 1, 1),
        ('Pattern.begin("a")\n .next("b").followedBy("c")', "differ in what may lie between", 2, 13),
        ('Pattern.begin("a").followedBy("b").oneOrMore()', "may stop early", 1, 36),
        ('Pattern.begin("a").followedByAny("b").oneOrMore()', "one rule", 1, 39),
        ('Pattern.begin("a").oneOrMore().greedy()', "greedy", 1, 32),
        ('Pattern.begin("a").notNext("b").next("c")', "notNext", 1, 20),
        ('Pattern.begin("a").until(e -> e.x > 1)', "until", 1, 20),
        ('Pattern.begin("a", AfterMatchSkipStrategy.skipPastLastEvent())', "drops matches", 1, 18),
        ('Pattern.begin("a").where(e -> e.compute(3) > 1)', "'3' in a condition", 1, 41),
        ('Pattern.begin("a").where((e, ctx) -> true)', "looks at earlier events", 1, 28),
        ('Pattern.begin("a").where(e -> e[)', "ends too early", 1, 32),
        ('Pattern.begin("a").subtype(B.class)', "subtype", 1, 20),
        ('Pattern.begin("a").within(width)', "length of time", 1, 27),
        ('Pattern.begin("a"', "never closed", 1, 14),
        ('p = Pattern.begin("a");\np = p.next("b");', "goes on here", 2, 6),
        ('Pattern.begin("a");\nPattern.begin("b");', "second pattern", 2, 1),
    ],
)
def test_flink_patterns_without_an_equal_are_refused_at_their_place(
    text: str, message: str, line: int, column: int
) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        translate(text, "flink-cep")
    span = refused.value.diagnostics[0].span
    assert span is not None
    assert (span.line, span.column) == (line, column)


def test_comments_are_passed_over() -> None:
    text = """Pattern.begin("a").where(e -> e.type.equals("a // b")) // the first
    /* .next("x") */ # and more
    .next("b").where(e -> e.type.equals("b"))"""
    assert 'PATTERN SEQ("a // b" a, b b)' in translate(text, "flink-cep").text


def test_flink_in_python_and_by_key() -> None:
    text = """stream.key_by(lambda e: e.user)
    Pattern.begin("a").where(lambda e: e["type"] == "a" and not e.x < 1)
    .followed_by("b").times(2).within(Duration.of_hours(1))"""
    assert translate(text, "flink-cep").text.partition("\n\n")[2] == (
        "EVENT b_type AS type IS NOT NULL\n\n"
        "QUERY translated\nRETURN *\nPATTERN SEQ(a a, b_type b{2})\nWHERE [user] AND NOT (a.x < 1)\n"
        "WITHIN 1 h\nSKIP TILL NEXT\n"
    )


@settings(max_examples=25)
@given(drawn=ROWS)
def test_sase_rising_runs(drawn: list[tuple[str, int, int]]) -> None:
    rows = rows_of(drawn)
    text = """PATTERN SEQ(a s, b+ r[], !(z n), c e)
    WHERE skip_till_any_match(s, r[], n, e) { [user] AND s.x > 0 AND r[i].x > r[i-1].x AND r[1].x > s.x }
    WITHIN 9 seconds"""
    wanted = []
    for i, k in combinations(range(len(rows)), 2):
        if not (is_a(rows[i]) and is_c(rows[k]) and rows[k]["time"] - rows[i]["time"] < 9):
            continue
        between = [j for j in range(i + 1, k) if is_b(rows[j])]
        for size in range(1, len(between) + 1):
            for chosen in combinations(between, size):
                values = [rows[i]["x"], *(rows[at]["x"] for at in chosen)]
                rising = all(one < other for one, other in pairwise(values))
                if rising and not any(row["type"] == "z" for row in rows[chosen[-1] + 1 : k]):
                    wanted.append(tuple(rows[at]["time"] for at in (i, *chosen, k)))
    assert found_times(text, "sase", rows) == sorted(wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1", "no PATTERN"),
        ("PATTERN SEQ(A a, B+ b[]) WHERE b[..i-1].x > 1", "has no equal"),
        ("PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { [id] }", "neighbours in all of the stream"),
        ("PATTERN SEQ(A a, B b) WHERE some_strategy(a, b) { a.x > 1 }", "unknown"),
        ("PATTERN SEQ(A a, B b) WHERE a.x >", "ends too early"),
        ("PATTERN SEQ(A a, B b) HAVING x", "HAVING"),
        ("DEFINE x PATTERN SEQ(A a, B b)", "begins with PATTERN"),
    ],
)
def test_sase_without_an_equal_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        translate(text, "sase")


FUNNEL = """SELECT user, windowFunnel(5)(time, type = 'a' AND x > 0, type = 'b', type = 'c') AS level
FROM events GROUP BY user"""


@settings(max_examples=40)
@given(drawn=ROWS)
def test_a_funnel_reaches_the_level_that_clickhouse_computes(drawn: list[tuple[str, int, int]]) -> None:
    rows = rows_of(drawn)
    # ClickHouse's own algorithm: for each step the latest start from which it was reached in time.
    starts: list[int | None] = [None, None, None]
    level = 0
    for row in rows:
        for at, holds in enumerate((is_a, is_b, is_c)):
            if not holds(row):
                continue
            start = row["time"] if at == 0 else starts[at - 1]
            if start is not None and row["time"] <= start + 5:
                starts[at] = start
                level = max(level, at + 1)
    workload = translate(FUNNEL, "clickhouse", name="step").workload
    result = library.run(pa.Table.from_pylist(rows, SCHEMA), workload)
    reached = {int(name.removeprefix("step_")) for name in result.column("query").to_pylist()}
    assert max(reached, default=0) == level


@settings(max_examples=40)
@given(drawn=ROWS)
@pytest.mark.parametrize("pattern", ["(?1).*(?2)", "(?1)(?2)", "(?1)(?t<=2)(?2)"])
def test_sequence_match_finds_the_chains_that_clickhouse_finds(pattern: str, drawn: list[tuple[str, int, int]]) -> None:
    rows = rows_of(drawn)
    described = [row for row in rows if row["type"] in "abc"]
    wanted = any(
        one["type"] == "a" and other["type"] == "b" and (".*" in pattern or at == before + 1)
        for before, one in enumerate(described)
        for at, other in enumerate(described)
        if at > before and ("t<=" not in pattern or other["time"] - one["time"] <= 2)
    )
    text = f"SELECT sequenceMatch('{pattern}')(time, type = 'a', type = 'b', type = 'c') FROM t GROUP BY user"
    result = library.run(pa.Table.from_pylist(rows, SCHEMA), translate(text, "clickhouse").workload)
    assert bool(len(result)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1", "one windowFunnel or sequenceMatch"),
        ("SELECT sequenceCount('(?1)(?2)')(t, x = 1, x = 2) FROM e", "do not overlap"),
        ("SELECT windowFunnel(5, 'strict_order')(t, x = 1, x = 2) FROM e", "strict_order"),
        ("SELECT windowFunnel(5)(t, x = 1, x = 2) FROM e WHERE y = 1", "WHERE is not translated"),
        ("SELECT windowFunnel(5)(t, x = 1, x = 2) FROM (SELECT * FROM e WHERE y = 1)", "one table"),
        ("WITH e AS (SELECT 1) SELECT windowFunnel(5)(t, x = 1, x = 2) FROM e", "WITH is not translated"),
        ("SELECT sequenceMatch('(?1)(?3)')(t, x = 1, x = 2) FROM e", "no condition 3"),
        ("SELECT sequenceMatch('(?1)?(?2)')(t, x = 1, x = 2) FROM e", "not understood"),
        ("SELECT sequenceMatch('(?1)(?t>3)(?2)')(t, x = 1, x = 2) FROM e", "has no equal"),
        ("SELECT FROM WHERE", "cannot be read"),
        ("SELECT windowFunnel(5)(t) FROM e", "then conditions"),
        ("SELECT windowFunnel(5)(toDateTime(t), x = 1) FROM e", "the column of the time"),
    ],
)
def test_clickhouse_without_an_equal_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        translate(text, "clickhouse")


def test_without_sqlglot_the_way_to_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    for name in ("match_recognize", "sql"):
        monkeypatch.delitem(sys.modules, f"motet.dialects.{name}", raising=False)
    with pytest.raises(MotetError, match=r"pip install 'motet\[translate\]'"):
        translate("SELECT 1", "match-recognize")


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(MotetError, match="use one of match-recognize"):
        translate("", "esper")


def test_the_command_line_translates(tmp_path: Path, motet: Motet) -> None:
    file = tmp_path / "funnel.sql"
    file.write_text(FUNNEL)
    shown = motet("translate", "--from", "clickhouse", file, "--name", "funnel")
    assert shown.status == 0
    assert "QUERY funnel_3" in shown.stdout
    file.write_text("SELECT 1")
    refused = motet("translate", "--from", "clickhouse", file)
    assert refused.status == 2
    assert "one windowFunnel" in refused.stderr
