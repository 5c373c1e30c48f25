"""The statement around MATCH_RECOGNIZE: tables, names, subqueries, joins, and messages with their place."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import motet
from motet.errors import DataError, MotetError, OptionError, QueryError
from tests.command_line import Motet
from tests.sql.tables import rows_of

PAIR = "MATCH_RECOGNIZE (ORDER BY id MEASURES A.x AS a, B.x AS b PATTERN (A B) DEFINE B AS B.x > A.x)"
ROWS = [1, 3, 2, 5]


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT a, b FROM t {PAIR}",
        f"SELECT m.a, m.b FROM t {PAIR} AS m",
        f"SELECT m.a, m.b FROM t {PAIR} m WHERE a > 0 ORDER BY a;",
        f"SELECT first, second FROM t {PAIR} AS m (first, second)",
        f"SELECT a, b FROM t AS q {PAIR.replace('id', 'q.id').replace('B.x > A.x', 'q.x > A.x')}",
        f"SELECT a, b FROM t {PAIR.replace('id', 'T.ID').replace('B.x > A.x', 'ABS(t.x) > A.x AND t.x > PREV(t.x)')}",
        f"SELECT a, b FROM (SELECT x, id FROM t) AS q(z, i) {PAIR.replace('id', 'q.i').replace('.x', '.z')}",
        'SELECT a, b FROM t AS "my t" ' + PAIR.replace("id", '"my t".id').replace("B.x > A.x", "`My T`.x > A.x"),
        f"SELECT a, b FROM (SELECT * FROM t WHERE x > 0) {PAIR}",
        f"SELECT a, b FROM (SELECT id, x FROM t) AS s {PAIR}",
        f"SELECT a, b FROM (VALUES (1, 1), (2, 3), (3, 2), (4, 5)) AS v(id, x) {PAIR}",
        f"SELECT * FROM (SELECT a, b FROM t {PAIR}) AS inner_query",
        f"SELECT a,b FROM(SELECT*FROM t){PAIR}AS m WHERE(a)IN(1,2)",
        "SELECT a, b FROM t "
        + PAIR.replace("B.x AS b", "CASE WHEN(B.x)IN(3,5)AND NOT(A.x)IN(9)THEN(B.x)ELSE(A.x)END AS b"),
        "SELECT a, b FROM t " + PAIR.replace("B.x AS b", "CASE WHEN LAST(x)IN(3,5)THEN LAST(x)ELSE FIRST(x)END AS b"),
        f"WITH s AS (SELECT * FROM t) SELECT a, b FROM s {PAIR}",
        f"WITH s AS (SELECT a, b FROM t {PAIR}) SELECT * FROM s",
        f"WITH s AS (SELECT * FROM t), r AS (SELECT a, b FROM s {PAIR}), q AS (SELECT 1) SELECT * FROM r",
        f"WITH s (id, x) AS (SELECT id, x FROM t) SELECT a, b FROM s {PAIR}",
        f"SELECT * FROM (WITH s AS (SELECT * FROM t) SELECT a, b FROM s {PAIR}) AS outer_query",
        f"WITH t AS (SELECT * FROM t) SELECT a, b FROM t {PAIR}",
        f"SELECT p.a, q.b FROM t {PAIR} AS p JOIN t {PAIR} AS q ON p.a = q.a ORDER BY 1",
        f"SELECT p.a, q.b FROM t {PAIR} AS p, t {PAIR} AS q WHERE p.a = q.a ORDER BY 1",
        f"SELECT a, b FROM t {PAIR} UNION SELECT a, b FROM t {PAIR} ORDER BY 1",
        f"SELECT a, (SELECT MIN(n.b) FROM t {PAIR} AS n WHERE n.a = m.a) AS b FROM t {PAIR} AS m",
        f"-- MATCH_RECOGNIZE in a comment\nSELECT a, /* ( */ b FROM t {PAIR} WHERE 'MATCH_RECOGNIZE (' <> ')'",
        f"SELECT a, /* outer /* MATCH_RECOGNIZE ( */ ( */ b FROM t {PAIR}",
        'SELECT a, b FROM "t" ' + PAIR.replace("B.x >", 'B."x" >'),
        f"SELECT `a`, b FROM `t` {PAIR.replace('A.x AS a', '`A`.`x` AS `a`')}",
        f"select a, b from T {PAIR.lower()}",
        "SELECT a, b FROM t MATCH_RECOGNIZE (ORDER BY ID MEASURES A.X AS a, b.x AS b PATTERN (a B) DEFINE b AS x>a.X)",
    ],
)
def test_the_statement_around_a_match_is_any_query(statement: str) -> None:
    assert rows_of(statement, t=ROWS) == [(1, 3), (2, 5)]


def test_the_result_of_a_match_can_be_matched_again() -> None:
    inner = "SELECT a AS id, b AS x FROM t " + PAIR
    assert rows_of(f"SELECT a, b FROM ({inner}) {PAIR}", t=ROWS) == [(3, 5)]


def test_subqueries_may_stand_in_conditions_and_measures() -> None:
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES A.x + (SELECT 10) AS y PATTERN (A B)
              DEFINE A AS x > (SELECT MIN(x) FROM t), B AS x IN (SELECT x FROM t WHERE x > 4) AND x > A.x)"""
    assert rows_of(text, t=ROWS) == [(12,)]
    assert rows_of(f"WITH s AS (SELECT 10) {text.replace('(SELECT 10)', '(SELECT * FROM s)')}", t=ROWS) == [(12,)]


@pytest.mark.parametrize("name", ["n", "m0", "p0", "o0", "x"])
def test_a_subquery_of_measures_reads_no_column_of_the_row(name: str) -> None:
    rows = [{"id": 1, "n": 7, "m0": 8, "p0": 9, "o0": 10, "x": 11}]
    text = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY n ORDER BY id MEASURES id AS i, {} AS v PATTERN (A))"
    for subquery in (f"(SELECT {name})", f"EXISTS (SELECT 1 FROM (VALUES (1)) AS u(k) WHERE k = {name})"):
        with pytest.raises(QueryError, match=f'"{name}" not found'):
            rows_of(text.format(subquery), t=rows)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("{x: FIRST(x), id: id}", {"x": 3, "id": 2}),
        ("struct_pack(x := FIRST(x), id := x)", {"x": 3, "id": 5}),
        ("ARRAY[FIRST(x), x]", [3, 5]),
        ("MAP {'x': FIRST(x)}", [("x", 3)]),
        ("[FIRST(x), x][id:]", [5]),
        ("list_transform([1], lambda x: x + FIRST(id))", [2]),
        ("2 ** id", 4.0),
    ],
)
def test_measures_are_any_expression_in_which_names_of_fields_stay(measure: str, expected: object) -> None:
    text = f"SELECT v FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {measure} AS v PATTERN (A B))"
    assert rows_of(text, t=[3, 5]) == [(expected,)]


def test_columns_that_differ_in_capitals_alone_are_refused() -> None:
    with pytest.raises(DataError, match="table 't' has two columns 'x'"):
        rows_of("SELECT X FROM t", t=pa.table({"x": [1], "X": [2]}))


def test_names_that_are_words_of_the_language_are_columns_where_they_are_quoted() -> None:
    rows = [{"order": 1, "first name": "a", "date": 5}, {"order": 2, "first name": "b", "date": 6}]
    text = """SELECT * FROM t MATCH_RECOGNIZE (
        ORDER BY "order" MEASURES A."first name" AS "last name", LAST(date) AS "end" PATTERN (A B)
        DEFINE B AS B."first name" > A."first name"
          AND CAST(date AS DATE) IS NULL OR CAST(B.date AS INTEGER) > A.date)"""
    with pytest.raises(QueryError, match="DuckDB"):  # no number is a date
        rows_of(text, t=rows)
    assert rows_of(text.replace("CAST(date AS DATE) IS NULL OR", ""), t=rows) == [("a", 6)]


def test_tables_are_given_by_name_as_anything_that_holds_rows(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "x": [1, 2]})
    pq.write_table(table, tmp_path / "ticks.parquet")
    (tmp_path / "ticks.csv").write_text("id,x\n1,1\n2,2\n")
    text = f"SELECT a, b FROM ticks {PAIR}"
    for source in (table, table.to_batches()[0], table.to_pandas(), tmp_path / "ticks.parquet", tmp_path / "ticks.csv"):
        found = motet.sql(text, {"ticks": source})
        assert (found if isinstance(found, pd.DataFrame) else found.to_pandas()).to_dict("records") == [
            {"a": 1, "b": 2}
        ]


def test_a_table_alone_is_events_and_a_file_alone_has_its_own_name_too(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "x": [1, 2]})
    pq.write_table(table, tmp_path / "ticks.parquet")
    assert motet.sql(f"SELECT a FROM events {PAIR}", table).to_pylist() == [{"a": 1}]
    for name in ("ticks", "events"):
        assert motet.sql(f"SELECT a FROM {name} {PAIR}", str(tmp_path / "ticks.parquet")).to_pylist() == [{"a": 1}]


def test_the_result_is_a_pandas_frame_where_the_tables_are() -> None:
    frame = pd.DataFrame({"id": [1, 2], "x": [1, 2]})
    assert isinstance(motet.sql(f"SELECT a FROM events {PAIR}", frame), pd.DataFrame)
    assert isinstance(motet.sql("SELECT 1 AS one"), pa.Table)


def test_variables_of_the_caller_are_no_tables() -> None:
    hidden = pa.table({"id": [1]})
    assert len(hidden) == 1
    with pytest.raises(QueryError, match="hidden"):
        motet.sql("SELECT * FROM hidden")


def test_a_name_of_the_relation_stands_behind_variables_and_before_columns() -> None:
    rows = [{"id": at, "x": at * 10, "s": {"id": -at}} for at in (1, 2)]
    text = "SELECT v FROM t AS {} MATCH_RECOGNIZE (ORDER BY id MEASURES {} AS v PATTERN ({} B))"
    assert rows_of(text.format("a", "a.x", "A"), t=rows) == [(10,)]
    assert rows_of(text.format("s", "s.id", "A"), t=rows) == [(2,)]
    assert rows_of(text.format("q", "s.id + q.s.id", "A"), t=rows) == [(-4,)]
    with pytest.raises(QueryError, match="'t' is no variable of PATTERN and no column"):
        rows_of(text.format("q", "t.x", "A"), t=rows)


NO_NUMBER = "CAST(CONCAT('z', id) AS INT) > 0"
WINDOW, FOO = "Window functions are not supported here", "Scalar Function with name foo does not exist"


@pytest.mark.parametrize(
    ("statement", "message", "place", "width"),
    [
        (f"SELECT nothing\nFROM t {PAIR}", 'Referenced column "nothing" not found', (1, 8), 7),
        (f"SELECT 'é', a,\n foo(b) FROM t {PAIR} WHERE a > 1", FOO, (2, 2), 3),
        (f"SELECT a\nFROM nowhere {PAIR}", "Table with name nowhere does not exist", (2, 6), 7),
        (f"SELECT a FROM t {PAIR}\nWHERE a FRM 1", 'syntax error at or near "FRM"', (2, 9), 3),
        (f"SELECT a FROM (SELECT nix FROM t)\n {PAIR}", 'Referenced column "nix" not found', (1, 23), 3),
        (f"SELECT a FROM t {PAIR} AS m\nJOIN t ON m.idd = t.id", 'does not have a column named "idd"', (2, 11), 1),
        ("SELECT a FROM t " + PAIR.replace(" MEASURES ", " MEASURES\nNTILE(2) AS c, "), WINDOW, (2, 1), 8),
        ("SELECT a FROM t " + PAIR.replace("B.x >", "id > 1 AND\nB.x > NTILE(x) AND B.x >"), WINDOW, (2, 1), 14),
        ("SELECT a FROM t " + PAIR.replace("B.x >", f"B.x > A.x AND\n{NO_NUMBER} AND B.x >"), "'z1' to", (2, 1), 32),
        ("SELECT a FROM t " + PAIR.replace("ORDER", "PARTITION BY id,\nfoo(x) ORDER"), FOO, (2, 1), 6),
    ],
)
def test_a_mistake_that_the_engine_finds_is_shown_in_its_place(
    statement: str, message: str, place: tuple[int, int], width: int
) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        rows_of(statement, t=ROWS)
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert ((span.line, span.column), span.end - span.start) == (place, width)


def test_a_mistake_is_shown_in_its_place() -> None:
    text = f"SELECT *\nFROM t {PAIR.replace('B.x > A.x', 'B.y > A.x')}"
    with pytest.raises(QueryError) as caught:
        rows_of(text, t=ROWS)
    assert str(caught.value).splitlines() == [
        "<text>:2:93: error: there is no column 'y'",
        "    2 | FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES A.x AS a, B.x AS b PATTERN (A B) DEFINE B AS B.y > A.x)",
        " " * 100 + "^",
        "      = known here: id, x",
    ]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("", "no statement"),
        ("DROP TABLE t", "only queries are run"),
        ("WITH s AS (SELECT 1) INSERT INTO t SELECT * FROM s", "this one changes a table"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("SELECT 'a", "never closed"),
        ("SELECT 1 /* a /* b */", "this comment is never closed"),
        (f"SELECT * FROM t {PAIR.replace('A.x AS a', '* AS a')}", r"\* cannot stand in MEASURES"),
        (f"SELECT * FROM t {PAIR.replace('A.x AS a', '#1 AS a')}", "# cannot stand in MEASURES"),
        ("SELECT * FROM t MATCH_RECOGNIZE", "needs its clauses"),
        ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id", "never closed"),
        ("SELECT * FROM MATCH_RECOGNIZE (PATTERN (A))", "a table is expected"),
        ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id)", "needs a PATTERN"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) PATTERN (B))", "written twice"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE B AS x > 1)", "B is not in PATTERN"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x > 1, A AS x > 2)", "defined twice"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) SUBSET U = (A, B))", "B of SUBSET U is not in PATTERN"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) SUBSET A = (A))", "the name of a variable"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) SUBSET U (A))", "SUBSET is not understood"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) WITHIN INTERVAL '1' HOUR)", "WITHIN is not part"),
        (
            f"SELECT * FROM t {PAIR.replace('A.x AS', 'LAST_VALUE(x) AS')}",
            r"LAST_VALUE is not part(.|\n)*write LAST\(x\)",
        ),
        ("SELECT * FROM t MATCH_RECOGNIZE (INITIAL PATTERN (A))", "windows"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) WHERE x)", "'WHERE' is not understood"),
        ("SELECT * FROM t MATCH_RECOGNIZE (ALL ROWS PATTERN (A))", "is expected here"),
        ("SELECT nothing FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES x AS y PATTERN (A))", "nothing"),
        ("SELECT * FROM nowhere MATCH_RECOGNIZE (ORDER BY id PATTERN (A))", "nowhere"),
    ],
)
def test_statements_that_cannot_be_run_are_refused(statement: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        rows_of(statement, t=ROWS)


def test_other_mistakes_are_named() -> None:
    with pytest.raises(DataError, match="no file or folder"):
        motet.sql("SELECT 1", "nowhere.parquet")
    with pytest.raises(OptionError, match="engine is 'oracle'"):
        motet.sql("SELECT 1", engine="oracle")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="time does not apply to a SQL statement"):
        motet.sql("SELECT 1", time="ts")
    with pytest.raises(MotetError, match="there is no file"):
        motet.sql(Path("nowhere.sql"))


def test_the_command_line_runs_a_file_and_writes_any_format(tmp_path: Path, motet: Motet) -> None:
    (tmp_path / "t.csv").write_text("id,x\n1,1\n2,3\n3,2\n4,5\n")
    (tmp_path / "q.sql").write_text(f"SELECT a, b FROM t {PAIR}")
    alone = motet("sql", str(tmp_path / "q.sql"), "--events", str(tmp_path / "t.csv"), "--format", "jsonl")
    assert alone.stdout.splitlines() == ['{"a": 1, "b": 3}', '{"a": 2, "b": 5}']
    for format in ("csv", "parquet", "jsonl", "table"):
        target = tmp_path / f"out.{format}"
        named = f"t={tmp_path / 't.csv'}"
        done = motet("sql", str(tmp_path / "q.sql"), "--events", named, "--format", format, "--output", str(target))
        assert not done.status
        assert target.stat().st_size
    shown = motet("sql", str(tmp_path / "q.sql"), "--events", str(tmp_path / "t.csv"), "--limit", "1")
    assert "1 more row" in shown.stdout
    assert "2 rows in" in shown.stderr


def test_partitions_are_split_among_threads_and_come_out_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["a"] * 40 + ["b"] * 3 + ["c"] * 7 + ["d"] * 30
    table = pa.table({"k": keys, "id": range(80), "x": [at % 7 for at in range(80)]})
    pattern = "PATTERN (A B+) DEFINE B AS x > PREV(x)"
    text = f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES A.id AS a, COUNT(*) AS n {pattern})"
    alone = motet.sql(text, {"t": table})
    monkeypatch.setattr("motet.row_patterns.matching.MIN_ROWS_PER_THREAD", 8)
    monkeypatch.setattr(pa, "cpu_count", lambda: 3)
    assert motet.sql(text, {"t": table}).equals(alone)
    assert alone.column("k").unique().to_pylist() == ["a", "b", "c", "d"]
    slow = "PATTERN ((A | B)+ C) DEFINE A AS k = 'd' AND SUM(x) >= 0, B AS k = 'd', C AS SUM(x) < 0"
    with pytest.raises(MotetError, match="partition k = 'd': the search takes more than 500 steps"):
        motet.sql(text.replace(pattern, slow), {"t": table}, step_limit=500)
