"""Queries and events that tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    """Two queries over letters."""
    file = tmp_path / "queries.motet"
    file.write_text(
        "QUERY pairs\nRETURN COUNT(*), SUM(b.x) AS total\nPATTERN SEQ(A a, B b)\n"
        "GROUP BY key\nWITHIN 10 s SLIDE 10 s\n\n"
        "QUERY now\nRETURN COUNT(*)\nPATTERN SEQ(A, B)\nWHERE [key]\nWITHIN 10 s\n"
    )
    return file


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A at 1, B at 2 and 3 for key u; A and B at one time for key v."""
    file = tmp_path / "events.csv"
    file.write_text("time,type,key,x\n1,A,u,1\n2,B,u,2\n3,B,u,4\n5,A,v,1\n5,B,v,1\n")
    return file
