"""What all dialects share: how they are chosen, and the command that translates."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from motet.dialects import translate
from motet.errors import MotetError
from tests.command_line import Motet

FUNNEL = """SELECT user, windowFunnel(5)(time, type = 'a' AND x > 0, type = 'b', type = 'c') AS level
FROM events GROUP BY user"""


def test_without_sqlglot_the_way_to_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    for name in ("match_recognize", "sql"):
        monkeypatch.delitem(sys.modules, f"motet.dialects.{name}", raising=False)
    with pytest.raises(MotetError, match=r"pip install 'motet\[translate\]'"):
        translate("SELECT 1", "match-recognize")


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(MotetError, match="use one of match-recognize"):
        translate("", "esper")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("flink-cep", 'Pattern.begin("a").where(e -> {} e.x > 1 {})'),
        ("clickhouse", "SELECT sequenceMatch('(?1)')(t, {} x = 1 {}) FROM e"),
        ("match-recognize", "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t PATTERN (A B) DEFINE A AS {} x = 1 {})"),
        ("sase", "PATTERN SEQ(A a, B b) WHERE {} a.x = 1 {}"),
    ],
)
def test_what_is_nested_too_deeply_is_refused(source: str, text: str) -> None:
    with pytest.raises(MotetError, match="nested too deeply"):
        translate(text.format("(" * 2000, ")" * 2000), source)


def test_the_command_line_translates(tmp_path: Path, motet: Motet) -> None:
    file = tmp_path / "funnel.sql"
    file.write_text(FUNNEL)
    shown = motet("translate", "--from", "clickhouse", file, "--name", "funnel")
    assert shown.status == 0
    assert "QUERY funnel_3" in shown.stdout
    file.write_text("SELECT 1 FROM events")
    refused = motet("translate", "--from", "clickhouse", file)
    assert refused.status == 2
    assert "only columns of GROUP BY and one call are" in refused.stderr
