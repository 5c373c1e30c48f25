"""Matches that are found event by event: the same as in one batch and by the oracle, at the cost of what arrives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.live import Stream
from motet.engine.live.detect import DetectOperator
from motet.engine.local import run_table
from motet.kernels.match_store import NODE, TOP
from motet.language import parse
from motet.options import Options
from motet.plans.detect.nodes import JoinNode
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import micro_batches
from tests.strategies import build_stream_table, streams

SECOND = 1_000_000
COLUMNS = pa.schema([("time", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])

# Joins with each kind of condition, order and absence, and paths with and without them.
PATTERNS = [
    "SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x",
    "SEQ(A a, B b, C c) WHERE a.x = c.x AND b.x != c.x",
    "SEQ(A a, B b, A c) WHERE a.s = c.s AND a.y + 1 > b.y * 2",
    "SEQ(A a, NOT C n, B b, A c) WHERE a.x <= b.x AND b.x <= c.x",
    "SEQ(A a, NOT B n, B b) WHERE a.x >= b.x",
    "SEQ(A a, B b, NOT A n, C c) WHERE a.x < c.x AND b.y >= c.y",
    "AND(A a, B b) WHERE a.x < b.x",
    "SEQ(A a, AND(B b, C c), A d) WHERE a.x = b.x AND c.x < d.x",
    "SEQ(A a, A b) WHERE a.x < b.x",
    "SEQ(A a, B b, C c)",
    "SEQ(A a, NOT B n, C c)",
    "SEQ(A a, B b+, C c)",
    "A a+ WHERE a.x < NEXT(a).x",
    "SEQ(A a+, NOT C n, B b) WHERE a.x >= NEXT(a).x",
    "SEQ(A a, B b, C c) WHERE a.x + b.x + c.x > 3",
    "A a WHERE a.x > 1",
]
# What is found by a policy.
PATHS = [
    "SEQ(A a, B b, C c)",
    "SEQ(A a, B b+, C c)",
    "SEQ(A a, NOT B n, C c)",
    "SEQ(A a+, NOT C n, B b)",
    "A a+ WHERE a.x < NEXT(a).x",
    "SEQ(A a, B b+, A c) WHERE a.x <= b.x AND b.x < c.x",
    "SEQ(A a, B b+, C c) WHERE a.x = c.x AND b.y >= NEXT(b).y",
    "SEQ(A a, OR(A b, B c), B d) WHERE a.x < d.x",
    "SEQ(A a, A b) WHERE a.x + b.x > 1",
]
POLICIES = ["SKIP TILL NEXT", "CONTIGUOUS"]
# What depends on earlier matches: those that AFTER MATCH SKIP takes, and aggregates.
JOINS = [
    "SEQ(A a, B b, C c) WHERE a.x + b.x < c.x",
    "SEQ(A a, A b, B c) WHERE a.x + b.x > c.x",
    "SEQ(A a, B b, C c) WHERE a.x = c.x AND b.y <= c.y",
    "SEQ(A a, B b)",
]
TAKEN = ["WITHIN 6 s SLIDE 2 s AFTER MATCH SKIP PAST LAST EVENT", "WITHIN 6 s SLIDE 3 s AFTER MATCH SKIP TO NEXT EVENT"]
WINDOWS = ["WITHIN 4 s", "WITHIN 7 s", "WITHIN 6 s SLIDE 2 s"]


@st.composite
def fed_queries(draw: st.DrawFn, returns: list[str], patterns: list[str], policies: list[str]) -> str:
    chosen = draw(st.lists(st.sampled_from(patterns), min_size=1, max_size=4))
    keyed = draw(st.booleans())
    texts = []
    for number, pattern in enumerate(chosen):
        key = (" AND [k]" if "WHERE" in pattern else " WHERE [k]") if keyed else ""
        window, policy = draw(st.sampled_from(WINDOWS)), draw(st.sampled_from(policies))
        result = draw(st.sampled_from(returns))
        window = policy if policy.startswith("WITHIN") else f"{window} {policy}"
        texts.append(f"QUERY q{number} RETURN {result} PATTERN {pattern}{key} {window}")
    return "\n".join(texts)


@pytest.mark.parametrize(
    ("returns", "patterns", "policies"),
    [
        pytest.param(["*"], PATTERNS, [""], id="joins and paths"),
        pytest.param(["*"], PATHS, POLICIES, id="policies"),
        # Where events have times in common, it is only certain how many matches are taken.
        pytest.param(["COUNT(*)"], JOINS + PATTERNS, TAKEN, id="taken"),
        pytest.param(["COUNT(*)", "COUNT(*), SUM(a.x), MAX(a.y)", "COUNT(DISTINCT a.s)"], JOINS, POLICIES, id="values"),
        pytest.param(["COUNT(*)", "COUNT(*), SUM(a.x)"], JOINS[:3], [""], id="values of joins"),
    ],
)
@given(data=st.data())
def test_fed_matches_are_those_of_batch_and_oracle(
    returns: list[str], patterns: list[str], policies: list[str], data: st.DataObject
) -> None:
    text = data.draw(fed_queries(returns, patterns, policies))
    note(text)
    workload, rows = parse(text), data.draw(streams())
    table = build_stream_table(rows)
    expected = enumerate_table(workload, table)
    schema = EventSchema(table.schema)
    optimizer = data.draw(st.sampled_from(["auto", "none", "motto", "multitree"]))
    assert_same_results(
        run_table(compile_workload(workload, schema, Options(optimizer=optimizer)), table).table, expected
    )
    stream = Stream(compile_workload(workload, schema, Options(mode="append", optimizer=optimizer)))
    found = []
    for batch, watermark in data.draw(micro_batches(rows)):
        match data.draw(st.sampled_from(["feed", "feed", "restore", "forget", "change plan"])):
            case "restore":
                saved, stream = stream.save(), Stream(stream.program)
                stream.restore(saved)
            case "forget":
                for live in stream.branches:
                    if isinstance(live, DetectOperator):
                        live._forget_fed()
            case "change plan":
                other = Options(mode="append", optimizer=data.draw(st.sampled_from(["none", "motto"])))
                stream = stream.continue_with(compile_workload(workload, schema, other))
        found.append(stream.feed(build_stream_table(batch), watermark).results)
    if stream.program.options.optimizer in ("auto", "none"):
        for live in stream.branches:
            searched = live.rerun if isinstance(live, DetectOperator) and live.is_planned else ()
            assert all(query.finds_occurrences for query in searched)  # in one pass, which is cheaper
    found.append(stream.finish().results)
    assert_same_results(pa.concat_tables(found), expected)


def feed_many(query: str, batches: int, size: int, values: int) -> tuple[Stream, list[int]]:
    """Feed random events; return the stream, and the work of each micro-batch."""
    stream = Stream(compile_workload(parse(query), EventSchema(COLUMNS), Options(mode="append")))
    rng = np.random.default_rng(1)
    work = [0]
    for number in range(batches):
        columns = [
            np.sort(rng.integers(number * 10, number * 10 + 10, size)),
            rng.choice(list("ABC"), size),
            rng.integers(0, 5, size),
            rng.integers(0, values, size),
        ]
        stream.feed(pa.table(columns, schema=COLUMNS), number * 10 * SECOND)
        (live,) = stream.branches
        assert isinstance(live, DetectOperator)
        work.append(0 if live.fed is None else live.fed.work)
    return stream, np.diff(work).tolist()


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, B b) WHERE [k] AND a.x = b.x",
        "SEQ(A a, B b, C c) WHERE [k] AND a.x = b.x AND b.x = c.x",
        "SEQ(A a, NOT A n, B b, C c) WHERE a.x = c.x AND b.x = c.x",
    ],
)
def test_a_micro_batch_costs_what_it_is_joined_with_whatever_the_window_holds(pattern: str) -> None:
    work = {}
    for held in (5, 50):
        # As many values as the window holds events: what an event is joined with is the same.
        _, done = feed_many(f"RETURN * PATTERN {pattern} WITHIN {held * 10} s", held + 20, 100, 20 * held)
        work[held] = sum(done[-10:])
    assert work[50] < 1.5 * work[5] + 100


def test_instances_are_dropped_with_their_windows() -> None:
    stream, _ = feed_many(
        "RETURN * PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x AND b.x < c.x WITHIN 20 s", 200, 60, 50
    )
    (live,) = stream.branches
    assert isinstance(live, DetectOperator)
    assert live.fed is not None
    assert live.fed.count < 60 * 10
    assert len(live.fed.store.rows) < 1 << 14


def test_numbers_that_are_not_the_same_as_floats_are_compared_as_they_are() -> None:
    stream = Stream(
        compile_workload(
            parse("RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 s"),
            EventSchema(COLUMNS),
            Options(mode="append"),
        )
    )
    large = 2**60
    found = 0
    for time, (kind, x) in enumerate(
        [("A", 1), ("B", 2), ("A", large), ("B", large + 1), ("A", large), ("B", large + 1)]
    ):
        rows = pa.table([[time], [kind], [1], [x]], schema=COLUMNS)
        found += len(stream.feed(rows, time * SECOND).results)
    found += len(stream.finish().results)
    assert found == 1 + 2 + 3


def test_too_many_instances_are_searched_for_again_instead() -> None:
    query = "RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AND a.x + 3 < c.x WITHIN 100 s"
    options = Options(mode="append", memory_limit="1MiB", optimizer="none", on_limit="truncate")
    stream = Stream(compile_workload(parse(query), EventSchema(COLUMNS), options))
    rng = np.random.default_rng(1)
    for number in range(20):
        columns = [np.full(40, number), rng.choice(list("AB"), 40), np.zeros(40, np.int64), rng.integers(0, 100, 40)]
        stream.feed(pa.table(columns, schema=COLUMNS), number * SECOND)
    (live,) = stream.branches
    assert isinstance(live, DetectOperator)
    assert not live.can_feed


def test_events_that_no_later_one_looks_for_are_not_kept() -> None:
    query = "QUERY q PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x GROUP BY k WITHIN 1000 s"
    options = Options(mode="append", optimizer="share")
    stream = Stream(compile_workload(parse(query), EventSchema(COLUMNS), options))
    events = [(second, "ABC"[second % 3], 1, second % 7) for second in range(300)]
    stream.feed(pa.table(list(zip(*events, strict=True)), schema=COLUMNS), 0)
    stream.feed(COLUMNS.empty_table(), 300 * SECOND)
    live = stream.branches[0]
    assert isinstance(live, DetectOperator)
    assert live.fed is not None
    kept = live.fed.store.rows[: live.fed.store.counts[TOP], NODE]
    found = [live.fed.builder.nodes[node] for node in np.unique(kept).tolist()]
    assert [len(node.items) if isinstance(node, JoinNode) else node.symbol.type for node in found] == ["A", 2]


def test_the_plans_that_auto_chooses_on_a_stream_are_fed() -> None:
    rng = np.random.default_rng(2)
    types = [rng.choice(5, 3, replace=False) for _ in range(50)]
    rises = "WHERE [k] AND a.x < b.x AND b.x < c.x WITHIN 10 s"
    patterns = [f"RETURN * PATTERN SEQ(t{a} a, t{b} b, t{c} c) {rises}" for a, b, c in types]
    workload = parse("\n".join(f"QUERY q{at} {text}" for at, text in enumerate(patterns)))
    stream = Stream(compile_workload(workload, EventSchema(COLUMNS), Options(mode="append")))
    for first in range(0, 20, 2):  # seconds, with a thousand events in each
        seconds = np.arange(first, first + 2).repeat(1000)
        kinds = [f"t{kind}" for kind in rng.integers(0, 5, 2000)]
        stream.feed(
            pa.table([seconds, kinds, rng.integers(0, 500, 2000), rng.integers(0, 100, 2000)], schema=COLUMNS),
            first * SECOND,
        )
    (operator,) = stream.branches
    assert isinstance(operator, DetectOperator)
    assert operator.fed is not None
    assert (len(operator.fed.planned), len(operator.rerun)) == (50, 0)
