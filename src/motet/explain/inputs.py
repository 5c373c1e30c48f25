"""What a branch reads, as plain data and as text: the same for one that aggregates online and one that detects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from motet.compile import Branch
from motet.compile.detect import DetectBranch


def describe_input(branch: Branch | DetectBranch, counts: Mapping[str, int] | None) -> dict[str, Any]:
    """Its key, columns and types, and how many rows that is where the rows of each type are known."""
    types = branch.types
    return {
        "partition": list(branch.partition),
        "columns": list(branch.columns),
        "types": None if types is None else sorted(types),
        "rows": None if counts is None else sum(n for type, n in counts.items() if types is None or type in types),
    }


def format_input(branch: dict[str, Any], rows: int | None) -> Iterator[str]:
    yield f"  reads {', '.join(branch['columns'])}"
    types = "any type" if branch["types"] is None else "types " + ", ".join(branch["types"])
    yield f"  rows of {types}" + (f": {branch['rows']:,} of {rows:,} ({branch['rows'] / rows:.0%})" if rows else "")
