"""A look into parquet files, to see that no key is hot: a sample by Spark reads all rows.

It only ever rules out. Where a key might hold too many rows, Spark samples them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from motet.spark.parquet import MOST_FILES, spread

MOST_GROUPS = 4  # row groups of a file
ROWS = 8_192  # of a row group


@dataclass(frozen=True, slots=True)
class Glance:
    """About how many rows take part, and what share of them the most frequent key seems to have."""

    rows: float
    largest: float


def glance(files: Sequence[Path], keys: Sequence[str], type: str, types: frozenset[str] | None) -> Glance | None:
    """What files show of the rows of some types; None where they do not show it."""
    if not files or not keys:
        return None
    picked = spread(files, MOST_FILES)
    seen: list[pa.Table] = []
    stored = 0
    for file in picked:
        with pq.ParquetFile(file) as opened:
            stored += opened.metadata.num_rows
            for group in spread(range(opened.num_row_groups), MOST_GROUPS):
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
