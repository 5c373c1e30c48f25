"""The Python interface: read a workload, run it over events of any kind, plan it, profile data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from motet.engine import OPTIMIZERS, EventSchema, Options, Program, compile_workload
from motet.engine.detect.known import measured_text
from motet.engine.detect.measure import selectivities
from motet.engine.encode import set_aside
from motet.engine.live import Adapting, Running
from motet.engine.local import LocalRun, Outcome, can_be_cut, columns_of, in_time_order
from motet.engine.observed import Observed
from motet.engine.survey import columns_asked, survey
from motet.errors import DataError, Diagnostic, MotetError, QueryError
from motet.explain.actual import Analysis
from motet.explain.page.document import framed
from motet.explain.page.plan import plan_html
from motet.explain.text import plan_text
from motet.explain.why.ask import ask as ask_why
from motet.explain.why.report import Explanation
from motet.io.answer import Result
from motet.io.events import EventSource, open_events, require_columns
from motet.io.files import PARQUET
from motet.language import read
from motet.model.query import Query, Workload
from motet.model.validate import problems
from motet.optimizer.aggregate.gloria.costs import COSTS
from motet.statistics.model import Statistics
from motet.statistics.profile import profile as profile_table

ENGINES = ("local", "spark", "oracle")

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Settings:
    """How to read events and run over them."""

    time: str = "time"
    type: str = "type"
    time_unit: str = "s"
    counts: str = "exact"
    windows: str = "auto"
    optimizer: str = "auto"
    statistics: Statistics | None = None
    budget: float = 10.0
    costs: str = "calibrated"
    match_limit: int | None = None
    memory_limit: int = 4 << 30
    on_limit: str = "error"

    def options(self) -> Options:
        _one_of("counts", self.counts, ("exact", "double"))
        _one_of("windows", self.windows, ("auto", "panes", "pairs", "stacks"))
        _one_of("optimizer", self.optimizer, OPTIMIZERS)
        _one_of("costs", self.costs, tuple(COSTS))
        _one_of("on_limit", self.on_limit, ("error", "truncate"))
        return Options(
            self.counts,
            self.windows,
            self.optimizer,
            self.statistics,
            self.budget,
            self.costs,
            self.match_limit,
            self.memory_limit,
            self.on_limit,
        )


def _one_of(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise MotetError(f"{what} is {given!r}: use one of {', '.join(known)}")


def as_workload(workload: Workload | Query | Sequence[Query] | str | Path) -> Workload:
    """A workload from whatever describes one: text, a path, queries."""
    match workload:
        case Workload():
            return workload
        case Query():
            return Workload((workload,))
        case str() | Path():
            return read(workload)
    return Workload(tuple(workload))


def run(
    events: Any,
    workload: Workload | Query | Sequence[Query] | str | Path,
    *,
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
    engine: str | None = None,
    counts: str = "exact",
    windows: str = "auto",
    optimizer: str = "auto",
    statistics: Statistics | None = None,
    match_limit: int | None = None,
    memory_limit: int = 4 << 30,
    on_limit: str = "error",
    progress: Progress | None = None,
    watermark: str | None = None,
    mode: str = "append",
    keep_late: bool = False,
    checkpoint: str | None = None,
    buckets: int | None = None,
) -> Any:
    """Run a workload over events: an Arrow table, a pandas or Spark DataFrame, or a path. The same kind comes out
    (Arrow for a path).

    `engine` is 'local' (in process), 'spark' or 'oracle' (plain enumeration, for small data); by default Spark for
    a Spark DataFrame, else local. `statistics` (from `profile`) is what an optimizer goes by.

    Queries that need their matches found keep at most `memory_limit` bytes of parts of them, and find at most
    `match_limit` matches of one key in a stretch of the window's length; beyond, `on_limit` is 'error' or 'truncate'.

    For a streaming DataFrame, `watermark` is how late rows may come ('10 minutes'), `mode` 'append' or 'update',
    `keep_late` adds a column with rows that came too late, `checkpoint` is where the query will keep its checkpoint,
    where its queries may change later, and `buckets` into how many parts the state is cut.
    """
    settings = Settings(
        time,
        type,
        time_unit,
        counts,
        windows,
        optimizer,
        statistics,
        match_limit=match_limit,
        memory_limit=memory_limit,
        on_limit=on_limit,
    )
    if is_spark(events) and events.isStreaming:
        from motet.spark.stream import run as run_stream

        return run_stream(
            events,
            as_workload(workload),
            watermark=watermark,
            time=time,
            type=type,
            time_unit=time_unit,
            options=settings.options(),
            mode=mode,
            keep_late=keep_late,
            checkpoint=checkpoint,
            buckets=buckets,
        )
    chosen = engine or ("spark" if is_spark(events) else "local")
    _one_of("engine", chosen, ENGINES)
    if chosen == "spark":
        return _run_on_spark(events, as_workload(workload), settings)
    if is_spark(events):
        raise MotetError(
            f"a Spark DataFrame runs on Spark: leave out engine={chosen!r}, or give an Arrow or pandas table"
        )
    outcome = execute(events, workload, settings, engine=chosen, progress=progress)
    return outcome.table.to_pandas() if is_pandas(events) else outcome.table


def ask(events: Any, workload: Workload | Query | Sequence[Query] | str | Path, **settings: Any) -> Result:
    """Run a workload over events, as `run` does and with its settings, for an answer that knows its queries: it shows
    itself in a notebook, plots itself, and goes on as Arrow, pandas or Spark.
    """
    loaded = as_workload(workload)
    if is_spark(events) and events.isStreaming:
        raise MotetError("a stream has no answer that ends: use motet.run, and write its results to a sink")
    given = pa.Table.from_pandas(events, preserve_index=False) if is_pandas(events) else events
    return Result(run(given, loaded, **settings), loaded)


def execute(
    events: Any,
    workload: Workload | Query | Sequence[Query] | str | Path,
    settings: Settings = Settings(),  # noqa: B008
    engine: str = "local",
    progress: Progress | None = None,
    warn: Callable[[Diagnostic], None] | None = None,
) -> Outcome:
    """Run in process, and tell what was noticed on the way."""
    source = _source(events, settings)
    loaded = as_workload(workload)
    if engine == "oracle":
        from motet.reference.tables import run_table as enumerate_table

        table = source.table()
        schema = EventSchema(table.schema, settings.time, settings.type, settings.time_unit)
        _check(loaded, schema, warn)
        result = enumerate_table(
            loaded, table, time=settings.time, type=settings.type, time_unit=settings.time_unit, counts=settings.counts
        )
        return Outcome(result, len(table), set_aside(table, schema), 0)  # enumeration ends long before 2**63 matches
    program = program_for(source, loaded, settings)
    for warning in program.warnings:
        if warn is not None:
            warn(warning)
    local = LocalRun(program)
    return local.outcome(pieces(local, source, progress))


def pieces(local: LocalRun, source: TableSource | EventSource, progress: Progress | None = None) -> Iterator[pa.Table]:
    """The results of a run in process over a source of events, table by table."""
    program = local.program
    if isinstance(source, TableSource):
        yield from local.over_table(source.content)
        if progress is not None:
            progress(local.rows)
        return
    ordered = can_be_cut(program) and in_time_order(source.batches([program.schema.time]), program)
    yield from local.over_batches(source.batches(columns_of(program)), ordered, progress)


def batches(
    events: Any,
    workload: Workload | Query | Sequence[Query] | str | Path,
    *,
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
    counts: str = "exact",
    optimizer: str = "auto",
    match_limit: int | None = None,
    memory_limit: int = 4 << 30,
    on_limit: str = "error",
) -> pa.RecordBatchReader:
    """Run in process and read the results batch by batch, as they are found: matches need not fit in memory."""
    settings = Settings(
        time,
        type,
        time_unit,
        counts,
        optimizer=optimizer,
        match_limit=match_limit,
        memory_limit=memory_limit,
        on_limit=on_limit,
    )
    source = _source(events, settings)
    local = LocalRun(program_for(source, as_workload(workload), settings))
    found = (batch for table in pieces(local, source) for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(local.program.result_schema, found)


def _check(workload: Workload, schema: EventSchema, warn: Callable[[Diagnostic], None] | None) -> None:
    """Raise what is wrong with a workload over these columns; pass on what is only odd."""
    found = problems(workload, schema.kinds(), time=schema.time, type=schema.type)
    errors = [problem for problem in found if not problem.warning]
    if errors:
        raise QueryError(errors, workload.text, workload.origin)
    for problem in found:
        if warn is not None:
            warn(problem)


def program_for(source: Any, workload: Workload, settings: Settings) -> Program:
    """Compile a workload for a source of events."""
    schema = EventSchema(source.schema, settings.time, settings.type, settings.time_unit)
    return compile_workload(workload, schema, settings.options())


@dataclass(frozen=True)
class TableSource:
    """A table in memory, in the shape of an `EventSource`."""

    content: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.content.schema

    @property
    def num_rows(self) -> int:
        return len(self.content)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        return self.content if columns is None else self.content.select(list(columns))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        yield from self.table(columns).to_batches()


def _source(events: Any, settings: Settings) -> TableSource | EventSource:
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
            return open_events(events, time=settings.time, type=settings.type)
    if is_pandas(events):
        return TableSource(pa.Table.from_pandas(events, preserve_index=False))
    raise DataError(f"events cannot be read from a {type(events).__name__}: give an Arrow table, a DataFrame or a path")


def is_pandas(events: Any) -> bool:
    return type(events).__module__.partition(".")[0] == "pandas"


def is_spark(events: Any) -> bool:
    return type(events).__module__.partition(".")[0] == "pyspark"


def _run_on_spark(events: Any, workload: Workload, settings: Settings) -> Any:
    from motet.spark.batch import run as run_batch

    if not is_spark(events):
        from motet.spark.session import local_session

        source = _source(events, settings)
        session = local_session()
        if isinstance(source, EventSource) and source.format == PARQUET:
            events = session.read.parquet(*source.files)
        else:
            events = session.createDataFrame(source.table())
    return run_batch(
        events,
        workload,
        time=settings.time,
        type=settings.type,
        time_unit=settings.time_unit,
        options=settings.options(),
    ).result


@dataclass(frozen=True)
class Plan:
    """A planned workload: text when printed, a page as HTML. `counts` are the events of each type, where known, and
    `analysis` what a run of it found.
    """

    program: Program
    counts: Mapping[str, int] | None = None
    analysis: Analysis | None = None

    def __str__(self) -> str:
        return plan_text(self.program, self.counts, self.analysis)

    def to_html(self, path: str | Path | None = None) -> str:
        """The plan as one page that needs nothing but itself; written to a file where a path is given."""
        page = plan_html(self.program, self.counts, analysis=self.analysis)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def _repr_html_(self) -> str:
        return framed(self.to_html(), "A plan")


def run_analyzed(program: Program, source: TableSource | EventSource, progress: Progress | None = None) -> Analysis:
    """Run a program in process for what it finds on its way."""
    observed = tuple(Observed() for _ in program.all_branches)
    local = LocalRun(program, observed=observed)
    results: Counter[str] = Counter()
    begun = perf_counter()
    for table in pieces(local, source, progress):
        found = pc.value_counts(table.column("query"))
        results.update({each["values"]: each["counts"] for each in found.to_pylist()})
    return Analysis(local.rows, local.set_aside, perf_counter() - begun, results, observed)


def plan(
    workload: Workload | Query | Sequence[Query] | str | Path,
    events: Any,
    *,
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
    windows: str = "auto",
    optimizer: str = "auto",
    statistics: Statistics | None = None,
    budget: float = 10.0,
    costs: str = "calibrated",
    analyze: bool = False,
) -> Plan:
    """How a workload would run over events: an Arrow table or schema, a pandas or Spark DataFrame, or a path.

    `print` it to read it, `to_html` makes a page of it. An optimizer goes by `statistics` (from `profile`) and takes at
    most `budget` seconds; that of Gloria goes by `costs`, 'calibrated' to our kernels or 'printed' in its paper.
    `analyze` also runs it in process, and shows what was found beside the estimates.
    """
    settings = Settings(
        time, type, time_unit, windows=windows, optimizer=optimizer, statistics=statistics, budget=budget, costs=costs
    )
    source = None if isinstance(events, pa.Schema) or is_spark(events) else _source(events, settings)
    schema = _schema_of(events, settings) if source is None else source.schema
    loaded = as_workload(workload)
    if analyze and source is None:
        raise MotetError("analyze runs the queries in process: give an Arrow table, a pandas DataFrame or a path")
    if analyze and statistics is None:
        statistics = profile(source, loaded, time=time, type=type, time_unit=time_unit)
        settings = replace(settings, statistics=statistics)
    program = compile_workload(loaded, EventSchema(schema, time, type, time_unit), settings.options())
    counts = None if statistics is None else statistics.counts or None
    return Plan(program, counts, run_analyzed(program, source) if analyze and source is not None else None)


def explain_match(
    workload: Workload | Query | Sequence[Query] | str | Path,
    events: Any,
    *,
    query: str | None = None,
    key: Mapping[str, Any] | None = None,
    start: Any = None,
    end: Any = None,
    limit: int = 5,
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
) -> Explanation:
    """Why a query has the matches it has, or none: its demands one after another, with what each leaves.

    `query` names one of the workload's, `key` gives values of its GROUP BY or [attribute] columns, and `start`
    (included) and `end` (not included) bound the times of matches. The first `limit` matches are listed. The result is
    true where there is a match, and `died` is the first step that leaves none; `print` it to read it.
    """
    settings = Settings(time, type, time_unit)
    source = _source(events, settings)
    loaded = as_workload(workload)
    schema = EventSchema(source.schema, time, type, time_unit)
    _check(loaded, schema, None)
    return ask_why(loaded, schema, source.batches(), query=query, key=key or {}, start=start, end=end, limit=limit)


def _schema_of(events: Any, settings: Settings) -> pa.Schema:
    """The columns of events of any kind, or given as such."""
    if isinstance(events, pa.Schema):
        return events
    if is_spark(events):
        from motet.spark.tables import arrow_schema, as_events

        return arrow_schema(as_events(events, settings.time, settings.type))
    return _source(events, settings).schema


def live(
    workload: Workload | Query | Sequence[Query] | str | Path,
    events: Any,
    *,
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
    counts: str = "exact",
    mode: str = "append",
    optimizer: str = "auto",
    statistics: Statistics | None = None,
    budget: float = 10.0,
    costs: str = "calibrated",
    delay: timedelta = timedelta(0),
    threshold: float | None = 0.5,
    horizon: timedelta | None = None,
) -> Running:
    """A workload that runs on in this process: `feed` it events as they come, `add` and `remove` queries.

    `events` has the columns of what will come: an Arrow schema or table, a DataFrame or a path. `mode` is 'append' for
    final results or 'update' for early values as well. Where `feed` is given no watermark, it stays `delay` behind the
    newest event.

    The plan follows the rates of events: when one has changed by more than `threshold` (a share; None: never), plans
    are compared again, and another is taken if it saves more in the time `horizon` (ten times the longest window unless
    given) than it takes to move to it.
    """
    settings = Settings(
        time, type, time_unit, counts, optimizer=optimizer, statistics=statistics, budget=budget, costs=costs
    )
    _one_of("mode", mode, ("append", "update"))
    if threshold is not None and not 0 < threshold < 1:
        raise MotetError(f"threshold is {threshold}: a share between 0 and 1, or None, will do")
    schema = EventSchema(_schema_of(events, settings), time, type, time_unit)
    adapting = Adapting(threshold, None if horizon is None else horizon.total_seconds())
    options = replace(settings.options(), live=mode)
    return Running(as_workload(workload), schema, options, adapting, delay // timedelta(microseconds=1))


def profile(
    events: Any,
    workload: Workload | Query | Sequence[Query] | str | Path | None = None,
    *,
    keys: Sequence[str] = (),
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
) -> Statistics:
    """Rates of event types, time span, ties and nulls of events of any kind, for each set of keys; with a workload also
    rates of its symbols (types with local conditions), how many partitions its queries have and, in process, how often
    its conditions between two events hold.
    """
    asked = None if workload is None else as_workload(workload)
    if is_spark(events):
        from motet.spark.profile import profile as profile_on_spark

        return profile_on_spark(events, time, type, keys, time_unit, asked)
    settings = Settings(time, type, time_unit)
    source = _source(events, settings)
    if asked is None:
        needed = list(dict.fromkeys((time, type, *keys)))
        require_columns(source.schema, needed, "the table of events")
        return profile_table(source.table(needed), time, type, keys, time_unit)
    schema = EventSchema(source.schema, time, type, time_unit)
    found = survey(source.table(columns_asked(asked, schema, keys)), asked, schema, keys)
    return _with_selectivities(found, source, asked, settings)


def _with_selectivities(
    found: Statistics, source: TableSource | EventSource, workload: Workload, settings: Settings
) -> Statistics:
    """Statistics with the share of sampled pairs of events that satisfy each condition between two variables."""
    program = program_for(source, workload, settings)
    if not program.detect:
        return found
    shares = selectivities(program, source.table(columns_of(program)))
    return replace(found, selectivities={measured_text(test): share for test, share in shares.items()})
