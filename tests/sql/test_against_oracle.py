"""Random row patterns give what a plain matcher finds."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import motet
from motet.errors import RunError
from tests.sql.row_pattern_oracle import Expr, Pattern, Query, SkipError, TooLongError, run

VARIABLES = ("A", "B", "C")
OWNERS = (None, "A", "B", "C", "U")
SUBSETS = {"U": ["A", "B"]}
NUMBERS = ("x", "y")


def patterns(depth: int = 3) -> st.SearchStrategy[Pattern]:
    leaf = st.sampled_from([*(("var", name) for name in VARIABLES * 5), ("empty",), ("empty",), ("start",), ("end",)])
    if depth == 0:
        return leaf
    inner = patterns(depth - 1)
    bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, None), (2, 2), (1, 3), (0, 2), (0, 0), (3, None)])
    return st.one_of(
        leaf,
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("seq", *parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("seq", *parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("alt", *parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("permute", *parts)),
        st.builds(
            lambda part, limits, greedy: ("repeat", part, *limits, greedy),
            inner,
            bounds,
            st.booleans(),
        ),
        inner.map(lambda part: ("exclude", part)),
    )


def navigations(in_measures: bool) -> st.SearchStrategy[Expr]:
    owner, name, offset = st.sampled_from(OWNERS), st.sampled_from(NUMBERS), st.integers(0, 2)
    semantics = st.sampled_from([None, "RUNNING", "FINAL"] if in_measures else [None, "RUNNING"])
    column = st.builds(lambda v, c: ("col", v, c), owner, name)
    logical = st.builds(
        lambda f, v, c, k, s: (f, v, c, k, s), st.sampled_from(["first", "last"]), owner, name, offset, semantics
    )
    physical = st.builds(lambda f, inner, k: (f, inner, k), st.sampled_from(["prev", "next"]), column | logical, offset)
    totals = st.builds(
        lambda f, v, c, s: ("agg", f, v, c, s),
        st.sampled_from(["COUNT", "SUM", "MIN", "MAX", "AVG"]),
        owner,
        name,
        semantics,
    )
    counts = st.builds(lambda v, s: ("agg", "COUNT", v, None, s), owner, semantics)
    return st.one_of(column, column, logical, physical, totals, counts)


def values(in_measures: bool, depth: int = 1) -> st.SearchStrategy[Expr]:
    leaf = st.one_of(
        navigations(in_measures),
        navigations(in_measures),
        st.integers(-2, 3).map(lambda n: ("lit", n)),
        st.just(("number",)),
    )
    if depth == 0:
        return leaf
    inner = values(in_measures, depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda op, a, b: (op, a, b), st.sampled_from("+-*"), inner, inner),
        st.builds(lambda a, b: ("coalesce", a, b), inner, inner),
    )


def conditions(depth: int = 1) -> st.SearchStrategy[Expr]:
    comparison = st.builds(
        lambda op, a, b: (op, a, b), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), values(False), values(False)
    )
    # The usual kinds, so that something matches.
    near = st.builds(
        lambda op, c: (op, ("col", None, c), ("prev", ("col", None, c), 1)),
        st.sampled_from(["<", ">="]),
        st.sampled_from(NUMBERS),
    )
    own = st.builds(
        lambda op, c, n: (op, ("col", None, c), ("lit", n)),
        st.sampled_from(["<", ">="]),
        st.sampled_from(NUMBERS),
        st.integers(0, 2),
    )
    label = st.builds(
        lambda op, v, name: (op, ("classifier", v), ("lit", name)),
        st.sampled_from(["=", "<>", "<"]),
        st.sampled_from(OWNERS),
        st.sampled_from(VARIABLES),
    )
    leaf = st.one_of(near, own, near, own, comparison, label, values(False).map(lambda e: ("isnull", e)))
    if depth == 0:
        return leaf
    inner = conditions(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda op, a, b: (op, a, b), st.sampled_from(["AND", "OR"]), inner, inner),
        inner.map(lambda e: ("not", e)),
    )


def queries() -> st.SearchStrategy[Query]:
    all_variables = ("seq", *(("repeat", ("var", name), 0, 0, True) for name in VARIABLES))
    skips = ["PAST LAST ROW"] * 3 + ["TO NEXT ROW"] * 2 + ["TO FIRST B", "TO LAST B", "TO LAST U", "TO FIRST C"]
    return st.builds(
        Query,
        # Every variable occurs, so that every expression is allowed.
        patterns().map(lambda pattern: ("seq", pattern, all_variables)),
        st.dictionaries(st.sampled_from(VARIABLES), conditions(), max_size=3),
        st.lists(
            values(True) | st.sampled_from([("classifier", None), ("classifier", "U")]), min_size=1, max_size=4
        ).map(lambda found: {f"m{at}": expr for at, expr in enumerate(found)}),
        st.just(SUBSETS),
        st.sampled_from(["one", "one", "show", "omit", "unmatched"]),
        st.sampled_from(skips),
    )


_ROW = st.tuples(
    st.sampled_from("ppq"),
    st.sampled_from([None, 0, 1, 1, 2, 2, 3]),
    st.sampled_from([None, 0.0, 0.5, 0.5, 1.5, 2.0]),
)
ROWS = st.lists(_ROW, min_size=5, max_size=12) | st.lists(_ROW, max_size=4)


def has_exclusion(pattern: Pattern) -> bool:
    return pattern[0] == "exclude" or any(has_exclusion(part) for part in pattern[1:] if isinstance(part, tuple))


@given(queries(), ROWS)
def test_row_patterns_give_what_a_plain_matcher_finds(query: Query, rows: list[tuple[str, int, float]]) -> None:
    assume(not (query.rows == "unmatched" and has_exclusion(query.pattern)))
    records = [{"id": at, "k": k, "x": x, "y": y} for at, (k, x, y) in enumerate(rows)]
    partitions = {k: [row for row in records if row["k"] == k] for k in dict.fromkeys(row["k"] for row in records)}
    schema = pa.schema([("id", pa.int64()), ("k", pa.string()), ("x", pa.int64()), ("y", pa.float64())])
    events = {"t": pa.Table.from_pylist(records, schema)}
    text = query.to_sql("k", "id")
    try:
        expected = run(query, list(partitions.values()))
    except TooLongError:
        assume(False)
    except SkipError:
        with pytest.raises(RunError, match="AFTER MATCH SKIP goes to"):
            motet.sql(text, events)
        return
    found = motet.sql(text, events)
    names = [*query.measures, *([] if query.rows == "one" else ["id"])]
    assert list(map(list, zip(*(found[name].to_pylist() for name in names), strict=True))) == expected
