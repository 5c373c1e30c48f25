"""Read a Spark DataFrame as events: its columns, their types, and times as microseconds; open files as one."""

from __future__ import annotations

import atexit
import inspect
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema, to_arrow_type
from pyspark.sql.streaming.readwriter import DataStreamReader

from motet.errors import DataError, RunError
from motet.io.events import SAMPLED_TIMES, EventSource
from motet.io.formats import PARQUET, first_line
from motet.io.times import choose_time_type
from motet.options import Options
from motet.schema import MAX_MICROS, ONLY_TYPE, TYPE_NAME, DerivedColumn, EventSchema, make_event_schema

MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
TABLE_BY_PATH = re.compile(r"(?P<format>\w+)\.`(?P<path>[^`]*/[^`]*)`")
UTC_NAMES = ("UTC", "Etc/UTC", "Z", "GMT", "+00:00")


def open_dataframe(source: EventSource | pa.Table, session: SparkSession) -> DataFrame:
    """Open files or a table as a DataFrame.

    Spark reads parquet itself. Text is converted to parquet, which stays until this process ends, by the one reader
    that knows the types of its columns: Spark's would read some of them otherwise.
    """
    if isinstance(source, pa.Table):
        _require_spark_types(source)
        return session.createDataFrame(source)
    if source.format == PARQUET and all(_is_read_alike(source, field) for field in source.schema):
        # Spark has a working directory of its own, the one in which its process was started.
        files = [os.path.abspath(file) for file in source.files]  # noqa: PTH100 - links stay as they are
        return session.read.option("basePath", os.path.abspath(source.base)).parquet(*files)  # noqa: PTH100
    folder = tempfile.mkdtemp(prefix="motet-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    schema = pa.schema([pa.field(field.name, _nearest_spark_type(field.type)) for field in source.schema])
    with pq.ParquetWriter(Path(folder) / "events.parquet", schema) as writer:
        for batch in source.batches():
            writer.write_batch(batch.cast(schema, safe=False))
    return session.read.parquet(folder)


def open_table(name: str, session: SparkSession, reader: DataFrameReader | DataStreamReader | None = None) -> DataFrame:
    """Open a table of the catalog, or one named by its format and path as SQL does (delta.`/events`), as a batch or, by
    a reader of streams, as a stream.

    Raises:
        DataError: There is none of that name.
    """
    reader = reader or session.read
    try:
        # Delta finds tables named by path in SQL and in batches, but not for streams.
        by_path = TABLE_BY_PATH.fullmatch(name)
        opened = reader.format(by_path["format"]).load(by_path["path"]) if by_path else reader.table(name)
        _ = opened.schema  # on Connect, only now the table is looked for
    except Exception as error:
        raise DataError(f"the table {name!r} cannot be opened: {first_line(error)}") from error
    return opened


def write_table(results: pa.Table, target: str, format: str) -> None:
    """Write results by a connector of the active session, in place of what was there: to a path (with a slash or the
    format as its ending), or to a table of the catalog.

    Raises:
        RunError: The connector is not installed, or cannot write there.
    """
    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    writer = session.createDataFrame(results).write.format(format).mode("overwrite")
    is_path = "/" in target or target.endswith(f".{format}")
    try:
        writer.save(target) if is_path else writer.saveAsTable(target)
    except Exception as error:
        raise RunError(
            f"cannot write {target} as {format}: {first_line(error)} (its connector is installed by --conf "
            "spark.jars.packages=GROUP:ARTIFACT:VERSION, and its catalog named by other --conf)"
        ) from error


def select_columns(events: DataFrame, select: Sequence[str]) -> DataFrame:
    """Return the columns that SQL expressions make of events; all of them if there are none."""
    if not select:
        return events
    try:
        return events.selectExpr(*select)
    except Exception as error:
        raise DataError(f"--select (in Python select=): {first_line(error)}") from error


def _is_read_alike(source: EventSource, field: pa.Field) -> bool:
    """Return whether Spark reads a parquet column to the type that its source has."""
    stored = source.content.schema.field(field.name).type
    return bool(stored == field.type == _nearest_spark_type(stored))


def _nearest_spark_type(type: pa.DataType) -> pa.DataType:
    """Return the nearest type that Spark can read from parquet."""
    if pa.types.is_null(type):
        return pa.string()
    if pa.types.is_timestamp(type) and type.unit == "ns":
        return pa.timestamp("us", type.tz)
    return type


def _require_spark_types(table: pa.Table) -> None:
    """Raise where Spark has no type for a column, or none that holds its values."""
    for field in table.schema:
        try:
            converted = to_arrow_type(from_arrow_type(field.type))
            if pa.types.is_duration(field.type):
                table[field.name].cast(converted)
        except (PySparkTypeError, pa.ArrowInvalid, ValueError) as error:
            raise DataError(
                f"Spark has no type for column {field.name!r}, which holds {field.type}: leave it out, or convert it "
                f'(--select "* REPLACE (CAST({field.name} AS ...) AS {field.name})")'
            ) from error


def column(name: str) -> Column:
    """Return the column of exactly this name, whatever characters that has."""
    return sf.col("`" + name.replace("`", "``") + "`")


def prepare_events(df: DataFrame, time: str, time_unit: str) -> DataFrame:
    """Convert columns to types that the engine reads: decimals to doubles, times that are such to timestamps.

    Raises:
        DataError: Two columns have one name.
    """
    twice = next((name for name, count in Counter(df.columns).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"the events have more than one column {twice!r}: rename all but one")
    decimals = [field.name for field in df.schema if isinstance(field.dataType, st.DecimalType)]
    changed = {name: column(name).cast("double") for name in decimals}
    if any(field.name == time and isinstance(field.dataType, st.FractionalType) for field in df.schema):
        changed[time] = _read_floating_times(column(time).cast("double"), time_unit)
    return df.withColumns(changed) if changed else df


def _read_floating_times(times: Column, time_unit: str) -> Column:
    """Return numbers since 1970 as timestamps without a zone, to the nearest microsecond; null if out of range."""
    micros = sf.rint(times / 1000 if time_unit == "ns" else times * MICROS_PER_UNIT[time_unit])
    whole = sf.when((micros > -float(MAX_MICROS)) & (micros < float(MAX_MICROS)), micros).cast("bigint")
    day = sf.lit(86_400_000_000)
    rest = sf.pmod(whole, day)
    seconds = (rest.cast("decimal(11,0)") / sf.lit(1_000_000).cast("decimal(7,0)")).cast("decimal(18,6)")
    epoch = sf.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    return epoch + sf.make_dt_interval(days=sf.call_function("div", whole - rest, day).cast("int"), secs=seconds)


def require_likely_unit(df: DataFrame, first: pa.Table, schema: EventSchema) -> None:
    """Raise if the first times of a DataFrame seem to count another unit; floating ones are read as they were."""
    if any(field.name == schema.time and isinstance(field.dataType, st.FractionalType) for field in df.schema):
        first = (
            df.select(column(schema.time).cast("double")).limit(SAMPLED_TIMES).toArrow().rename_columns([schema.time])
        )
    choose_time_type(first[schema.time].combine_chunks(), schema.time, schema.time_unit, "the DataFrame")


def derive_columns(df: DataFrame, schema: EventSchema, names: Iterable[str]) -> DataFrame:
    """Return events with these columns, computed where they are derived: see `EventSchema.derive`."""
    wanted = set(names) - set(df.columns)
    found = {each.name: _derive_column(each, schema) for each in schema.derived if each.name in wanted}
    return df.withColumns(found) if found else df


def _derive_column(derived: DerivedColumn, schema: EventSchema) -> Column:
    if not derived.path:
        return sf.lit(ONLY_TYPE)
    value = column(derived.path[0])
    for field in derived.path[1:]:
        value = value.getField(field)
    if derived.name == TYPE_NAME:
        return value.cast("string")
    return value.cast("double") if pa.types.is_float64(schema.columns.field(derived.name).type) else value


def get_arrow_schema(df: DataFrame) -> pa.Schema:
    """Return the schema in which rows reach the workers; timestamps are in UTC."""
    return to_arrow_columns(df.schema)


def to_arrow_columns(columns: st.StructType) -> pa.Schema:
    """Return columns of Spark in types of Arrow; timestamps are in UTC, and every part of a value may be null."""
    # Spark 4.1 takes no zone: it is UTC there.
    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    schema = to_arrow_schema(columns, timezone="UTC") if takes_zone else to_arrow_schema(columns)
    return pa.schema([(each.name, _make_nullable(each.type)) for each in schema])


def _make_nullable(type: pa.DataType) -> pa.DataType:
    """Return a type whose parts may be null: Arrow takes no null struct whose parts may not."""
    if pa.types.is_struct(type):
        return pa.struct([(part.name, _make_nullable(part.type)) for part in type])
    if pa.types.is_list(type):
        return pa.list_(_make_nullable(type.value_type))
    if pa.types.is_map(type):
        return pa.map_(type.key_type, _make_nullable(type.item_type))
    return type


def get_event_schema(df: DataFrame, options: Options) -> EventSchema:
    """Return the schema of a DataFrame of events, to compile a workload for."""
    columns = get_arrow_schema(prepare_events(df, options.time, options.time_unit))
    return make_event_schema(columns, options.time, options.type, options.time_unit)


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


def to_microseconds(df: DataFrame, time: str, time_unit: str) -> Column:
    """Return the time column as microseconds since the epoch, as the engine reads it; null if out of range."""
    micros = _count_microseconds(df, time, time_unit)
    return sf.when(micros.between(1 - MAX_MICROS, MAX_MICROS - 1), micros)


def _count_microseconds(df: DataFrame, time: str, time_unit: str) -> Column:
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
            # A time out of range is a row's own problem, not that of all rows.
            return sf.try_multiply(moment.cast("bigint"), sf.lit(MICROS_PER_UNIT[time_unit]))
        case other:
            raise DataError(
                f"the time column {time!r} is {other.simpleString()}: a timestamp, date or whole number will do"
            )
