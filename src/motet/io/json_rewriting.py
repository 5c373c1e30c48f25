"""Rewrite JSON that Arrow cannot read as lines: arrays of objects, and columns whose values are not of one type.

This takes Python time per row, for files that could not be read otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from motet.errors import UnreadableError
from motet.options import ColumnType


def rewrite_as_lines(content: bytes, types: Mapping[str, ColumnType], origin: str) -> bytes:
    """Return a JSON array, or lines, as lines of objects whose columns have the given types.

    Raises `UnreadableError` if a value cannot have its type.
    """
    lines = []
    for number, row in enumerate(_iterate_objects(content, origin), 1):
        if not isinstance(row, dict):
            raise UnreadableError(
                f"cannot read {origin}: event {number} is {json.dumps(row)[:40]}, and no object {{...}}"
            )
        for name, type in types.items():
            holder, key = _find_field(row, name)
            if holder.get(key) is not None:
                try:
                    holder[key] = _convert(holder[key], type)
                except (TypeError, ValueError) as error:
                    raise UnreadableError(
                        f"cannot read {origin}: column {name!r} is {json.dumps(holder[key])[:40]} in event {number}, "
                        f"which is no {type}\n  --column-type {name}=text (in Python column_types=) reads it as text"
                    ) from error
        lines.append(json.dumps(row))
    return "\n".join(lines).encode()


def _iterate_objects(content: bytes, origin: str) -> Iterator[Any]:
    try:
        if content.lstrip()[:1] == b"[":
            yield from json.loads(content)
        else:
            for line in content.splitlines():
                if line.strip():
                    yield json.loads(line)
    except ValueError as error:
        raise UnreadableError(f"cannot read {origin}: JSON parse error: {error}") from error


def _find_field(row: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """Return the object that has a column, or the field of structs that `user.geo.city` names, and its name there."""
    while name not in row:
        outer, _, rest = name.partition(".")
        if not rest or not isinstance(row.get(outer), dict):
            break
        row, name = row[outer], rest
    return row, name


def _convert(value: Any, type: ColumnType) -> Any:
    """Return a value with a type: any value can be a text, and a text a number. Raises `ValueError`."""
    match type:
        case "text":
            return value if isinstance(value, str) else json.dumps(value)
        case "integer" if not isinstance(value, float) or value.is_integer():
            return int(value)
        case "number":
            return float(value)
        case "boolean" if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        case "time" if isinstance(value, str):
            return value
    raise ValueError
