"""The worked cases of the papers."""

from __future__ import annotations

from typing import Any

import pytest

from motet.model.pattern import Event, Not, Pattern, Repeat, Seq
from motet.model.query import Aggregate, Query, Workload
from motet.model.window import TimeWindow, Window
from motet.reference import evaluate


def seq(*parts: str | Pattern) -> Seq:
    return Seq(tuple(Event(part) if isinstance(part, str) else part for part in parts))


def counts(pattern: Pattern, stream: str, window: Window | None = None) -> list[tuple[Any, int]]:
    """COUNT(*) at each time of a result; `a1` is an event of type A at time 1."""
    rows = [{"type": word[0].upper(), "time": int(word[1:])} for word in stream.split()]
    result = evaluate(Workload((Query("q", pattern, (Aggregate("COUNT"),), window=window),)), rows)
    return [(row.get("time"), row["values"]["COUNT(*)"]) for row in result.rows]


def test_a_seq_figure_6_SEQ_A_B_C_D_within_7() -> None:
    stream = "a1 b2 c3 a4 c5 b6 d7 c8 a9 d10"
    assert counts(seq("A", "B", "C", "D"), stream, TimeWindow(7)) == [(7, 2), (10, 1)]


def test_a_seq_figure_7_SEQ_A_B_NOT_C_D() -> None:
    # Example 4: c1 at 3 clears (A, B); d1 then completes two, neither of them a1 b1 d1.
    pattern = seq("A", "B", Not(Event("C")), "D")
    assert counts(pattern, "a1 b2 c3 a4 b5 d6") == [(None, 2)]
    assert counts(pattern, "a1 b2 c3 d6") == []


def test_a_seq_figure_10_SEQ_A_B_C_D_E_within_9() -> None:
    # Example 8: a1 expires as e1 arrives at 10; of a2 and a3 only a2 b c d2 e1 remains.
    stream = "a1 b2 c3 a4 d5 b6 a7 c8 d9 e10"
    assert counts(seq("A", "B", "C", "D", "E"), stream, TimeWindow(9)) == [(10, 1)]


def test_a_seq_figure_11_three_connected_pieces() -> None:
    # Example 9: before f1 at 12, tag a2 has 1 on d1 and 2 on d2; a1 has expired by the time g arrives.
    stream = "a1 b2 a4 b5 c6 d7 c8 d9 e10 f12 g13"
    pattern = seq("A", "B", "C", "D", "E", "F", "G")
    assert counts(seq("A", "B", "C", "D", "E"), stream.replace("a1", "z1"), TimeWindow(12)) == [(10, 3)]
    assert counts(pattern, stream, TimeWindow(12)) == [(13, 3)]


def test_sharon_figure_7_SEQ_A_B_C_D_with_ties() -> None:
    stream = "a1 b2 a3 c3 b4 b5 d5 c7 d8"
    assert counts(seq("A", "B", "C", "D"), stream, TimeWindow(100)) == [(5, 1), (8, 7)]


@pytest.mark.parametrize("tail", [("D",), ()])
def test_gloria_figure_4_SEQ_C_SEQ_A_B_plus(tail: tuple[str, ...]) -> None:
    pattern = seq("C", Repeat(seq("A", "B"), 1, None), *tail)
    assert counts(pattern, "c0 a1 b2 a3 b4 d5") == [(None, 4)]


@pytest.mark.parametrize("events", range(1, 11))
def test_A_plus_has_2_to_the_n_less_1_matches(events: int) -> None:
    stream = " ".join(f"a{time}" for time in range(events))
    assert counts(Repeat(Event("A"), 1, None), stream) == [(None, 2**events - 1)]
