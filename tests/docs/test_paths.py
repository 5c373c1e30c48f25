"""Pages for developers name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "extending.md", *sorted((ROOT / "docs" / "adr").glob("0*.md"))]
# A file or folder in backticks, from the root of the repository or of the package.
NAMED = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|lark))`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_files_that_exist(page: Path) -> None:
    named = set(NAMED.findall(page.read_text()))
    assert {
        path for path in named if not any((root / path).exists() for root in (ROOT, ROOT / "src" / "motet"))
    } == set()
