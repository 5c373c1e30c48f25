"""A hand-computed case for each rule of docs/semantics.md; every test names its pattern."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from motet.errors import QueryError, RunError
from motet.model.expression import (
    Arithmetic,
    At,
    Attribute,
    Comparison,
    Expression,
    IsNull,
    KleeneAggregate,
    Literal,
    Logical,
)
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq
from motet.model.query import (
    Aggregate,
    AllVariables,
    Computed,
    EventDefinition,
    Policy,
    Query,
    ReturnItem,
    Variable,
    Workload,
)
from motet.model.window import CountWindow, TimeWindow
from motet.reference import OracleResult, evaluate

COUNT = Aggregate("COUNT")


def event(word: str) -> Event:
    """`A` or `A x`."""
    kind, _, variable = word.partition(" ")
    return Event(kind, variable or None)


def parts(words: tuple[str | Pattern, ...]) -> tuple[Pattern, ...]:
    return tuple(event(word) if isinstance(word, str) else word for word in words)


def seq(*words: str | Pattern) -> Seq:
    return Seq(parts(words))


def conj(*words: str | Pattern) -> And:
    return And(parts(words))


def disj(*words: str | Pattern) -> Or:
    return Or(parts(words))


def plus(word: str | Pattern) -> Repeat:
    return Repeat(parts((word,))[0], 1, None)


def star(word: str | Pattern) -> Repeat:
    return Repeat(parts((word,))[0], 0, None)


def maybe(word: str | Pattern) -> Repeat:
    return Repeat(parts((word,))[0], 0, 1)


def no(word: str) -> Not:
    return Not(event(word))


def never(word: str) -> Neg:
    return Neg(event(word))


def rows(text: str) -> list[dict[str, Any]]:
    """`a1` is an A at time 1; `a1:5` has x = 5, `a1:5:u` also k = 'u'; `-` is null."""
    found = []
    for word in text.split():
        head, *values = word.split(":")
        x, k = (*values, "-", "-")[:2]
        found.append(
            {
                "type": head[0].upper(),
                "time": int(head[1:]),
                "x": None if x == "-" else float(x) if "." in x else int(x),
                "k": None if k == "-" else k,
            }
        )
    return found


def run(pattern: Pattern, stream: str, *returns: ReturnItem, **clauses: Any) -> OracleResult:
    return evaluate(Workload((Query("q", pattern, returns or (COUNT,), **clauses),)), rows(stream))


def count(pattern: Pattern, stream: str, **clauses: Any) -> int:
    """COUNT(*) over the whole stream."""
    return sum(row["values"]["COUNT(*)"] for row in run(pattern, stream, **clauses).rows)


def over_time(pattern: Pattern, stream: str, **clauses: Any) -> list[tuple[int, int]]:
    """COUNT(*) at each time or window start."""
    found = run(pattern, stream, **clauses).rows
    return [(row["time"] if "time" in row else row["window_start"], row["values"]["COUNT(*)"]) for row in found]


def x(variable: str, at: At = At.EACH) -> Attribute:
    return Attribute(variable, "x", at)


def less(left: Expression, right: Expression | float) -> Comparison:
    return Comparison("<", left, right if not isinstance(right, int | float) else Literal(right))


class TestOperators:
    def test_SEQ_A_B_never_crosses_a_tie(self) -> None:
        assert count(seq("A", "B"), "a1 b1 b2") == 1

    def test_SEQ_of_AND_waits_for_all_of_it(self) -> None:
        # SEQ(AND(A, B), C): c must lie after both
        assert count(seq(conj("A", "B"), "C"), "a1 c2 b3 c3 c4") == 1

    def test_nested_plus_is_plus(self) -> None:
        # (A+)+
        assert count(plus(plus("A")), "a1 a2 a3") == 7

    def test_SEQ_A_x_A_plus_y_tells_x_from_y(self) -> None:
        # SEQ(A x, A+ y) over three: x is the first of any two or more
        assert count(seq("A x", plus("A y")), "a1 a2 a3") == 4

    def test_OR_A_A_has_two_matches_for_one_event(self) -> None:
        assert count(disj("A", "A"), "a1") == 2

    def test_A_star_alone_never_matches_nothing(self) -> None:
        assert count(star("A"), "a1 a2") == 3
        assert count(star("A"), "b1") == 0

    def test_SEQ_A_B_question_C(self) -> None:
        # a1 c3, a1 b2 c3
        assert count(seq("A", maybe("B"), "C"), "a1 b2 c3") == 2

    def test_A_1_3_uses_copies_from_the_left(self) -> None:
        # A{1,3} over four events: 4 + 6 + 4
        assert count(Repeat(Event("A"), 1, 3), "a1 a2 a3 a4") == 14

    def test_A_0_2_counts_each_event_once(self) -> None:
        assert count(Repeat(Event("A"), 0, 2), "a1 a2") == 3

    def test_A_2_or_more(self) -> None:
        assert count(Repeat(Event("A"), 2, None), "a1 a2 a3") == 4

    def test_copies_of_an_optional_part_are_positions_of_their_own(self) -> None:
        # (A?){2,2} over one event: either copy may bind it
        assert count(Repeat(maybe("A"), 2, 2), "a1") == 2

    def test_AND_takes_any_order_and_ties(self) -> None:
        assert count(conj("A", "B"), "b1 a1 b2") == 2

    def test_AND_never_binds_one_event_twice(self) -> None:
        # AND(A, A): two ordered assignments of two events
        assert count(conj("A", "A"), "a1 a1") == 2
        assert count(conj("A", "A"), "a1") == 0

    def test_AND_interleaves_its_parts(self) -> None:
        # AND(SEQ(A, B), C+)
        assert count(conj(seq("A", "B"), plus("C")), "a1 c2 b3 c3") == 3

    def test_rounds_of_AND_follow_each_other(self) -> None:
        # AND(A, B)+: four single rounds, and a1 b2 followed by a3 b4
        assert count(plus(conj("A", "B")), "a1 b2 a3 b4") == 5


class TestDefinitions:
    big = EventDefinition("Big", Comparison(">", Attribute("", "x"), Literal(3)))

    def counted(self, pattern: Pattern, stream: str, *definitions: EventDefinition) -> int:
        result = evaluate(Workload((Query("q", pattern, (COUNT,)),), definitions), rows(stream))
        return sum(row["values"]["COUNT(*)"] for row in result.rows)

    def test_a_row_of_two_types_is_not_bound_twice(self) -> None:
        # AND(A, Big)
        assert self.counted(conj("A", "Big"), "a1:5", self.big) == 0
        assert self.counted(conj("A", "Big"), "a1:5 b2:5", self.big) == 1
        assert self.counted(conj("A", "Big"), "a1:5 a2:5", self.big) == 2

    def test_a_row_of_two_types_may_be_either_of_OR(self) -> None:
        assert self.counted(disj("A", "Big"), "a1:5", self.big) == 2

    def test_a_definition_wins_over_a_type_of_the_data(self) -> None:
        only_small = EventDefinition("A", Comparison("<", Attribute("", "x"), Literal(3)))
        assert self.counted(event("A"), "a1:5 a2:1 b3:1 a4", only_small) == 2


class TestNot:
    def test_middle_guards_strictly_between(self) -> None:
        pattern = seq("A", no("N"), "B")
        assert count(pattern, "a1 n1 n3 b3") == 1
        assert count(pattern, "a1 n2 b3") == 0

    def test_in_rounds_A_NOT_N_B_guards_A_to_B_only(self) -> None:
        # (A, NOT N, B)+ over a1 b2 n3 a4 b5: a1 b2, a4 b5, both rounds; a1 b5 is barred
        assert count(plus(seq("A", no("N"), "B")), "a1 b2 n3 a4 b5") == 3

    def test_in_rounds_NOT_N_A_guards_each_A_to_the_next(self) -> None:
        # (NOT N, A)+ over the whole stream: only a1 alone
        assert count(plus(seq(no("N"), "A")), "a1 n2 a3") == 1
        assert count(plus(seq(no("N"), "A")), "a1 a3 n4") == 3

    def test_optional_neighbour_moves_the_gap(self) -> None:
        # SEQ(A, NOT N, B?, C): a1 b2 c4 guards 1 to 2, a1 c4 guards 1 to 4
        assert count(seq("A", no("N"), maybe("B"), "C"), "a1 b2 n3 c4") == 1

    def test_an_optional_block_with_its_NOT_may_be_left_out(self) -> None:
        # SEQ(A, (NOT N, B)?, C)
        assert count(seq("A", maybe(seq(no("N"), "B")), "C"), "a1 n2 b3 c4") == 1

    def test_one_way_to_read_a_match_is_enough(self) -> None:
        # (A+, NOT N)+: a1 a3 is one round, or two with a NOT between; a NOT last bars what n4 follows
        assert count(seq(plus(seq(plus("A"), no("N"))), "B"), "a1 n2 a3 b4") == 2

    def test_two_side_by_side_both_hold(self) -> None:
        pattern = seq("A", no("M"), no("N"), "B")
        assert [count(pattern, f"a1 {other}2 b3") for other in "mnc"] == [0, 0, 1]

    def test_around_AND_guards_to_its_first_and_from_its_last_event(self) -> None:
        # SEQ(A, NOT N, AND(B, C), NOT M, D)
        pattern = seq("A", no("N"), conj("B", "C"), no("M"), "D")
        assert count(pattern, "a1 c2 n3 m3 b4 d5") == 1
        assert count(pattern, "a1 n2 c3 b4 d6") == 0
        assert count(pattern, "a1 c3 b4 m5 d6") == 0

    def test_inside_a_part_of_AND_guards_that_part(self) -> None:
        # AND(SEQ(A, NOT N, B), C)
        pattern = conj(seq("A", no("N"), "B"), "C")
        assert count(pattern, "c1 n2 a3 b4") == 1
        assert count(pattern, "a1 n2 b3 c4") == 0

    def test_at_the_edge_of_a_part_of_AND_is_an_error(self) -> None:
        with pytest.raises(QueryError, match="both sides"):
            count(conj(seq("A", no("N")), "B"), "a1 b2")

    def test_local_condition_says_which_events_count(self) -> None:
        # SEQ(A, NOT N n, B) WHERE n.x > 3
        big = Comparison(">", x("n"), Literal(3))
        assert count(seq("A", no("N n"), "B"), "a1 n2:1 n2 b3", conditions=(big,)) == 1
        assert count(seq("A", no("N n"), "B"), "a1 n2:5 b3", conditions=(big,)) == 0

    def test_condition_on_bound_variables(self) -> None:
        # SEQ(A a, NOT N n, B b) WHERE n.x > a.x
        more = Comparison(">", x("n"), x("a"))
        assert count(seq("A a", no("N n"), "B b"), "a1:1 a1:5 n2:3 b3", conditions=(more,)) == 1

    def test_lies_in_the_same_partition(self) -> None:
        # SEQ(A, NOT N, B) WHERE [k]
        assert count(seq("A", no("N"), "B"), "a1:0:u n2:0:v n2 b3:0:u", equivalence=("k",)) == 1

    def test_first_under_a_sliding_window(self) -> None:
        # SEQ(NOT N, A) WITHIN 4 SLIDE 2: a5 lies in [2,6) and [4,8); n4 is in both, n3 in the first only
        window = TimeWindow(4, 2)
        assert over_time(seq(no("N"), "A"), "n3 a5", window=window) == [(4, 1)]
        assert over_time(seq(no("N"), "A"), "n4 a5", window=window) == []
        assert over_time(seq(no("N"), "A"), "n2 a5", window=window) == [(4, 1)]
        assert over_time(seq(no("N"), "A"), "a5 n5", window=window) == [(2, 1), (4, 1)]

    def test_last_under_a_sliding_window(self) -> None:
        # SEQ(A, NOT N) WITHIN 4 SLIDE 2
        window = TimeWindow(4, 2)
        assert over_time(seq("A", no("N")), "a5 n6", window=window) == [(2, 1)]
        assert over_time(seq("A", no("N")), "a5 n5 n8", window=window) == [(2, 1), (4, 1)]

    def test_first_under_a_continuous_window_looks_back_from_the_last_event(self) -> None:
        # SEQ(NOT N, A, B) WITHIN 5: none in (8 - 5, 6)
        window = TimeWindow(5)
        assert over_time(seq(no("N"), "A", "B"), "n3 a6 b8", window=window) == [(8, 1)]
        assert over_time(seq(no("N"), "A", "B"), "n4 a6 b8", window=window) == []

    def test_last_under_a_continuous_window_reports_at_its_end(self) -> None:
        # SEQ(A, B, NOT N) WITHIN 5: b3 of a1 is clear until 6; of a2, n6 comes within [2, 7)
        found = over_time(seq("A", "B", no("N")), "a1 a2 b3 b4 n6", window=TimeWindow(5))
        assert found == [(6, 2)]

    def test_first_and_last_over_the_whole_stream(self) -> None:
        assert count(seq(no("N"), "A"), "a1 n2 a3") == 1
        assert count(seq("A", no("N")), "a1 n2 a3") == 1


class TestNeg:
    def test_anywhere_in_a_sliding_window(self) -> None:
        # SEQ(A, B, NEG(N)) WITHIN 4 SLIDE 2
        pattern = seq("A", "B", never("N"))
        assert over_time(pattern, "n3 a4 b5", window=TimeWindow(4, 2)) == [(4, 1)]
        assert over_time(pattern, "a4 b5 n7", window=TimeWindow(4, 2)) == [(2, 1)]
        assert over_time(pattern, "a4 n4 b5", window=TimeWindow(4, 2)) == []

    def test_continuous_window_opens_with_the_first_event(self) -> None:
        pattern = conj("A", "B", never("N"))
        assert over_time(pattern, "n3 b4 a5 n9", window=TimeWindow(5)) == [(9, 1)]
        assert over_time(pattern, "b4 a5 n8", window=TimeWindow(5)) == []

    def test_whole_stream(self) -> None:
        assert count(seq(never("N"), "A"), "a1 n5") == 0

    def test_with_a_condition(self) -> None:
        big = Comparison(">", x("n"), Literal(3))
        assert count(seq(never("N n"), "A"), "a1 n5:1", conditions=(big,)) == 1


class TestConditions:
    def test_null_does_not_hold(self) -> None:
        assert count(event("A a"), "a1 a2:1 a3:9", conditions=(less(x("a"), 5),)) == 1

    def test_each_event_of_a_repeated_variable(self) -> None:
        # A+ a WHERE a.x < 5
        assert count(plus("A a"), "a1:1 a2:9 a3:1", conditions=(less(x("a"), 5),)) == 3

    def test_unbound_variable_holds(self) -> None:
        # SEQ(A a, B? b) WHERE b.x < a.x
        assert count(seq("A a", maybe("B b")), "a1:1 b2:5", conditions=(less(x("b"), x("a")),)) == 1

    def test_conjuncts_stand_on_their_own(self) -> None:
        # SEQ(A a, B? b) WHERE (a.x < 0 AND b.x < a.x): with b unbound the first conjunct still counts
        both = Logical("AND", (less(x("a"), 0), less(x("b"), x("a"))))
        assert count(seq("A a", maybe("B b")), "a1:1", conditions=(both,)) == 0

    def test_NEXT(self) -> None:
        # A+ a WHERE a.x < NEXT(a).x: rising subsequences of 1 3 2
        rising = less(x("a"), x("a", At.NEXT))
        assert count(plus("A a"), "a1:1 a2:3 a3:2", conditions=(rising,)) == 5

    def test_NEXT_skips_what_is_bound_between(self) -> None:
        # SEQ(A a, B)+ WHERE a.x < NEXT(a).x
        rising = less(x("a"), x("a", At.NEXT))
        assert count(plus(seq("A a", "B")), "a1:1 b2 a3:2 b4", conditions=(rising,)) == 4
        assert count(plus(seq("A a", "B")), "a1:2 b2 a3:1 b4", conditions=(rising,)) == 3

    def test_pairwise_holds_for_each_combination(self) -> None:
        # SEQ(A+ a, B b) WHERE a.x < b.x
        assert count(seq(plus("A a"), "B b"), "a1:1 a2:7 b3:5", conditions=(less(x("a"), x("b")),)) == 1

    def test_arithmetic_on_a_side(self) -> None:
        close = less(Arithmetic("+", x("a"), Literal(2)), x("b"))
        assert count(seq("A a", "B b"), "a1:1 b2:3 b3:4", conditions=(close,)) == 1

    def test_Kleene_aggregates(self) -> None:
        # SEQ(A+ a, B b)
        pattern = seq(plus("A a"), "B b")
        stream = "a1:1 a2:5 b3:3"
        average = less(KleeneAggregate("AVG", "a", "x"), x("b"))
        assert count(pattern, stream, conditions=(average,)) == 1
        pair = Comparison("=", KleeneAggregate("COUNT", "a", None), Literal(2))
        assert count(pattern, stream, conditions=(pair,)) == 1
        assert count(pattern, stream, conditions=(less(x("a", At.LAST), x("b")),)) == 1
        assert count(pattern, stream, conditions=(less(x("a", At.FIRST), x("b")),)) == 2

    def test_Kleene_aggregates_of_an_unbound_variable(self) -> None:
        # SEQ(A* a, B): COUNT is 0, SUM is null
        pattern = seq(star("A a"), "B")
        nothing = Comparison("=", KleeneAggregate("COUNT", "a", None), Literal(0))
        assert count(pattern, "b1", conditions=(nothing,)) == 1
        unknown = IsNull(KleeneAggregate("SUM", "a", "x"))
        assert count(pattern, "a1:1 b2", conditions=(unknown,)) == 1
        assert count(pattern, "b2", conditions=(less(x("a", At.FIRST), 5),)) == 0

    def test_equivalence_leaves_out_null_keys(self) -> None:
        # SEQ(A, B) WHERE [k]
        assert count(seq("A", "B"), "a1:0:u a1:0:v a1 b2:0:u b2:0:u b2", equivalence=("k",)) == 2

    def test_unknown_names_are_errors(self) -> None:
        with pytest.raises(QueryError, match="did you mean 'price'"):
            count(event("A price"), "a1", conditions=(less(x("prise"), 5),))


class TestWindows:
    def test_sliding_windows_count_from_the_epoch_also_before_it(self) -> None:
        # A WITHIN 4 SLIDE 3 at -1: [-3, 1); and [-6, -2) does not hold it
        assert over_time(event("A"), "a-1", window=TimeWindow(4, 3)) == [(-3, 1)]
        assert over_time(event("A"), "a-3", window=TimeWindow(4, 3)) == [(-6, 1), (-3, 1)]

    def test_slide_beyond_the_size_leaves_times_out(self) -> None:
        # A WITHIN 2 SLIDE 5
        assert over_time(event("A"), "a0 a1 a2 a5 a-5 a-1", window=TimeWindow(2, 5)) == [(-5, 1), (0, 2), (5, 1)]

    def test_a_match_counts_in_every_window_that_holds_it(self) -> None:
        # SEQ(A, B) WITHIN 4 SLIDE 2
        assert over_time(seq("A", "B"), "a3 b4 b5", window=TimeWindow(4, 2)) == [(2, 2)]
        assert over_time(seq("A", "B"), "a2 b3", window=TimeWindow(4, 2)) == [(0, 1), (2, 1)]

    def test_continuous_counts_what_has_not_expired(self) -> None:
        # SEQ(A, B) WITHIN 3: at 4 a1 has expired
        assert over_time(seq("A", "B"), "a1 b2 a3 b4", window=TimeWindow(3)) == [(2, 1), (4, 1)]

    def test_continuous_reports_only_where_a_match_completes(self) -> None:
        assert over_time(seq("A", "B"), "a1 b2 b5", window=TimeWindow(3)) == [(2, 1)]

    def test_count_window_ties_enter_together(self) -> None:
        # SEQ(A, B) WITHIN 3 EVENTS
        assert over_time(seq("A", "B"), "a1 c2 b3", window=CountWindow(3)) == [(3, 1)]
        assert over_time(seq("A", "B"), "a1 c1 c2 b3", window=CountWindow(3)) == []
        assert over_time(seq("A", "B"), "a1 c2 b3 b4", window=CountWindow(3)) == [(3, 1)]

    def test_count_window_may_be_too_small_for_ties(self) -> None:
        # A WITHIN 1 EVENTS: c1 ties with a1
        assert over_time(event("A"), "a1 c1 a2", window=CountWindow(1)) == [(2, 1)]

    def test_count_window_expires_by_events(self) -> None:
        # A WITHIN 2 EVENTS: a1 is gone at 3
        assert over_time(event("A"), "a1 a2 a3", window=CountWindow(2)) == [(1, 1), (2, 2), (3, 2)]

    def test_count_window_counts_the_partition(self) -> None:
        # SEQ(A, B) WITHIN 2 EVENTS WHERE [k]
        found = over_time(seq("A", "B"), "a1:0:u a2:0:v b3:0:u", window=CountWindow(2), equivalence=("k",))
        assert found == [(3, 1)]

    def test_a_leading_not_looks_back_over_the_events_of_a_count_window(self) -> None:
        # SEQ(NOT N, A, B) WITHIN 4 EVENTS: n1 has left the window when b5 comes, and then a2 counts too
        pattern = seq(no("N"), "A", "B")
        assert over_time(pattern, "n1 a2 b3 c4 b5", window=CountWindow(4)) == [(5, 2)]

    def test_a_trailing_not_waits_until_a_count_window_is_full(self) -> None:
        # SEQ(A, NOT N) WITHIN 3 EVENTS: a1 is certain at 3, a2 forbidden by n4; the window of a5 never fills
        pattern = seq("A", no("N"))
        assert over_time(pattern, "a1 a2 c3 n4 a5 c6", window=CountWindow(3)) == [(3, 1)]
        assert over_time(pattern, "a1 c2 n3 c3", window=CountWindow(3)) == [(3, 1)]  # too many at 3

    def test_a_neg_holds_in_all_of_a_count_window(self) -> None:
        pattern = Seq((Event("A"), Event("B"), Neg(Event("N"))))
        assert over_time(pattern, "n1 a2 b3 c4", window=CountWindow(3)) == [(4, 1)]
        assert over_time(pattern, "a2 b3 n4", window=CountWindow(3)) == []

    def test_ticks_are_units_of_the_time_column(self) -> None:
        query = Query("q", seq("A", "B"), (COUNT,), window=TimeWindow(2, ticks=True))
        result = evaluate(Workload((query,)), rows("a1 b2 b3"), tick=1_000_000)
        assert [row["time"] for row in result.rows] == [2_000_000]

    def test_datetimes_are_microseconds_in_utc(self) -> None:
        paris = dt.timezone(dt.timedelta(hours=1))
        found = evaluate(
            Workload((Query("q", seq("A", "B"), (COUNT,), window=TimeWindow(10)),)),
            [
                {"type": "A", "time": dt.datetime(1970, 1, 1, 1, 0, 0, 3, tzinfo=paris)},
                {"type": "B", "time": dt.datetime(1970, 1, 1, 0, 0, 0, 5)},
            ],
        )
        assert [row["time"] for row in found.rows] == [5]


class TestResults:
    def values(self, pattern: Pattern, stream: str, *items: Aggregate, **clauses: Any) -> dict[str, Any]:
        (row,) = run(pattern, stream, *items, **clauses).rows
        return dict(row["values"])

    def test_aggregates_pass_over_nulls(self) -> None:
        # SEQ(A a, B): a1 with two Bs, a2 with one and a null, a3 none
        found = self.values(
            seq("A a", "B"),
            "a1:1 b2 a2:4 a2 b3",
            COUNT,
            Aggregate("COUNT", "a"),
            Aggregate("COUNT", "a", "x"),
            *(Aggregate(function, "a", "x") for function in ("SUM", "AVG", "MIN", "MAX", "VAR", "STDDEV")),
        )
        assert found == {
            "COUNT(*)": 4,
            "COUNT(a)": 4,
            "COUNT(a.x)": 3,
            "SUM(a.x)": 6.0,
            "AVG(a.x)": 2.0,
            "MIN(a.x)": 1,
            "MAX(a.x)": 4,
            "VAR(a.x)": 3.0,
            "STDDEV(a.x)": pytest.approx(3**0.5),
        }

    def test_aggregates_over_nothing_are_null(self) -> None:
        found = self.values(
            event("A"), "a1", Aggregate("SUM", "A", "x"), Aggregate("COUNT", "A", "x"), Aggregate("VAR", "A", "x")
        )
        assert found == {"SUM(A.x)": None, "COUNT(A.x)": 0, "VAR(A.x)": None}

    def test_a_type_written_twice_stands_for_all_of_it(self) -> None:
        # SEQ(A p, A q)
        found = self.values(seq("A p", "A q"), "a1:1 a2:2", Aggregate("COUNT", "A"), Aggregate("SUM", "p", "x"))
        assert found == {"COUNT(A)": 2, "SUM(p.x)": 1.0}

    def test_sums_are_rounded_once(self) -> None:
        found = self.values(plus("A"), "a1:0.1 a2:0.2 a3:0.7", Aggregate("SUM", "A", "x"))
        assert found == {"SUM(A.x)": 4.0}

    def test_groups_apart_and_equivalence_combined(self) -> None:
        stream = "a1:1:u b2:1:u a1:1:v b2:1:v b2:1:v"
        by_key = run(seq("A", "B"), stream, group_by=("k",)).rows
        assert [(row["group"], row["values"]["COUNT(*)"]) for row in by_key] == [({"k": "u"}, 1), ({"k": "v"}, 2)]
        (together,) = run(seq("A", "B"), stream, equivalence=("k",)).rows
        assert (together["group"], together["values"]["COUNT(*)"]) == ({}, 3)

    def test_continuous_equivalence_reports_all_alive_matches(self) -> None:
        # SEQ(A, B) WITHIN 4 WHERE [k]: at 4 v completes while u's match is alive; at 6 it has expired
        found = over_time(seq("A", "B"), "a1:0:u b2:0:u a3:0:v b4:0:v b6:0:v", window=TimeWindow(4), equivalence=("k",))
        assert found == [(2, 1), (4, 2), (6, 2)]

    def test_rows_without_time_or_type_are_set_aside(self) -> None:
        data = [
            *rows("a1"),
            {"type": None, "time": 1},
            {"type": "A", "time": None},
            {"type": "A", "time": float("nan")},
        ]
        result = evaluate(Workload((Query("q", event("A"), (COUNT,)),)), data)
        assert (result.invalid_rows, result.rows[0]["values"]) == (3, {"COUNT(*)": 1})

    def test_counts_as_doubles(self) -> None:
        result = evaluate(Workload((Query("q", event("A"), (COUNT,)),)), rows("a1"), counts="double")
        assert isinstance(result.rows[0]["values"]["COUNT(*)"], float)

    def test_too_many_matches_are_an_error(self) -> None:
        workload = Workload((Query("q", plus("A"), (COUNT,)),))
        with pytest.raises(RunError, match="more than 1,000 matches"):
            evaluate(workload, rows(" ".join(f"a{time}" for time in range(12))), limit=1000)


class TestMatches:
    def test_RETURN_star_shows_structs_and_lists(self) -> None:
        # SEQ(A a, B+ b, C?)
        stream = "a1:1 b2:2 b3:3"
        found = run(seq("A a", plus("B b"), maybe("C")), stream, AllVariables()).rows
        a, b2, b3 = rows(stream)
        assert [(row["start"], row["end"], row["match"]) for row in found] == [
            (1, 2, {"a": a, "b": [b2], "C": None}),
            (1, 3, {"a": a, "b": [b2, b3], "C": None}),
            (1, 3, {"a": a, "b": [b3], "C": None}),
        ]

    def test_RETURN_variables_and_computed_values(self) -> None:
        gain = Computed(Arithmetic("-", x("b"), x("a")), "gain")
        (row,) = run(seq("A a", "B b"), "a1:1 b2:5", Variable("b", "bought"), gain).rows
        assert row["match"] == {"bought": rows("b2:5")[0], "gain": 4}

    def test_computed_values_of_an_unbound_variable_are_null(self) -> None:
        (row,) = run(seq("A a", maybe("B b")), "a1:1", Computed(x("b"), "price")).rows
        assert row["match"] == {"price": None}

    def test_a_match_in_several_windows_is_one_row(self) -> None:
        assert len(run(event("A"), "a1", AllVariables(), window=TimeWindow(4, 1)).rows) == 1

    def test_a_match_in_no_window_is_no_row(self) -> None:
        assert run(seq("A", "B"), "a1 b3", AllVariables(), window=TimeWindow(2, 2)).rows == ()


class TestPolicies:
    def test_contiguous_SEQ_A_B(self) -> None:
        pattern = seq("A", "B")
        assert count(pattern, "a1 b2 c3 b4", policy=Policy.CONTIGUOUS) == 1
        assert count(pattern, "a1 c1 b2", policy=Policy.CONTIGUOUS) == 0
        assert count(pattern, "a1 b2 c2", policy=Policy.CONTIGUOUS) == 0

    def test_contiguous_looks_at_the_partition(self) -> None:
        clauses: dict[str, Any] = {"policy": Policy.CONTIGUOUS, "equivalence": ("k",)}
        assert count(seq("A", "B"), "a1:0:u c2:0:v b3:0:u", **clauses) == 1

    def test_contiguous_of_one_event(self) -> None:
        assert count(event("A"), "a1 b1", policy=Policy.CONTIGUOUS) == 1

    def test_contiguous_AND_of_tied_events(self) -> None:
        assert count(conj("A", "B"), "a1 b1", policy=Policy.CONTIGUOUS) == 1
        assert count(conj("A", "B"), "a1 b1 c1", policy=Policy.CONTIGUOUS) == 0

    def test_next_SEQ_A_B_takes_the_first_B(self) -> None:
        assert count(seq("A", "B"), "a1 c2 b3 b4", policy=Policy.SKIP_TILL_NEXT) == 1

    def test_next_A_plus_passes_over_no_A(self) -> None:
        # A+: runs of neighbours among the As
        assert count(plus("A"), "a1 b2 a3 a4", policy=Policy.SKIP_TILL_NEXT) == 6

    def test_next_any_transition_counts(self) -> None:
        # SEQ(A, B?, C): a1 c3 passes over b2, which could have continued it
        assert count(seq("A", maybe("B"), "C"), "a1 b2 c3", policy=Policy.SKIP_TILL_NEXT) == 1

    def test_next_considers_local_and_adjacent_conditions(self) -> None:
        # SEQ(A a, B b)
        positive = Comparison(">", x("b"), Literal(0))
        more = Comparison(">", x("b"), x("a"))
        for condition in (positive, more):
            found = count(
                seq("A a", "B b"), "a1:1 b2:0 b3:2 b4:3", conditions=(condition,), policy=Policy.SKIP_TILL_NEXT
            )
            assert found == 1

    def test_next_does_not_consider_pairwise_conditions(self) -> None:
        # SEQ(A a, B b, C c) WHERE c.x > a.x: c3 is the next C, and fails
        more = Comparison(">", x("c"), x("a"))
        stream = "a1:1 b2:0 c3:0 c4:5"
        assert count(seq("A a", "B b", "C c"), stream, conditions=(more,), policy=Policy.SKIP_TILL_NEXT) == 0

    def test_next_in_AND_follows_what_is_left_to_bind(self) -> None:
        # AND(A, B): after a1 only a B continues, so a2 may be passed over
        assert count(conj("A", "B"), "a1 a2 b3 b4", policy=Policy.SKIP_TILL_NEXT) == 2
