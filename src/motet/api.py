"""The Python interface: run a workload over events of any kind, plan it, explain it, profile data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import pyarrow as pa
import pyarrow.compute as pc

from motet.engine import EventSchema, Program, compile_workload
from motet.engine.detect.measured_rates import measure_selectivities
from motet.engine.detect.stated_rates import typed_test_text
from motet.engine.encode import count_invalid_rows
from motet.engine.live import LiveWorkload, ReplanPolicy
from motet.engine.local import LocalRun, Outcome, can_run_in_chunks, is_time_ordered, required_columns
from motet.engine.metrics import BranchMetrics
from motet.engine.workload_profile import columns_to_profile, profile_workload
from motet.errors import DataError, Diagnostic, MotetError, OptionError, QueryError, require_columns
from motet.explain.analysis import Analysis
from motet.explain.diagnosis.report import Explanation
from motet.explain.diagnosis.select import explain_query
from motet.explain.page.document import embed_in_iframe
from motet.explain.page.plan import render_plan_html
from motet.explain.text import render_plan_text
from motet.io.events import EventSource, open_events
from motet.io.result import Result
from motet.language import read
from motet.language.builder import QueryBuilder
from motet.language.builder import workload as build_workload
from motet.model.query import Query, Workload
from motet.model.validate import find_problems
from motet.options import Engine, OptionKeywords, Options, resolve_options
from motet.statistics.model import Statistics
from motet.statistics.profile import profile as profile_table

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from motet.spark.stream import StreamRun

Progress = Callable[[int], None]

Content = Workload | Query | QueryBuilder | str | Path | Sequence[Query | QueryBuilder]


def as_workload(workload: Content) -> Workload:
    """Return the workload that text, a path, queries or builders describe."""
    match workload:
        case Workload():
            return workload
        case Query():
            return Workload((workload,))
        case QueryBuilder():
            return Workload((workload.build(),))
        case str() | Path():
            return read(workload)
    if not isinstance(workload, Sequence):  # someone gave the events here
        raise MotetError(f"a workload cannot be read from a {type(workload).__name__}: events come first, then queries")
    return build_workload(*workload)


@overload
def run(
    events: DataFrame,
    workload: Content,
    options: Options | None = None,
    *,
    engine: Literal["spark"] | None = None,
    **keywords: Unpack[OptionKeywords],
) -> DataFrame: ...


@overload
def run(
    events: pa.Table | pa.RecordBatch | pa.RecordBatchReader | str | Path,
    workload: Content,
    options: Options | None = None,
    *,
    engine: Literal["local", "oracle"] | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[OptionKeywords],
) -> pa.Table: ...


@overload
def run(
    events: pd.DataFrame,
    workload: Content,
    options: Options | None = None,
    *,
    engine: Literal["local", "oracle"] | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[OptionKeywords],
) -> pd.DataFrame: ...


@overload
def run(
    events: Any,
    workload: Content,
    options: Options | None = None,
    *,
    engine: Literal["spark"],
    **keywords: Unpack[OptionKeywords],
) -> DataFrame: ...


def run(
    events: Any,
    workload: Content,
    options: Options | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Any:
    """Run a workload over events and return its results.

    Args:
        events: An Arrow table, record batch or reader, a pandas or Spark DataFrame, or the path of a file or folder of
            events (parquet, csv or json lines).
        workload: Queries: text, the path of a file of them, what the builder made, or a sequence of queries.
        options: How to read events and run; see `Options`.
        engine: 'local' (in process), 'spark', or 'oracle' (plain enumeration, for small data). By default Spark for a
            Spark DataFrame, else local.
        progress: Called with the number of rows done so far; in process only.
        **keywords: Options by name, in place of or in addition to `options`.

    Returns:
        The results in one table of the kind that the events came in: an Arrow table (for a path too), a pandas or a
        Spark DataFrame. Nothing runs on Spark before an action on the result; `result.motet` has its metrics then.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
        DataError: The events cannot be read.
        OptionError: An option is wrong, or does not apply to this run.
        RunError: The run could not finish.

    Example:
        >>> import motet, pyarrow as pa
        >>> events = pa.table({"time": [1, 2, 3], "type": ["A", "B", "B"]})
        >>> motet.run(events, "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s").column("COUNT(*)").to_pylist()
        [2]
    """
    if is_spark(events) and events.isStreaming:
        raise OptionError("these events are a stream: motet.stream(events, workload, watermark='10 minutes') runs it")
    chosen = engine or ("spark" if is_spark(events) else "local")
    if chosen not in ("local", "spark", "oracle"):
        raise OptionError(f"engine is {chosen!r}: use one of local, spark, oracle")
    settled = resolve_options(chosen, options, keywords)
    if progress is not None and chosen != "local":
        raise OptionError("progress applies to runs in process only: Spark shows its own, the oracle is for small data")
    if chosen == "spark":
        return _run_on_spark(events, as_workload(workload), settled)
    if is_spark(events):
        raise OptionError(
            f"a Spark DataFrame runs on Spark: leave out engine={chosen!r}, or give an Arrow or pandas table"
        )
    outcome = execute(events, workload, settled, engine=chosen, progress=progress)
    return outcome.table.to_pandas() if is_pandas(events) else outcome.table


def ask(
    events: Any,
    workload: Content,
    options: Options | None = None,
    *,
    engine: Engine | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Result:
    """Run a workload as `run` does and return an answer that knows its queries.

    It shows itself in a notebook, plots itself, gives the rows of a query by `answer["name"]`, and goes on as Arrow,
    pandas or Spark.

    Args:
        events: Events of any kind that `run` takes.
        workload: Queries, as for `run`.
        options: How to read events and run; see `Options`.
        engine: As for `run`.
        **keywords: Options by name.

    Returns:
        The results, as a `Result`.

    Raises:
        MotetError: As `run` does.

    Example:
        >>> import motet, pyarrow as pa
        >>> events = pa.table({"time": [1, 2], "type": ["A", "B"]})
        >>> motet.ask(events, "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s")
        <Result of q: 1 rows>
    """
    loaded = as_workload(workload)
    given = pa.Table.from_pandas(events, preserve_index=False) if is_pandas(events) else events
    return Result(run(given, loaded, options, engine=engine, **keywords), loaded)


def batches(
    events: Any, workload: Content, options: Options | None = None, **keywords: Unpack[OptionKeywords]
) -> pa.RecordBatchReader:
    """Run a workload in process and return a reader of its results, batch by batch as they are found.

    Matches need not fit in memory. Results of a query come in order of time within a batch, not over all of them.

    Args:
        events: An Arrow table, record batch or reader, a pandas DataFrame, or a path.
        workload: Queries, as for `run`.
        options: How to read events and run; see `Options`.
        **keywords: Options by name.

    Returns:
        A reader that runs the workload while it is read.

    Raises:
        MotetError: As `run` does; RunError while reading.

    Example:
        >>> import motet, pyarrow as pa
        >>> events = pa.table({"time": [1, 2], "type": ["A", "B"]})
        >>> sum(len(batch) for batch in motet.batches(events, "RETURN * PATTERN SEQ(A a, B b) WITHIN 10 s"))
        1
    """
    settled = resolve_options("batches", options, keywords)
    source = open_source(events, settled)
    local = LocalRun(program_for(source, as_workload(workload), settled))
    found = (batch for table in run_source(local, source) for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(local.program.result_schema, found)


def stream(
    events: DataFrame, workload: Content, options: Options | None = None, **keywords: Unpack[OptionKeywords]
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

    Example:
        >>> stream = motet.stream(spark.readStream.table("clicks"), "queries.motet", watermark="10 minutes")
        >>> stream.results.writeStream.toTable("answers")
    """
    from motet.spark.stream import compile_stream
    from motet.spark.stream import run as run_stream

    settled = resolve_options("stream", options, keywords)
    return run_stream(events, compile_stream(events, as_workload(workload), settled))


def live(
    events: Any, workload: Content, options: Options | None = None, **keywords: Unpack[OptionKeywords]
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

    Example:
        >>> import motet, pyarrow as pa
        >>> events = pa.table({"time": [1, 2, 30], "type": ["A", "B", "A"]})
        >>> live = motet.live(events.schema, "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s")
        >>> live.feed(events).column("COUNT(*)").to_pylist()
        [1]
    """
    settled = resolve_options("live", options, keywords)
    settled = replace(settled, mode=settled.mode or "append")
    schema = EventSchema(_schema_of(events, settled), settled.time, settled.type, settled.time_unit)
    policy = ReplanPolicy(settled.replan or None, settled.horizon_seconds)
    return LiveWorkload(as_workload(workload), schema, settled, policy, settled.watermark_micros)


def execute(
    events: Any,
    workload: Content,
    options: Options = Options(),  # noqa: B008
    engine: str = "local",
    progress: Progress | None = None,
    warn: Callable[[Diagnostic], None] | None = None,
) -> Outcome:
    """Run in process, and return the results with what was noticed on the way."""
    source = open_source(events, options)
    loaded = as_workload(workload)
    if engine == "oracle":
        from motet.reference.tables import run_table as enumerate_table

        table = source.table()
        schema = EventSchema(table.schema, options.time, options.type, options.time_unit)
        _check(loaded, schema, warn)
        result = enumerate_table(
            loaded, table, time=options.time, type=options.type, time_unit=options.time_unit, counts=options.counts
        )
        return Outcome(
            result, len(table), count_invalid_rows(table, schema), 0
        )  # enumeration ends long before 2**63 matches
    program = program_for(source, loaded, options)
    for warning in program.warnings:
        if warn is not None:
            warn(warning)
    local = LocalRun(program)
    return local.outcome(run_source(local, source, progress))


def run_source(
    local: LocalRun, source: TableSource | EventSource, progress: Progress | None = None
) -> Iterator[pa.Table]:
    """Yield the results of a run in process over a source of events, table by table."""
    program = local.program
    if isinstance(source, TableSource):
        yield from local.over_table(source.content)
        if progress is not None:
            progress(local.rows)
        return
    ordered = can_run_in_chunks(program) and is_time_ordered(source.batches([program.schema.time]), program)
    yield from local.over_batches(source.batches(required_columns(program)), ordered, progress)


def _check(workload: Workload, schema: EventSchema, warn: Callable[[Diagnostic], None] | None) -> None:
    """Raise what is wrong with a workload over these columns; pass on what is only odd."""
    found = find_problems(workload, schema.kinds(), time=schema.time, type=schema.type)
    errors = [problem for problem in found if not problem.warning]
    if errors:
        raise QueryError(errors, workload.text, workload.origin)
    for problem in found:
        if warn is not None:
            warn(problem)


def program_for(source: Any, workload: Workload, options: Options) -> Program:
    """Compile a workload for a source of events."""
    schema = EventSchema(source.schema, options.time, options.type, options.time_unit)
    return compile_workload(workload, schema, options)


@dataclass(frozen=True)
class TableSource:
    """A table in memory, in the shape of an `EventSource`."""

    content: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.content.schema

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.content)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows, with the named columns only."""
        return self.content if columns is None else self.content.select(list(columns))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        yield from self.table(columns).to_batches()


def open_source(events: Any, options: Options) -> TableSource | EventSource:
    """Return a source of events that are in memory or in files."""
    match events:
        case EventSource() | TableSource():
            return events
        case pa.Table():
            return TableSource(events)
        case pa.RecordBatch():
            return TableSource(pa.Table.from_batches([events]))
        case pa.RecordBatchReader():
            return TableSource(events.read_all())
        case str() | Path():
            return open_events(events, time=options.time, type=options.type)
    if is_pandas(events):
        return TableSource(pa.Table.from_pandas(events, preserve_index=False))
    raise DataError(f"events cannot be read from a {type(events).__name__}: give an Arrow table, a DataFrame or a path")


def is_pandas(events: Any) -> bool:
    """Whether events are a pandas DataFrame; pandas need not be installed."""
    return type(events).__module__.partition(".")[0] == "pandas"


def is_spark(events: Any) -> bool:
    """Whether events are a Spark DataFrame; pyspark need not be installed."""
    return type(events).__module__.partition(".")[0] == "pyspark"


def _run_on_spark(events: Any, workload: Workload, options: Options) -> Any:
    from motet.spark.batch import run as run_batch

    if not is_spark(events):
        source = open_source(events, options)
        events = source if isinstance(source, EventSource) else source.table()
    schema = EventSchema(_schema_of(events, options), options.time, options.type, options.time_unit)
    return run_batch(events, compile_workload(workload, schema, options)).results


@dataclass(frozen=True)
class Plan:
    """A planned workload: text when printed, a page as HTML. `counts` are the events of each type, where known, and
    `analysis` what a run of it found.
    """

    program: Program
    counts: Mapping[str, int] | None = None
    analysis: Analysis | None = None

    def __str__(self) -> str:
        return render_plan_text(self.program, self.counts, self.analysis)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the plan as one page that needs nothing but itself; written to a file where a path is given."""
        page = render_plan_html(self.program, self.counts, analysis=self.analysis)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def _repr_html_(self) -> str:
        return embed_in_iframe(self.to_html(), "A plan")


def run_analyzed(program: Program, source: TableSource | EventSource, progress: Progress | None = None) -> Analysis:
    """Run a program in process for what it finds on its way."""
    observed = tuple(BranchMetrics() for _ in program.all_branches)
    local = LocalRun(program, observed=observed)
    results: Counter[str] = Counter()
    begun = perf_counter()
    for table in run_source(local, source, progress):
        found = pc.value_counts(table.column("query"))
        results.update({each["values"]: each["counts"] for each in found.to_pylist()})
    return Analysis(local.rows, local.invalid_rows, perf_counter() - begun, results, observed)


def plan(
    events: Any,
    workload: Content,
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

    Example:
        >>> import motet, pyarrow as pa
        >>> schema = pa.schema({"time": pa.int64(), "type": pa.string()})
        >>> print(motet.plan(schema, "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s"))  # doctest: +ELLIPSIS
        1 query...
    """
    settled = resolve_options("plan", options, keywords)
    loaded = as_workload(workload)
    source = None if isinstance(events, pa.Schema) or is_spark(events) else open_source(events, settled)
    if analyze and source is None:
        raise OptionError("analyze runs the queries in process: give an Arrow table, a pandas DataFrame or a path")
    if analyze and settled.statistics is None:
        settled = replace(settled, statistics=profile(source, loaded, settled.for_reading()))
    columns_of_events = _schema_of(events, settled) if source is None else source.schema
    schema = EventSchema(columns_of_events, settled.time, settled.type, settled.time_unit)
    program = compile_workload(loaded, schema, settled)
    counts = None if settled.statistics is None else settled.statistics.counts or None
    return Plan(program, counts, run_analyzed(program, source) if analyze and source is not None else None)


def explain_match(
    events: Any,
    workload: Content,
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
        events: An Arrow table, a pandas DataFrame, or a path.
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

    Example:
        >>> import motet, pyarrow as pa
        >>> events = pa.table({"time": [1, 2], "type": ["A", "A"]})
        >>> bool(motet.explain_match(events, "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s"))
        False
    """
    settled = resolve_options("explain", options, keywords)
    source = open_source(events, settled)
    loaded = as_workload(workload)
    schema = EventSchema(source.schema, settled.time, settled.type, settled.time_unit)
    _check(loaded, schema, None)
    return explain_query(
        loaded, schema, source.batches(), query=query, key=key or {}, start=start, end=end, limit=limit
    )


def _schema_of(events: Any, options: Options) -> pa.Schema:
    """Return the columns of events of any kind, or given as such."""
    if isinstance(events, pa.Schema):
        return events
    if is_spark(events):
        from motet.spark.dataframes import get_arrow_schema, prepare_events

        return get_arrow_schema(prepare_events(events, options.time, options.type))
    return open_source(events, options).schema


def profile(
    events: Any,
    workload: Content | None = None,
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

    Example:
        >>> import motet, pyarrow as pa
        >>> dict(motet.profile(pa.table({"time": [1, 2, 3], "type": ["A", "B", "B"]})).counts)
        {'B': 2, 'A': 1}
    """
    settled = resolve_options("profile", options, keywords)
    asked = None if workload is None else as_workload(workload)
    time, type, time_unit = settled.time, settled.type, settled.time_unit
    if is_spark(events):
        from motet.spark.profile import profile as profile_on_spark

        return profile_on_spark(events, keys, asked, settled)
    source = open_source(events, settled)
    if asked is None:
        needed = list(dict.fromkeys((time, type, *keys)))
        require_columns(source.schema.names, needed, "the table of events")
        return profile_table(source.table(needed), time, type, keys, time_unit)
    schema = EventSchema(source.schema, time, type, time_unit)
    found = profile_workload(source.table(columns_to_profile(asked, schema, keys)), asked, schema, keys)
    program = program_for(source, asked, settled)
    if not program.detect:
        return found
    shares = measure_selectivities(program, source.table(required_columns(program)))
    return replace(found, selectivities={typed_test_text(test): share for test, share in shares.items()})
