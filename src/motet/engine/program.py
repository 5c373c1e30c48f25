"""Compile a workload: branches by partition, the plan of each, and the schema of results.

Queries are aggregated online where that is possible; the others are detected: their matches are found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from motet.engine.detect.program import (
    DUE,
    END,
    FROM,
    NUMBER,
    QUERY,
    UNTIL,
    DetectBranch,
    add_column,
    contribution_fields,
    make_detect_branch,
    match_types,
)
from motet.engine.detect.stated_rates import rates_from_statistics
from motet.engine.fingerprint import fingerprint
from motet.engine.plan_choice import ALL, SEARCH_OPTIMIZERS, PlanCandidates
from motet.engine.schema import EventSchema, is_text
from motet.errors import Diagnostic, QueryError
from motet.kernels.tables import Machine, Queries
from motet.model.expression import Expression, attributes
from motet.model.query import Workload
from motet.model.validate import find_problems
from motet.optimizer.gloria import gloria
from motet.optimizer.gloria.report import GloriaReport
from motet.optimizer.joins import PLANNERS, plan_trees
from motet.optimizer.motto import motto
from motet.optimizer.sharon import sharon
from motet.optimizer.sharon.report import SharonReport
from motet.options import Options
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.detect.query import DetectQuery, compile_detect
from motet.plans.sharing import Sharing
from motet.plans.units import Unit
from motet.template.symbols import Symbol

JOIN_OPTIMIZERS = tuple(name for name in PLANNERS if name not in ("auto", "none"))  # those that plan joins
OPTIMIZERS = ("auto", "prefix", "none", *SEARCH_OPTIMIZERS, *JOIN_OPTIMIZERS)


@dataclass(frozen=True)
class Branch:
    """The queries with the same partition attributes; their events are sorted once for all of them.

    `overlap` is how long before a moment events still matter after it, None if forever. `estimates` are the costs of
    the plans that were compared, by name, and `chosen` is the one that runs (see `motet.engine.plan_choice`).
    """

    partition: tuple[str, ...]
    units: tuple[Unit, ...]
    columns: tuple[str, ...]
    types: frozenset[str] | None
    overlap: int | None
    ranked: bool
    shuffle_by: tuple[str, ...] = ()  # in a stream: rows that agree on these attributes must be kept together
    chosen: str = ALL
    estimates: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def queries(self) -> tuple[CompiledQuery, ...]:
        return tuple(compiled for unit in self.units for compiled in unit.queries)

    @property
    def name(self) -> str:
        """The name that its state is kept under: the same for other queries on the same keys."""
        return "/".join(["+".join(self.partition), "+".join(self.shuffle_by)])

    @property
    def needs_combine(self) -> bool:
        return any(compiled.is_combined for compiled in self.queries)

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(dict.fromkeys(symbol for unit in self.units for symbol in sorted(unit.merged.symbols, key=repr)))


@dataclass(frozen=True)
class Program:
    """A compiled workload. `warnings` are problems that do not stop it; `report` says how `sharing` was found."""

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

    def estimate_all_plans(self, branch: Branch) -> dict[str, float]:
        """Return the costs of all candidate plans for a branch, also of those that were not compared."""
        plans = PlanCandidates(branch.queries, self.options, self.sharing)
        return {name: plans.cost(name) for name in plans.names}

    @property
    def all_branches(self) -> tuple[Branch | DetectBranch, ...]:
        """The branches that aggregate online, then those that detect."""
        return (*self.branches, *self.detect)

    @property
    def definitions(self) -> dict[str, Expression]:
        return {definition.name: definition.condition for definition in self.workload.definitions}

    @cached_property
    def queries(self) -> dict[int, CompiledQuery]:
        """The queries that are aggregated online, by number in the workload."""
        found = {compiled.number: compiled for branch in self.branches for compiled in branch.queries}
        return dict(sorted(found.items()))

    @cached_property
    def merge_groups(self) -> tuple[tuple[CompiledQuery, ...], ...]:
        """The queries grouped by how their results are merged."""
        kinds: dict[tuple[object, ...], list[CompiledQuery]] = {}
        for compiled in self.queries.values():
            span = compiled.span
            extremes = tuple((channel.kind, channel.column) for channel in compiled.channels.extremes)
            way = (compiled.is_combined, compiled.needs_sweep, span.within == 0, span.is_continuous)
            kind = (*way, compiled.partition, compiled.query.group_by, compiled.outputs, extremes)
            kinds.setdefault(kind, []).append(compiled)
        return tuple(map(tuple, kinds.values()))

    @cached_property
    def fingerprints(self) -> dict[int, str]:
        """The fingerprint of each query, by number: state is kept by it."""
        optimizer: dict[int, CompiledQuery | DetectQuery] = {**self.queries, **self.detect_queries}
        return {number: fingerprint(self, each) for number, each in sorted(optimizer.items())}

    @cached_property
    def plannings(self) -> dict[str, Any]:
        """The planner of each detection branch, by name (`motet.engine.detect.planner`), for runs of many small
        batches.
        """
        return {}

    @cached_property
    def machines(self) -> dict[int, tuple[list[frozenset[Symbol]], Machine, Queries]]:
        """The last machine of each unit with its event classes, for runs of many small batches."""
        return {}

    @cached_property
    def classes(self) -> dict[str, dict[frozenset[Symbol], int]]:
        """The numbers of the event classes seen so far, by branch."""
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
        """The columns of results: times, GROUP BY attributes, aggregates by label, then match columns."""
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
        for detected in self.detect_queries.values():
            if not detected.query.is_aggregate:
                for label, found in match_types(detected, self.schema.columns):
                    add_column(fields, label, found)
        return pa.schema(fields)

    @cached_property
    def detect_queries(self) -> dict[int, DetectQuery]:
        """The queries whose matches are found, by number in the workload."""
        found = {query.number: query for branch in self.detect for query in branch.queries}
        return dict(sorted(found.items()))

    @cached_property
    def contribution_keys(self) -> tuple[str, ...]:
        """The columns on which contributions that may have to be merged agree."""
        combined = [
            query.query for query in self.detect_queries.values() if query.query.is_aggregate and query.is_combined
        ]
        return (QUERY, *(name for name in self.groups if all(name in query.group_by for query in combined)))

    @cached_property
    def contribution_schema(self) -> pa.Schema:
        """The columns of what matches contribute to aggregates: see `motet.engine.detect.aggregate`."""
        fields = [pa.field(QUERY, pa.int32()), *(pa.field(name, pa.int64()) for name in (NUMBER, END, FROM, UNTIL))]
        fields.append(pa.field(DUE, pa.bool_()))
        fields += [pa.field(name, plain_type(self.schema.columns.field(name).type)) for name in self.groups]
        for query in self.detect_queries.values():
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
        """The columns of totals that are still to be merged: see `motet.engine.partials`."""
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
        fields += [pa.field(f"s{at}", pa.string()) for at in range(nm) if self.text_extremes]
        return pa.schema(fields)

    @cached_property
    def text_extremes(self) -> frozenset[str]:
        """The text columns of which some query takes a minimum or maximum."""
        extremes = [channel.column for c in self.queries.values() for channel in c.channels.extremes]
        return frozenset(name for name in extremes if name and is_text(self.schema.columns.field(name).type))

    @cached_property
    def merge_keys(self) -> tuple[str, ...]:
        """The columns on which partial rows that may have to be merged agree.

        GROUP BY attributes that some query lacks are left out: its rows differ in attributes that it does not group by.
        """
        common = [
            f"k{at}"
            for at, name in enumerate(self.partition)
            if all(name in compiled.query.group_by for compiled in self.queries.values())
        ]
        swept = any(compiled.span.is_continuous and compiled.is_combined for compiled in self.queries.values())
        return ("query", *common) if swept else ("query", *common, "end")


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return a column's type as results have it: dictionaries decoded, decimals as doubles."""
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
    """Validate a workload against the data's columns (and event types, if known) and plan it. Raises `QueryError`.

    A `sharing` plan is used in place of one that an optimizer finds.
    """
    found = find_problems(workload, schema.kinds(), types, time=schema.time, type=schema.type)
    errors = [problem for problem in found if not problem.warning]
    if errors:
        raise QueryError(errors, workload.text, workload.origin)
    compiled = [_compile_query(number, workload, schema.tick, options) for number in range(len(workload.queries))]
    refused = [outcome for outcome in compiled if isinstance(outcome, Diagnostic)]
    if refused:
        raise QueryError(refused, workload.text, workload.origin)
    online = [outcome for outcome in compiled if isinstance(outcome, CompiledQuery)]
    report = _search_sharing(online, options) if sharing is None else None
    sharing = sharing if report is None else report.plan
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[CompiledQuery]] = {}
    for query in online:
        groups.setdefault((query.partition, _shuffle_by(query, options)), []).append(query)
    # Aggregates that are combined over partitions go another way from there on, so they have branches of their own.
    detected: dict[tuple[tuple[str, ...], bool, tuple[str, ...]], list[DetectQuery]] = {}
    for outcome in compiled:
        if isinstance(outcome, DetectQuery):
            combines = outcome.query.is_aggregate and outcome.is_combined
            detected.setdefault((outcome.partition, combines, _shuffle_by(outcome, options)), []).append(outcome)
    definitions = {definition.name: definition.condition for definition in workload.definitions}
    branches = tuple(
        _build_branch(*key, queries, schema, definitions, options, sharing) for key, queries in groups.items()
    )
    detect = tuple(
        _plan_joins(make_detect_branch(partition, each, schema, definitions, shuffle_by), options)
        for (partition, _, shuffle_by), each in detected.items()
    )
    warnings = tuple(problem for problem in found if problem.warning)
    return Program(workload, schema, options, branches, detect, warnings, sharing=sharing, report=report)


def _plan_joins(branch: DetectBranch, options: Options) -> DetectBranch:
    """Plan the joins of a detection branch if statistics are known."""
    if options.statistics is None or not branch.join_specs:
        return branch
    rates = rates_from_statistics(options.statistics, branch)
    return replace(branch, trees=plan_trees(branch.join_specs, options.optimizer, rates, options.budget_seconds))


def _compile_query(
    number: int, workload: Workload, tick: int, options: Options
) -> CompiledQuery | DetectQuery | Diagnostic:
    """Compile a query: for online aggregation where that is possible, else for detection."""
    query = workload.queries[number]
    if options.mode and query.window is None:
        message = "without WITHIN the whole input is one window, and a stream never ends"
        return Diagnostic(message, query.span, query.name, "add WITHIN, with or without SLIDE")
    online = compile_query(number, workload, tick)
    if isinstance(online, CompiledQuery):
        return online
    return compile_detect(number, workload, tick, online.message, joins=options.optimizer in motto.VARIANTS)


def _search_sharing(queries: Sequence[CompiledQuery], options: Options) -> SharonReport | GloriaReport | None:
    """Return what the requested optimizer found, or None if it does not search."""
    optimizer, known = options.optimizer, options.statistics
    if optimizer in gloria.VARIANTS:
        return gloria.optimize(
            queries, known, gloria.GloriaOptions(optimizer, options.costs, budget=options.budget_seconds)
        )
    if optimizer in sharon.VARIANTS:
        return sharon.optimize(queries, known, sharon.SharonOptions(optimizer, options.budget_seconds))
    return None


def _shuffle_by(compiled: CompiledQuery | DetectQuery, options: Options) -> tuple[str, ...]:
    """Return the attributes that decide where rows are kept in a stream.

    Queries that combine partitions at every moment need them in one place; sums of windows can be merged later.
    """
    if not options.mode:
        return ()
    combined = compiled.is_combined and compiled.query.is_aggregate
    at_once = compiled.needs_sweep or (combined and options.mode == "update")
    return tuple(sorted(compiled.query.group_by)) if at_once else compiled.partition


def _build_branch(
    partition: tuple[str, ...],
    shuffle_by: tuple[str, ...],
    queries: list[CompiledQuery],
    schema: EventSchema,
    definitions: Mapping[str, Expression],
    options: Options,
    sharing: Sharing | None,
) -> Branch:
    plans = PlanCandidates(queries, options, sharing)
    chosen = plans.choose()
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
        overlap=_overlap(queries),
        chosen=chosen,
        estimates=plans.estimates,
        ranked=ranked,
        shuffle_by=shuffle_by,
    )


def _overlap(queries: Sequence[CompiledQuery]) -> int | None:
    """Return how long before a moment events still matter after it, None if forever."""
    if any(compiled.span.ranked or compiled.span.within == 0 for compiled in queries):
        return None
    return max(compiled.span.within for compiled in queries)
