"""Patterns of Flink's CEP library mean here what they mean there, or are refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import motet as library
from motet.dialects import translate
from motet.errors import QueryError
from motet.language.printer import to_text
from motet.reference import run as run_reference
from tests.translate.flink_matching import Condition, FlinkStep, Match, Row, flink_matches
from tests.translate.rows import FEW_ROWS, SCHEMA, make_rows

# Conditions in Java and as a function of a row: some exclude each other, some do not.
CONDITIONS: list[tuple[str, Condition]] = [
    ('e.getType().equals("a")', lambda row: row["type"] == "a"),
    ('e.getType().equals("b")', lambda row: row["type"] == "b"),
    ('e.getType().equals("c")', lambda row: row["type"] == "c"),
    ('"b".equals(e.type) && e.x > 1', lambda row: row["type"] == "b" and row["x"] > 1),
    ("e.x >= 2", lambda row: row["x"] >= 2),
    ("e.getX() < 2", lambda row: row["x"] < 2),
    ('e.x == 0 || e.type.equals("c")', lambda row: row["x"] == 0 or row["type"] == "c"),
    ("!(e.x == 1)", lambda row: row["x"] != 1),
]
RELATIONS = ["next", "followedBy", "followedByAny"]
REPEATED = [(1, 1), (1, 1), (1, None), (2, None), (2, 2), (1, 2), (2, 3)]


def say_repetition(low: int, high: int | None) -> str:
    if high is None:
        return ".oneOrMore()" if low == 1 else f".timesOrMore({low})"
    return "" if low == high == 1 else f".times({low})" if low == high else f".times({low}, {high})"


@st.composite
def steps(draw: Any, relation: str, number: int, in_group: bool = False) -> tuple[str, FlinkStep]:
    """One step: its text and what it means."""
    name = f"s{number}"
    text, condition = draw(st.sampled_from(CONDITIONS))
    if relation in ("notNext", "notFollowedBy"):
        return f'.{relation}("{name}").where(e -> {text})', FlinkStep(name, relation, condition)
    low, high = draw(st.sampled_from(REPEATED))
    step = FlinkStep(name, relation, condition, low, high)
    call = f'.{relation}("{name}").where(e -> {text}){say_repetition(low, high)}'
    if not in_group and relation != "begin" and draw(st.integers(0, 5)) == 0:
        inner = draw(chains(number * 10 + 1, 2, in_group=True))
        step.group = inner[1]
        call = f".{relation}(Pattern{inner[0]}){say_repetition(low, high)}"
    if high != 1:
        step.inner = draw(st.sampled_from(["relaxed", "relaxed", "next", "any"]))
        call += {"relaxed": "", "next": ".consecutive()", "any": ".allowCombinations()"}[step.inner]
        if step.group is None and step.inner != "any" and draw(st.integers(0, 3)) == 0:
            step.greedy = True
            call += ".greedy()"
        if step.group is None and high is None and draw(st.integers(0, 4)) == 0:
            text, step.until = draw(st.sampled_from(CONDITIONS))
            call += f".until(e -> {text})"
    if draw(st.integers(0, 4)) == 0:
        step.optional = True
        call += ".optional()"
    return call, step


@st.composite
def chains(draw: Any, number: int = 1, most: int = 4, in_group: bool = False) -> tuple[str, list[FlinkStep]]:
    """A pattern: its text from begin on, and its steps."""
    text, step = draw(steps("begin", number, in_group))
    chain = [step]
    for at in range(draw(st.integers(0 if not in_group else 1, most - 1))):
        relation = draw(st.sampled_from([*RELATIONS, *RELATIONS, "notNext", "notFollowedBy", "notFollowedBy"]))
        more, step = draw(steps(relation, number + at + 1, in_group))
        text += more
        chain.append(step)
    return text, chain


def found_matches(result: pa.Table) -> Counter[Match]:
    """The matches in a result, as the step and time of each event; later rounds count as their step."""
    matches: Counter[Match] = Counter()
    for row in result.to_pylist():
        bound = []
        for name, value in row.items():
            if name not in ("query", "start", "end") and value is not None:
                for event in value if isinstance(value, list) else [value]:
                    bound.append((name.removesuffix("_more"), event["time"]))
        matches[tuple(sorted(bound, key=lambda each: each[1]))] += 1
    return matches


OUTCOMES: Counter[str] = Counter()


@settings(max_examples=150)
@given(chain=chains(), drawn=FEW_ROWS, window=st.none() | st.integers(2, 9))
def test_a_pattern_has_the_matches_that_flink_finds(
    chain: tuple[str, list[FlinkStep]], drawn: list[tuple[str, int, int]], window: int | None
) -> None:
    rows = make_rows(drawn)
    text = f"Pattern{chain[0]}" + (f".within(Duration.ofSeconds({window}))" if window else "")
    try:
        workload = translate(text, "flink-cep").workload
    except QueryError as refused:
        OUTCOMES[refused.diagnostics[0].message] += 1
        return
    OUTCOMES["translated"] += 1
    table = pa.Table.from_pylist(rows, SCHEMA)
    OUTCOMES["with matches"] += bool(flink_matches(chain[1], rows, window))
    wanted = Counter(flink_matches(chain[1], rows, window))
    assert found_matches(library.run(table, workload)) == wanted, to_text(workload)


def test_zz() -> None:
    for k, v in OUTCOMES.most_common():
        print(v, k)
