"""The kind of every expression."""

from __future__ import annotations

import pytest

from motet.language.parser import read_draft
from motet.model.kinds import infer_kind
from motet.model.query import Computed

COLUMNS = {"i": "integer", "n": "number", "t": "text", "b": "boolean", "at": "time", "o": "other"}

CASES = [
    ("1", "integer"), ("1.5", "number"), ("'x'", "text"), ("TRUE", "boolean"), ("NULL", None),
    ("TIMESTAMP '2024-01-01'", "time"),
    ("a.i", "integer"), ("a.n", "number"), ("a.t", "text"), ("a.b", "boolean"), ("a.at", "time"), ("a.o", "other"),
    ("a.missing", None), ("FIRST(a).t", "text"),
    ("(COUNT(a))", "integer"), ("(SUM(a.i))", "number"), ("(AVG(a.i))", "number"), ("(MIN(a.t))", "text"),
    ("a.i + 1", "integer"), ("a.i / 1", "number"), ("a.i % 2", "integer"), ("a.i * a.n", "number"),
    ("-a.i", "integer"), ("-a.n", "number"),
    ("a.i = 1", "boolean"), ("NOT a.b", "boolean"), ("a.t LIKE 'x'", "boolean"), ("a.t IN ('x')", "boolean"),
    ("a.t IS NULL", "boolean"), ("a.b OR a.b", "boolean"),
    ("ABS(a.i)", "integer"), ("ABS(a.n)", "number"), ("FLOOR(a.n)", "integer"), ("SQRT(a.i)", "number"),
    ("LOWER(a.t)", "text"), ("LENGTH(a.t)", "integer"),
    ("COALESCE(a.i, 1)", "integer"), ("COALESCE(a.i, a.n)", "number"), ("COALESCE(a.t, 'x')", "text"),
    ("COALESCE(a.i, a.missing)", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), CASES, ids=[text for text, _ in CASES])
def test_each_expression_has_its_kind(text: str, kind: str | None) -> None:
    draft = read_draft(f"PATTERN A a+ RETURN {text} AS x")
    assert draft.problems == []
    item = draft.workload.queries[0].returns[0]
    assert isinstance(item, Computed)
    assert infer_kind(item.expression, COLUMNS) == kind
