"""What keeps the sources readable: one class name lives in one module."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "motet"


def test_no_class_name_lives_in_two_modules() -> None:
    modules = defaultdict(set)
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                modules[node.name].add(file.relative_to(SOURCES).as_posix())
    assert {name: sorted(files) for name, files in modules.items() if len(files) > 1} == {}
