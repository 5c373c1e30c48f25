"""What all tests on Spark have in common."""

from __future__ import annotations

import pytest

from motet.spark import batch


@pytest.fixture(autouse=True)
def _every_row_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of tests are too short for a sample of them to show a hot key."""
    monkeypatch.setattr(batch, "SAMPLE_FRACTION", 1.0)
