"""Patterns of Flink's CEP library mean here what they mean there, or are refused."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import motet as library
from motet.dialects import translate
from motet.errors import QueryError
from motet.language.printer import to_text
from motet.reference import evaluate
from tests.translate.flink_matching import Condition, FlinkStep, Match, Row, flink_matches, skip_matches
from tests.translate.rows import FEW_ROWS, SCHEMA, make_rows, try_examples

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


def assert_same_matches(text: str, chain: list[FlinkStep], rows: list[Row], window: int | None = None) -> None:
    """Fail unless a translated pattern has the matches that Flink finds, by the engine and by the oracle."""
    workload = translate(text, "flink-cep").workload
    wanted = Counter(flink_matches(chain, rows, window))
    assert found_matches(library.run(pa.Table.from_pylist(rows, SCHEMA), workload)) == wanted, to_text(workload)
    assert len(evaluate(workload, rows, tick=1_000_000).rows) == wanted.total()


@try_examples(120)
@given(chain=chains(), drawn=FEW_ROWS, window=st.none() | st.integers(2, 9))
def test_a_pattern_has_the_matches_that_flink_finds(
    chain: tuple[str, list[FlinkStep]], drawn: list[tuple[str, int, int]], window: int | None
) -> None:
    text = f"Pattern{chain[0]}" + (f".within(Duration.ofSeconds({window}))" if window else "")
    try:
        translate(text, "flink-cep")
    except QueryError:
        return
    assert_same_matches(text, chain[1], make_rows(drawn), window)


@st.composite
def linear_chains(draw: Any, strategy: str) -> tuple[str, list[FlinkStep]]:
    """A pattern of which each first event begins one match at most."""
    text, chain = "", []
    for number in range(draw(st.integers(1, 3))):
        relation = "begin" if number == 0 else draw(st.sampled_from(["next", "followedBy"]))
        condition = draw(st.sampled_from(CONDITIONS))
        count, inner = draw(st.sampled_from([(1, "relaxed"), (1, "relaxed"), (2, "relaxed"), (2, "next")]))
        skip = f", AfterMatchSkipStrategy.{strategy}()" if number == 0 else ""
        text += f'.{relation}("s{number}"{skip}).where(e -> {condition[0]}){say_repetition(count, count)}'
        text += ".consecutive()" if inner == "next" else ""
        chain.append(FlinkStep(f"s{number}", relation, condition[1], count, count, inner=inner))
    return text, chain


@try_examples(40)
@given(data=st.data(), drawn=FEW_ROWS, window=st.none() | st.integers(3, 9))
@pytest.mark.parametrize("strategy", ["skipToNext", "skipPastLastEvent"])
def test_a_skip_strategy_leaves_the_matches_that_flink_leaves(
    strategy: str, data: st.DataObject, drawn: list[tuple[str, int, int]], window: int | None
) -> None:
    calls, chain = data.draw(linear_chains(strategy))
    rows = make_rows(drawn)
    text = f"Pattern{calls}" + (f".within(Duration.ofSeconds({window}))" if window else "")
    workload = translate(text, "flink-cep").workload
    wanted = Counter(skip_matches(flink_matches(chain, rows, window), strategy))
    assert found_matches(library.run(pa.Table.from_pylist(rows, SCHEMA), workload)) == wanted, to_text(workload)
    assert len(evaluate(workload, rows, tick=1_000_000).rows) == wanted.total()


def is_type(name: str) -> Condition:
    return lambda row: bool(row["type"] == name)


def name_step(call: str, name: str, type: str) -> str:
    return f'.{call}("{name}").where(e -> e.type.equals("{type}"))'


A, B, C, N = ((name, is_type(name)) for name in "abcz")
# Calls and what they mean; each must be translated, not refused.
TRANSLATED: dict[str, tuple[str, list[FlinkStep]]] = {
    "next, then followedBy": (
        name_step("begin", "s", "a") + name_step("next", "t", "b") + name_step("followedBy", "u", "c"),
        [FlinkStep("s", "begin", A[1]), FlinkStep("t", "next", B[1]), FlinkStep("u", "followedBy", C[1])],
    ),
    "a relaxed loop": (
        name_step("begin", "s", "a")
        + name_step("followedBy", "t", "b")
        + ".oneOrMore()"
        + name_step("followedBy", "u", "c"),
        [
            FlinkStep("s", "begin", A[1]),
            FlinkStep("t", "followedBy", B[1], 1, None),
            FlinkStep("u", "followedBy", C[1]),
        ],
    ),
    "a loop after followedByAny": (
        name_step("begin", "s", "a") + name_step("followedByAny", "t", "b") + ".timesOrMore(2)",
        [FlinkStep("s", "begin", A[1]), FlinkStep("t", "followedByAny", B[1], 2, None)],
    ),
    "a greedy loop that may take the next step's events": (
        f'.begin("s").where(e -> {CONDITIONS[4][0]}).times(1, 3).greedy()' + name_step("followedBy", "t", "b"),
        [FlinkStep("s", "begin", CONDITIONS[4][1], 1, 3, greedy=True), FlinkStep("t", "followedBy", B[1])],
    ),
    "a greedy loop": (
        name_step("begin", "s", "a") + ".oneOrMore().greedy()" + name_step("followedBy", "t", "b"),
        [FlinkStep("s", "begin", A[1], 1, None, greedy=True), FlinkStep("t", "followedBy", B[1])],
    ),
    "a loop until an event": (
        name_step("begin", "s", "a")
        + '.oneOrMore().until(e -> e.type.equals("z"))'
        + name_step("followedByAny", "t", "b"),
        [FlinkStep("s", "begin", A[1], 1, None, until=N[1]), FlinkStep("t", "followedByAny", B[1])],
    ),
    "notNext": (
        name_step("begin", "s", "a") + name_step("notNext", "n", "z") + name_step("next", "t", "b"),
        [FlinkStep("s", "begin", A[1]), FlinkStep("n", "notNext", N[1]), FlinkStep("t", "next", B[1])],
    ),
    "notFollowedBy after a loop": (
        name_step("begin", "s", "a")
        + name_step("followedByAny", "t", "b")
        + ".oneOrMore().allowCombinations()"
        + name_step("notFollowedBy", "n", "z")
        + name_step("followedByAny", "u", "c"),
        [
            FlinkStep("s", "begin", A[1]),
            FlinkStep("t", "followedByAny", B[1], 1, None, inner="any"),
            FlinkStep("n", "notFollowedBy", N[1]),
            FlinkStep("u", "followedByAny", C[1]),
        ],
    ),
    "notFollowedBy before an optional last step": (
        name_step("begin", "s", "a")
        + name_step("notFollowedBy", "n", "z")
        + name_step("followedBy", "t", "b")
        + ".optional()",
        [
            FlinkStep("s", "begin", A[1]),
            FlinkStep("n", "notFollowedBy", N[1]),
            FlinkStep("t", "followedBy", B[1], optional=True),
        ],
    ),
    "an optional first step": (
        name_step("begin", "s", "a") + ".optional()" + name_step("followedBy", "t", "b"),
        [FlinkStep("s", "begin", A[1], optional=True), FlinkStep("t", "followedBy", B[1])],
    ),
    "a group that is repeated": (
        name_step("begin", "s", "a")
        + f".followedBy(Pattern{name_step('begin', 't', 'b')}{name_step('followedBy', 'u', 'c')}).times(2)",
        [
            FlinkStep("s", "begin", A[1]),
            FlinkStep(
                "", "followedBy", B[1], 2, 2, group=[FlinkStep("t", "begin", B[1]), FlinkStep("u", "followedBy", C[1])]
            ),
        ],
    ),
}


@pytest.mark.parametrize("case", TRANSLATED)
@try_examples(25)
@given(drawn=FEW_ROWS)
def test_a_feature_is_translated(case: str, drawn: list[tuple[str, int, int]]) -> None:
    text, chain = TRANSLATED[case]
    assert_same_matches(f"Pattern{text}", chain, make_rows(drawn))


# Events by their types, in which each rule of contiguity, of a loop and of what is forbidden decides something.
TELLING = ("abzbc", "abbzc", "abzcb", "aazab", "azab", "aaaab", "abab", "aabbc", "abcbc", "aczb", "abccbc", "zabzb")


@pytest.mark.parametrize("case", TRANSLATED)
def test_a_feature_is_translated_where_events_tell_it_from_others(case: str) -> None:
    text, chain = TRANSLATED[case]
    for types in TELLING:
        assert_same_matches(f"Pattern{text}", chain, make_rows([(kind, at % 4, 1) for at, kind in enumerate(types)]))


def test_notfollowedby_at_the_end_waits_for_the_window() -> None:
    text = "Pattern" + name_step("begin", "s", "a") + name_step("notFollowedBy", "n", "z") + ".within(Time.seconds(3))"
    chain = [FlinkStep("s", "begin", A[1]), FlinkStep("n", "notFollowedBy", N[1])]
    for gap in (1, 2, 3):
        assert_same_matches(text, chain, make_rows([("a", 0, 1), ("z", 0, gap), ("a", 0, 1)]), 3)


def shown(text: str) -> str:
    return translate(text, "flink-cep").text.partition("\n\n")[2]


def test_a_gap_forbids_what_flink_does_not_pass_over() -> None:
    text = (
        "Pattern"
        + name_step("begin", "s", "a")
        + name_step("next", "t", "b")
        + ".oneOrMore()"
        + name_step("followedBy", "u", "c")
    )
    assert shown(text) == (
        "EVENT any_event AS type IS NOT NULL\n\n"
        "QUERY translated\nRETURN *\n"
        "PATTERN SEQ(a s, NOT any_event, b t, SEQ(NOT b, b t_more)*, NOT c, c u)\n"
    )


def test_steps_that_agree_are_a_policy() -> None:
    steps = name_step("begin", "s", "a") + name_step("{0}", "t", "b") + name_step("{0}", "u", "c")
    for call, policy in {"next": "CONTIGUOUS\n", "followedBy": "SKIP TILL NEXT\n", "followedByAny": ""}.items():
        text = f"Pattern{steps.format(call)}"
        assert shown(text) == f"QUERY translated\nRETURN *\nPATTERN SEQ(a s, b t, c u)\n{policy}"


def test_java_with_variables_keys_and_times() -> None:
    text = """
    import org.apache.flink.cep.CEP; // and more
    AfterMatchSkipStrategy keep = AfterMatchSkipStrategy.noSkip();
    Pattern<Event, ?> alert = Pattern.<Event>begin("a", keep)
        .where(new SimpleCondition<Event>() {
            @Override public boolean filter(Event e) throws Exception { return e.getType().equals("login // x"); }
        });
    alert = alert.next("b").where(SimpleCondition.of(e -> e.getAmount() > 500 && !e.isPaid())) /* .next("c") */
        .within(Duration.ofMinutes(1).plusSeconds(30));
    CEP.pattern(events.keyBy(Event::getUser), alert);"""
    assert shown(text) == (
        "EVENT b_type AS amount > 500 AND NOT paid\n\n"
        'QUERY translated\nRETURN *\nPATTERN SEQ("login // x" a, b_type b)\nWHERE [user]\nWITHIN 90 s\nCONTIGUOUS\n'
    )


def test_calls_change_the_pattern_that_they_are_called_on() -> None:
    begin = "Pattern<E, ?> p = Pattern" + name_step("begin", "s", "a") + ";\n"
    following = "Pattern<E, ?> q = p" + name_step("next", "t", "b") + ";\n"
    looped = shown("Pattern" + name_step("begin", "s", "a") + ".oneOrMore()")
    for more in ("p.oneOrMore(); CEP.pattern(s, p);", "Pattern<E, ?> r = p; r.oneOrMore(); CEP.pattern(s, p);"):
        assert shown(begin + more) == looped
    assert shown(begin + following + "CEP.pattern(s, p);") == "QUERY translated\nRETURN *\nPATTERN a s\n"
    both = "Pattern" + name_step("begin", "s", "a") + ".oneOrMore()" + name_step("next", "t", "b")
    assert shown(begin + following + "p.oneOrMore(); CEP.pattern(s, q);") == shown(both)


@pytest.mark.parametrize("key", ["e -> Tuple2.of(e.getUser(), e.x)", "(Event e) -> new Tuple2<>(e.user, e.getX())"])
def test_a_key_of_several_columns_keeps_events_of_other_keys_apart(key: str) -> None:
    steps = name_step("begin", "s", "a") + name_step("next", "t", "b")
    text = f"CEP.pattern(events.keyBy({key}), Pattern{steps})"
    assert "WHERE [user, x]\nCONTIGUOUS" in shown(text)
    assert "no column of the key is null" in translate(text, "flink-cep").text
    chain = [FlinkStep("s", "begin", A[1]), FlinkStep("t", "next", B[1])]
    rows = make_rows([("a", 0, 1), ("a", 1, 1), ("z", 1, 1), ("b", 0, 1), ("b", 1, 1), ("a", 2, 1), ("b", 2, 1)])
    for row in rows[-1:]:
        row["user"] = "v"
    workload = translate(text, "flink-cep").workload
    wanted: Counter[Match] = Counter()
    for key_of_rows in {(row["user"], row["x"]) for row in rows}:
        wanted.update(flink_matches(chain, [row for row in rows if (row["user"], row["x"]) == key_of_rows], None))
    assert wanted.total() == 1
    assert found_matches(library.run(pa.Table.from_pylist(rows, SCHEMA), workload)) == wanted
    assert len(evaluate(workload, rows, tick=1_000_000).rows) == 1


def test_operators_bind_as_in_java() -> None:
    text = 'Pattern.begin("s").where(e -> !e.a == e.b || 1.5f < e.x && !e.name.equals("y") && e.x % 2 == 0L)'
    assert shown(text).startswith("EVENT s_type AS (NOT a) = b OR 1.5 < x AND NOT (name = 'y') AND x % 2 = 0\n"), shown(
        text
    )


def test_scala() -> None:
    text = """
    val alert = Pattern.begin[Event]("a").where(_.getType == "login")
      .followedBy("b").where((e: Event) => e.amount > 500).oneOrMore.consecutive
    val found = CEP.pattern(events.keyBy(_.user), alert)"""
    assert shown(text) == (
        "EVENT b_type AS amount > 500\n\nEVENT any_event AS type IS NOT NULL\n\n"
        "QUERY translated\nRETURN *\nPATTERN SEQ(login a, NOT b_type, b_type b, SEQ(NOT any_event, b_type b_more)*)\n"
        "WHERE [user]\n"
    )


def test_types_and_variables_do_not_take_each_others_names() -> None:
    text = (
        "Pattern" + name_step("begin", "b", "a") + name_step("next", "a", "b_type") + name_step("followedBy", "c", "b")
    )
    rows = [{"time": at, "type": kind, "x": 0, "user": "u"} for at, kind in enumerate(["a", "b_type", "c", "b", "b"])]
    chain = [
        FlinkStep("b", "begin", is_type("a")),
        FlinkStep("a", "next", is_type("b_type")),
        FlinkStep("c", "followedBy", is_type("b")),
    ]
    assert_same_matches(text, chain, rows)


BEGIN = 'Pattern.begin("a")'


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("no pattern", "this statement is not understood", "no"),
        ("", "no Pattern.begin", ""),
        (f"{BEGIN}.subtype(B.class)", "subtype(B.class) is not translated", "subtype"),
        (f'{BEGIN};\nPattern.begin("b");', "second pattern", 'begin("b")'),
        ('Pattern.begin("a"', "never closed", "("),
        # Skip strategies
        ('Pattern.begin("a", AfterMatchSkipStrategy.skipToFirst("b"))', "drops matches", "skipToFirst"),
        ("AfterMatchSkipStrategy s = AfterMatchSkipStrategy.skipToLast();\n" + BEGIN, "drops matches", "skipToLast"),
        ('Pattern.begin("a", AfterMatchSkipStrategy.skipToNext()).oneOrMore()', "one match at most", "begin"),
        (
            'Pattern.begin("a", AfterMatchSkipStrategy.skipPastLastEvent()).followedByAny("b")',
            "one match at most",
            "begin",
        ),
        ('Pattern.begin("a", skip)', "may drop matches", " skip"),
        # Windows
        (f"{BEGIN}.within(Duration.ofSeconds(3), WithinType.PREVIOUS_AND_CURRENT)", "has no equal", "within"),
        (f"{BEGIN}.within(width)", "length of time", "within"),
        (f"{BEGIN}.within(Time.of(3, TimeUnit.SECONDS))", "length of time", "of(3"),
        (f'{BEGIN}.within(Time.seconds(3)).next("b")', "not after the last step", "begin"),
        (f"{BEGIN}.within(Duration.ofSeconds(3).negated())", "not understood", "negated"),
        (f"{BEGIN}.within(Duration.ofMinutes(3).minusSeconds(1))", "not understood", "minusSeconds"),
        (
            f"{BEGIN}.within(Duration.ofSeconds(3)).within(Duration.ofSeconds(2))",
            "said twice",
            "within(Duration.ofSeconds(2",
        ),
        (f"{BEGIN}.times(2, Time.seconds(5))", "takes whole numbers", " Time"),
        (f"{BEGIN}.oneOrMore(Duration.ofSeconds(5))", "takes whole numbers", "Duration"),
        # Keys and streams
        (f"CEP.pattern(s.keyBy(new KeySelector<E, K>() {{ }}), {BEGIN})", "keyBy takes one key", "keyBy"),
        (f"CEP.pattern(s.keyBy(new Key()), {BEGIN})", "a lambda over one event", "new Key"),
        (f"CEP.pattern(s.keyBy(e -> Tuple2.of(e.a, e.b + 1)), {BEGIN})", "must be columns of the event", " e.b + 1"),
        (f"CEP.pattern(s.keyBy(e -> Tuple2.of(e.a, f.b)), {BEGIN})", "'f' in a condition", "f.b"),
        (f"CEP.pattern(s.keyBy(e -> Tuple3.of(e.a, e.b)), {BEGIN})", "a Tuple3 has 3 columns", "e -> Tuple3"),
        (f"CEP.pattern(s.keyBy(e -> new Tuple2(e.a, e.b)), {BEGIN})", "is not understood", "new Tuple2"),
        (f"CEP.pattern(s.keyBy(e -> Tuple2.of(e.a, g(e.b))), {BEGIN})", "is not understood", "g(e.b"),
        (f"CEP.pattern(s.keyBy(e -> e.a + e.b), {BEGIN})", "one column of the event", "e -> e.a"),
        (f'CEP.pattern(s.keyBy("a", "b"), {BEGIN})', "keyBy takes one key", "keyBy"),
        (f"CEP.pattern(s.keyBy(e -> e.a).keyBy(e -> e.b), {BEGIN})", "of a stream is not translated", "keyBy(e -> e.b"),
        (f"CEP.pattern(s.filter(e -> e.x > 1), {BEGIN})", "may change which events", "filter"),
        (f"s.keyBy(e -> e.user); {BEGIN}", "this statement is not understood", "s.keyBy"),
        (f"CEP.pattern(s, {BEGIN}, comparator)", "takes a stream and a pattern", "pattern(s"),
        (f"CEP.pattern(s, {BEGIN}).inProcessingTime()", "inProcessingTime(...) of a pattern stream", "inProc"),
        (f"CEP.pattern(s, {BEGIN}).select(f)", "select(...) of a pattern stream", "select"),
        # Conditions
        (f"{BEGIN}.where(e -> e.compute(3) > 1)", "'3' in a condition", "3"),
        (f"{BEGIN}.where((e, ctx) -> true)", "looks at earlier events", ", ctx"),
        (f"{BEGIN}.where(e -> e.)", "ends too early", "."),
        (f"{BEGIN}.where(e -> e.x / 2 > 1)", "'/' in a condition", "/"),
        (f'{BEGIN}.where(e -> e.name == "x")', "whether two texts are the same object", "=="),
        (f'{BEGIN}.where(e -> "x" != e.name)', "whether two texts are the same object", "!="),
        (f"{BEGIN}.where(e -> e.x > 010)", "octal in Java", "010"),
        (f"{BEGIN}.where(e -> e.x > 1.1f)", "a float has no such value", "1.1f"),
        (f"{BEGIN}.where(e -> !e.x > 1)", "cannot be compared with a number", "begin"),
        (f'{BEGIN}.where(e -> e.name + "x" == "yx")', "'+' in a condition", "+"),
        (f'{BEGIN}.where(e -> e.name.equals("a\\n"))', "in a condition", '"a'),
        (f"{BEGIN}.where(e -> {{ log(e); return e.x > 1; }})", "a lambda over one event", "e -> {"),
        (f"{BEGIN}.where(_.x > _.y)", "a condition is over one event", "_.y"),
        (f"{BEGIN}.where(condition)", "a lambda over one event", "condition"),
        (f"{BEGIN}.where(e -> e.x > 1, e -> e.x > 2)", "takes one condition", "where"),
        # Quantifiers
        (f"{BEGIN}.times(0, 2)", "times(0, n)", "times"),
        (f"{BEGIN}.times(3, 2)", "not understood", "times"),
        (f"{BEGIN}.optional(true)", "takes no argument", "optional"),
        (f"{BEGIN}.oneOrMore().times(2)", "not allowed here", "times"),
        (f"{BEGIN}.consecutive()", "only for a step that is repeated", "consecutive"),
        (f"{BEGIN}.until(e -> e.x > 1)", "until is only", "until"),
        (
            f'{BEGIN}.oneOrMore().greedy().until(e -> e.x > 1).next("b")',
            "greedy beside allowCombinations or until",
            "greedy",
        ),
        (f'{BEGIN}.oneOrMore().greedy().next("b").optional()', "greedy is translated only before", "greedy"),
        # Orders of steps that no gap can say
        (f'{BEGIN}.notNext("b").followedBy("c")', "notNext is translated only before", "notNext"),
        (f'{BEGIN}.notNext("b")', "notNext is translated only before", "notNext"),
        (f'{BEGIN}.notFollowedBy("b")', "notFollowedBy at the end needs within", "notFoll"),
        (f'{BEGIN}.optional().notFollowedBy("b").next("c")', "there always", "notFoll"),
        (f'{BEGIN}.times(1, 3).notFollowedBy("b").next("c")', "only some of the gaps", "notFoll"),
        (f'{BEGIN}.next("b").notFollowedBy("c").next("d").next("e")', "may be both c and d", "notFoll"),
        (f'{BEGIN}.optional().followedBy("b").optional().next("c")', "several optional steps", "optional"),
        (f'{BEGIN}.next("a")', "cannot be called 'a'", 'next("a")'),
        (f'{BEGIN}.next(Pattern.begin("b").optional())', "begins with an optional", "next"),
    ],
)
def test_what_has_no_equal_is_refused_at_its_place(text: str, message: str, at: str) -> None:
    with pytest.raises(QueryError) as refused:
        translate(text, "flink-cep")
    assert message in str(refused.value)
    span = refused.value.diagnostics[0].span
    assert span is not None
    assert text[span.start :].startswith(at)


VALID = [
    """AfterMatchSkipStrategy keep = AfterMatchSkipStrategy.noSkip();
    Pattern<Event, ?> alert = Pattern.<Event>begin("login", keep)
        .where(SimpleCondition.of(e -> e.getType().equals("login")))
        .followedByAny("transfers").where(e -> e.getType().equals("transfer") && e.getAmount() > 500)
        .oneOrMore().allowCombinations()
        .notFollowedBy("check").where(e -> e.getType().equals("confirm"))
        .followedByAny("gone").where(e -> e.getType().equals("logout")).or(e -> e.getCode() == 7)
        .within(Duration.ofMinutes(10).plusSeconds(30));
    CEP.pattern(events.keyBy(e -> e.getUser()), alert);""",
    """Pattern.begin("a").where(e -> e.type.equals("a")).times(2, 4).greedy()
        .next(Pattern.begin("b").where(e -> e.x > 3 || !(e.x < 1)).followedBy("c").optional()).within(Time.hours(2))""",
]


@pytest.mark.parametrize("text", VALID)
def test_a_call_or_an_argument_that_is_not_known_is_refused_wherever_it_stands(text: str) -> None:
    quoted = [at for found in re.finditer(r'"[^"]*"', text) for at in range(*found.span())]
    ends = [at for at in range(len(text) + 1) if at not in quoted]
    changed = [f"{text[:at]}.unknown(){text[at:]}" for at in ends if at == len(text) or text[at] in ".);"]
    changed += [f"{text[:at]}, 7{text[at:]}" for at in ends if text[at : at + 1] == ")"]
    changed += [f"{text[:at]} unknown {text[at:]}" for at in ends if text[at : at + 1] in ("(", ")", ".", ";", "&")]
    assert len(changed) > 80
    for each in changed:
        with pytest.raises(QueryError):
            translate(each, "flink-cep")
