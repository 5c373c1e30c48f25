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
    argument = st.one_of(name, st.sampled_from([("+", "x", "y"), ("*", "x", "x")]))
    logical = st.builds(
        lambda f, v, c, k, s: (f, v, c, k, s), st.sampled_from(["first", "last"]), owner, argument, offset, semantics
    )
    physical = st.builds(lambda f, inner, k: (f, inner, k), st.sampled_from(["prev", "next"]), column | logical, offset)
    totals = st.builds(
        lambda f, v, c, s: ("agg", f, v, c, s),
        st.sampled_from(["COUNT", "SUM", "MIN", "MAX", "AVG"]),
        owner,
        argument,
        semantics,
    )
    counts = st.builds(lambda v, s: ("agg", "COUNT", v, None, s), owner, semantics)
    of_label = st.builds(
        lambda f, v, label, s: ("aggof", f, v, label, "x", s),
        st.sampled_from(["COUNT", "SUM", "MIN", "MAX", "AVG"]),
        owner,
        st.sampled_from(VARIABLES),
        semantics,
    )
    return st.one_of(column, column, logical, physical, totals, counts, *([of_label] if in_measures else []))


def texts(in_measures: bool) -> st.SearchStrategy[Expr]:
    owner, offset = st.sampled_from(OWNERS), st.integers(0, 2)
    semantics = st.sampled_from([None, "RUNNING", "FINAL"] if in_measures else [None, "RUNNING"])
    column = owner.map(lambda v: ("col", v, "z"))
    logical = st.builds(
        lambda f, v, k, s: (f, v, "z", k, s), st.sampled_from(["first", "last"]), owner, offset, semantics
    )
    classifier = owner.map(lambda v: ("classifier", v))
    label = st.builds(
        lambda f, v, k, s: ("label", f, v, k, s), st.sampled_from(["first", "last"]), owner, offset, semantics
    )
    beside = st.builds(
        lambda f, inner, k: (f, inner, k), st.sampled_from(["prevlabel", "nextlabel"]), classifier | label, offset
    )
    extreme = st.builds(lambda f, v, s: ("agg", f, v, "z", s), st.sampled_from(["MIN", "MAX"]), owner, semantics)
    return st.one_of(
        column, logical, classifier, label, beside, extreme, st.sampled_from("ABC").map(lambda n: ("lit", n))
    )


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
        st.builds(lambda f, a, b: (f, a, b), st.sampled_from(["GREATEST", "LEAST", "NULLIF"]), inner, inner),
        st.builds(lambda op, a: (op, a), st.sampled_from(["abs", "negative"]), inner),
        st.builds(lambda a, b, c, d: ("case", ("<", a, b), c, d), inner, inner, inner, inner),
    )


def row_conditions() -> st.SearchStrategy[Expr]:
    """Conditions on a row and the one before it: the usual kinds, so that something matches."""
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
    return near | own


def conditions(depth: int = 1) -> st.SearchStrategy[Expr]:
    comparison = st.builds(
        lambda op, a, b: (op, a, b), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), values(False), values(False)
    )
    text = st.builds(lambda op, a, b: (op, a, b), st.sampled_from(["=", "<>", "<"]), texts(False), texts(False))
    distinct = st.builds(lambda a, b: ("distinct", a, b), values(False, 0), values(False, 0))
    several = st.builds(lambda a, b, c: ("in", a, b, c), values(False, 0), values(False, 0), values(False, 0))
    between = st.builds(lambda a, b, c: ("between", a, b, c), values(False, 0), values(False, 0), values(False, 0))
    unknown = (values(False) | texts(False)).map(lambda e: ("isnull", e))
    leaf = st.one_of(
        row_conditions(), row_conditions(), row_conditions(), comparison, text, several, between, unknown, distinct
    )
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
        st.lists(values(True) | texts(True) | st.just(("classifier", None)), min_size=1, max_size=4).map(
            lambda found: {f"m{at}": expr for at, expr in enumerate(found)}
        ),
        st.just(SUBSETS),
        st.sampled_from(["one", "one", "show", "omit", "unmatched"]),
        st.sampled_from(skips),
    )


RandomRow = tuple[str, int | None, float | None, str | None]
_ROW = st.tuples(
    st.sampled_from("ppq"),
    st.sampled_from([None, 0, 1, 1, 2, 2, 3]),
    st.sampled_from([None, 0.0, 0.5, 0.5, 1.5, 2.0]),
    st.sampled_from([None, "A", "A", "B", "C"]),
)
ROWS = st.lists(_ROW, min_size=5, max_size=12) | st.lists(_ROW, max_size=4)


def overlapping_queries() -> st.SearchStrategy[Query]:
    """Queries of which many rows begin a match, and whose failures are remembered from one row to the next."""
    variable = st.sampled_from(VARIABLES).map(lambda name: ("var", name))
    pair = st.tuples(st.sampled_from(["seq", "alt"]), variable, variable)
    maybe = st.builds(lambda part, greedy: ("repeat", part, 0, 1, greedy), variable, st.booleans())
    piece = variable | pair | maybe
    bounds = st.sampled_from([(0, None), (1, None), (2, None), (1, 3)])
    loop = st.builds(lambda part, limits, greedy: ("repeat", part, *limits, greedy), piece, bounds, st.booleans())
    used = ("seq", *(("repeat", ("var", name), 0, 0, True) for name in VARIABLES))
    x = ("col", None, "x")
    tests = [("<", x, ("lit", 2)), (">=", x, ("lit", 1)), ("<>", x, ("lit", 2)), ("=", x, ("lit", 3))]
    return st.builds(
        Query,
        st.lists(loop | piece, min_size=2, max_size=4).map(lambda parts: ("seq", *parts, used)),
        st.dictionaries(st.sampled_from(VARIABLES), st.sampled_from(tests), min_size=2),
        st.just({"m0": ("classifier", None), "m1": ("number",), "m2": ("agg", "COUNT", "B", None, None)}),
        st.just(SUBSETS),
        st.sampled_from(["one", "show", "unmatched"]),
        st.just("TO NEXT ROW"),
    )


def has_exclusion(pattern: Pattern) -> bool:
    return pattern[0] == "exclude" or any(has_exclusion(part) for part in pattern[1:] if isinstance(part, tuple))


@given(queries(), ROWS)
def test_row_patterns_give_what_a_plain_matcher_finds(query: Query, rows: list[RandomRow]) -> None:
    check_against_oracle(query, rows)


@given(overlapping_queries(), st.lists(st.integers(0, 3), min_size=6, max_size=16))
def test_what_failed_from_one_row_is_remembered_only_where_it_fails_again(query: Query, values: list[int]) -> None:
    check_against_oracle(query, [("p", x, None, None) for x in values])


def check_against_oracle(query: Query, rows: list[RandomRow]) -> None:
    assume(not (query.rows == "unmatched" and has_exclusion(query.pattern)))
    records = [{"id": at, "k": k, "x": x, "y": y, "z": z} for at, (k, x, y, z) in enumerate(rows)]
    partitions = {k: [row for row in records if row["k"] == k] for k in dict.fromkeys(row["k"] for row in records)}
    types = {"id": pa.int64(), "k": pa.string(), "x": pa.int64(), "y": pa.float64(), "z": pa.string()}
    schema = pa.schema(types)
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
