"""The data that comes with motet is what its description says."""

from __future__ import annotations

import pyarrow as pa
import pytest

from motet import datasets
from motet.errors import DataError


def test_flights_have_the_columns_and_types_that_their_workload_reads() -> None:
    flights = datasets.load("nyc_flights")
    assert flights.num_rows == 334_264
    assert flights.schema.names == ["time", "type", "aircraft", "origin", "dest", "dep_delay", "arr_delay"]
    assert flights.schema.field("time").type == pa.timestamp("us")
    assert set(flights["type"].unique().to_pylist()) == {"dep_ontime", "dep_late", "dep_very_late", "cancelled"}


def test_an_unknown_data_set_is_named_with_a_suggestion() -> None:
    with pytest.raises(DataError, match="no data set 'nyc_flight': did you mean 'nyc_flights'"):
        datasets.load("nyc_flight")
