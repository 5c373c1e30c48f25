"""SASE's queries mean here what they mean there, or are refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import motet as library
from motet.dialects import translate
from motet.errors import QueryError
from motet.language.printer import to_text
from motet.reference import evaluate
from tests.translate.rows import FEW_ROWS, SCHEMA, make_rows, translate_unless_refused, try_examples
from tests.translate.sase_matching import Match, SasePart, sase_matches

STRATEGIES = {"any": "skip_till_any_match", "next": "skip_till_next_match", "contiguity": "partition_contiguity"}


@st.composite
def sequences(draw: Any) -> tuple[str, list[str], list[SasePart]]:
    """The parts of a SEQ as text, the conditions on them, and what they mean."""
    texts: list[str] = []
    conditions: list[str] = []
    parts: list[SasePart] = []
    for number in range(draw(st.integers(1, 4))):
        name, kind = f"v{number}", draw(st.sampled_from("abc"))
        least = draw(st.sampled_from([0, 0, 1, 2]))
        negated = not (parts and parts[-1].negated) and draw(st.integers(0, 4)) == 0
        repeated = not negated and draw(st.integers(0, 2)) == 0
        # A condition with an earlier event: on the one before it, where each is one event.
        single = number and not parts[-1].negated and not parts[-1].repeated
        rises = not negated and (repeated or bool(single)) and draw(st.integers(0, 2)) == 0

        def holds(row: dict[str, Any], kind: str = kind, least: int = least) -> bool:
            return bool(row["type"] == kind and row["x"] >= least)

        parts.append(SasePart(name, holds, repeated, negated, rises))
        texts.append(f"!({kind} {name})" if negated else f"{kind}+ {name}[]" if repeated else f"{kind} {name}")
        element = f"{name}[i]" if repeated else name
        if least:
            conditions.append(f"{element}.x >= {least}")
        if rises:
            conditions.append(f"{element}.x > {f'{name}[i-1]' if repeated else f'v{number - 1}'}.x")
    assume(not all(part.negated for part in parts))
    return f"SEQ({', '.join(texts)})", conditions, parts


def found_matches(result: pa.Table) -> Counter[Match]:
    matches: Counter[Match] = Counter()
    for row in result.to_pylist():
        bound = [
            (name, event["time"])
            for name, value in row.items()
            if name not in ("query", "start", "end")
            for event in (value if isinstance(value, list) else [value])
        ]
        matches[tuple(sorted(bound, key=lambda each: each[1]))] += 1
    return matches


@try_examples(60)
@given(drawn=FEW_ROWS, sequence=sequences(), strategy=st.sampled_from(list(STRATEGIES)), window=st.integers(3, 12))
def test_a_query_has_the_matches_that_sase_finds(
    drawn: list[tuple[str, int, int]], sequence: tuple[str, list[str], list[SasePart]], strategy: str, window: int
) -> None:
    pattern, conditions, parts = sequence
    rows = make_rows(drawn)
    names = ", ".join(f"{part.variable}{'[]' if part.repeated else ''}" for part in parts)
    asked = " AND ".join(["[user]", *conditions])
    text = f"PATTERN {pattern} WHERE {STRATEGIES[strategy]}({names}) {{ {asked} }} WITHIN {window} seconds"
    workload = translate_unless_refused(text, "sase", "a negation right after a repeated event")
    if workload is None:
        return
    wanted = Counter(sase_matches(parts, rows, strategy, window))
    assert found_matches(library.run(pa.Table.from_pylist(rows, SCHEMA), workload)) == wanted, to_text(workload)
    assert len(evaluate(workload, rows, tick=1_000_000).rows) == wanted.total()


def test_an_aggregate_in_return_is_over_each_match() -> None:
    rows = make_rows([("a", 0, 1), ("b", 1, 1), ("b", 3, 1)])
    text = "PATTERN SEQ(a s, b+ r[]) WITHIN 9 seconds RETURN s.x, avg(r[].x) AS mean, max(r[].x), r[r.LEN].x"
    shown = translate(text, "sase")
    assert "RETURN s.x, (AVG(r.x)) AS mean, (MAX(r.x)), LAST(r).x" in shown.text
    result = library.run(pa.Table.from_pylist(rows, SCHEMA), shown.workload)
    assert sorted(result.column("mean").to_pylist()) == [1, 2, 3]


def test_the_length_of_a_repeated_variable_is_its_count() -> None:
    rows = make_rows([("a", 0, 1), ("b", 1, 1), ("b", 3, 1), ("b", 5, 1)])
    text = (
        "PATTERN SEQ(a s, b+ r[]) WHERE r.LEN > 1 AND r[r.LEN].x > 3 AND s.len > 1 WITHIN 9 seconds RETURN r.LEN AS n"
    )
    shown = translate(text, "sase")
    assert "RETURN (COUNT(r)) AS n" in shown.text
    assert "WHERE COUNT(r) > 1 AND LAST(r).x > 3 AND s.len > 1" in shown.text
    workload = translate(text.replace("AND s.len > 1", ""), "sase").workload
    result = library.run(pa.Table.from_pylist(rows, SCHEMA), workload)
    assert sorted(result.column("n").to_pylist()) == [2, 2, 3]


def test_an_attribute_may_be_called_like_a_clause() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match(a, b) { [event] AND a.from = b.within } FROM stream"
    assert 'WHERE ["event"] AND a.from = b."within"' in translate(text, "sase").text
    text = "PATTERN SEQ(A a, B b) WHERE a.from = 'x' AND b.where > 3 RETURN a.from"
    assert "WHERE a.from = 'x' AND b.\"where\" > 3" in translate(text, "sase").text


def test_texts_in_quotes_stay_as_they_are() -> None:
    text = """PATTERN SEQ(A a, B+ b[]) WHERE a.x = 'p ^ q AND b[i] WHERE' ^ b[i].y = 'r, s' RETURN a.x"""
    assert "WHERE a.x = 'p ^ q AND b[i] WHERE' AND b.y = 'r, s'" in translate(text, "sase").text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1", "no PATTERN"),
        ("PATTERN SEQ(A a, B+ b[]) WHERE b[..i-1].x > 1", "has no equal"),
        ("PATTERN SEQ(A a, B+ b[]) WHERE b[i-1].x > 1", "only beside b[i]"),
        ("PATTERN SEQ(A+ a[], B+ b[]) WHERE b[i].x > a[i-1].x", "only beside b[i]"),
        ("PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { [id] }", "neighbours in all of the stream"),
        ("PATTERN SEQ(A a, B b) WHERE some_strategy(a, b) { a.x > 1 }", "unknown"),
        ("PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a) { a.x > 1 }", "must name all variables"),
        ("PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b, c) { a.x > 1 }", "must name all variables"),
        ("PATTERN SEQ(A a, B b, C c) WHERE skip_till_next_match(a, b, c) { c.x > a.x }", "fail a condition on earlier"),
        (
            "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match(a, b[]) { avg(b[].x) > a.x }",
            "fail a condition on earlier",
        ),
        ("PATTERN SEQ(A a, B b) WHERE skip_till_any_match(a, b) { a.x > 1 } unknown(3)", "unexpected"),
        ("PATTERN SEQ(A a, B b) WHERE a.x >", "ends too early"),
        ("PATTERN SEQ(A a, B b) WHERE a.x > 1 AND WITHIN 3 s", "a condition is missing here"),
        ("PATTERN SEQ(A a, B b) WHERE skip_till_any_match(a, b) { AND a.x > 1 }", "a condition is missing here"),
        ("PATTERN SEQ(A a, B b) WHERE a.x / 2 > 1", "a division gives whole numbers"),
        ("PATTERN SEQ(A a, B b) RETURN a.x / 2", "a division gives whole numbers"),
        ("PATTERN SEQ(A a, B+ b[]) WHERE b[2].x > 1", "b[2] has no equal"),
        ("PATTERN SEQ(A a, B+ b[]) RETURN sum(b[..i].x)", "b[..i] has no equal"),
        ("PATTERN SEQ(A a, B b) WHERE a.x > 1 WHERE b.x > 1", "a second WHERE"),
        ("PATTERN SEQ(A a, B b) WITHIN 3 s SLIDE 1 s", "takes a length of time"),
        ("PATTERN SEQ(A a, B b) FROM s, t", "FROM names one stream"),
        ("PATTERN SEQ(A a, B b) HAVING x", "HAVING"),
        ("DEFINE x PATTERN SEQ(A a, B b)", "begins with PATTERN"),
    ],
)
def test_what_has_no_equal_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError) as refused:
        translate(text, "sase")
    assert message in str(refused.value)
