"""Event data that comes with motet, each with a workload that makes sense on it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from motet.errors import DataError, did_you_mean

HERE = Path(__file__).parent

# name -> what it is
DATASETS = {
    "nyc_flights": "departures and cancellations of flights from New York's three airports in 2013, by aircraft",
}


def path(name: str) -> Path:
    """Return the parquet file of a data set."""
    return HERE / f"{known(name)}.parquet"


def workload_path(name: str) -> Path:
    """Return the file of queries that comes with a data set."""
    return HERE / f"{known(name)}.motet"


def load(name: str) -> pa.Table:
    """Return a data set as an Arrow table with columns `time`, `type` and attributes."""
    return pq.read_table(path(name))


def known(name: str) -> str:
    """Return the name, if there is such a data set."""
    if name not in DATASETS:
        raise DataError(f"no data set {name!r}: {did_you_mean(name, DATASETS)}")
    return name
