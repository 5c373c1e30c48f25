"""Read a Spark DataFrame as events: its columns, their types, and times as microseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from motet.errors import DataError
from motet.schema import TICKS, require_columns


def column(name: str) -> Column:
    """Return the column of exactly this name, whatever characters that has."""
    return sf.col("`" + name.replace("`", "``") + "`")


def prepare_events(df: DataFrame, *needed: str) -> DataFrame:
    """Convert columns to types that the engine reads: decimals to doubles. Raise if a needed column is missing."""
    require_columns(needed, df.columns)
    twice = next((name for name, count in Counter(df.columns).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"the events have more than one column {twice!r}: rename all but one")
    decimals = [field.name for field in df.schema if isinstance(field.dataType, st.DecimalType)]
    return df.withColumns({name: column(name).cast("double") for name in decimals}) if decimals else df


def get_arrow_schema(df: DataFrame) -> pa.Schema:
    """Return the schema in which rows reach the workers; timestamps are in UTC."""
    return to_arrow_schema(df.schema, timezone="UTC")


def from_spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Convert rows as a worker gets them to a schema: columns are matched by position, timestamps are in UTC."""
    return pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema)


def to_spark_schema(schema: pa.Schema) -> st.StructType:
    """Return the Spark schema of a table that workers return."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def has_values(events: DataFrame, names: Sequence[str]) -> Column:
    """Return whether a row has a value in each of the columns; a NaN is none."""
    conditions = [column(name).isNotNull() for name in names]
    floating = [name for name in names if isinstance(events.schema[name].dataType, st.FractionalType)]
    return reduce(Column.__and__, [*conditions, *(~sf.isnan(column(name)) for name in floating)], sf.lit(True))


UTC_NAMES = ("UTC", "Etc/UTC", "Z", "GMT", "+00:00")


def to_microseconds(df: DataFrame, time: str, time_unit: str) -> Column:
    """Return the time column as microseconds since the epoch, as the engine reads it."""
    moment = column(time)
    match df.schema[time].dataType:
        case st.TimestampType():
            return sf.unix_micros(moment)
        case st.TimestampNTZType():
            # A cast to an instant goes through the session's zone: in UTC it changes nothing and costs nothing.
            if df.sparkSession.conf.get("spark.sql.session.timeZone") in UTC_NAMES:
                return sf.unix_micros(moment.cast("timestamp"))
            epoch = sf.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
            return sf.call_function("div", moment - epoch, sf.expr("INTERVAL '0.000001' SECOND"))
        case st.DateType():
            return sf.unix_date(moment).cast("bigint") * sf.lit(86_400_000_000)
        case st.IntegralType() if time_unit == "ns":
            # Exact and rounding down: a division of doubles would lose the last digits of today's nanoseconds.
            whole = moment.cast("bigint")
            return sf.call_function("div", whole - sf.pmod(whole, sf.lit(1000)), sf.lit(1000))
        case st.IntegralType():
            return moment.cast("bigint") * sf.lit(TICKS[time_unit])
        case other:
            raise DataError(
                f"the time column {time!r} is {other.simpleString()}: a timestamp, date or whole number will do"
            )
