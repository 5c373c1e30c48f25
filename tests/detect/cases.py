"""Small streams and patterns for the catalogue of what detection must find."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import motet
from motet.reference.tables import run_table as enumerate_table
from tests.comparison import assert_same_results

SCHEMA = pa.schema({"time": pa.int64(), "type": pa.string(), "x": pa.int64(), "k": pa.string()})


def stream(text: str) -> pa.Table:
    """Events written as type, time and, after a colon, x; after a slash, k: `a1 b2:7 c3:7/u`."""
    rows = []
    for word in text.split():
        word, _, key = word.partition("/")
        word, _, value = word.partition(":")
        rows.append(
            {"type": word[0].upper(), "time": int(word[1:]), "x": int(value) if value else None, "k": key or None}
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def found(events: str, query: str, **options: Any) -> list[str]:
    """The matches of a query, each as its events in the order of its variables; checked against the oracle."""
    table = stream(events)
    result = motet.run(table, query, **options)
    assert_same_results(result, enumerate_table(motet.read(query), table))
    return sorted(shown(row) for row in result.to_pylist())


def shown(row: dict[str, Any]) -> str:
    """The events of a row as `a1 b2`."""
    names = [name for name in row if name not in ("query", "start", "end", "k")]
    return " ".join(event for name in names for event in _events(row[name]))


def _events(value: Any) -> list[str]:
    match value:
        case None:
            return []
        case list():
            return [event for each in value for event in _events(each)]
        case dict():
            return [f"{value['type'].lower()}{value['time']}"]
        case _:
            return [str(value)]
