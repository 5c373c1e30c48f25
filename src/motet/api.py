"""The Python interface: run a workload over events of any kind, plan it, explain it, profile data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack, overload

import pyarrow as pa

from motet.compile import Program, check_workload, compile_workload
from motet.compile.stated_rates import typed_test_text
from motet.engine.detect.measured_rates import measure_selectivities
from motet.engine.live import LiveWorkload
from motet.engine.local import LocalRun, required_columns
from motet.engine.workload_profile import columns_to_profile, profile_workload
from motet.errors import DataError, OptionError, require_columns
from motet.explain.analysis import Analysis, analyze_run
from motet.explain.diagnosis.report import Explanation
from motet.explain.diagnosis.select import explain_query
from motet.explain.formatting import format_count
from motet.explain.page.document import embed_in_iframe
from motet.explain.page.plan import render_plan_html
from motet.explain.text import render_plan_text
from motet.io.events import prepare_table
from motet.io.progress import Meter
from motet.io.result import Result
from motet.model.query import Workload
from motet.options import Engine, OptionKeywords, Options, resolve_options
from motet.pipeline import (
    Progress,
    Source,
    WorkloadLike,
    as_table,
    as_workload,
    compile_for,
    derive_rows,
    execute,
    is_pandas,
    is_spark,
    make_schema,
    name_tables,
    open_source,
    open_unselected,
    prepare,
    readable,
)
from motet.plans.execution import Execution, ExecutionRecord
from motet.row_patterns.duckdb_engine import DuckdbEngine
from motet.row_patterns.statement import read_statement, run_statement
from motet.schema import EventSchema, make_readable
from motet.statistics.model import Statistics
from motet.statistics.profile import profile as profile_table

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from motet.spark.stream import StreamRun


class ArrowStream(Protocol):
    """What gives its rows as a stream of Arrow data: a table of pyarrow, polars or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule with the stream."""


@overload
def run(
    events: DataFrame,
    workload: WorkloadLike,
    options: Options | None = None,
    *,
    engine: Literal["spark"] | None = None,
    **keywords: Unpack[OptionKeywords],
) -> DataFrame: ...


@overload
def run(
    events: pd.DataFrame,
    workload: WorkloadLike,
    options: Options | None = None,
    *,
    engine: Literal["local", "oracle"] | None = None,
    progress: Progress | bool | None = None,
    **keywords: Unpack[OptionKeywords],
) -> pd.DataFrame: ...


@overload
def run(
    events: pa.Table | pa.RecordBatch | ArrowStream | str | Path | Sequence[str | Path],
    workload: WorkloadLike,
    options: Options | None = None,
    *,
    engine: Literal["local", "oracle"] | None = None,
    progress: Progress | bool | None = None,
    **keywords: Unpack[OptionKeywords],
) -> pa.Table: ...


@overload
def run(
    events: Any,
    workload: WorkloadLike,
    options: Options | None = None,
    *,
    engine: Literal["spark"],
    **keywords: Unpack[OptionKeywords],
) -> DataFrame: ...


def run(
    events: Any,
    workload: WorkloadLike,
    options: Options | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Any:
    """Run a workload over events and return its results.

    Args:
        events: A pandas or Spark DataFrame, an Arrow table, dataset or anything else with `__arrow_c_stream__` (polars,
            a DuckDB relation); or the path of a file, a folder or a pattern of files (parquet, Arrow, csv, json), a
            list of paths, or '-' for standard input.
        workload: Queries: text, the path of a file of them, what the builder made, or a sequence of queries.
        options: How to read events and run; see `Options`.
        engine: 'local' (in process), 'spark', or 'oracle' (plain enumeration, for small data). By default Spark for a
            Spark DataFrame, else local.
        progress: True for a bar, in a notebook or on a terminal; or what is called with the number of rows done so far.
            In process only.
        **keywords: Options by name, in place of or in addition to `options`.

    Returns:
        The results in one table of the kind that the events came in: a pandas or a Spark DataFrame, else an Arrow
        table. Nothing runs on Spark before an action on the result; `result.motet` has its metrics then.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
        DataError: The events cannot be read.
        OptionError: An option is wrong, or does not apply to this run.
        RunError: The run could not finish.

    Examples:
        >>> import motet, pyarrow as pa
        >>> events = pa.table({"time": [1, 2, 3], "type": ["A", "B", "B"]})
        >>> motet.run(events, "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s").column("COUNT(*)").to_pylist()
        [2]
    """
    chosen = _choose_engine(events, engine)
    settled = resolve_options(chosen, options, keywords)
    found, _ = _run(events, as_workload(workload), settled, chosen, progress)
    return found.to_pandas() if is_pandas(events) else found


def _choose_engine(events: Any, engine: Engine | None) -> Engine:
    """Return what runs a batch of events: Spark for its DataFrames, unless another is asked for."""
    if is_spark(events) and events.isStreaming:
        raise OptionError("these events are a stream: motet.stream(events, workload, watermark='10 minutes') runs it")
    chosen: Engine = engine or ("spark" if is_spark(events) else "local")
    if chosen not in ("local", "spark", "oracle"):
        raise OptionError(f"engine is {chosen!r}: use one of local, spark, oracle")
    return chosen


def _run(
    events: Any, workload: Workload, options: Options, engine: Engine, progress: Progress | bool | None = None
) -> tuple[Any, tuple[Execution | ExecutionRecord, ...]]:
    """Return the results as an Arrow table or a Spark DataFrame, and what was executed for a table."""
    if progress and engine != "local":
        raise OptionError("progress applies to runs in process only: Spark shows its own, the oracle is for small data")
    if engine == "spark":
        return _run_on_spark(events, workload, options), ()
    if is_spark(events):
        raise OptionError(
            f"a Spark DataFrame runs on Spark: leave out engine={engine!r}, or give an Arrow or pandas table"
        )
    job = prepare(open_source(events, options, workload), workload, options, engine)
    if progress is True:
        with Meter(job.source.num_rows) as meter:
            outcome = execute(job, meter.reached, meter.begin)
    else:
        outcome = execute(job, progress or None)
    return outcome.table, outcome.executed


def ask(
    events: Any,
    workload: WorkloadLike,
    options: Options | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Result:
    """Run a workload as `run` does and return an answer that knows its queries.

    It shows itself in a notebook, plots itself, gives the rows of a query by `answer["name"]`, says what was `executed`
    for them, and goes on as Arrow, pandas or Spark.

    Args:
        events: Events of any kind that `run` takes.
        workload: Queries, as for `run`.
        options: How to read events and run; see `Options`.
        engine: As for `run`.
        progress: As for `run`.
        **keywords: Options by name.

    Returns:
        The results, as a `Result`.

    Raises:
        MotetError: As `run` does.

    Examples:
        >>> import motet, pyarrow as pa
        >>> events = pa.table({"time": [1, 2], "type": ["A", "B"]})
        >>> motet.ask(events, "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s")
        <Result of q: 1 rows>
    """
    loaded, chosen = as_workload(workload), _choose_engine(events, engine)
    found, executed = _run(events, loaded, resolve_options(chosen, options, keywords), chosen, progress)
    return Result(found, loaded, executed)


def batches(
    events: Any, workload: WorkloadLike, options: Options | None = None, **keywords: Unpack[OptionKeywords]
) -> pa.RecordBatchReader:
    """Run a workload in process and return a reader of its results, batch by batch as they are found.

    Matches need not fit in memory. Results of a query come in order of time within a batch, not over all of them.

    Args:
        events: Events of any kind that `run` takes, but no Spark DataFrame.
        workload: Queries, as for `run`.
        options: How to read events and run; see `Options`.
        **keywords: Options by name.

    Returns:
        A reader that runs the workload while it is read.

    Raises:
        MotetError: As `run` does; RunError while reading.

    Examples:
        >>> import motet, pyarrow as pa
        >>> events = pa.table({"time": [1, 2], "type": ["A", "B"]})
        >>> sum(len(batch) for batch in motet.batches(events, "RETURN * PATTERN SEQ(A a, B b) WITHIN 10 s"))
        1
    """
    settled = resolve_options("batches", options, keywords)
    loaded = as_workload(workload)
    source = open_source(events, settled, loaded)
    local = LocalRun(compile_for(source, loaded, settled))
    found = (batch for table in local.run(readable(source)) for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(local.program.result_schema, found)


def stream(
    events: DataFrame, workload: WorkloadLike, options: Options | None = None, **keywords: Unpack[OptionKeywords]
) -> StreamRun:
    """Run a workload over a streaming DataFrame on Structured Streaming, exactly once.

    Args:
        events: A streaming DataFrame, from `spark.readStream`.
        workload: Queries, as for `run`.
        options: How to read events and run; see `Options`. `watermark` is needed.
        **keywords: Options by name.

    Returns:
        A `StreamRun`: write its `results`, a streaming DataFrame, to any sink with `writeStream`.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
        OptionError: An option is wrong, or does not apply to a stream; there is no watermark.
        DataError: The DataFrame is not a stream.

    Examples:
        >>> stream = motet.stream(spark.readStream.table("clicks"), "queries.motet", watermark="10 minutes")
        >>> stream.results.writeStream.toTable("answers")
    """
    from motet.spark.stream import compile_stream
    from motet.spark.stream import run as run_stream

    settled = resolve_options("stream", options, keywords)
    return run_stream(events, compile_stream(events, as_workload(workload), settled))


def live(
    events: Any, workload: WorkloadLike, options: Options | None = None, **keywords: Unpack[OptionKeywords]
) -> LiveWorkload:
    """Start a workload that runs on in this process: `feed` it events as they come, `add` and `remove` queries.

    Where `feed` is given no watermark, it stays the option `watermark` (none: 0) behind the newest event. The plan
    follows the rates of events: when one has changed by more than `replan`, plans are compared again, and another is
    taken if it saves more in the time `horizon` than it takes to move to it.

    Args:
        events: What has the columns of the events to come: an Arrow schema or table, a DataFrame or a path.
        workload: Queries, as for `run`.
        options: How to read events and run; see `Options`.
        **keywords: Options by name.

    Returns:
        The running workload.

    Raises:
        QueryError: The queries are wrong, or do not fit the columns.
        OptionError: An option is wrong, or does not apply.

    Examples:
        >>> import motet, pyarrow as pa
        >>> events = pa.table({"time": [1, 2, 30], "type": ["A", "B", "A"]})
        >>> live = motet.live(events.schema, "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s")
        >>> live.feed(events).column("COUNT(*)").to_pylist()
        [1]
    """
    settled = resolve_options("live", options, keywords)
    settled = replace(settled, mode=settled.mode or "append")
    columns = _columns_of(events, settled)
    schema = make_schema(make_readable(columns, "the table of events"), settled)

    def convert(rows: Any) -> pa.Table:
        table = prepare_table(as_table(rows), settled)
        types = {field.name: field.type for field in schema.own_columns}
        return table.cast(pa.schema([field.with_type(types.get(field.name, field.type)) for field in table.schema]))

    return LiveWorkload(as_workload(workload), schema, settled, convert)


def sql(
    statement: str | Path,
    events: Any = None,
    options: Options | None = None,
    *,
    engine: Literal["local", "spark"] | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Any:
    """Run a SQL query whose relations may have MATCH_RECOGNIZE, and return its result.

    Row patterns are matched by motet; all else of the query is run by DuckDB in process and by Spark SQL on Spark.

    Args:
        statement: The query, or the path of a file that holds it.
        events: Tables by name: Arrow tables, DataFrames or paths. A table that is given alone is named `events`; a path
            that is given alone has the name of its file too. On Spark the tables of the session's catalog are known
            beside them.
        options: `step_limit`, as `Options`.
        engine: 'local' (in process) or 'spark'. By default Spark where a table is a Spark DataFrame, else local.
        **keywords: Options by name.

    Returns:
        An Arrow table; a pandas DataFrame where all tables are; on Spark a DataFrame, for which nothing runs before an
        action on it.

    Raises:
        QueryError: The statement is wrong, or asks for something that is not supported.
        DataError: A table cannot be read.
        OptionError: An option is wrong, or does not apply.
        RunError: The search takes too many steps, or a condition fails on some row.

    Examples:
        >>> import motet, pyarrow as pa
        >>> trades = pa.table({"at": [1, 2, 3, 4], "price": [9, 7, 6, 8]})
        >>> motet.sql(
        ...     '''SELECT low, size FROM trades MATCH_RECOGNIZE (
        ...          ORDER BY at
        ...          MEASURES LAST(DOWN.price) AS low, COUNT(*) AS size
        ...          PATTERN (START DOWN+ UP)
        ...          DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))''',
        ...     {"trades": trades},
        ... ).to_pylist()
        [{'low': 6, 'size': 4}]
    """
    tables = name_tables(events)
    on_spark = any(map(is_spark, tables.values()))
    if engine not in (None, "local", "spark"):
        raise OptionError(f"engine is {engine!r}: use one of local, spark")
    if on_spark and engine == "local":
        raise OptionError("a Spark DataFrame runs on Spark: leave out engine='local', or give an Arrow or pandas table")
    settled = resolve_options("sql", options, keywords)
    text, origin = (read_statement(statement), str(statement)) if isinstance(statement, Path) else (statement, "<text>")
    if on_spark or engine == "spark":
        return _sql_on_spark(text, origin, tables, settled)
    known = {name: _open_relation(table) for name, table in tables.items()}
    with DuckdbEngine(known, settled.step_limit) as duckdb:
        found = run_statement(text, origin, duckdb)
    return found.to_pandas() if tables and all(map(is_pandas, tables.values())) else found


def register(session: Any, name: str = "motet") -> None:
    """Let SQL of a Spark session run queries: `SELECT * FROM motet(TABLE(events), 'RETURN ...')`.

    The first argument is a table or a subquery, the second the queries as a text; options follow by name, such as
    `time => 'at'` and `type => 'kind'`. Spark knows the columns of the result. Rows are divided by the keys that all
    queries have in common; without any, or where totals over `[attr]` are combined, one task runs all of them. A key
    is never cut: `motet.run` over a DataFrame does that.

    Args:
        session: The session, classic or Connect; its `spark.sql.shuffle.partitions` is the number of tasks.
        name: What the function is called.

    Returns:
        Nothing.

    Examples:
        >>> import motet
        >>> motet.register(spark)  # doctest: +SKIP
        >>> found = spark.sql(  # doctest: +SKIP
        ...     "SELECT * FROM motet(TABLE(events), 'RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 1 h SLIDE 1h')"
        ... )
    """
    from motet.spark.table_function import register as register_function

    register_function(session, name)


def _open_relation(events: Any) -> Any:
    """Return a table of a SQL statement as Arrow data: a table, or a dataset of files."""
    found = open_unselected(events, Options())
    return found if isinstance(found, pa.Table) else found.content


def _sql_on_spark(text: str, origin: str, tables: Mapping[str, Any], options: Options) -> DataFrame:
    from motet.spark.dataframes import open_dataframe
    from motet.spark.session import local_session
    from motet.spark.sql import run as run_on_spark

    frames = [table for table in tables.values() if is_spark(table)]
    for frame in frames:
        if frame.isStreaming:
            raise DataError("a table is a stream: SQL runs over batches, as spark.read gives them")
    session = frames[0].sparkSession if frames else local_session()
    named = {
        name: table if is_spark(table) else open_dataframe(open_unselected(table, Options()), session)
        for name, table in tables.items()
    }
    found: DataFrame = run_on_spark(text, origin, session, named, options.step_limit)
    return found


@dataclass(frozen=True, repr=False)
class Plan:
    """A planned workload: text when printed, a page as HTML. `counts` are the events of each type, where known, and
    `analysis` what a run of it found.
    """

    program: Program
    counts: Mapping[str, int] | None = None
    analysis: Analysis | None = None

    def __str__(self) -> str:
        return render_plan_text(self.program, self.counts, self.analysis)

    def __repr__(self) -> str:
        return f"<Plan of {format_count(len(self.program.workload.queries), 'query')}>"

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the plan as one page that needs nothing but itself; written to a file where a path is given."""
        page = render_plan_html(self.program, self.counts, analysis=self.analysis)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def _repr_html_(self) -> str:
        return embed_in_iframe(self.to_html(), "A plan")


def plan(
    events: Any,
    workload: WorkloadLike,
    options: Options | None = None,
    *,
    analyze: bool = False,
    **keywords: Unpack[OptionKeywords],
) -> Plan:
    """Plan a workload: how it would run over events, and what its queries share.

    Args:
        events: Events of any kind that `run` takes, or an Arrow schema with their columns.
        workload: Queries, as for `run`.
        options: How to read events and plan; see `Options`. An optimizer goes by `statistics` (see `profile`) and
            searches no longer than `budget`.
        analyze: Also run the plan, in process, and show what was found beside the estimates.
        **keywords: Options by name.

    Returns:
        The plan: `print` it to read it, `to_html` makes a page of it.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
        OptionError: An option is wrong, or does not apply to a plan.

    Examples:
        >>> import motet, pyarrow as pa
        >>> schema = pa.schema({"time": pa.int64(), "type": pa.string()})
        >>> print(motet.plan(schema, "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s"))  # doctest: +ELLIPSIS
        1 query...
    """
    settled = resolve_options("plan", options, keywords)
    loaded = as_workload(workload)
    in_process = not isinstance(events, pa.Schema) and not is_spark(events)
    source = open_source(events, settled, loaded) if in_process else None
    if analyze and source is None:
        raise OptionError("analyze runs the queries in process: give an Arrow table, a pandas DataFrame or a path")
    if source is not None:
        program = compile_for(source, loaded, settled)
    elif is_spark(events) and not events.isStreaming:
        from motet.spark.sample import compile_for as compile_on_spark

        program = compile_on_spark(_select_on_spark(events, settled), loaded, settled)
    else:
        program = compile_workload(loaded, make_schema(_columns_of(events, settled), settled), settled)
    known = program.options.statistics
    counts = None if known is None else known.counts or None
    return Plan(program, counts, analyze_run(program, readable(source)) if analyze and source is not None else None)


def explain_match(
    events: Any,
    workload: WorkloadLike,
    options: Options | None = None,
    *,
    query: str | None = None,
    key: Mapping[str, Any] | None = None,
    start: Any = None,
    end: Any = None,
    limit: int = 5,
    **keywords: Unpack[OptionKeywords],
) -> Explanation:
    """Explain why a query has the matches it has, or none: its demands one after another, with what each leaves.

    Args:
        events: Events of any kind that `run` takes, but no Spark DataFrame.
        workload: Queries, as for `run`.
        options: How to read events; see `Options`.
        query: The name of the query, where the workload has several.
        key: Values of the query's GROUP BY or [attribute] columns to look at.
        start: Look at matches from this time on (included).
        end: Look at matches before this time.
        limit: How many matches to list.
        **keywords: Options by name.

    Returns:
        An explanation, true where there is a match; `first_failing_step` is the first step that leaves none. `print` it
        to read it.

    Raises:
        MotetError: There is no such query, key or time.

    Examples:
        >>> import motet, pyarrow as pa
        >>> events = pa.table({"time": [1, 2], "type": ["A", "A"]})
        >>> bool(motet.explain_match(events, "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s"))
        False
    """
    settled = resolve_options("explain", options, keywords)
    loaded = as_workload(workload)
    source = open_source(events, settled, loaded)
    schema = make_schema(source.schema, settled)
    check_workload(loaded, schema)
    rows = derive_rows(source, schema)
    return explain_query(loaded, schema, rows, query=query, key=key or {}, start=start, end=end, limit=limit)


def profile(
    events: Any,
    workload: WorkloadLike | None = None,
    options: Options | None = None,
    *,
    keys: Sequence[str] = (),
    **keywords: Unpack[OptionKeywords],
) -> Statistics:
    """Count what is in events: rates of types, time span, ties and nulls, and how many keys there are.

    Args:
        events: Events of any kind that `run` takes.
        workload: Queries, to count their symbols (types with local conditions), the partitions they make and, in
            process, how often their conditions between two events hold.
        options: How to read events; see `Options`.
        keys: Columns whose values partition the events.
        **keywords: Options by name.

    Returns:
        The statistics, which `run`, `plans` and `live` take as the option `statistics`.

    Raises:
        DataError: The events cannot be read, or lack a column.
        QueryError: The queries are wrong.

    Examples:
        >>> import motet, pyarrow as pa
        >>> dict(motet.profile(pa.table({"time": [1, 2, 3], "type": ["A", "B", "B"]})).counts)
        {'A': 1, 'B': 2}
    """
    settled = resolve_options("profile", options, keywords)
    asked = None if workload is None else as_workload(workload)
    if is_spark(events):
        from motet.spark.profile import profile as profile_on_spark

        return profile_on_spark(_select_on_spark(events, settled), keys, asked, settled)
    source = open_source(events, settled, asked)
    if asked is None:
        require_columns(source.schema.names, (settled.time, settled.type), "the table of events")
    schema = make_schema(source.schema, settled)
    require_columns(schema.known_names, keys, "the table of events")
    if asked is None:
        events_read = _read_table(source, schema, (schema.time, schema.type, *keys))
        return profile_table(events_read, schema.time, schema.type, keys, schema.time_unit)
    program = compile_workload(asked, schema, settled)
    found = profile_workload(_read_table(source, schema, columns_to_profile(asked, schema, keys)), asked, schema, keys)
    if not program.detect:
        return found
    shares = measure_selectivities(program, _read_table(source, schema, required_columns(program)))
    return replace(found, selectivities={typed_test_text(test): share for test, share in shares.items()})


def _read_table(source: Source, schema: EventSchema, columns: Sequence[str]) -> pa.Table:
    """Return all rows with some columns, computed where they are derived."""
    return schema.derive(source.table(schema.list_sources(columns)), columns)


def _columns_of(events: Any, options: Options) -> pa.Schema:
    """Return the columns of events of any kind, or given as such."""
    if isinstance(events, pa.Schema):
        return events
    if is_spark(events):
        from motet.spark.dataframes import get_arrow_schema, prepare_events

        return get_arrow_schema(prepare_events(events, options.time, options.time_unit))
    return open_source(events, options).schema


def _run_on_spark(events: Any, workload: Workload, options: Options) -> Any:
    from motet.spark.batch import compile_and_run
    from motet.spark.batch import run as run_batch

    if options.select or is_spark(events):
        return compile_and_run(_select_on_spark(events, options), workload, options).results
    source = open_source(events, options, workload)
    return run_batch(readable(source), compile_for(source, workload, options, engine="spark")).results


def _select_on_spark(events: Any, options: Options) -> DataFrame:
    """Return events of any kind as a DataFrame with the columns that `select` makes of them."""
    from motet.spark.dataframes import open_dataframe, select_columns
    from motet.spark.session import local_session

    opened = events if is_spark(events) else open_dataframe(open_unselected(events, options), local_session())
    return select_columns(opened, options.select)
