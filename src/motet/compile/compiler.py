"""Compile a workload: validate it, split it into branches by partition, and plan each.

Queries are aggregated online where that is possible; the others are detected: their matches are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa

from motet.compile.detect import DetectBranch, make_detect_branch
from motet.compile.plan_choice import PlanCandidates
from motet.compile.program import Branch, Program
from motet.compile.stated_rates import rates_from_statistics
from motet.compile.times import lower_times
from motet.errors import Diagnostic, QueryError
from motet.model.expression import Attribute, Expression, KleeneAggregate, attributes, walk
from motet.model.names import list_events
from motet.model.query import Aggregate, Computed, Query, Workload
from motet.model.validate import find_problems
from motet.model.window import TimeWindow
from motet.optimizer.registry import SearchOptions, SharingReport, get_optimizer, plan_trees
from motet.options import Options
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.detect.cost import Rates
from motet.plans.detect.query import DetectQuery, compile_detect
from motet.plans.sharing import Sharing
from motet.schema import MAX_MICROS, EventSchema, is_nested
from motet.statistics.model import MICROSECONDS, Statistics

STREAM_SECONDS = 3600.0  # for which the plan of a stream is expected to serve, before rates change

Sampler = Callable[[Sequence[CompiledQuery | DetectQuery]], Statistics | None]


def compile_workload(
    workload: Workload,
    schema: EventSchema,
    options: Options = Options(),  # noqa: B008
    types: Sequence[str] | None = None,
    sharing: Sharing | None = None,
    sample: Sampler | None = None,
) -> Program:
    """Validate a workload against the data's columns (and event types, if known) and plan it. Raises `QueryError`.

    A `sharing` plan is used in place of one that an optimizer finds. Where the options have no statistics, `sample`
    takes them for the compiled queries, and the program's options have them. Joins are planned by statistics that were
    given: a sample has no selectivities yet.
    """
    warnings = check_workload(workload, schema, types)
    lowered = lower_times(workload, schema)
    compiled = [_compile_query(number, lowered, schema.tick, options) for number in range(len(workload.queries))]
    refused = [outcome for outcome in compiled if isinstance(outcome, Diagnostic)]
    if refused:
        raise QueryError(refused, workload.text, workload.origin)
    if sample is not None and options.statistics is None:
        queries = [outcome for outcome in compiled if not isinstance(outcome, Diagnostic)]
        options = replace(options, statistics=sample(queries))
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
    definitions = {definition.name: definition.condition for definition in lowered.definitions}
    branches = tuple(
        _build_branch(*key, queries, schema, definitions, options, sharing) for key, queries in groups.items()
    )
    detect = tuple(
        make_detect_branch(partition, each, schema, definitions, shuffle_by)
        for (partition, _, shuffle_by), each in detected.items()
    )
    if not (options.statistics is None or options.statistics.sampled):
        detect = tuple(plan_joins(branch, options) for branch in detect)
    return Program(workload, schema, options, branches, detect, warnings, sharing=sharing, report=report)


def estimate_all_plans(program: Program, branch: Branch) -> dict[str, float]:
    """Return the costs of all candidate plans for a branch in nanoseconds per event, also of those not compared."""
    plans = PlanCandidates(branch.queries, program.options, program.sharing)
    return {name: plans.cost(name) / plans.load.events for name in plans.names}


def check_workload(
    workload: Workload, schema: EventSchema, types: Sequence[str] | None = None
) -> tuple[Diagnostic, ...]:
    """Validate a workload against the data's columns (and event types, if known). Raises `QueryError`.

    Returns the warnings: problems that do not stop it.
    """
    found = find_problems(workload, schema.kinds(), types, time=schema.time, type=schema.type_source)
    errors = [*_find_undefined_type(workload, schema), *(problem for problem in found if not problem.warning)]
    errors = errors or list(_find_schema_problems(workload, schema))
    if errors:
        raise QueryError(errors, workload.text, workload.origin)
    return tuple(found)


def _find_undefined_type(workload: Workload, schema: EventSchema) -> Iterator[Diagnostic]:
    """Find the first type that no event can have: there is no type column, and it is not defined."""
    defined = {definition.name for definition in workload.definitions}
    named = ((query, event) for query in workload.queries for event in list_events(query.pattern))
    found = next(((query, event) for query, event in named if event.type not in defined), None)
    if schema.type_source is None and found is not None:
        query, event = found
        message = f"the events have no type column, and '{event.type}' is not defined"
        hint = f"name the column of types with --type or type=, or write EVENT {event.type} AS condition"
        yield Diagnostic(message, event.span or query.span, query.name, hint)


def _find_schema_problems(workload: Workload, schema: EventSchema) -> Iterator[Diagnostic]:
    """Find nested values where plain ones are needed, and windows that the unit of the times does not allow."""
    for definition in workload.definitions:
        yield from _find_nested_values([definition.condition], schema, None)
    for query in workload.queries:
        computed = [item.expression for item in query.returns if isinstance(item, Computed)]
        read: list[Expression | Aggregate] = [*query.conditions]
        read += [each for each in computed if not isinstance(each, Attribute)]
        read += [each for each in query.aggregates if each.function != "COUNT" or each.distinct]
        yield from _find_nested_values(read, schema, query)
        for name in query.partition:
            found = schema.columns.field(name).type
            if is_nested(found):
                message = f"events cannot be grouped by '{name}', which holds {found}"
                parts = (field.name for field in schema.columns if not is_nested(field.type))
                part = next((each for each in parts if each.startswith(f"{name}.")), None)
                example = f"[{part}]" if part else f"--select '*, {name}[1] AS key'"
                yield Diagnostic(message, query.find_place(name), query.name, f"take a part of it, as in {example}")
        match query.window:
            case TimeWindow(size, slide, True, span=span) if max(size, slide or 0) * schema.tick > MAX_MICROS:
                yield Diagnostic("WITHIN is too long", span, query.name, "leave out WITHIN for all of the input")
            case TimeWindow(size, slide, True, span=span) if any(
                (length * Fraction(schema.tick)).denominator > 1 for length in (size, slide or 0)
            ):
                message = "a window must be a whole number of microseconds"
                yield Diagnostic(message, span, query.name, f"as in WITHIN {-(-size // 1000) * 1000}")


def _find_nested_values(
    read: Sequence[Expression | Aggregate], schema: EventSchema, query: Query | None
) -> Iterator[Diagnostic]:
    """Find columns that nothing can be computed with."""
    for each in read:
        parts: list[Expression | Aggregate] = [each] if isinstance(each, Aggregate) else [*walk(each)]
        for node in parts:
            if not isinstance(node, Attribute | KleeneAggregate | Aggregate) or node.name not in schema.columns.names:
                continue
            found = schema.columns.field(node.name).type
            if is_nested(found):
                hint = f"take a part of it, as in --select '*, {node.name}[1] AS y'"
                if pa.types.is_struct(found) and found.num_fields:
                    hint = f"name a field, as in {node.name}.{found.field(0).name}"
                message = f"nothing can be computed with '{node.name}', which holds {found}"
                yield Diagnostic(message, node.span, query.name if query else None, hint)


def plan_joins(branch: DetectBranch, options: Options) -> DetectBranch:
    """Plan the joins of a detection branch by the statistics of the options."""
    if not branch.join_specs:
        return branch
    rates = rates_from_statistics(options.statistics, branch)
    search = SearchOptions(options.budget_seconds, options.costs, count_runs(rates, options))
    return replace(branch, trees=plan_trees(branch.join_specs, options.optimizer, rates, search))


def count_runs(rates: Rates, options: Options) -> float:
    """Return how often a plan will be run over as many events as it is made for: a stream goes on."""
    return max(STREAM_SECONDS * MICROSECONDS / rates.duration, 1.0) if options.mode else 1.0


def _compile_query(
    number: int, workload: Workload, tick: int | Fraction, options: Options
) -> CompiledQuery | DetectQuery | Diagnostic:
    """Compile a query: for online aggregation where that is possible, else for detection."""
    query = workload.queries[number]
    if options.mode and query.window is None:
        message = "without WITHIN the whole input is one window, and a stream never ends"
        return Diagnostic(message, query.span, query.name, "add WITHIN, with or without SLIDE")
    online = compile_query(number, workload, tick)
    if isinstance(online, CompiledQuery):
        return online
    detected = compile_detect(number, workload, tick, online.message)
    if options.mode and isinstance(detected, DetectQuery) and detected.waits_to_skip and detected.span.ranked:
        message = "what AFTER MATCH SKIP PAST LAST EVENT takes is not known while a NOT or NEG is open"
        return Diagnostic(message, query.span, query.name, "give it a window of time, as in WITHIN 10 min")
    return detected


def _search_sharing(queries: Sequence[CompiledQuery], options: Options) -> SharingReport | None:
    """Return what the requested optimizer found, or None if it does not plan what aggregate queries share."""
    optimizer = get_optimizer(options.optimizer).sharing
    if optimizer is None:
        return None
    return optimizer.optimize(queries, options.statistics, SearchOptions(options.budget_seconds, options.costs))


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
    units, declined = plans.plan(chosen).units, plans.plan(chosen).declined
    symbols = {symbol for unit in units for symbol in unit.merged.symbols}
    ranked = any(compiled.span.ranked for compiled in queries)
    defined = {symbol.type for symbol in symbols if symbol.type in definitions}
    conditions = [condition for symbol in symbols for condition in symbol.all_conditions(definitions)]
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
        declined=declined,
        ranked=ranked,
        shuffle_by=shuffle_by,
    )


def _overlap(queries: Sequence[CompiledQuery]) -> int | None:
    """Return how long before a moment events still matter after it, None if forever."""
    if any(compiled.span.ranked or compiled.span.within == 0 for compiled in queries):
        return None
    return max(compiled.span.within for compiled in queries)
