"""Climbs a query's ladder over events: what is left on each rung, and which is the first that leaves nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.encode import key_codes, read_column
from motet.engine.expressions import holds
from motet.engine.local import LocalRun
from motet.engine.program import Options, compile_workload
from motet.engine.schema import EventSchema
from motet.explain.why.ladder import Ladder, Mask, Position, Rung, beginnings, ladder, needs_met
from motet.explain.why.report import Explanation, Step
from motet.model.expression import Attribute, Expression, attributes
from motet.model.pattern import events
from motet.model.query import Aggregate, AllVariables, EventDefinition, Query, Variable, Workload
from motet.model.window import TimeWindow

# Matches of one rung that are counted; beyond, there are "at least" so many.
MOST_COUNTED = 10_000
MEMORY = 512 << 20
WIDER = 20  # how often a window may be doubled in the search for one that would do


# What is asked, and how to find what it leaves.
Demand = tuple[str, Callable[[], Step]]


@dataclass(frozen=True)
class Stretch:
    """The events to explain: those from `start` (included) to `end` (not), and all that may have a say in them."""

    inside: pa.Table
    around: pa.Table
    start: Any
    end: Any


def explain(
    query: Query,
    definitions: Sequence[EventDefinition],
    schema: EventSchema,
    stretch: Stretch,
    key: Mapping[str, Any],
    limit: int,
) -> Explanation:
    """Take up the demands of a query one after another, until one leaves nothing or all are met."""
    return _Climb(query, tuple(definitions), schema, stretch, limit).explanation(key)


class _Climb:
    """One query over one stretch of events."""

    def __init__(
        self,
        query: Query,
        definitions: tuple[EventDefinition, ...],
        schema: EventSchema,
        stretch: Stretch,
        limit: int,
    ) -> None:
        self.query = query
        self.definitions = definitions
        self.schema = schema
        self.stretch = stretch
        self.limit = limit
        self.ladder: Ladder = ladder(query)
        self.hint: str | None = None
        self.nearest: dict[str, Any] | None = None
        self.matches: list[dict[str, Any]] = []

    def explanation(self, key: Mapping[str, Any]) -> Explanation:
        steps: list[Step] = []
        demands = [*self.on_events(), *self.on_matches()]
        pending: list[str] = []
        for words, step_of in demands:
            if steps and not steps[-1].alive:
                pending.append(words)
            else:
                steps.append(step_of())
        shown = tuple(
            name
            for name in dict.fromkeys(
                (self.schema.time, self.schema.type, *self.query.partition, *_columns(self.query))
            )
            if name in self.schema.columns.names
        )
        return Explanation(
            self.query.name,
            key,
            self.stretch.start,
            self.stretch.end,
            tuple(steps),
            tuple(pending),
            self.hint,
            self.nearest,
            tuple(self.matches),
            shown,
        )

    # Demands on single events: what each position could bind.

    def on_events(self) -> Iterator[Demand]:
        usable = self.usable()
        could: dict[str, Mask] = {position.variable: usable for position in self.ladder.positions}
        yield "events", lambda: Step("input", "events in this range", int(usable.sum()), "events", bool(usable.any()))
        for position in self.ladder.positions:
            named = position.type if position.shown == position.type else f"{position.type} {position.shown}"
            words = f"events of type {named}"
            yield words, partial(self._narrowed, "type", words, position, could, partial(self.of_type, position.type))
        for position in self.ladder.positions:
            for text, condition in position.conditions:
                yield text, partial(self._narrowed, "local", text, position, could, partial(self.passing, condition))
        if self.query.partition:
            words = f"the same {', '.join(self.query.partition)}"
            yield words, partial(self._keys, words, could)

    def _narrowed(
        self, kind: str, words: str, position: Position, could: dict[str, Mask], passing: Callable[[], Mask]
    ) -> Step:
        """Narrows what one position could bind."""
        could[position.variable] = could[position.variable] & passing()
        left = int(could[position.variable].sum())
        any_left = {name: np.array([mask.any()]) for name, mask in could.items()}
        met = bool(needs_met(self.ladder.order.query.pattern, any_left)[0])
        return Step(kind, words, left, "events", met, position=position.shown)

    def _keys(self, words: str, could: Mapping[str, Mask]) -> Step:
        """Of how many keys there are events for the whole pattern."""
        inside = self.stretch.inside
        known = np.ones(len(inside), np.bool_)
        for name in self.query.partition:
            known &= read_column(inside, name).is_valid().to_numpy(zero_copy_only=False)
        codes, _, size = key_codes(inside.filter(pa.array(known)), self.query.partition)
        have = {name: np.bincount(codes[mask[known]], minlength=size) > 0 for name, mask in could.items()}
        met = int(needs_met(self.ladder.order.query.pattern, have).sum())
        return Step("key", words, met, "keys", met > 0)

    def usable(self) -> Mask:
        """The events that have a time and a type."""
        table = self.stretch.inside
        both = pc.and_(pc.is_valid(table.column(self.schema.time)), pc.is_valid(table.column(self.schema.type)))
        return np.asarray(both.to_numpy(zero_copy_only=False), np.bool_)

    def of_type(self, type: str) -> Mask:
        for definition in self.definitions:
            if definition.name == type:
                return self.passing(definition.condition)
        same = pc.equal(read_column(self.stretch.inside, self.schema.type), type)
        return np.asarray(pc.fill_null(same, False).to_numpy(zero_copy_only=False), np.bool_)

    def passing(self, condition: Expression) -> Mask:
        table = self.stretch.inside

        def column(attribute: Attribute) -> pa.Array:
            return read_column(table, attribute.name)

        return holds(condition, column, len(table))

    # Demands on matches: each rung is a query that the engine runs.

    def on_matches(self) -> Iterator[Demand]:
        below: list[Rung] = []
        for rung in self.ladder.rungs:
            yield rung.words, partial(self._reach, rung, tuple(below))
            below.append(rung)

    def _reach(self, rung: Rung, below: tuple[Rung, ...]) -> Step:
        left, at_least = self.counted(rung.query) if rung.kind == "order" else self.found(rung)
        if not left:
            self.advise(rung, below)
        elif rung is self.ladder.rungs[-1]:
            self.matches = self.listed(rung, self.limit)
        return Step(rung.kind, rung.words, left, "matches", left > 0, at_least)

    def counted(self, query: Query) -> tuple[int | float, bool]:
        """How many matches a query without a window has, none of them built where they need not be."""
        asked = replace(query, returns=(Aggregate("COUNT", alias="matches"),))
        run = self.run_of(asked, counts="double")
        total = sum(
            value
            for table in run.over_table(self.stretch.inside)
            for value in table.column("matches").to_pylist()
            if value is not None
        )
        return int(total) if total < 2**53 else total, bool(run.truncated)

    def found(self, rung: Rung) -> tuple[int, bool]:
        """How many matches a rung has; no more are counted than `MOST_COUNTED`."""
        first = events(rung.query.pattern)[0].name
        run, tables = self.tables(rung, (Variable(first),))
        total = 0
        for table in tables:
            total += len(table)
            if total >= MOST_COUNTED:
                return MOST_COUNTED, True
        return total, bool(run.truncated)

    def listed(self, rung: Rung, limit: int) -> list[dict[str, Any]]:
        """The first matches of a rung: for each position the events it binds."""
        kept: list[pa.Table] = []
        for table in self.tables(rung, (AllVariables(),))[1] if limit else ():
            if len(table):
                kept.append(_earliest(table, limit))
            if sum(map(len, kept)) >= MOST_COUNTED:
                break
        return [self.shown_match(row) for row in _earliest(pa.concat_tables(kept), limit).to_pylist()] if kept else []

    def shown_match(self, row: Mapping[str, Any]) -> dict[str, Any]:
        positions = {}
        for position in self.ladder.positions:
            bound = row[position.variable]
            positions[position.shown] = bound if isinstance(bound, list) else [] if bound is None else [bound]
        return {"start": row["start"], "end": row["end"], "positions": positions}

    def tables(self, rung: Rung, returns: tuple[AllVariables | Variable, ...]) -> tuple[LocalRun, Iterator[pa.Table]]:
        """A rung's matches within the stretch; events around it count where they have a say."""
        run = self.run_of(replace(rung.query, returns=returns))
        if not rung.open:
            return run, run.over_table(self.stretch.inside)
        return run, (self.within(table) for table in run.over_table(self.stretch.around))

    def within(self, table: pa.Table) -> pa.Table:
        """The matches that lie inside the stretch."""
        for bound, name, keeps in ((self.stretch.start, "start", pc.greater_equal), (self.stretch.end, "end", pc.less)):
            if bound is not None:
                column = table.column(name)
                table = table.filter(keeps(column, pa.scalar(bound, column.type)))
        return table

    def run_of(self, query: Query, counts: str = "exact") -> LocalRun:
        options = Options(counts=counts, match_limit=MOST_COUNTED, memory_limit=MEMORY, on_limit="truncate")
        return LocalRun(compile_workload(Workload((query,), self.definitions), self.schema, options))

    # What would help

    def advise(self, rung: Rung, below: tuple[Rung, ...]) -> None:
        """Find what is nearest to a match where a rung leaves none."""
        match rung.kind:
            case "order":
                self.hint = self.longest_beginning()
            case "window":
                self.wider_window(rung)
            case _ if below[-1].kind != "order" or self.counted(below[-1].query)[0] <= MOST_COUNTED:
                self.nearest = next(iter(self.listed(below[-1], min(self.limit, 1))), None)

    def longest_beginning(self) -> str | None:
        """How far a SEQ comes."""
        reached: str | None = None
        for text, query in beginnings(self.ladder):
            if not self.counted(query)[0]:
                return f"{reached} happens, {text} never does" if reached else f"already {text} never happens"
            reached = text
        return f"{reached} happens, but what must follow never comes after it" if reached else None

    def wider_window(self, rung: Rung) -> None:
        """The match that would take the shortest time, where one of a wider window is found."""
        window = rung.query.window
        if not isinstance(window, TimeWindow) or window.slide is not None:
            return
        for _ in range(WIDER):
            window = replace(window, size=window.size * 2)
            wider = replace(rung, query=replace(rung.query, window=window))
            tables = [table for table in self.tables(wider, (AllVariables(),))[1] if len(table)]
            if tables:
                together = pa.concat_tables(tables)
                spans = pc.subtract(together.column("end"), together.column("start")).to_pylist()
                self.hint = f"the quickest takes {_span_text(min(spans))}"
                quickest = together.slice(spans.index(min(spans)), 1).to_pylist()
                self.nearest = self.shown_match(quickest[0]) if self.limit else None
                return


def _earliest(table: pa.Table, limit: int) -> pa.Table:
    return table.sort_by([("start", "ascending"), ("end", "ascending")]).slice(0, limit)


def _span_text(span: Any) -> str:
    return str(span) if isinstance(span, dt.timedelta) else f"{span:,} units of time"


def _columns(query: Query) -> Iterator[str]:
    """The columns that a query reads of events, in the order written."""
    for condition in query.conditions:
        yield from (attribute.name for attribute in attributes(condition))
    for item in query.returns:
        if isinstance(item, Aggregate) and item.name is not None:
            yield item.name
