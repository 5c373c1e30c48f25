"""Anchors: the ends of a partition."""

from __future__ import annotations

from tests.sql.tables import labels, match


def test_anchors_are_the_ends_of_the_partition() -> None:
    assert labels([1, 1, 1], "^ A") == ["1A"]
    assert labels([1, 1, 1], "A $") == ["3A"]
    assert labels([1, 1, 1], "A+ ^") == []
    assert labels([1, 1, 1], "^ A{2} $") == []
    assert labels([1, 1], "^ A{2} $") == ["1A 2A"]
    assert labels([1, 1, 1], "A$", "A AS x = 1") == ["3A"]
    assert labels([1, 1, 1], "^A$") == []


def test_anchors_hold_in_every_partition() -> None:
    rows = [{"k": k, "id": id} for k in "ab" for id in (1, 2)]
    assert match(rows, "^ A", select="k, id", partition="k") == [("a", 1), ("b", 1)]
