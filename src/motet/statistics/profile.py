"""Take statistics from events in an Arrow table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from motet.errors import DataError, require_columns
from motet.schema import is_time, to_microseconds
from motet.statistics.model import Statistics

_TIME = "time"


def profile(
    table: pa.Table, time: str = "time", type: str = "type", keys: Sequence[str] = (), time_unit: str = "s"
) -> Statistics:
    """Return the statistics of a table of events."""
    require_columns(table.column_names, (time, type, *keys))
    kind = table[time].type
    if not (pa.types.is_integer(kind) or is_time(kind)):
        raise DataError(f"the time column {time!r} is {kind}: a timestamp, date or whole number will do")
    all_times = to_microseconds(table[time], time_unit)
    no_time, no_type = pc.is_null(all_times), pc.is_null(table[type])
    invalid = pc.or_(no_time, no_type)
    events = table.filter(pc.invert(invalid))
    times = all_times.filter(pc.invert(invalid))
    counted = events[type].cast(pa.string()).value_counts()
    places = pa.table({_TIME: times, **{f"key {place}": _clean_key(events[key]) for place, key in enumerate(keys)}})
    partitioned = places.drop_null()
    by_key = partitioned.group_by(places.column_names[1:]).aggregate([(_TIME, "count")])
    by_time = partitioned.group_by(places.column_names).aggregate([])
    extremes = pc.min_max(times).as_py()
    return Statistics(
        counts={each["values"]: each["counts"] for each in sorted(counted.to_pylist(), key=lambda it: it["values"])},
        first=extremes["min"],
        last=extremes["max"],
        keys=tuple(keys),
        partitions=by_key.num_rows if partitioned.num_rows else 0,
        largest_partition=pc.max(by_key[f"{_TIME}_count"]).as_py() or 0,
        ties=partitioned.num_rows - by_time.num_rows,
        null_times=pc.sum(no_time).as_py() or 0,
        null_types=pc.sum(no_type).as_py() or 0,
        set_aside=pc.sum(invalid).as_py() or 0,
    )


def _clean_key(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace NaN by null in a key."""
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column
