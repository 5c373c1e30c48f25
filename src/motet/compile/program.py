"""A compiled workload: branches by partition, the plan of each, and the schemas of results."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from motet.compile.contributions import QUERY, contribution_schema
from motet.compile.detect import DetectBranch, match_types
from motet.compile.plan_choice import Declined
from motet.compile.times import lower_times
from motet.errors import Diagnostic
from motet.language.printer import to_text
from motet.model.expression import Expression
from motet.model.query import EventDefinition, Workload
from motet.optimizer.registry import SharingReport
from motet.options import Options
from motet.plans.compiled import CompiledQuery
from motet.plans.detect.query import DetectQuery
from motet.plans.sharing import Sharing
from motet.plans.units import Unit
from motet.schema import EventSchema, is_text
from motet.template.symbols import Symbol


@dataclass(frozen=True)
class Branch:
    """The queries with the same partition attributes; their events are sorted once for all of them.

    `overlap` is how long before a moment events still matter after it, None if forever. `estimates` are the costs of
    the plans that were compared, by name, `chosen` is the one that runs, and `declined` what of it does not (see
    `motet.compile.plan_choice`).
    """

    partition: tuple[str, ...]
    units: tuple[Unit, ...]
    columns: tuple[str, ...]
    types: frozenset[str] | None
    overlap: int | None
    ranked: bool
    shuffle_by: tuple[str, ...] = ()  # in a stream: rows that agree on these attributes must be kept together
    chosen: str = "search"
    estimates: Mapping[str, float] = field(default_factory=dict, compare=False)
    declined: tuple[Declined, ...] = ()

    @property
    def queries(self) -> tuple[CompiledQuery, ...]:
        return tuple(compiled for unit in self.units for compiled in unit.reported)

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
    report: SharingReport | None = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        # Workers need the plan, not how it was found.
        return {**self.__dict__, "report": None}

    @property
    def all_branches(self) -> tuple[Branch | DetectBranch, ...]:
        """The branches that aggregate online, then those that detect."""
        return (*self.branches, *self.detect)

    @cached_property
    def definitions(self) -> dict[str, Expression]:
        """The conditions of event definitions, as engines compute them."""
        lowered = lower_times(self.workload, self.schema)
        return {definition.name: definition.condition for definition in lowered.definitions}

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
            columns = tuple(self.column_names[compiled.number].values())
            asked = (compiled.query.group_by, compiled.outputs, columns, compiled.query.having)
            kind = (*way, compiled.partition, *asked, extremes)
            kinds.setdefault(kind, []).append(compiled)
        return tuple(map(tuple, kinds.values()))

    @cached_property
    def fingerprints(self) -> dict[int, str]:
        """The fingerprint of each query, by number: state is kept by it."""
        compiled: dict[int, CompiledQuery | DetectQuery] = {**self.queries, **self.detect_queries}
        return {number: fingerprint(each, self.schema, self.definitions) for number, each in sorted(compiled.items())}

    @property
    def needs_sweep(self) -> bool:
        """Whether some results are merged over time, and so only when all partials are there."""
        return any(compiled.needs_sweep for compiled in self.queries.values())

    @cached_property
    def partition(self) -> tuple[str, ...]:
        """Every attribute that any query partitions by."""
        return tuple(dict.fromkeys(name for branch in self.branches for name in branch.partition))

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Every attribute that any query groups by."""
        return tuple(dict.fromkeys(name for query in self.workload.queries for name in query.group_by))

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """The largest number of channels of each kind."""
        queries = self.queries.values()
        shapes = [compiled.channels.shape for compiled in queries] or [(0, 0, 0)]
        counts = [output.count + 1 for compiled in queries for output in compiled.outputs]
        most = (max(s[0] for s in shapes), max(s[1] for s in shapes), max(s[2] for s in shapes))
        return max(most[0], *counts, 0), most[1], most[2]

    @cached_property
    def result_schema(self) -> pa.Schema:
        """The columns of results: times, GROUP BY attributes, aggregates by label, then match columns."""
        fields = {"query": pa.string(), **dict.fromkeys(self.time_columns, self.schema.result_time_type)}
        for name, column in self._group_columns:
            fields[column] = self.schema.plain_type(name)
        for number, types in self._label_types.items():
            fields |= {self.column_names[number][label]: found for label, found in types.items()}
        return pa.schema(fields)

    @property
    def time_columns(self) -> tuple[str, ...]:
        """The columns of results that are times: of windows and moments, and of matches."""
        queries = self.workload.queries
        of_aggregates = ("window_start", "window_end", "time")
        of_matches = () if all(query.is_aggregate for query in queries) else ("start", "end")
        return (*of_aggregates, *of_matches) if not queries or any(q.is_aggregate for q in queries) else of_matches

    @cached_property
    def column_names(self) -> dict[int, dict[str, str]]:
        """By number of a query, its GROUP BY attributes and labels, and their columns in the one table of all results.

        Queries share a column where it has one type in all of them; where it has not, or where results have a column
        of that name anyway, or might have one, it is `query.label`.
        """
        types: dict[str, set[pa.DataType]] = {}
        for own in self._label_types.values():
            for label, found in own.items():
                types.setdefault(label, set()).add(found)
        clashes = {label for label, found in types.items() if len(found) > 1}
        qualified = (
            f"{query.name}.{name}"
            for number, query in enumerate(self.workload.queries)
            for name in (*query.group_by, *self._label_types[number])
        )
        reserved = {"query", *self.time_columns, *qualified}
        clashes |= reserved | set(self.groups)
        return {
            number: {name: f"{query.name}.{name}" if name in reserved else name for name in query.group_by}
            | {name: f"{query.name}.{name}" if name in clashes else name for name in self._label_types[number]}
            for number, query in enumerate(self.workload.queries)
        }

    @property
    def _group_columns(self) -> list[tuple[str, str]]:
        """Each GROUP BY attribute and a column that has it."""
        queries = enumerate(self.workload.queries)
        return [(name, self.column_names[number][name]) for number, query in queries for name in query.group_by]

    @cached_property
    def group_columns(self) -> tuple[str, ...]:
        """The columns of results that have GROUP BY attributes."""
        return tuple(dict.fromkeys(column for _, column in self._group_columns))

    @cached_property
    def _label_types(self) -> dict[int, dict[str, pa.DataType]]:
        """By number of a query, the types of what RETURN asks for."""
        found = {
            number: {item.label: self._output_type(item.function, item.name) for item in query.aggregates}
            for number, query in enumerate(self.workload.queries)
        }
        for number, detected in self.detect_queries.items():
            if not detected.query.is_aggregate:
                found[number] = dict(match_types(detected, self.schema))
        return found

    @cached_property
    def detect_queries(self) -> dict[int, DetectQuery]:
        """The queries whose matches are found, by number in the workload."""
        found = {query.number: query for branch in self.detect for query in branch.queries}
        return dict(sorted(found.items()))

    @cached_property
    def count_columns(self) -> dict[str, list[str]]:
        """The result columns that are counts, with the queries that count."""
        found: dict[str, list[str]] = {}
        for number, compiled in self.queries.items():
            for output in compiled.outputs:
                if output.function == "COUNT":
                    found.setdefault(self.column_names[number][output.label], []).append(compiled.query.name)
        return found

    @cached_property
    def whole_sums(self) -> dict[str, list[str]]:
        """The result columns that are exact sums of whole numbers, with the queries that sum."""
        found: dict[str, list[str]] = {}
        for number, query in enumerate(self.workload.queries):
            for item in query.aggregates:
                if item.function == "SUM" and self.sums_exactly(item.name):
                    found.setdefault(self.column_names[number][item.label], []).append(query.name)
        return found

    def sums_exactly(self, column: str | None) -> bool:
        """Return whether sums of a column are null where a double does not hold them exactly."""
        known = column in self.schema.columns.names and self.options.counts == "exact"
        return known and pa.types.is_integer(self.schema.plain_type(str(column)))

    @cached_property
    def contribution_keys(self) -> tuple[str, ...]:
        """The columns on which contributions that may have to be merged agree."""
        combined = [
            query.query for query in self.detect_queries.values() if query.query.is_aggregate and query.is_combined
        ]
        return (QUERY, *(name for name in self.groups if all(name in query.group_by for query in combined)))

    @cached_property
    def contribution_schema(self) -> pa.Schema:
        """The columns of what matches contribute to aggregates: see `motet.compile.contributions`."""
        return contribution_schema(self.detect_queries.values(), self.groups, self.schema)

    def _output_type(self, function: str, column: str | None) -> pa.DataType:
        if function == "COUNT":
            return pa.int64() if self.options.counts == "exact" else pa.float64()
        if function in ("MIN", "MAX") and column is not None:
            return self.schema.plain_type(column)
        return pa.float64()

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """The columns of totals that are still to be merged: see `motet.engine.partials`."""
        ni, nf, nm = self.shape
        fields = {"query": pa.int32()}
        fields |= {f"k{at}": self.schema.plain_type(name) for at, name in enumerate(self.partition)}
        fields |= {**dict.fromkeys(("start", "end", "seq"), pa.int64()), "done": pa.bool_()}
        for count, mantissa, exponent in [("n", "nm", "ne"), *((f"i{c}", f"im{c}", f"ie{c}") for c in range(ni))]:
            fields |= {count: pa.int64(), mantissa: pa.float64(), exponent: pa.int32()}
        for c in range(nf):
            fields |= {f"f{c}": pa.float64(), f"fe{c}": pa.int32()}
        fields |= {f"m{c}": pa.int64() for c in range(nm)}
        fields |= {f"s{c}": pa.string() for c in range(nm) if self.text_extremes}
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


def fingerprint(
    compiled: CompiledQuery | DetectQuery, schema: EventSchema, definitions: Mapping[str, Expression]
) -> str:
    """Return a digest of a query, of the types it defines, and of how times are read.

    It is equal for queries that always hold equal totals, whatever their names.
    """
    absences = compiled.absent if isinstance(compiled, DetectQuery) else (*compiled.absences, *compiled.negs)
    types = {symbol.type for symbol in (*compiled.symbols, *absences)}
    defined = [to_text(EventDefinition(name, definitions[name])) for name in sorted(types & definitions.keys())]
    reading = f"{schema.time} {schema.type_source} {schema.time_unit if schema.has_integer_time else ''}"
    text = "\n".join([reading, *defined, to_text(replace(compiled.query, name="_", having=None))])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
