"""Statements of other engines' manuals give the rows that the standard's rules give."""

from __future__ import annotations

import pytest

from tests.sql.manuals import FIRMS, STATEMENTS, TICKER
from tests.sql.tables import rows_of


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_of_manuals_give_the_rows_of_the_standard(name: str) -> None:
    found = rows_of(STATEMENTS[name].text, ticker=TICKER, firms=FIRMS)
    assert found == STATEMENTS[name].rows
