"""Files of events that a stream reads in a certain order."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FIRST_TIME = 1_700_000_000  # of file 0, in seconds


def add_event_file(folder: Path, number: int, events: pa.Table) -> None:
    """Add a file to a folder that a stream may be reading; files are read in the order of their numbers.

    Spark orders files by their times, and those of one millisecond as it likes. It forgets a file that is a week older
    than one that it has seen. So the times are a second apart, and a file has its own before it can be seen.
    """
    file = folder / f"{number:05}.parquet"
    hidden = file.with_name(f".{file.name}")
    pq.write_table(events, hidden)
    os.utime(hidden, (FIRST_TIME + number,) * 2)
    hidden.rename(file)
