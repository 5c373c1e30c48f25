"""ClickHouse's funnels and sequences mean here what they mean there, or are refused."""

from __future__ import annotations

from itertools import combinations
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
from tests.translate.clickhouse_matching import Condition, compute_level, compute_strict_level, count_sequences
from tests.translate.rows import ROWS, SCHEMA, make_rows, translate_unless_refused, try_examples

DrawnEvents = list[tuple[str, int, int]]

# Conditions in SQL and as a function of a row.
CONDITIONS: list[tuple[str, Condition]] = [
    ("type = 'a'", lambda row: row["type"] == "a"),
    ("type = 'b' AND x > 0", lambda row: row["type"] == "b" and row["x"] > 0),
    ("type = 'c'", lambda row: row["type"] == "c"),
    ("type IN ('b', 'c') AND NOT x = 1", lambda row: row["type"] in "bc" and row["x"] != 1),
    ("x >= 2", lambda row: row["x"] >= 2),
    ("x BETWEEN 0 AND 1", lambda row: row["x"] <= 1),
    ("x < 1 OR type = 'c'", lambda row: row["x"] < 1 or row["type"] == "c"),
]
STEPS = st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3)


def levels_reached(workload: Any, rows: list[Any]) -> set[int]:
    result = library.run(pa.Table.from_pylist(rows, SCHEMA), workload)
    queries = result.column("query").to_pylist()
    assert {row["query"] for row in evaluate(workload, rows, tick=1_000_000).rows} == set(queries)
    return {int(name.removeprefix("step_")) for name in queries}


@try_examples(40)
@given(steps=STEPS, drawn=ROWS, window=st.integers(1, 9), mode=st.sampled_from(["", ", 'strict_increase'"]))
def test_a_funnel_reaches_the_level_that_clickhouse_computes(
    steps: list[tuple[str, Condition]], drawn: DrawnEvents, window: int, mode: str
) -> None:
    rows = make_rows(drawn)
    conditions = ", ".join(text for text, _ in steps)
    text = f"SELECT user, windowFunnel({window}{mode})(time, {conditions}) AS level FROM t GROUP BY user"
    workload = translate_unless_refused(text, "clickhouse", "ClickHouse counts it twice", name="step")
    if workload is None:
        return
    level = compute_level(rows, [holds for _, holds in steps], window)
    assert levels_reached(workload, rows) == set(range(1, level + 1))


# No row satisfies two of them.
APART: list[tuple[str, Condition]] = [
    ("type = 'a' AND x < 3", lambda row: row["type"] == "a" and row["x"] < 3),
    ("type = 'b' AND x > 0", lambda row: row["type"] == "b" and row["x"] > 0),
    ("type = 'c'", lambda row: row["type"] == "c"),
]


@try_examples(60)
@given(steps=st.permutations(APART), count=st.integers(1, 3), drawn=ROWS, window=st.integers(1, 9))
def test_a_funnel_in_strict_order_ends_where_another_row_interrupts_it(
    steps: list[tuple[str, Condition]], count: int, drawn: DrawnEvents, window: int
) -> None:
    rows = make_rows(drawn)
    conditions = ", ".join(text for text, _ in steps[:count])
    text = f"SELECT user, windowFunnel({window}, 'strict_order')(time, {conditions}) AS level FROM t GROUP BY user"
    reached = levels_reached(translate(text, "clickhouse", name="step").workload, rows)
    level = next(level for level in range(count + 1) if level + 1 not in reached)
    assert level == compute_strict_level(rows, [holds for _, holds in steps[:count]], window)


@st.composite
def sequences(draw: Any, count: int) -> str:
    """A pattern over the conditions of these numbers."""
    between = st.sampled_from(["", "", ".*", ".*", "(?t<3)", "(?t<=2)", "(?t>2)", "(?t>=3)", "(?t==2)"])
    events = st.sampled_from([*(f"(?{number})" for number in range(1, count + 1)), "."])
    text = draw(st.sampled_from(["", ".*"])) + draw(events)
    for _ in range(draw(st.integers(0, 3))):
        text += draw(between) + draw(events)
    return text + draw(st.sampled_from(["", ".*"]))


@try_examples(60)
@given(data=st.data(), steps=STEPS, drawn=ROWS)
def test_a_sequence_is_found_where_clickhouse_finds_it(
    data: st.DataObject, steps: list[tuple[str, Condition]], drawn: DrawnEvents
) -> None:
    rows = make_rows(drawn)
    pattern = data.draw(sequences(len(steps)))
    conditions = ", ".join(text for text, _ in steps)
    wanted = count_sequences(pattern, rows, [holds for _, holds in steps])
    for function in ("sequenceMatch", "sequenceCount"):
        text = f"SELECT {function}('{pattern}')(time, {conditions}) FROM t GROUP BY user"
        workload = translate(text, "clickhouse").workload
        found = library.run(pa.Table.from_pylist(rows, SCHEMA), workload).column("COUNT(*)").to_pylist()
        assert [row["values"]["COUNT(*)"] for row in evaluate(workload, rows, tick=1_000_000).rows] == found
        if function == "sequenceMatch":
            assert bool(found) == bool(wanted), to_text(workload)
        else:
            assert sum(found) == wanted, to_text(workload)


@pytest.mark.parametrize("pattern", ["(?1)(?t<3)(?3)", "(?1)(?t<=2)(?3)", "(?1)(?3)", "(?1).(?3)"])
def test_events_may_lie_between_only_where_a_time_or_any_event_is_asked_for(pattern: str) -> None:
    rows = make_rows([("a", 0, 1), ("b", 0, 1), ("c", 0, 1)])
    text = f"SELECT sequenceMatch('{pattern}')(time, type = 'a', type = 'b', type = 'c') FROM t GROUP BY user"
    result = library.run(pa.Table.from_pylist(rows, SCHEMA), translate(text, "clickhouse").workload)
    assert len(result) == (pattern != "(?1)(?3)")


FUNNEL = "windowFunnel(5)(t, x = 1, x = 2)"
MATCHED = "sequenceMatch('(?1)(?2)')(t, x = 1, x = 2)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1 FROM e", "only columns of GROUP BY and one call"),
        ("SELECT 1", "one table"),
        ("SELECT FROM WHERE", "cannot be read"),
        ("SELECT windowFunnel(5)(t) FROM e", "then conditions"),
        ("SELECT windowFunnel(5)(toDateTime(t), x = 1) FROM e", "the column of the time"),
        ("SELECT u FROM e GROUP BY u", "one windowFunnel, sequenceMatch or sequenceCount"),
        (f"SELECT u, NOT {MATCHED} FROM e GROUP BY u", "only columns of GROUP BY"),
        (f"SELECT u, {FUNNEL} >= 2 AS done FROM e GROUP BY u", "only columns of GROUP BY"),
        (f"SELECT u, {FUNNEL}, count() FROM e GROUP BY u", "only columns of GROUP BY"),
        (f"SELECT u, {FUNNEL} OVER (PARTITION BY u) FROM e", "only columns of GROUP BY"),
        (f"SELECT {FUNNEL} FROM e SAMPLE 0.1", "SAMPLE of a table"),
        (f"SELECT {FUNNEL} FROM e FINAL", "one table"),
        (f"SELECT {FUNNEL} FROM e AS f", "ALIAS of a table"),
        (f"SELECT {FUNNEL} FROM file('e.csv')", "one table"),
        (f"SELECT {FUNNEL} FROM remote('host', e)", "one table"),
        (f"SELECT u, {FUNNEL} FROM e PREWHERE y = 1 GROUP BY u", "PREWHERE is not translated"),
        (f"SELECT u, max({FUNNEL}) FROM e GROUP BY u", "only columns of GROUP BY"),
        (f"SELECT {FUNNEL} FROM e, f", "JOINS is not translated"),
        (f"SELECT toDate(t) AS d, {FUNNEL} FROM e GROUP BY d", "GROUP BY must name columns of the table"),
        (f"SELECT u AS v, {FUNNEL} FROM e GROUP BY v", "GROUP BY must name columns of the table"),
        (f"SELECT u, {FUNNEL} FROM e GROUP BY 1", "GROUP BY must name columns"),
        (f"SELECT u, {FUNNEL} FROM e GROUP BY u WITH TOTALS", "'totals'"),
        (f"SELECT u, {FUNNEL} FROM e GROUP BY ALL", "'all'"),
        (f"SELECT u, {FUNNEL} FROM e GROUP BY u HAVING u > 1", "HAVING is not translated"),
        (f"SELECT u, {FUNNEL} FROM e GROUP BY u LIMIT 3", "LIMIT is not translated"),
        (f"SELECT u, {FUNNEL} FROM e GROUP BY u SETTINGS max_threads = 1", "SETTINGS is not translated"),
        (f"SELECT {FUNNEL} FROM e WHERE y = 1", "WHERE is not translated"),
        (f"SELECT {FUNNEL} FROM (SELECT * FROM e WHERE y = 1)", "one table"),
        (f"WITH e AS (SELECT 1) SELECT {FUNNEL} FROM e", "WITH is not translated"),
        (f"SELECT {FUNNEL}, {FUNNEL} FROM e", "one windowFunnel, sequenceMatch or sequenceCount"),
        ("SELECT windowFunnelIf(5)(t, x = 1, x = 2, y) FROM e", "only columns of GROUP BY"),
        ("SELECT windowFunnel(5, 'strict_order', 'strict_once')(t, x = 1, x = 2) FROM e", "beside strict_order"),
        ("SELECT windowFunnel(5, 'strict_deduplication')(t, x = 1, x = 2) FROM e", "strict_deduplication"),
        ("SELECT windowFunnel(5, 7)(t, x = 1, x = 2) FROM e", "the mode 7"),
        ("SELECT windowFunnel(w)(t, x = 1) FROM e", "number of seconds"),
        ("SELECT windowFunnel(5)(t, x = 1, x < 2) FROM e", "conditions 1 and 2"),
        ("SELECT windowFunnel(5)(t, x = 1, length(x) = 2) FROM e", "another value in ClickHouse"),
        ("SELECT windowFunnel(5)(t, x = 1, floor(x, 1) = 2) FROM e", "is not understood"),
        ("SELECT windowFunnel(5)(t, x = 1, f.x = 2) FROM e", "is not understood"),
        ("SELECT windowFunnel(5)(t, a -> 1) FROM e", "is not understood"),
        ("SELECT windowFunnel(5)(t, x = 1, y) FROM e", "a number where a condition is expected"),
        ("SELECT windowFunnel(5)(t, x = 1, NOT 1) FROM e", "a number where a condition is expected"),
        ("SELECT windowFunnel(5)(t + 1, x = 1) FROM e", "takes the column of the time"),
        ("SELECT sequenceMatch('(?1)(?3)')(t, x = 1, x = 2) FROM e", "no condition 3"),
        ("SELECT sequenceMatch('(?0)')(t, x = 1, x = 2) FROM e", "no condition 0"),
        ("SELECT sequenceMatch('(?1)', 3)(t, x = 1, x = 2) FROM e", "takes one pattern"),
        ("SELECT sequenceMatch('(?1) (?2)')(t, x = 1, x = 2) FROM e", "not understood"),
        ("SELECT sequenceMatch('(?1)+')(t, x = 1) FROM e", "not understood"),
        ("SELECT sequenceMatch('(?1).*(?t<3)(?2)')(t, x = 1, x = 2) FROM e", "has no equal here"),
        ("SELECT sequenceMatch('(?1)(?t<3).*(?2)')(t, x = 1, x = 2) FROM e", "has no equal here"),
        ("SELECT sequenceMatch('(?1)(?t<3)')(t, x = 1, x = 2) FROM e", "is not understood"),
        ("SELECT sequenceMatch('(?t<3)(?1)')(t, x = 1, x = 2) FROM e", "has no equal here"),
        ("SELECT sequenceMatch('(?1)(?t<3)(?t>1)(?2)')(t, x = 1, x = 2) FROM e", "has no equal here"),
    ],
)
def test_what_has_no_equal_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError) as refused:
        translate(text, "clickhouse")
    assert message in str(refused.value)


def test_an_argument_that_is_not_known_is_refused_wherever_it_stands() -> None:
    call = "sequenceMatch('(?1).*(?2)')(time, type = 'a' AND ABS(x) > 1, type = 'b')"
    text = f"SELECT user, {call} AS m FROM t GROUP BY user"
    assert translate(text, "clickhouse")
    places = [at for at, mark in enumerate(text) if mark in ")," and text[at - 1] not in "12*"]
    for at in [*places, len(text)]:
        for extra in (", unknown(3)", " unknown(3)"):
            with pytest.raises(QueryError):
                translate(f"{text[:at]}{extra}{text[at:]}", "clickhouse")
    for one, other in combinations(places, 2):
        with pytest.raises(QueryError):
            translate(f"{text[:one]}, 1{text[one:other]}, 2{text[other:]}", "clickhouse")
