"""Diagnoses a query over events: how much each of its requirements leaves, and which is the first to leave nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.compile import compile_workload
from motet.engine.encode import encode_keys, read_column
from motet.engine.expressions import evaluate_condition
from motet.engine.local import LocalRun
from motet.explain.diagnosis.relaxations import (
    Mask,
    Position,
    Relaxation,
    RelaxedQuery,
    has_events_for,
    iterate_prefixes,
    relax_query,
)
from motet.explain.diagnosis.report import DiagnosisStep, Explanation
from motet.model.expression import Attribute, Expression, attributes
from motet.model.pattern import events
from motet.model.query import Aggregate, AllVariables, EventDefinition, Query, Variable, Workload
from motet.model.window import TimeWindow
from motet.options import Counts, Options
from motet.schema import EventSchema

# Matches of one relaxation that are counted; beyond, there are "at least" so many.
MOST_COUNTED = 10_000
MEMORY = 512 << 20
WIDER = 20  # how often a window may be doubled in the search for one that would do


# What is required, and how to find what it leaves.
Requirement = tuple[str, Callable[[], DiagnosisStep]]


@dataclass(frozen=True)
class EventRange:
    """The events from `start` (included) to `end` (not), and those around them that may decide about matches."""

    inside: pa.Table
    around: pa.Table
    start: Any
    end: Any


def diagnose(
    query: Query,
    definitions: Sequence[EventDefinition],
    schema: EventSchema,
    events_in_range: EventRange,
    key: Mapping[str, Any],
    limit: int,
) -> Explanation:
    """Check the requirements of a query one after another, until one leaves nothing or all are met."""
    return _Diagnosis(query, tuple(definitions), schema, events_in_range, limit).explain(key)


class _Diagnosis:
    """One query over one range of events."""

    def __init__(
        self,
        query: Query,
        definitions: tuple[EventDefinition, ...],
        schema: EventSchema,
        events_in_range: EventRange,
        limit: int,
    ) -> None:
        self.query = query
        self.definitions = definitions
        self.schema = schema
        self.events_in_range = events_in_range
        self.limit = limit
        self.relaxed: RelaxedQuery = relax_query(query)
        self.hint: str | None = None
        self.nearest: dict[str, Any] | None = None
        self.matches: list[dict[str, Any]] = []

    def explain(self, key: Mapping[str, Any]) -> Explanation:
        steps: list[DiagnosisStep] = []
        requirements = [*self.requirements_on_events(), *self.requirements_on_matches()]
        pending: list[str] = []
        for words, step_of in requirements:
            if steps and not steps[-1].alive:
                pending.append(words)
            else:
                steps.append(step_of())
        shown = tuple(
            name
            for name in dict.fromkeys(
                (self.schema.time, self.schema.type, *self.query.partition, *_read_columns(self.query))
            )
            if name in self.schema.columns.names
        )
        return Explanation(
            self.query.name,
            key,
            self.events_in_range.start,
            self.events_in_range.end,
            tuple(steps),
            tuple(pending),
            self.hint,
            self.nearest,
            tuple(self.matches),
            shown,
        )

    # Requirements on single events: what each position could bind.

    def requirements_on_events(self) -> Iterator[Requirement]:
        usable = self.mask_of_valid()
        candidates: dict[str, Mask] = {position.variable: usable for position in self.relaxed.positions}
        yield (
            "events",
            lambda: DiagnosisStep("input", "events in this range", int(usable.sum()), "events", bool(usable.any())),
        )
        for position in self.relaxed.positions:
            named = position.type if position.shown == position.type else f"{position.type} {position.shown}"
            words = f"events of type {named}"
            yield (
                words,
                partial(self._narrow, "type", words, position, candidates, partial(self.mask_of_type, position.type)),
            )
        for position in self.relaxed.positions:
            for text, condition in position.conditions:
                yield text, partial(self._narrow, "local", text, position, candidates, partial(self.passes, condition))
        if self.query.partition:
            words = f"the same {', '.join(self.query.partition)}"
            yield words, partial(self._count_keys, words, candidates)

    def _narrow(
        self, kind: str, words: str, position: Position, candidates: dict[str, Mask], passes: Callable[[], Mask]
    ) -> DiagnosisStep:
        """Narrow what one position could bind."""
        candidates[position.variable] = candidates[position.variable] & passes()
        left = int(candidates[position.variable].sum())
        any_left = {name: np.array([mask.any()]) for name, mask in candidates.items()}
        is_possible = bool(has_events_for(self.relaxed.order_only.query.pattern, any_left)[0])
        return DiagnosisStep(kind, words, left, "events", is_possible, position=position.shown)

    def _count_keys(self, words: str, candidates: Mapping[str, Mask]) -> DiagnosisStep:
        """Count the keys that have events for the whole pattern."""
        inside = self.events_in_range.inside
        known = np.ones(len(inside), np.bool_)
        for name in self.query.partition:
            known &= read_column(inside, name).is_valid().to_numpy(zero_copy_only=False)
        codes, _, size = encode_keys(inside.filter(pa.array(known)), self.query.partition)
        have = {name: np.bincount(codes[mask[known]], minlength=size) > 0 for name, mask in candidates.items()}
        possible = int(has_events_for(self.relaxed.order_only.query.pattern, have).sum())
        return DiagnosisStep("key", words, possible, "keys", possible > 0)

    def mask_of_valid(self) -> Mask:
        """Return which events have a time and a type."""
        table = self.events_in_range.inside
        both = pc.and_(pc.is_valid(table.column(self.schema.time)), pc.is_valid(table.column(self.schema.type)))
        return np.asarray(both.to_numpy(zero_copy_only=False), np.bool_)

    def mask_of_type(self, type: str) -> Mask:
        for definition in self.definitions:
            if definition.name == type:
                return self.passes(definition.condition)
        same = pc.equal(read_column(self.events_in_range.inside, self.schema.type), type)
        return np.asarray(pc.fill_null(same, False).to_numpy(zero_copy_only=False), np.bool_)

    def passes(self, condition: Expression) -> Mask:
        table = self.events_in_range.inside

        def column(attribute: Attribute) -> pa.Array:
            return read_column(table, attribute.name)

        return evaluate_condition(condition, column, len(table))

    # Requirements on matches: the engine runs each relaxation of the query.

    def requirements_on_matches(self) -> Iterator[Requirement]:
        below: list[Relaxation] = []
        for relaxation in self.relaxed.relaxations:
            yield relaxation.words, partial(self._check_relaxation, relaxation, tuple(below))
            below.append(relaxation)

    def _check_relaxation(self, relaxation: Relaxation, below: tuple[Relaxation, ...]) -> DiagnosisStep:
        left, at_least = (
            self.count_matches(relaxation.query) if relaxation.kind == "order" else self.count_listed(relaxation)
        )
        if not left:
            self.find_nearest(relaxation, below)
        elif relaxation is self.relaxed.relaxations[-1]:
            self.matches = self.list_matches(relaxation, self.limit)
        return DiagnosisStep(relaxation.kind, relaxation.words, left, "matches", left > 0, at_least)

    def count_matches(self, query: Query) -> tuple[int | float, bool]:
        """Count the matches of a query without a window, without building them where that is possible."""
        asked = replace(query, returns=(Aggregate("COUNT", alias="matches"),))
        run = self.build_run(asked, counts="double")
        total = sum(
            value
            for table in run.run(self.events_in_range.inside)
            for value in table.column("matches").to_pylist()
            if value is not None
        )
        return int(total) if total < 2**53 else total, bool(run.truncated)

    def count_listed(self, relaxation: Relaxation) -> tuple[int, bool]:
        """Count the matches of a relaxation, up to `MOST_COUNTED`, by listing them."""
        first = events(relaxation.query.pattern)[0].name
        run, tables = self.run_relaxation(relaxation, (Variable(first),))
        total = 0
        for table in tables:
            total += len(table)
            if total >= MOST_COUNTED:
                return MOST_COUNTED, True
        return total, bool(run.truncated)

    def list_matches(self, relaxation: Relaxation, limit: int) -> list[dict[str, Any]]:
        """Return the first matches of a relaxation: for each position the events it binds."""
        kept: list[pa.Table] = []
        for table in self.run_relaxation(relaxation, (AllVariables(),))[1] if limit else ():
            if len(table):
                kept.append(_keep_earliest(table, limit))
            if sum(map(len, kept)) >= MOST_COUNTED:
                break
        return (
            [self.describe_match(row) for row in _keep_earliest(pa.concat_tables(kept), limit).to_pylist()]
            if kept
            else []
        )

    def describe_match(self, row: Mapping[str, Any]) -> dict[str, Any]:
        positions = {}
        for position in self.relaxed.positions:
            bound = row[position.variable]
            positions[position.shown] = bound if isinstance(bound, list) else [] if bound is None else [bound]
        return {"start": row["start"], "end": row["end"], "positions": positions}

    def run_relaxation(
        self, relaxation: Relaxation, returns: tuple[AllVariables | Variable, ...]
    ) -> tuple[LocalRun, Iterator[pa.Table]]:
        """Run a relaxation over the range, or over the events around it too where they decide about matches."""
        run = self.build_run(replace(relaxation.query, returns=returns))
        if not relaxation.needs_context:
            return run, run.run(self.events_in_range.inside)
        return run, (self.keep_inside(table) for table in run.run(self.events_in_range.around))

    def keep_inside(self, table: pa.Table) -> pa.Table:
        """Return the matches that lie inside the range."""
        for bound, name, keeps in (
            (self.events_in_range.start, "start", pc.greater_equal),
            (self.events_in_range.end, "end", pc.less),
        ):
            if bound is not None:
                column = table.column(name)
                table = table.filter(keeps(column, pa.scalar(bound, column.type)))
        return table

    def build_run(self, query: Query, counts: Counts = "exact") -> LocalRun:
        options = Options(counts=counts, match_limit=MOST_COUNTED, memory_limit=MEMORY, on_limit="truncate")
        return LocalRun(compile_workload(Workload((query,), self.definitions), self.schema, options))

    # What would help

    def find_nearest(self, relaxation: Relaxation, below: tuple[Relaxation, ...]) -> None:
        """Find what is nearest to a match where a relaxation has none."""
        match relaxation.kind:
            case "order":
                self.hint = self.find_longest_prefix()
            case "window":
                self.try_wider_windows(relaxation)
            case _ if below[-1].kind != "order" or self.count_matches(below[-1].query)[0] <= MOST_COUNTED:
                self.nearest = next(iter(self.list_matches(below[-1], min(self.limit, 1))), None)

    def find_longest_prefix(self) -> str | None:
        """Say which prefix of a SEQ still matches."""
        reached: str | None = None
        for text, query in iterate_prefixes(self.relaxed):
            if not self.count_matches(query)[0]:
                return f"{reached} happens, {text} never does" if reached else f"already {text} never happens"
            reached = text
        return f"{reached} happens, but what must follow never comes after it" if reached else None

    def try_wider_windows(self, relaxation: Relaxation) -> None:
        """Find the shortest match of a wider window, if there is one."""
        window = relaxation.query.window
        if not isinstance(window, TimeWindow) or window.slide is not None:
            return
        for _ in range(WIDER):
            window = replace(window, size=window.size * 2)
            wider = replace(relaxation, query=replace(relaxation.query, window=window))
            tables = [table for table in self.run_relaxation(wider, (AllVariables(),))[1] if len(table)]
            if tables:
                merged = pa.concat_tables(tables)
                spans = pc.subtract(merged.column("end"), merged.column("start")).to_pylist()
                self.hint = f"the quickest takes {_format_span(min(spans))}"
                quickest = merged.slice(spans.index(min(spans)), 1).to_pylist()
                self.nearest = self.describe_match(quickest[0]) if self.limit else None
                return


def _keep_earliest(table: pa.Table, limit: int) -> pa.Table:
    return table.sort_by([("start", "ascending"), ("end", "ascending")]).slice(0, limit)


def _format_span(span: Any) -> str:
    return str(span) if isinstance(span, dt.timedelta) else f"{span:,} units of time"


def _read_columns(query: Query) -> Iterator[str]:
    """Yield the columns that a query reads of events, in the order written."""
    for condition in query.conditions:
        yield from (attribute.name for attribute in attributes(condition))
    for item in query.returns:
        if isinstance(item, Aggregate) and item.name is not None:
            yield item.name
