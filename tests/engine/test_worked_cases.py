"""The papers' worked cases and corners of the semantics, on every strategy."""

from __future__ import annotations

import pyarrow as pa
import pytest

from motet.options import Options
from tests.outcomes import run_for_outcome

pytestmark = pytest.mark.parametrize("windows", ["auto", "panes", "pairs", "stacks"])


def events(text: str) -> pa.Table:
    """'a1 b2' is an A at 1 and a B at 2."""
    rows = [(word[0].upper(), int(word[1:])) for word in text.split()]
    return pa.table({"time": [at for _, at in rows], "type": [type_ for type_, _ in rows]})


def counts(query: str, stream: str, windows: str, when: str = "time") -> dict[int | None, int]:
    outcome = run_for_outcome(events(stream), query, Options(windows=windows))
    return {row[when]: row["COUNT(*)"] for row in outcome.table.to_pylist()}


def test_start_events_expire(windows: str) -> None:
    # A-Seq, Fig. 6
    query = "RETURN COUNT(*) PATTERN SEQ(A, B, C, D) WITHIN 7 s"
    assert counts(query, "a1 b2 c3 a4 c5 b6 d7 c8 a9 d10", windows) == {7: 2, 10: 1}


def test_an_absence_between_clears_only_what_waits(windows: str) -> None:
    # A-Seq, section 3.3: (A, B, !C, D)
    query = "RETURN COUNT(*) PATTERN SEQ(A, B, !C, D) WITHIN 100 s"
    assert counts(query, "a1 b2 c3 a4 b5 d6", windows) == {6: 2}


def test_an_event_that_two_absences_forbid_ends_both_hopes(windows: str) -> None:
    query = "RETURN COUNT(*) PATTERN SEQ(A, (NOT N n, B)?, (NOT N m, C)?, D) WHERE n.time > 0 AND m.time > 1"
    assert counts(f"{query} WITHIN 10 s SLIDE 5 s", "a1 n2 b3 c4 d5", windows, "window_start") == {0: 1}
    assert counts(f"{query} WITHIN 10 s SLIDE 5 s", "a1 b3 c4 d5", windows, "window_start") == {0: 4}


def test_ties_never_follow_each_other(windows: str) -> None:
    # Sharon, Fig. 7
    stream = "a1 b2 a3 c3 b4 b5 d5 c7 d8"
    assert counts("RETURN COUNT(*) PATTERN SEQ(A, B, C, D)", stream, windows) == {None: 7}
    assert counts("RETURN COUNT(*) PATTERN SEQ(A, B, C, D) WITHIN 20 s", stream, windows) == {5: 1, 8: 7}


@pytest.mark.parametrize("pattern", ["SEQ(C, SEQ(A, B)+, D)", "SEQ(C, SEQ(A, B)+)"])
def test_kleene_over_a_sequence(windows: str, pattern: str) -> None:
    # Gloria, Fig. 4
    assert counts(f"RETURN COUNT(*) PATTERN {pattern}", "c0 a1 b2 a3 b4 d5", windows) == {None: 4}


def test_every_combination_of_a_kleene_counts(windows: str) -> None:
    stream = " ".join(f"a{at}" for at in range(12))
    assert counts("RETURN COUNT(*) PATTERN A+", stream, windows) == {None: 2**12 - 1}
    assert counts("RETURN COUNT(*) PATTERN (A+)+", stream, windows) == {None: 2**12 - 1}


def test_conjunctions_take_ties_and_no_event_twice(windows: str) -> None:
    assert counts("RETURN COUNT(*) PATTERN AND(A, B)", "a1 b1 b2", windows) == {None: 2}
    assert counts("RETURN COUNT(*) PATTERN AND(A x, A y)", "a1 a1", windows) == {None: 2}
    assert counts("RETURN COUNT(*) PATTERN SEQ(AND(A, B), C)", "a1 b1 c1 c2", windows) == {None: 1}


def test_windows_slide_from_the_epoch(windows: str) -> None:
    query = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 4 s SLIDE 2 s"
    assert counts(query, "a1 b3 b5", windows, "window_start") == {0: 1}
    assert counts(query, "a2 b3 b5", windows, "window_start") == {0: 1, 2: 2}


def test_windows_may_leave_gaps(windows: str) -> None:
    query = "RETURN COUNT(*) PATTERN A WITHIN 2 s SLIDE 5 s"
    assert counts(query, "a0 a1 a2 a5 a8", windows, "window_start") == {0: 2, 5: 1}


def test_an_absence_at_the_end_is_certain_when_the_window_ends(windows: str) -> None:
    query = "RETURN COUNT(*) PATTERN SEQ(A, NOT N) WITHIN 5 s"
    assert counts(query, "a1 a3 n7 a8", windows) == {6: 1, 13: 1}


def test_neg_looks_at_the_whole_window(windows: str) -> None:
    sliding = "RETURN COUNT(*) PATTERN SEQ(A, B, NEG(N)) WITHIN 5 s SLIDE 5 s"
    assert counts(sliding, "n0 a1 b2 a6 b7", windows, "window_start") == {5: 1}
    assert counts("RETURN COUNT(*) PATTERN SEQ(A, B, NEG(N)) WITHIN 5 s", "n0 a1 b2 a6 b7 n9", windows) == {6: 1}


def test_count_windows_count_events_of_any_type(windows: str) -> None:
    query = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 3 EVENTS"
    assert counts(query, "a1 x2 b3 x4 b5", windows) == {3: 1}


def test_ties_that_exceed_a_count_window_are_in_no_match_and_let_others_expire(windows: str) -> None:
    table = pa.table({"time": [1, 2, 2, 3], "type": ["A"] * 4, "k": [1, 1, 1, 2], "x": [1, 2, 3, 4]})
    for condition in ("[k]", "[k] AND NEXT(a).x > a.x"):
        query = f"RETURN COUNT(*) PATTERN A+ a WHERE {condition} WITHIN 1 EVENTS"
        rows = run_for_outcome(table, query, Options(windows=windows)).table.to_pylist()
        assert [(row["time"], row["COUNT(*)"]) for row in rows] == [(1, 1), (3, 1)]


def test_a_match_that_can_be_read_in_two_ways_counts_once(windows: str) -> None:
    # D A D is one round of the AND or two.
    assert counts("RETURN COUNT(*) PATTERN AND(D*, A?)+", "d1 a2 d3", windows) == {None: 7}


def test_zero_has_no_sign(windows: str) -> None:
    table = pa.table({"time": [1, 2], "type": ["A", "A"], "x": [0.0, -0.0]})
    query = "RETURN COUNT(*) PATTERN A+ a WHERE NEXT(a).x * 1 {} a.x"
    for operator, matches in (("=", 3), (">", 2), (">=", 3), ("!=", 2)):
        rows = run_for_outcome(table, query.format(operator), Options(windows=windows)).table.to_pylist()
        assert [row["COUNT(*)"] for row in rows] == [matches]
