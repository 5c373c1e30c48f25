"""A workload compiled: branches by partition, what runs in each, and the shape of results.

Queries that can be aggregated online are; those that need the matches themselves are detected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from motet.engine.choosing import ALL, SEARCHING, Plans
from motet.engine.detect.aggregate import DUE, END, FROM, NUMBER, QUERY, UNTIL, contribution_fields
from motet.engine.detect.known import rates_from
from motet.engine.detect.program import DetectBranch, add_column, detect_branch, match_types
from motet.engine.fingerprint import fingerprint
from motet.engine.schema import EventSchema, is_text
from motet.errors import Diagnostic, QueryError
from motet.kernels.tables import Machine, Queries
from motet.model.expression import Expression, attributes
from motet.model.query import Workload
from motet.model.validate import problems
from motet.optimizer.aggregate import sharon
from motet.optimizer.aggregate.gloria import gloria
from motet.optimizer.aggregate.gloria.report import GloriaReport
from motet.optimizer.aggregate.report import SharonReport
from motet.optimizer.detect import PLANNERS, plan_trees
from motet.optimizer.detect.motto import motto
from motet.plan.compiled import CompiledQuery, compile_query
from motet.plan.detect.query import DetectQuery, compile_detect
from motet.plan.sharing import Sharing
from motet.plan.units import Unit
from motet.statistics.model import Statistics
from motet.template.symbols import Symbol


@dataclass(frozen=True, slots=True)
class Options:
    """How to run.

    `counts`: 'double' where counts may exceed 64 bits. `windows`: 'panes', 'pairs' or 'stacks' force that strategy
    wherever it is possible. `optimizer`: 'none' runs every query alone, 'prefix' computes equal prefixes once, 'sharon'
    and its variants look for runs to compute once anywhere, 'gloria' and its variants for transitions, repetitions
    included; 'auto' computes all that is equal once where that pays. What an optimizer knows of the data are the
    `statistics`, and it takes at most `budget` seconds. `costs`: gloria goes by our kernels ('calibrated') or by the
    equations of its paper ('printed'). In detection, 'none' joins in the order of the pattern and shares nothing,
    'share' computes equal parts of that once, 'reorder' joins each pattern as is cheapest for it alone, 'multitree'
    decides on both together and 'multitree-prefix' for equal beginnings only; all others are 'auto' there.

    Detection keeps at most `memory_limit` bytes of parts of matches and finds at most `match_limit` matches of a query
    and key in a stretch of its window's length; beyond, `on_limit` is 'error' or 'truncate'.

    `live`: the output mode of a stream ('append' or 'update'), or '' where the events are all there.
    """

    counts: str = "exact"
    windows: str = "auto"
    optimizer: str = "auto"
    statistics: Statistics | None = None
    budget: float = 10.0
    costs: str = "calibrated"
    match_limit: int | None = None
    memory_limit: int = 4 << 30
    on_limit: str = "error"
    live: str = ""


DETECTING = tuple(name for name in PLANNERS if name not in ("auto", "none"))  # those that plan joins
OPTIMIZERS = ("auto", "prefix", "none", *SEARCHING, *DETECTING)


@dataclass(frozen=True)
class Branch:
    """The queries that agree on their partition attributes; their events are ordered once for all.

    `estimates` are the costs of the plans that were compared, by name, and `chosen` the one that is run (see
    `motet.engine.choosing`).
    """

    partition: tuple[str, ...]
    units: tuple[Unit, ...]
    columns: tuple[str, ...]
    types: frozenset[str] | None
    halo: int | None
    ranked: bool
    spread: tuple[str, ...] = ()  # in a stream: rows that agree on these attributes must be kept together
    chosen: str = ALL
    estimates: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def queries(self) -> tuple[CompiledQuery, ...]:
        return tuple(compiled for unit in self.units for compiled in unit.queries)

    @property
    def name(self) -> str:
        """What tells its rows apart: the same for other queries about the same keys."""
        return "/".join(["+".join(self.partition), "+".join(self.spread)])

    @property
    def needs_combine(self) -> bool:
        return any(compiled.combined for compiled in self.queries)

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(dict.fromkeys(symbol for unit in self.units for symbol in sorted(unit.merged.symbols, key=repr)))


@dataclass(frozen=True)
class Program:
    """A compiled workload. `warnings` are problems that do not stop it; `report` says how `sharing` came about."""

    workload: Workload
    schema: EventSchema
    options: Options
    branches: tuple[Branch, ...]
    detect: tuple[DetectBranch, ...] = ()
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    sharing: Sharing | None = None
    report: SharonReport | GloriaReport | None = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        # Workers need the plan, not how it was found.
        return {**self.__dict__, "report": None}

    def all_estimates(self, branch: Branch) -> dict[str, float]:
        """The costs of all plans for a branch, also of those that nobody had to compare."""
        plans = Plans(branch.queries, self.options, self.sharing)
        return {name: plans.cost(name) for name in plans.names}

    @property
    def all_branches(self) -> tuple[Branch | DetectBranch, ...]:
        """Those that aggregate online and those that detect."""
        return (*self.branches, *self.detect)

    @property
    def definitions(self) -> dict[str, Expression]:
        return {definition.name: definition.condition for definition in self.workload.definitions}

    @cached_property
    def queries(self) -> dict[int, CompiledQuery]:
        """Queries that are aggregated online, by their place in the workload."""
        found = {compiled.number: compiled for branch in self.branches for compiled in branch.queries}
        return dict(sorted(found.items()))

    @cached_property
    def alike(self) -> tuple[tuple[CompiledQuery, ...], ...]:
        """The queries whose results are put together in the same way."""
        kinds: dict[tuple[object, ...], list[CompiledQuery]] = {}
        for compiled in self.queries.values():
            span = compiled.span
            extremes = tuple((channel.kind, channel.column) for channel in compiled.channels.extremes)
            way = (compiled.combined, compiled.swept, span.within == 0, span.continuous)
            kind = (*way, compiled.partition, compiled.query.group_by, compiled.outputs, extremes)
            kinds.setdefault(kind, []).append(compiled)
        return tuple(map(tuple, kinds.values()))

    @cached_property
    def fingerprints(self) -> dict[int, str]:
        """What each query asks, by its place in the workload: what state is kept by."""
        asked: dict[int, CompiledQuery | DetectQuery] = {**self.queries, **self.detected}
        return {number: fingerprint(self, each) for number, each in sorted(asked.items())}

    @cached_property
    def plannings(self) -> dict[str, Any]:
        """How each branch of detection is planned, by name (`motet.engine.detect.planning`): for many small batches."""
        return {}

    @cached_property
    def machines(self) -> dict[int, tuple[list[frozenset[Symbol]], Machine, Queries]]:
        """The machine last made for each unit, with the classes of events it is for: for runs of many small batches."""
        return {}

    @cached_property
    def classes(self) -> dict[str, dict[frozenset[Symbol], int]]:
        """Classes of events seen so far, numbered, by branch."""
        return {}

    @cached_property
    def partition(self) -> tuple[str, ...]:
        """Every attribute that any query partitions by."""
        return tuple(dict.fromkeys(name for branch in self.branches for name in branch.partition))

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Every attribute that any query groups by: columns of the result."""
        return tuple(dict.fromkeys(name for query in self.workload.queries for name in query.group_by))

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """The largest number of channels of each kind."""
        shapes = [compiled.channels.shape for compiled in self.queries.values()] or [(0, 0, 0)]
        return max(s[0] for s in shapes), max(s[1] for s in shapes), max(s[2] for s in shapes)

    @cached_property
    def result_schema(self) -> pa.Schema:
        """Times, GROUP BY attributes, aggregates by their labels, then what matches show."""
        time = self.schema.result_time_type
        queries = self.workload.queries
        fields: dict[str, pa.DataType] = {"query": pa.string()}
        if any(query.is_aggregate for query in queries) or not queries:
            fields |= dict.fromkeys(("window_start", "window_end", "time"), time)
        if not all(query.is_aggregate for query in queries):
            fields |= dict.fromkeys(("start", "end"), time)
        fields |= {name: plain_type(self.schema.columns.field(name).type) for name in self.groups}
        for query in queries:
            for item in query.aggregates:
                add_column(fields, item.label, self._output_type(item.function, item.name))
        for detected in self.detected.values():
            if not detected.query.is_aggregate:
                for label, found in match_types(detected, self.schema.columns):
                    add_column(fields, label, found)
        return pa.schema(fields)

    @cached_property
    def detected(self) -> dict[int, DetectQuery]:
        """Queries whose matches are found, by their place in the workload."""
        found = {query.number: query for branch in self.detect for query in branch.queries}
        return dict(sorted(found.items()))

    @cached_property
    def contribution_keys(self) -> tuple[str, ...]:
        """Contributions that may have to be combined agree on these columns."""
        combined = [query.query for query in self.detected.values() if query.query.is_aggregate and query.combined]
        return (QUERY, *(name for name in self.groups if all(name in query.group_by for query in combined)))

    @cached_property
    def contribution_schema(self) -> pa.Schema:
        """What matches add to aggregates, on its way to being combined: see `motet.engine.detect.aggregate`."""
        fields = [pa.field(QUERY, pa.int32()), *(pa.field(name, pa.int64()) for name in (NUMBER, END, FROM, UNTIL))]
        fields.append(pa.field(DUE, pa.bool_()))
        fields += [pa.field(name, plain_type(self.schema.columns.field(name).type)) for name in self.groups]
        for query in self.detected.values():
            if query.query.is_aggregate:
                fields += contribution_fields(query, self.schema)
        return pa.schema(fields)

    def _output_type(self, function: str, column: str | None) -> pa.DataType:
        if function == "COUNT":
            return pa.int64() if self.options.counts == "exact" else pa.float64()
        if function in ("MIN", "MAX") and column is not None:
            return plain_type(self.schema.columns.field(column).type)
        return pa.float64()

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """Totals on their way to being combined: see `motet.engine.partials`."""
        ni, nf, nm = self.shape
        fields = [pa.field("query", pa.int32())]
        fields += [
            pa.field(f"k{at}", plain_type(self.schema.columns.field(name).type))
            for at, name in enumerate(self.partition)
        ]
        fields += [pa.field("start", pa.int64()), pa.field("end", pa.int64()), pa.field("seq", pa.int64())]
        fields += [pa.field("done", pa.bool_())]
        fields += [pa.field("n", pa.int64()), pa.field("nm", pa.float64()), pa.field("ne", pa.int32())]
        for at in range(ni):
            fields += [
                pa.field(f"i{at}", pa.int64()),
                pa.field(f"im{at}", pa.float64()),
                pa.field(f"ie{at}", pa.int32()),
            ]
        for at in range(nf):
            fields += [pa.field(f"f{at}", pa.float64()), pa.field(f"fe{at}", pa.int32())]
        fields += [pa.field(f"m{at}", pa.int64()) for at in range(nm)]
        fields += [pa.field(f"s{at}", pa.string()) for at in range(nm) if self.texts]
        return pa.schema(fields)

    @cached_property
    def texts(self) -> frozenset[str]:
        """The text columns of which some query takes a minimum or maximum."""
        extremes = [channel.column for c in self.queries.values() for channel in c.channels.extremes]
        return frozenset(name for name in extremes if name and is_text(self.schema.columns.field(name).type))

    @cached_property
    def merge_keys(self) -> tuple[str, ...]:
        """Partial rows that may have to be combined agree on these columns.

        Groups are left out where a query groups by less than another: such rows differ in attributes it does not have.
        """
        common = [
            f"k{at}"
            for at, name in enumerate(self.partition)
            if all(name in compiled.query.group_by for compiled in self.queries.values())
        ]
        swept = any(compiled.span.continuous and compiled.combined for compiled in self.queries.values())
        return ("query", *common) if swept else ("query", *common, "end")


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """A column's type as results carry it: dictionaries decoded, decimals as doubles."""
    if pa.types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if pa.types.is_decimal(data_type) or pa.types.is_floating(data_type):
        return pa.float64()
    if pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return pa.string()
    return data_type


def compile_workload(
    workload: Workload,
    schema: EventSchema,
    options: Options = Options(),  # noqa: B008
    types: Sequence[str] | None = None,
    sharing: Sharing | None = None,
) -> Program:
    """Check a workload against the data's columns (and types, where known) and plan it. Raises `QueryError`.

    A plan for `sharing` is run in place of one that an optimizer finds.
    """
    found = problems(workload, schema.kinds(), types, time=schema.time, type=schema.type)
    errors = [problem for problem in found if not problem.warning]
    if errors:
        raise QueryError(errors, workload.text, workload.origin)
    compiled = [_compiled(number, workload, schema.tick, options) for number in range(len(workload.queries))]
    refused = [outcome for outcome in compiled if isinstance(outcome, Diagnostic)]
    if refused:
        raise QueryError(refused, workload.text, workload.origin)
    online = [outcome for outcome in compiled if isinstance(outcome, CompiledQuery)]
    report = _optimized(online, options) if sharing is None else None
    sharing = sharing if report is None else report.plan
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[CompiledQuery]] = {}
    for query in online:
        groups.setdefault((query.partition, _spread(query, options)), []).append(query)
    # Aggregates that are combined over partitions go another way from there on, so they have branches of their own.
    detected: dict[tuple[tuple[str, ...], bool, tuple[str, ...]], list[DetectQuery]] = {}
    for outcome in compiled:
        if isinstance(outcome, DetectQuery):
            combines = outcome.query.is_aggregate and outcome.combined
            detected.setdefault((outcome.partition, combines, _spread(outcome, options)), []).append(outcome)
    definitions = {definition.name: definition.condition for definition in workload.definitions}
    branches = tuple(_branch(*key, queries, schema, definitions, options, sharing) for key, queries in groups.items())
    detect = tuple(
        _planned(detect_branch(partition, each, schema, definitions, spread), options)
        for (partition, _, spread), each in detected.items()
    )
    warnings = tuple(problem for problem in found if problem.warning)
    return Program(workload, schema, options, branches, detect, warnings, sharing=sharing, report=report)


def _planned(branch: DetectBranch, options: Options) -> DetectBranch:
    """A branch that detects, with its trees where statistics tell what to plan for."""
    if options.statistics is None or not branch.wanted:
        return branch
    rates = rates_from(options.statistics, branch)
    return replace(branch, trees=plan_trees(branch.wanted, options.optimizer, rates, options.budget))


def _compiled(number: int, workload: Workload, tick: int, options: Options) -> CompiledQuery | DetectQuery | Diagnostic:
    """A query for the engine that takes it: aggregated online where that is possible, else by its matches."""
    query = workload.queries[number]
    if options.live and query.window is None:
        message = "without WITHIN the whole input is one window, and a stream never ends"
        return Diagnostic(message, query.span, query.name, "add WITHIN, with or without SLIDE")
    online = compile_query(number, workload, tick)
    if isinstance(online, CompiledQuery):
        return online
    return compile_detect(number, workload, tick, online.message, joins=options.optimizer in motto.VARIANTS)


def _optimized(queries: Sequence[CompiledQuery], options: Options) -> SharonReport | GloriaReport | None:
    """What the optimizer that was asked for found; None where it looks for nothing."""
    asked, known = options.optimizer, options.statistics
    if asked in gloria.VARIANTS:
        return gloria.optimize(queries, known, gloria.GloriaOptions(asked, options.costs, budget=options.budget))
    if asked in sharon.VARIANTS:
        return sharon.optimize(queries, known, sharon.SharonOptions(asked, options.budget))
    return None


def _spread(compiled: CompiledQuery | DetectQuery, options: Options) -> tuple[str, ...]:
    """In a stream, what combines partitions at every moment needs them in one place; sums of windows can be added up
    later.
    """
    if not options.live:
        return ()
    combined = compiled.combined and compiled.query.is_aggregate
    at_once = compiled.swept or (combined and options.live == "update")
    return tuple(sorted(compiled.query.group_by)) if at_once else compiled.partition


def _branch(
    partition: tuple[str, ...],
    spread: tuple[str, ...],
    queries: list[CompiledQuery],
    schema: EventSchema,
    definitions: Mapping[str, Expression],
    options: Options,
    sharing: Sharing | None,
) -> Branch:
    plans = Plans(queries, options, sharing)
    chosen = plans.chosen()
    units = plans.units(chosen)
    symbols = {symbol for unit in units for symbol in unit.merged.symbols}
    ranked = any(compiled.span.ranked for compiled in queries)
    defined = {symbol.type for symbol in symbols if symbol.type in definitions}
    conditions = [definitions[name] for name in defined]
    conditions += [condition for symbol in symbols for condition in symbol.conditions]
    conditions += [side for compiled in queries for a in compiled.adjacent for side in (a.before, a.after)]
    read = {attribute.name for condition in conditions for attribute in attributes(condition)}
    read |= {column for unit in units for column, _ in (*unit.merged.whole, *unit.merged.real)}
    columns = dict.fromkeys((schema.time, schema.type, *partition, *sorted(read)))
    return Branch(
        partition=partition,
        units=units,
        columns=tuple(columns),
        types=None if ranked or defined else frozenset(symbol.type for symbol in symbols),
        halo=_halo(queries),
        chosen=chosen,
        estimates=plans.estimates,
        ranked=ranked,
        spread=spread,
    )


def _halo(queries: Sequence[CompiledQuery]) -> int | None:
    """How long before a moment events still matter after it; None where for ever."""
    if any(compiled.span.ranked or compiled.span.within == 0 for compiled in queries):
        return None
    return max(compiled.span.within for compiled in queries)
