"""A function of SQL over a table of events: `SELECT * FROM motet(TABLE(events), '...queries...')`.

Spark asks for the columns of the result before anything runs, so the queries are compiled then. Rows come as Arrow
batches, all those of a bucket of keys to one call of the engine.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession, udtf
from pyspark.sql import types as st
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, PartitioningColumn, SelectedColumn
from pyspark.util import PythonEvalType

from motet.compile import Program, compile_workload
from motet.engine.local import run_table
from motet.errors import OptionError, require_columns
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema
from motet.spark.buckets import find_balanced_keys
from motet.spark.dataframes import from_spark_batch, to_arrow_columns, to_spark_schema


@dataclass
class CompiledCall(AnalyzeResult):
    """What Spark has to know of a call, and what its tasks need: the program, and the columns that they get."""

    program: bytes = b""
    columns: bytes = field(default=b"", repr=False)


def register(session: SparkSession, name: str = "motet") -> None:
    """Make the function known to a session by a name."""
    tasks = int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    make: Any = udtf.UserDefinedTableFunction
    if not hasattr(session, "_jsparkSession"):  # a session of Spark Connect
        from pyspark.sql.connect import udtf as remote

        make = remote.UserDefinedTableFunction
    # `arrow_udtf` refuses classes that say what columns they return; Spark itself runs them.
    kind = PythonEvalType.SQL_ARROW_UDTF
    function = make(_make_function(find_balanced_keys(tasks).tolist()), returnType=None, evalType=kind)
    session.udtf.register(name, function)


def compile_call(table: Any, queries: str, options: Options, task_keys: list[int]) -> CompiledCall:
    """Compile queries over a table, and say how its rows are divided: by the keys that all of them have in common,
    hashed to one bucket for each task; into one where there are none, or where totals of keys are combined.
    """
    require_columns(table.names, (options.time, options.type))
    decimals = {column.name for column in table if isinstance(column.dataType, st.DecimalType)}
    read = st.StructType(
        [st.StructField(each.name, st.DoubleType()) if each.name in decimals else each for each in table]
    )
    schema = EventSchema(to_arrow_columns(read), options.time, options.type, options.time_unit)
    program = compile_workload(parse(queries), schema, options)
    branches = program.all_branches
    used = list(dict.fromkeys(name for branch in branches for name in branch.columns))
    shared = [key for key in branches[0].partition if all(key in branch.partition for branch in branches)]
    if any(branch.needs_combine for branch in branches):
        shared = []
    return CompiledCall(
        schema=to_spark_schema(program.result_schema),
        withSinglePartition=not shared,
        partitionBy=[PartitioningColumn(_bucket_text(shared, decimals, task_keys))] if shared else [],
        select=[SelectedColumn(_column_text(name, decimals), alias=name) for name in used],
        program=pickle.dumps(program),
        columns=pickle.dumps(pa.schema([schema.columns.field(name) for name in used])),
    )


def _column_text(name: str, decimals: set[str]) -> str:
    quoted = "`" + name.replace("`", "``") + "`"
    return f"CAST({quoted} AS DOUBLE)" if name in decimals else quoted


def _bucket_text(keys: list[str], decimals: set[str], task_keys: list[int]) -> str:
    """Return the number that Spark sends to the task of a key."""
    hashed = ", ".join(_column_text(key, decimals) for key in keys)
    bucket = f"CAST(pmod(xxhash64({hashed}), {len(task_keys)}) + 1 AS INT)"
    return f"element_at(array({', '.join(map(str, task_keys))}), {bucket})"


def _make_function(task_keys: list[int]) -> type:
    """Make the class that Spark calls: first to analyze a call, then for the rows of each bucket."""

    class MotetFunction:
        def __init__(self, call: CompiledCall) -> None:
            self.program: Program = pickle.loads(call.program)
            self.columns: pa.Schema = pickle.loads(call.columns)
            self.tables: list[pa.Table] = []

        @staticmethod
        def analyze(events: AnalyzeArgument, queries: AnalyzeArgument, **options: AnalyzeArgument) -> CompiledCall:
            if not events.isTable or queries.value is None:
                raise OptionError("write motet(TABLE(events), 'queries'), with the queries as a text")
            given: dict[str, Any] = {name: option.value for name, option in options.items()}
            return compile_call(events.dataType, queries.value, Options(**given), task_keys)

        def eval(self, events: pa.RecordBatch, queries: pa.Array, **options: pa.Array) -> None:
            self.tables.append(from_spark_batch(events, self.columns))

        def terminate(self) -> Iterator[pa.Table]:
            if self.tables:
                yield run_table(self.program, pa.concat_tables(self.tables)).table

    return MotetFunction
