"""Diagnoses a query over events: how much each of its requirements leaves, and which is the first to leave nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.compile import compile_workload
from motet.compile.times import lower_condition
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
from motet.model.expression import Expression, attributes
from motet.model.pattern import events
from motet.model.query import Aggregate, AllVariables, EventDefinition, Query, Variable, Workload
from motet.model.window import TimeWindow
from motet.options import Counts, Options
from motet.schema import EventSchema

# Matches of one relaxation that are counted; beyond, there are "at least" so many.
MOST_COUNTED = 10_000
MEMORY = 512 << 20
WIDER = 20  # how often a window may be doubled in the search for one that would do


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
    events: EventRange,
    key: Mapping[str, Any],
    limit: int,
) -> Explanation:
    """Check the requirements of a query one after another, until one leaves nothing or all are met."""
    diagnosis = _Diagnosis(query, tuple(definitions), schema, events, limit, relax_query(query))
    diagnosis.check_events()
    diagnosis.check_matches()
    columns = dict.fromkeys((schema.time, schema.type_source, *query.partition, *_read_columns(query)))
    return Explanation(
        query=query.name,
        key=key,
        start=events.start,
        end=events.end,
        steps=tuple(diagnosis.steps),
        not_reached=tuple(diagnosis.not_reached),
        hint=diagnosis.hint,
        nearest_match=diagnosis.nearest,
        matches=tuple(diagnosis.matches),
        columns=tuple(name for name in columns if name is not None and name in schema.columns.names),
    )


@dataclass
class _Diagnosis:
    """One query over one range of events, and what is found of it."""

    query: Query
    definitions: tuple[EventDefinition, ...]
    schema: EventSchema
    events: EventRange
    limit: int
    relaxed: RelaxedQuery
    steps: list[DiagnosisStep] = field(default_factory=list)
    not_reached: list[str] = field(default_factory=list)
    hint: str | None = None
    nearest: dict[str, Any] | None = None
    matches: list[dict[str, Any]] = field(default_factory=list)

    def can_check(self, words: str) -> bool:
        """Return whether all requirements so far are met, and note this one where they are not."""
        if all(step.alive for step in self.steps):
            return True
        self.not_reached.append(words)
        return False

    def add_step(self, kind: str, words: str, left: int | float, unit: str, alive: bool, **more: Any) -> None:
        self.steps.append(DiagnosisStep(kind=kind, words=words, left=left, unit=unit, alive=alive, **more))

    # Requirements on single events: what each position could bind.

    def check_events(self) -> None:
        table, positions = self.events.inside, self.relaxed.positions
        valid = _to_mask(
            pc.and_(pc.is_valid(table.column(self.schema.time)), pc.is_valid(table.column(self.schema.type)))
        )
        self.add_step("input", "events in this range", int(valid.sum()), "events", bool(valid.any()))
        candidates: dict[str, Mask] = {position.variable: valid for position in positions}
        for position in positions:
            named = position.type if position.label == position.type else f"{position.type} {position.label}"
            words = f"events of type {named}"
            if self.can_check(words):
                candidates[position.variable] = valid & self.mask_of_type(position.type)
                self.add_events_step("type", words, position, candidates)
        for position in positions:
            for words, condition in position.conditions:
                if self.can_check(words):
                    candidates[position.variable] = candidates[position.variable] & self.mask_of_condition(condition)
                    self.add_events_step("local", words, position, candidates)
        words = f"the same {', '.join(self.query.partition)}"
        if self.query.partition and self.can_check(words):
            keys = self.count_keys(candidates)
            self.add_step("key", words, keys, "keys", keys > 0)

    def add_events_step(self, kind: str, words: str, position: Position, candidates: Mapping[str, Mask]) -> None:
        any_left = {name: np.array([mask.any()]) for name, mask in candidates.items()}
        alive = bool(has_events_for(self.relaxed.order_only.query.pattern, any_left)[0])
        left = int(candidates[position.variable].sum())
        self.add_step(kind, words, left, "events", alive, position=position.label)

    def count_keys(self, candidates: Mapping[str, Mask]) -> int:
        """Count the keys that have events for the whole pattern."""
        inside = self.events.inside
        known = np.ones(len(inside), np.bool_)
        for name in self.query.partition:
            known &= _to_mask(read_column(inside, name).is_valid())
        codes, _, size = encode_keys(inside.filter(pa.array(known)), self.query.partition)
        have = {name: np.bincount(codes[mask[known]], minlength=size) > 0 for name, mask in candidates.items()}
        return int(has_events_for(self.relaxed.order_only.query.pattern, have).sum())

    def mask_of_type(self, type: str) -> Mask:
        for definition in self.definitions:
            if definition.name == type:
                return self.mask_of_condition(definition.condition)
        return _to_mask(pc.fill_null(pc.equal(read_column(self.events.inside, self.schema.type), type), False))

    def mask_of_condition(self, condition: Expression) -> Mask:
        table, condition = self.events.inside, lower_condition(condition, self.schema)
        return evaluate_condition(condition, lambda attribute: read_column(table, attribute.name), len(table))

    # Requirements on matches: the engine runs each relaxation of the query.

    def check_matches(self) -> None:
        weaker = self.relaxed.order_only
        for relaxation in self.relaxed.relaxations:
            if self.can_check(relaxation.words):
                is_order = relaxation.kind == "order"
                left, at_least = self.count_matches(relaxation.query) if is_order else self.count_listed(relaxation)
                self.add_step(relaxation.kind, relaxation.words, left, "matches", left > 0, at_least=at_least)
                if not left:
                    self.find_nearest(relaxation, weaker)
            weaker = relaxation
        if all(step.alive for step in self.steps):
            self.matches = self.list_matches(weaker, self.limit)

    def count_matches(self, query: Query) -> tuple[int | float, bool]:
        """Count the matches of a query without a window, without building them where that is possible."""
        asked = replace(query, returns=(Aggregate("COUNT", alias="matches"),))
        run = self.build_run(asked, counts="double")
        total = sum(
            value
            for table in run.run(self.events.inside)
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
        earliest = _keep_earliest(pa.concat_tables(kept), limit).to_pylist() if kept else []
        return list(map(self.describe_match, earliest))

    def describe_match(self, row: Mapping[str, Any]) -> dict[str, Any]:
        positions = {}
        for position in self.relaxed.positions:
            bound = row[position.variable]
            positions[position.label] = bound if isinstance(bound, list) else [] if bound is None else [bound]
        return {"start": row["start"], "end": row["end"], "positions": positions}

    def run_relaxation(
        self, relaxation: Relaxation, returns: tuple[AllVariables | Variable, ...]
    ) -> tuple[LocalRun, Iterator[pa.Table]]:
        """Run a relaxation over the range, or over the events around it too where they decide about matches."""
        run = self.build_run(replace(relaxation.query, returns=returns))
        if not relaxation.needs_context:
            return run, run.run(self.events.inside)
        return run, (self.keep_inside(table) for table in run.run(self.events.around))

    def keep_inside(self, table: pa.Table) -> pa.Table:
        """Return the matches that lie inside the range."""
        bounds = (self.events.start, "start", pc.greater_equal), (self.events.end, "end", pc.less)
        for bound, name, keeps in bounds:
            if bound is not None:
                column = table.column(name)
                table = table.filter(keeps(column, pa.scalar(bound, column.type)))
        return table

    def build_run(self, query: Query, counts: Counts = "exact") -> LocalRun:
        options = Options(counts=counts, match_limit=MOST_COUNTED, memory_limit=MEMORY, on_limit="truncate")
        return LocalRun(compile_workload(Workload((query,), self.definitions), self.schema, options))

    # What would help

    def find_nearest(self, relaxation: Relaxation, weaker: Relaxation) -> None:
        """Find what is nearest to a match where a relaxation has none."""
        match relaxation.kind:
            case "order":
                self.hint = self.find_longest_prefix()
            case "window":
                self.try_wider_windows(relaxation)
            case _ if weaker.kind != "order" or self.count_matches(weaker.query)[0] <= MOST_COUNTED:
                self.nearest = next(iter(self.list_matches(weaker, min(self.limit, 1))), None)

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


def _to_mask(array: pa.Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)


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
