"""A look into the parquet files behind a DataFrame, to see that no key is hot: a sample by Spark reads all rows.

It only ever rules out. Where a key might hold too many rows, or where rows are not just those of files that this
process can read, Spark samples them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

MOST_FILES = 16
MOST_GROUPS = 4  # row groups of a file
ROWS = 8_192  # of a row group
# A plan that only reads: columns of parquet files, nothing computed, renamed, filtered or joined.
PICKED = re.compile(r"(Project \[[^\]()=]*\]\s*)?[+\-: ]*Relation \[[^\]]*\] parquet\s*")


@dataclass(frozen=True, slots=True)
class Glance:
    """About how many rows take part, and what share of them the most frequent key seems to have."""

    rows: float
    largest: float


def glance(
    events: DataFrame, keys: Sequence[str], type: str, types: frozenset[str] | None, schema: pa.Schema
) -> Glance | None:
    """What the files show of the rows of some types; None where they do not show it."""
    files = _files(events)
    if not files or not keys:
        return None
    picked = _spread(files, MOST_FILES)
    seen: list[pa.Table] = []
    stored = 0
    for file in picked:
        with pq.ParquetFile(file) as opened:
            if not _holds(opened.schema_arrow, (*keys, type), schema):
                return None
            stored += opened.metadata.num_rows
            for group in _spread(range(opened.num_row_groups), MOST_GROUPS):
                batches = opened.iter_batches(ROWS, row_groups=[group], columns=list(dict.fromkeys((*keys, type))))
                seen += [pa.Table.from_batches([batch]) for batch in [next(batches, None)] if batch is not None]
    if not seen:
        return None
    rows = pa.concat_tables(seen).drop_null()
    if types is not None:
        rows = rows.filter(pc.is_in(rows[type].cast(pa.string()), pa.array(sorted(types), pa.string())))
    read = sum(len(table) for table in seen)
    if not len(rows):
        return None
    counts = rows.select(list(keys)).group_by(list(keys)).aggregate([([], "count_all")])["count_all"]
    return Glance(stored / len(picked) * len(files) * len(rows) / read, pc.max(counts).as_py() / len(rows))


def _files(events: DataFrame) -> list[Path]:
    """The files of a DataFrame that is nothing but columns of parquet files on this machine; else none."""
    classic: Any = getattr(events, "_jdf", None)
    if classic is None:
        return []
    plan = classic.queryExecution().optimizedPlan().toString()
    if " AS " in plan or not PICKED.fullmatch(plan):
        return []
    places = [urlparse(file) for file in events.inputFiles()]
    files = [Path(unquote(place.path)) for place in places if place.scheme == "file"]
    return files if len(files) == len(places) and all(file.is_file() for file in files) else []


def _holds(stored: pa.Schema, names: Sequence[str], wanted: pa.Schema) -> bool:
    """Whether a file has columns of these names and types; not so for what Spark tells from the names of folders."""
    return all(name in stored.names and _plain(stored.field(name).type) == wanted.field(name).type for name in names)


def _plain(type: pa.DataType) -> pa.DataType:
    return type.value_type if pa.types.is_dictionary(type) else type


def _spread(things: Sequence[Any], most: int) -> list[Any]:
    """Up to so many of them, evenly."""
    count = min(len(things), most)
    return [things[at * len(things) // count] for at in range(count)]
