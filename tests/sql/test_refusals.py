"""What is refused says what the page of refusals says, and the page lists no message that nothing raises."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pyarrow as pa
import pytest

from motet.errors import MotetError
from motet.row_patterns.clauses import parse_clause
from motet.row_patterns.compiler import draft_clause, finish_program
from motet.row_patterns.tokens import SqlText
from tests.errors.sites import sites
from tests.sql.tables import rows_of

PAGE = Path(__file__).parents[2] / "docs" / "coming-from" / "refused.md"
ROWS = pa.table(
    {
        "id": [1, 2],
        "s": ["a", "b"],
        "f": pa.array([1, 2], pa.float32()),
        "d": pa.array([1, 2], pa.decimal128(5, 2)),
        "at": pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)], pa.timestamp("ns")),
        "t": pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)], pa.timestamp("us", "UTC")),
        "fine": pa.array([1, 1_000_000_001], pa.timestamp("ns")),
        "list": [[1], [2]],
    }
)


def say(
    define: str = "B AS B.id > A.id", measures: str = "COUNT(*) AS n", pattern: str = "A B", order: str = "ORDER BY id"
) -> str:
    return f"SELECT * FROM t MATCH_RECOGNIZE ({order} MEASURES {measures} PATTERN ({pattern}) DEFINE {define})"


# A statement of each kind that is refused, by what is said of it.
REFUSED = {
    "CONCAT(...) takes values of several rows, which cannot be evaluated while matching": say(
        "B AS CONCAT(s, A.s) = 'ba'"
    ),
    "a text and a whole number of different rows cannot be compared": say("B AS s > A.id"),
    "'+' between values of different rows takes numbers or times": say("B AS f + A.f > 1"),
    "'%' between values of different rows takes whole numbers": say("B AS id % A.d > 1"),
    "months and mixed intervals are not supported between rows": say("B AS t - A.t < INTERVAL '1' MONTH"),
    "has values that do not fit into 64 bits or microseconds": say("B AS fine > A.fine"),
    "nested or binary values and intervals of months of different rows cannot be compared": say("B AS list = A.list"),
    "this product has too many digits behind its point": say(f"B AS {' * '.join(['d', 'A.d'] * 5)} > 1"),
    "this number does not fit into 64 bits": say("B AS id + A.id < 99999999999999999999"),
    "this condition is nested too deeply": say(
        f"B AS {''.join(f'CASE WHEN id > A.id + {n} THEN TRUE ELSE ' for n in range(30))} FALSE {'END ' * 30}"
    ),
    "this MATCH_RECOGNIZE is nested too deeply": say(f"B AS {'(' * 200} id > 1 {')' * 200}"),
    "the offset of LAST must be written out": say("B AS LAST(id, id) > 1"),
    "COLLATE is not supported in DEFINE": say("B AS s COLLATE NOCASE = 'B'"),
    "the aggregate ARRAY_AGG is not supported in MEASURES": say(measures="ARRAY_AGG(id) AS ids"),
    "MEASURES or DEFINE has an aggregate that is not supported": say(measures="BITSTRING_AGG(id) AS ids"),
    'Referenced column "s" not found': say(measures="(SELECT COUNT(*) FROM (VALUES ('a')) AS v(w) WHERE w = s) AS n"),
    "COLUMNS cannot stand in MEASURES": say(measures="COLUMNS('id') AS ids"),
    'SUM of "s", which is string, is not supported': say(measures="SUM(s) AS total"),
    "COUNT(DISTINCT ...) is not supported in MEASURES": say(measures="COUNT(DISTINCT id) AS ids"),
    "OVER is not supported here": say(measures="SUM(id) OVER () AS total"),
    "a window function cannot stand in MEASURES": say(measures="ROW_NUMBER() OVER () AS number"),
    "UNNEST makes several rows of one: it cannot stand in MEASURES": say(measures="UNNEST([id]) AS ids"),
    "this cannot stand in the argument of a navigation or an aggregate": say(measures="SUM(id * MATCH_NUMBER()) AS n"),
    "CLASSIFIER in the argument of an aggregate is evaluated in MEASURES only": say("B AS MAX(CLASSIFIER()) = 'B'"),
    "all columns of an argument must be of one variable": say(measures="SUM(A.id + B.id) AS n"),
    "ORDER BY takes columns and what is computed of one row": say(order="ORDER BY PREV(id)"),
    "ORDER BY needs a column here": say(order="ORDER BY 1"),
    "PARTITION BY takes no nested values": say(order="PARTITION BY list ORDER BY id"),
    "ORDER BY takes no column of type list": say(order="ORDER BY list"),
    "is an ENUM, which has an order of its own: CAST it to VARCHAR first": say(order="ORDER BY s").replace(
        "FROM t", "FROM (SELECT id, CAST(s AS ENUM('b', 'a')) AS s FROM t)"
    ),
    "PERMUTE of 7 parts has too many orders": say(pattern="PERMUTE(A, B, C, D, E, F, G)"),
    "PATTERN has too many steps": say(pattern="(A{1000} B){1000}"),
    "MATCH_RECOGNIZE cannot stand in DEFINE": say(f"B AS id IN ({say()})"),
    "LAG is not part of SQL's MATCH_RECOGNIZE": say("B AS id > LAG(id)"),
    "WITHIN is not part of SQL's MATCH_RECOGNIZE": say().replace(" DEFINE", " WITHIN INTERVAL '1' HOUR DEFINE"),
    "row patterns in windows are not supported": "SELECT SUM(id) OVER w AS total FROM t WINDOW w AS ("
    "ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+) DEFINE B AS id > PREV(id))",
    "INITIAL belongs to row patterns in windows, which are not supported": say().replace("PATTERN", "INITIAL PATTERN"),
    "only queries are run": "DELETE FROM t",
    "there is more than one statement": f"{say()}; {say()}",
    "WITH UNMATCHED ROWS and {- -} do not go together": say(pattern="A {- B -}").replace(
        "PATTERN", "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN"
    ),
    "FINAL has no meaning in DEFINE: the match is not complete": say("B AS FINAL LAST(id) > 1"),
    "PREV and NEXT do not stand in each other": say("B AS PREV(NEXT(id)) > 1"),
}
REFUSED_ON_SPARK = {
    "decimals of different rows are not divided": say("B AS d / A.d > 1"),
    "days differ in length in the session's time zone": say(
        "B AS t < A.t + (B.t - A.t) AND t > LAST(t, 1) + INTERVAL '1' DAY"
    ),
}
NEEDS_A_SESSION = {
    "MATCH_RECOGNIZE needs an ORDER BY on Spark, which keeps no order of rows",
    "has a collation: CAST it to STRING COLLATE UTF8_BINARY first",
}
# Errors of what is found in the rows; each has its test where its feature is tested.
WHILE_MATCHING = {
    "the search takes more than 1,000,000,000 steps (option step_limit); it was at row 1; make conditions stricter, "
    "or raise the limit",
    "a match from row 1 on is too long to be searched",
    "AFTER MATCH SKIP goes to A, which has the first row of the match, row 1: again without end",
    "AFTER MATCH SKIP goes to C, which has no row in the match from row 1 on",
    "a condition divides by zero near row 1",
    "a number in a condition does not fit into 64 bits near row 1",
    "a SUM in MEASURES does not fit into 64 bits",
}
# Messages of statements that are wrong in SQL, and of files: all others are refusals and stand on the page.
MISTAKES = {
    "AFTER MATCH SKIP: {} is not in PATTERN",
    "CAST needs AS and a type",
    "CLASSIFIER takes a variable of PATTERN",
    "FILTER needs a condition",
    "MATCH_NUMBER takes no argument",
    "MATCH_RECOGNIZE needs a PATTERN",
    "MATCH_RECOGNIZE needs its clauses in ( )",
    "PATTERN needs a variable",
    "PATTERN needs a variable here",
    "SUBSET {} has the name of a variable of PATTERN",
    "SUBSET {} is written twice",
    "WHEN takes a condition",
    "a column is expected here",
    "a condition is true or false; this is neither",
    "a list is expected here",
    "a measure needs a name",
    "a quantifier follows a quantifier",
    "a table is expected before MATCH_RECOGNIZE",
    "a variable is expected here",
    "an expression in {} breaks off here",
    "an expression is missing here",
    "an expression is missing in {}",
    "something is missing between commas",
    "table {} has two columns {}: SQL does not tell capitals apart",
    "the file {} is not UTF-8 text",
    "there are two columns {}",
    "there is no column {}",
    "there is no file {}",
    "there is no statement here",
    "this CASE has no END",
    "this MATCH_RECOGNIZE has no columns",
    "this SUBSET is not understood",
    "this bracket is never closed",
    "this bracket is never closed in PATTERN",
    "this definition is not understood",
    "this quantifier allows nothing",
    "this quantifier is not understood",
    "* cannot stand in {}",
    "{} cannot stand before {}",
    "{} cannot stand in {}",
    "{} is defined twice",
    "{} is expected here",
    "{} is no variable of PATTERN and no column",
    "{} is not in PATTERN",
    "{} is not understood here",
    "{} is not understood here in PATTERN",
    "{} is written twice",
    "{} needs a column",
    "{} needs an argument",
    "{} of SUBSET {} is not in PATTERN",
    "{} stands before FIRST, LAST or an aggregate only",
    "{} takes a number",
    "{} takes an expression and an offset",
    "{} takes columns, no other navigation",
    "{} takes conditions",
    "{} takes one argument",
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused_says_so(message: str) -> None:
    with pytest.raises(MotetError) as refused:
        rows_of(REFUSED[message], t=ROWS)
    assert message in str(refused.value)


@pytest.mark.parametrize("message", REFUSED_ON_SPARK)
def test_what_is_refused_on_spark_says_so(message: str) -> None:
    sql = SqlText(REFUSED_ON_SPARK[message], "<text>", "spark")
    clause = parse_clause(sql, 3, 4)
    draft = draft_clause(clause, ROWS.schema)
    types = [
        pa.timestamp("us", "UTC") if column.name is None else ROWS.schema.field(column.name).type
        for column in draft.inputs
    ]
    with pytest.raises(MotetError) as refused:
        finish_program(draft, types, utc=False)
    assert message in str(refused.value)


def test_the_page_lists_these_messages_and_no_others() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Queries that `motet sql` runs")[2].partition("\n## ")[0]
    rows = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in section.splitlines() if line.startswith("| ")]
    listed = {row[1].strip().strip("`") for row in rows if row[1].strip() != "it says"}
    assert listed == {*REFUSED, *REFUSED_ON_SPARK, *NEEDS_A_SESSION, *WHILE_MATCHING}


def test_every_message_is_on_the_page_or_about_a_mistake() -> None:
    listed = [*REFUSED, *REFUSED_ON_SPARK, *NEEDS_A_SESSION, *WHILE_MATCHING]
    messages = {site.message for site in sites() if site.file.startswith(("row_patterns/", "spark/sql.py"))}
    assert messages >= MISTAKES
    for message in messages - MISTAKES:
        pieces = [piece.strip(" :") for piece in message.split("{}")]
        assert any(each in message or all(piece in each for piece in pieces if piece) for each in listed), message
