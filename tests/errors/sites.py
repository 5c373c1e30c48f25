"""Every message that the sources can raise or report, as a template: what is filled in is written {}."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "motet"
# The calls whose first argument is a message for users; kernels and the oracle's inner checks are not among them.
SPEAKERS = {
    "MotetError",
    "DataError",
    "RunError",
    "OptionError",
    "UnreadableError",
    "BadParameter",
    "ClauseError",
    "Diagnostic",
    "_report",
    "error_at",
    "error_at_arguments",
    "error_at_call",
    "error_at_node",
    "error_at_part",
    "error_at_token",
    "error_at_word",
    "_overflow",
    "Misfit",
}
# What fills the second place of a call where it names a place rather than a message.
SECOND = {"error_at_node", "error_at_part", "error_at_word", "Misfit"}
LEFT_OUT = {"errors.py"}


@dataclass(frozen=True, order=True)
class Site:
    """A message and the file it is in."""

    file: str
    message: str


def sites() -> list[Site]:
    """All of them, in the order of the files."""
    found: set[Site] = set()
    for file in sorted(SOURCES.rglob("*.py")):
        name = file.relative_to(SOURCES).as_posix()
        if name in LEFT_OUT or name.startswith(("kernels/", "reference/")):
            continue
        found |= {Site(name, message) for message in _messages(ast.parse(file.read_text()))}
    return sorted(found)


def _messages(tree: ast.AST) -> Iterator[str]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        named = _assigned(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _name(node.func) in SPEAKERS and node.args:
                at = 1 if _name(node.func) in SECOND and len(node.args) > 1 else 0
                yield from _templates(node.args[at], named)


def _assigned(function: ast.AST) -> dict[str, list[ast.expr]]:
    """What each name of a function is set to."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _templates(node: ast.expr, named: dict[str, list[ast.expr]]) -> Iterator[str]:
    match node:
        case ast.Name(id=name) if name in named:
            for value in named[name]:
                yield from _templates(value, {})
        case ast.IfExp(body=body, orelse=other):
            yield from _templates(body, named)
            yield from _templates(other, named)
        case _:
            text = _template(node)
            if any(letter.isalpha() for letter in text):
                yield text


def _template(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_template(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _template(left) + _template(right)
        case _:
            return "{}"
