"""What keeps the sources readable: one class name lives in one module, and every kernel says what it costs."""

from __future__ import annotations

import ast
import re
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


def test_every_kernel_states_its_complexity_or_names_the_function_that_does() -> None:
    texts, kernels = defaultdict(str), {}
    for file in (SOURCES / "kernels").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                texts[node.name] += text
                if any(ast.unparse(decorator).startswith("kernel") for decorator in node.decorator_list):
                    kernels[f"{file.stem}.{node.name}"] = text
    assert len(kernels) > 30
    named = {name: re.findall(r"`(?:\w+\.)*(\w+)`", text) for name, text in kernels.items()}
    silent = [
        name
        for name, text in kernels.items()
        if not any("O(" in each for each in (text, *map(texts.get, named[name])) if each)
    ]
    assert silent == []
