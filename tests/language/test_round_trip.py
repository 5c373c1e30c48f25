"""Text made of a model parses back to an equal model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import Diagnostic, QueryError
from motet.language import parse, to_text
from motet.language.parser import read_draft
from motet.model.expression import Literal
from motet.model.query import EventDefinition, Query, Workload
from tests.language.strategies import queries, workloads


@given(workloads)
def test_printed_workloads_parse_back_to_the_same_model(workload: Workload) -> None:
    draft = read_draft(to_text(workload))
    assert draft.problems == []
    assert draft.workload == workload
    assert repr(draft.workload) == repr(workload)  # equality does not tell 1 from 1.0 or TRUE


@given(queries())
def test_printing_what_was_parsed_changes_nothing(query: Query) -> None:
    text = to_text(query)
    assert to_text(read_draft(text).workload.queries[0]) == text


def test_canonical_text_reads_like_a_query() -> None:
    text = """\
EVENT BigBuy AS type = 'Trade' AND qty > 1000

QUERY rise
RETURN sector, COUNT(*), AVG(b.price) AS mean
PATTERN SEQ(BigBuy a, Trade b+, NOT "Stop Order", OR(C, D{2,3})?)
WHERE [symbol] AND b.price < NEXT(b).price AND (a.price > 10 OR a.kind IN ('x', 'it''s'))
GROUP BY sector
WITHIN 10 min SLIDE 90 s
SKIP TILL NEXT
"""
    assert to_text(parse(text)) == text


def test_a_workload_is_equal_to_itself_however_it_is_laid_out() -> None:
    spread = parse("QUERY q -- a comment\nRETURN\n  COUNT( * )\nPATTERN\n  SEQ( A ,\n B )\nWITHIN\n 10 min")
    assert spread == parse("query q return count(*) pattern seq(A, B) within 10min")


def test_a_name_that_text_cannot_spell_is_refused() -> None:
    with pytest.raises(ValueError, match="line break"):
        to_text(EventDefinition("two\nlines", Literal(True)))


@given(workloads, st.data())
def test_damaged_text_is_read_or_refused_with_places_in_it(workload: Workload, data: st.DataObject) -> None:
    text = to_text(workload)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 6))
        added = data.draw(
            st.sampled_from(["", " ", "(", ")", "[", ",", ":", "=", "'", '"', "WHERE", "NOT", "7", "é", "\n"])
        )
        text = text[:place] + added + text[place + length :]
    for problem in diagnostics(text):
        assert problem.span is None or 0 <= problem.span.start <= problem.span.end <= len(text)
        assert problem.render(text, "<text>")


def diagnostics(text: str) -> Sequence[Diagnostic]:
    try:
        parse(text)
    except QueryError as error:
        return error.diagnostics
    return ()


@pytest.mark.parametrize("pattern", ["(" * 5000 + "A" + ")" * 5000, "A" + "+" * 5000, "A WHERE A.x" + "+ A.x" * 300])
def test_nesting_without_end_is_refused(pattern: str) -> None:
    with pytest.raises(QueryError, match="nested too deeply"):
        parse(f"QUERY q PATTERN {pattern} WITHIN 1 s")
