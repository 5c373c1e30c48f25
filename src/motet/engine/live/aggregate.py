"""Run one branch of online aggregates over an endless stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.compile import Branch
from motet.engine.context import RunContext
from motet.engine.detect.windows import due_range
from motet.engine.encode import (
    EncodedEvents,
    Ints,
    check_extremes,
    count_by_symbol,
    encode_branch,
    read_column,
    read_times,
)
from motet.engine.expressions import evaluate
from motet.engine.live.base import BranchOperator, MicroBatchResult
from motet.engine.live.costs import name_unit
from motet.engine.live.encoder import LiveEncoder
from motet.engine.live.key_states import KeyIndex, read_states, state_names, state_sections
from motet.engine.live.pairs import PairUnit
from motet.engine.live.reports import Report, build_reports
from motet.engine.live.rows import (
    Flags,
    ReadRows,
    Timer,
    Times,
    find_bad_rows,
    next_timers,
    select_rows,
    select_same_keys,
    timers_for,
)
from motet.engine.live.saved import SavedState, table_to_bytes
from motet.engine.live.slots import UnitState, can_keep_totals
from motet.engine.live.stacks import StackUnit
from motet.engine.live.state import from_saved_values, to_saved_values
from motet.engine.live.state_migration import SavedUnit
from motet.engine.live.trends import TrendUnit, UnitOutgrown, can_feed_trends
from motet.engine.live.value_stacks import ValueStackUnit, can_split_by_value
from motet.engine.partials import encode_groups, finish, merge, sweep_partitions
from motet.engine.run import SLOT_MODES, run_unit_partials
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.plans.compiled import CompiledQuery
from motet.plans.execution import Execution
from motet.plans.units import Strategy
from motet.template.symbols import Symbol

FedUnit = StackUnit | TrendUnit | PairUnit


class AggregateOperator(BranchOperator):
    """The operator of a branch whose queries are aggregated online.

    Units keep totals per slot in `slots`, and what else they carry on in `fed`, which can be rebuilt from retained
    rows, and so is not saved; the windows of the units in `rerun` are recomputed from these rows. Both number `keys`
    for themselves. `ranks` has the number of events so far of each fed key, for windows that count events, and `values`
    the present value of each partition for continuous queries that combine partitions. `unreplayed` are the retained
    rows that fed units have not seen since the state was restored.
    """

    branch: Branch

    def __init__(self, context: RunContext, branch: Branch, start_times: Mapping[int, int] | None = None) -> None:
        super().__init__(context, branch, start_times)
        program = self.program
        self.keys, self.fed_keys = (
            KeyIndex(pa.schema([self.schema.field(name) for name in branch.partition])) for _ in range(2)
        )
        self.encoder = LiveEncoder(context, branch)
        kept = [unit for unit in branch.units if can_keep_totals(program, unit)]
        self.slots = [UnitState(context, unit) for unit in kept if unit.strategy in SLOT_MODES]
        nothing = self._encode(self.schema.empty_table())
        self.fed: list[FedUnit] = [StackUnit(context, unit) for unit in kept if unit.strategy is Strategy.STACKS]
        self.fed += [
            ValueStackUnit(context, unit) if can_split_by_value(unit) else TrendUnit(context, unit)
            for unit in kept
            if unit.strategy is Strategy.TRENDS and can_feed_trends(unit, nothing)
        ]
        self.fed += [PairUnit(context, unit) for unit in kept if unit.strategy is Strategy.PAIRS]
        carried = [state.unit for state in (*self.slots, *self.fed)]
        self.rerun = [unit for unit in branch.units if unit not in carried]
        self.idle = branch.units  # those that no event has concerned so far, ...
        self._seen: set[frozenset[Symbol]] = set()  # ... of these classes
        self._fed_rows = 0  # since keys were last looked through
        self.ranks = np.zeros(0, np.int64)
        self.unreplayed: pa.Table | None = None
        self._rebuilt: set[int] = set()  # the places of fed units that have seen all retained rows in this micro-batch
        self.is_restored = False  # and no micro-batch was fed since then
        self._passed: tuple[Any, Sequence[frozenset[Symbol]]] = np.zeros(0, np.int32), []  # classes of what was passed
        self.oldest = int(MAX_TIME)  # the least time of any such event so far
        self.values = {c.number: program.partial_schema.empty_table() for c in branch.queries if c.needs_sweep}

    def feed_rows(self, read: ReadRows, watermark: int, late_before: int) -> MicroBatchResult:
        """See `BranchOperator.feed_rows`."""
        result = super().feed_rows(read, watermark, late_before)
        self._fed_rows += len(read.times)
        if not len(read.times) or 4 * self._fed_rows > self.keys.count + self.fed_keys.count:
            self._fed_rows = 0
            self._evict_keys()  # O(keys), and so O(1) for each row
        return result

    def _advance(self, rows: pa.Table, times: Times, watermark: int) -> MicroBatchResult:
        self._check_extremes(rows)  # before any unit has seen them
        new = (times >= self.watermark) & (times < watermark)
        results, partials = self._finish_partials(self._run(rows, times, new, watermark))
        if self.program.options.mode == "update" and new.any():
            results = pa.concat_tables([results, self._early_results(rows, times, new, watermark)])
        return self._empty_result._replace(results=results, partials=partials)

    def _find_bad_rows(self, rows: pa.Table, times: Times, watermark: int) -> Flags:
        return find_bad_rows(rows, self._check_rows)

    @property
    def executed(self) -> list[Execution]:
        """See `BranchOperator.executed`."""
        idle = set(map(id, self.idle))
        return [unit.planned for unit in self.branch.units if id(unit) not in idle]

    @property
    def row_queries(self) -> list[CompiledQuery]:
        units = [*self.rerun, *(state.unit for state in self.fed)]
        return [compiled for unit in units for compiled in unit.queries]

    @property
    def recomputed_queries(self) -> list[CompiledQuery]:
        return [compiled for unit in self.rerun for compiled in unit.queries]

    def _run(self, rows: pa.Table, times: Times, new: Flags, watermark: int) -> pa.Table:
        """Return the partial results that become final as the watermark moves."""
        self._passed = np.zeros(0, np.int32), []
        tables: list[pa.Table] = []
        if self.rerun:
            due = select_same_keys(rows, self._find_due_rows(times, watermark), self.branch.partition)
            encoded = self._encode(rows.filter(pa.array(due & (times < watermark))))
            self._count_passed(encoded)
            for unit in self.rerun:
                bounds = due_range(unit.queries[0], (self.watermark, watermark))
                with self.times.charge(unit):
                    tables += run_unit_partials(self.program, unit, encoded, bounds)[0]
        if self.slots or self.fed:
            passed = select_rows(rows, new)
            self._replay_due_keys(passed, watermark)  # first: events of before have no classes that are new now
            encoded = self._encode(passed, times[new])
            self._count_passed(encoded)
            nothing = np.zeros(0, np.int64)
            fed_numbers, ranks = self._number_fed_keys(encoded) if self.fed else (nothing, nothing)
            ranked = self._shift_ranks(encoded, ranks) if self.fed else encoded
            for state in self.fed:
                state.prepare(ranked)
            if self.slots:
                numbers = self.keys.number_keys(encoded.keys, len(encoded.offsets) - 1)
                reports: list[Report] = []
                for slots in self.slots:
                    with self.times.charge(slots.unit):
                        reports += slots.advance(encoded, numbers, self.keys, watermark)
                tables += build_reports(self.program, reports, self.keys, encoded)
            if self.fed:
                reports = []
                for state in self.fed:
                    with self.times.charge(state.unit):
                        reports += self._feed(state, ranked, fed_numbers, watermark)
                tables += build_reports(self.program, reports, self.fed_keys, encoded)
                self.ranks[fed_numbers] += np.diff(encoded.offsets)
        return pa.concat_tables(tables) if tables else self._empty_result.partials

    def _number_fed_keys(self, encoded: EncodedEvents) -> tuple[Ints, Ints]:
        """Return the numbers of the keys of events, and how many events each had before."""
        numbers = self.fed_keys.number_keys(encoded.keys, len(encoded.offsets) - 1)
        self.ranks = np.concatenate((self.ranks, np.zeros(self.fed_keys.count - len(self.ranks), np.int64)))
        return numbers, self.ranks[numbers]

    def _feed(self, state: FedUnit, encoded: EncodedEvents, numbers: Ints, watermark: int) -> list[Report]:
        """Feed new events to a unit, if need be after it has begun anew."""
        while True:
            try:
                return state.advance(encoded, numbers, self.fed_keys, self.watermark, watermark)
            except UnitOutgrown:
                state = self._begin_anew(state)

    def _begin_anew(self, state: FedUnit) -> FedUnit:
        """Feed a unit that was outgrown all that it has seen; return the one that is in its place then."""
        place = self.fed.index(state)
        self.fed[place] = state.enlarge()
        rest, self.unreplayed = self.unreplayed, None
        if rest is not None:
            self._replay(rest, [other for at, other in enumerate(self.fed) if at != place])
        self._rebuilt.discard(place)
        self._replay(self.retained.table, [self.fed[place]])
        self._rebuilt.add(place)
        return self.fed[place]

    def _replay(self, rows: pa.Table, states: Sequence[FedUnit]) -> None:
        """Feed retained rows to units that have not, or not any more, what comes of them."""
        if len(rows):
            encoded = self._encode(rows)
            numbers, ranks = self._number_fed_keys(encoded)
            encoded = self._shift_ranks(encoded, ranks - np.diff(encoded.offsets))
            for state in states:
                if self.fed.index(state) in self._rebuilt:
                    continue
                try:
                    state.advance(encoded, numbers, self.fed_keys, self.watermark, self.watermark)
                except UnitOutgrown:
                    self._begin_anew(state)

    def _replay_due_keys(self, new: pa.Table, watermark: int) -> None:
        """After a restore, replay the rows of keys that have new ones or something to report; later those of all.

        So a stream that is restored for each micro-batch replays what this one concerns.
        """
        self._rebuilt.clear()
        rows, self.unreplayed = self.unreplayed, None
        if rows is None or not len(rows):
            return
        if self.is_restored:
            self.is_restored = False
            both = pa.concat_tables([rows, new])
            times = read_times(rows, self.program.schema)
            due = next_timers(self._fed_timers, times, self.watermark) <= watermark
            due = np.concatenate((due, np.ones(len(new), np.bool_)))
            chosen = select_same_keys(both, due, self.branch.partition)[: len(rows)]
            self.unreplayed = rows.filter(pa.array(~chosen))
            rows = rows.filter(pa.array(chosen))
        self._replay(rows, self.fed)

    @property
    def _fed_timers(self) -> set[Timer]:
        return {timer for state in self.fed for query in state.unit.queries for timer in timers_for(query)}

    def _shift_ranks(self, encoded: EncodedEvents, ranks: Ints) -> EncodedEvents:
        """Let the ranks of each key's events, where windows count events, begin with another one."""
        if not self.branch.ranked:
            return encoded
        shifts = np.repeat(ranks, np.diff(encoded.offsets))
        return replace(encoded, enter=encoded.enter + shifts, leave=encoded.leave + shifts)

    def _count_passed(self, encoded: EncodedEvents) -> None:
        """Count the events of each symbol that the watermark passes now, and note which units they concern."""
        fresh = encoded.time >= self.watermark
        self.oldest = min(self.oldest, int(encoded.time[fresh].min(initial=MAX_TIME)))
        self._passed = encoded.klass[fresh], encoded.classes
        if self.idle:
            found = {encoded.classes[at] for at in np.flatnonzero(np.bincount(encoded.klass)).tolist()} - self._seen
            if found:
                self._seen |= found
                self.idle = tuple(unit for unit in self.idle if all(map(unit.merged.symbols.isdisjoint, found)))

    @property
    def passed(self) -> Counter[Symbol]:
        """How many events of each symbol the watermark passed at last."""
        return count_by_symbol(*self._passed)

    def _early_results(self, rows: pa.Table, times: Times, new: Flags, watermark: int) -> pa.Table:
        """Return values of windows that are still open, over the events that the watermark has passed."""
        tables = [self.program.partial_schema.empty_table()]
        if self.slots:
            encoded = self._encode(rows.filter(pa.array(new)))
            reports = [report for slots in self.slots for report in slots.early_results(encoded)]
            tables += build_reports(self.program, reports, self.keys, encoded)
        units = [*self.rerun, *(state.unit for state in self.fed if state.span.slide)]
        if units:
            if not self.rerun:  # else they are among the rows
                rows = pa.concat_tables([self.retained.table, rows])
                times = read_times(rows, self.program.schema)
                new = (times >= self.watermark) & (times < watermark)
            active = select_same_keys(rows, new | self.branch.needs_combine, self.branch.partition)
            encoded = self._encode(rows.filter(pa.array(active & (times < watermark))))
            bounds = (watermark + 1, int(MAX_TIME) + 1)
            for unit in units:
                tables += run_unit_partials(self.program, unit, encoded, bounds)[0]
        partials = pa.concat_tables(tables)
        open_ended = [c.number for c in self.branch.queries if not c.needs_window_close and not c.span.is_continuous]
        shown = partials.filter(pa.array(np.isin(partials["query"].to_numpy(), open_ended)))
        return finish(self.program, merge(self.program, self._drop_partial_windows(shown)))

    def _encode(self, rows: pa.Table, times: Times | None = None) -> EncodedEvents:
        """Encode rows with the same class numbers as in earlier batches, so that machines can be reused."""
        if self.encoder.is_supported:
            return self.encoder.encode(rows, read_times(rows, self.program.schema) if times is None else times)
        encoded = encode_branch(self.program, self.branch, rows)
        numbers, classes = self.context.number_classes(self.branch.name, encoded.classes)
        if self.branch.ranked:
            classes.append(frozenset())  # the last one has a meaning of its own
        return replace(encoded, klass=numbers[encoded.klass], classes=classes)

    def _check_rows(self, rows: pa.Table) -> None:
        """Compute everything that depends on single rows; a failure means that some row is bad."""
        self._check_extremes(rows)
        self._encode(rows)
        for compiled in self.row_queries:
            for condition in compiled.adjacent:
                for side in (condition.before, condition.after):
                    evaluate(side, lambda attribute: read_column(rows, attribute.name), len(rows))

    def _check_extremes(self, rows: pa.Table) -> None:
        for name, kind in self._extremes:
            check_extremes(read_column(rows, name), kind)

    @cached_property
    def _extremes(self) -> set[tuple[str, str]]:
        """The columns of which minima and maxima are kept, and which of the two."""
        channels = [channel for query in self.branch.queries for channel in query.channels.extremes]
        return {(str(channel.column), channel.kind) for channel in channels}

    def _finish_partials(self, partials: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Split partials into final results, and totals to be merged with those of other parts of the stream."""
        if not len(partials):
            return self._empty_result.results, self._empty_result.partials
        query = partials["query"].to_numpy()
        swept = [
            self._sweep(self.program.queries[number], partials.filter(pa.array(query == number)))
            for number in self.values
        ]
        plain = partials.filter(pa.array(~np.isin(query, list(self.values)))) if self.values else partials
        plain = self._drop_partial_windows(plain)
        if not self.branch.needs_combine:
            return finish(self.program, plain), self._empty_result.partials
        combined = np.isin(plain["query"].to_numpy(), [c.number for c in self.branch.queries if c.is_combined])
        finals = pa.concat_tables([plain.filter(pa.array(~combined)), *map(self._drop_partial_windows, swept)])
        return finish(self.program, finals), merge(self.program, plain.filter(pa.array(combined)))

    def _sweep(self, compiled: CompiledQuery, changes: pa.Table) -> pa.Table:
        """Return the sums over partitions at each change, and keep the value of each partition after them."""
        rows = pa.concat_tables([self.values[compiled.number], changes])
        if not len(changes):
            return changes
        part = encode_groups(self.program, rows, compiled.partition)
        order = np.lexsort((rows["seq"].to_numpy(), rows["end"].to_numpy(), part))
        kept = rows.take(pa.array(order[np.flatnonzero(np.diff(part[order], append=-1))]))
        kept = kept.filter(pc.not_equal(kept["nm"], 0.0))  # of the others nothing is left
        fixed = {"seq": pa.array(np.full(len(kept), -1)), "done": pa.array(np.zeros(len(kept), np.bool_))}
        for name, column in fixed.items():
            kept = kept.set_column(kept.column_names.index(name), kept.schema.field(name), column)
        self.values[compiled.number] = kept
        return sweep_partitions(self.program, compiled, rows)

    def _drop_partial_windows(self, partials: pa.Table) -> pa.Table:
        """Drop windows that began before their query first saw the stream."""
        if not self.start_times or not len(partials):
            return partials
        since = np.full(max(self.program.queries) + 1, MIN_TIME, np.int64)
        for number, start in self.start_times.items():
            span = self.program.queries[number].span
            since[number] = start + (0 if span.ranked else span.within)
        return partials.filter(pa.array(partials["end"].to_numpy() >= since[partials["query"].to_numpy()]))

    def _evict_keys(self) -> None:
        """Forget keys without state, once they are half of all keys."""
        if self.slots:
            alive = self._find_alive_keys(self.keys, self.slots)
            if alive.sum() * 2 <= len(alive):
                numbers = self.keys.keep(alive)
                for slots in self.slots:
                    slots.renumber(numbers)
        if self.fed:
            alive = self._find_alive_keys(self.fed_keys, self.fed)
            if alive.sum() * 2 <= len(alive):
                numbers = self.fed_keys.keep(alive)
                self.ranks = self.ranks[alive]
                for state in self.fed:
                    state.renumber(numbers)

    def _find_alive_keys(self, keys: KeyIndex, states: Sequence[UnitState | FedUnit]) -> Flags:
        """Return which keys have state."""
        alive = np.zeros(keys.count, np.bool_)
        for state in states:
            alive[state.keys] = True
        return alive

    @property
    def unit_states(self) -> dict[str, object]:
        return {name_unit(state.unit): state for state in (*self.slots, *self.fed)}

    @property
    def num_keys(self) -> int:
        return max(self.keys.count, self.fed_keys.count)

    @property
    def next_state_timer(self) -> int:
        soonest = min([int(MAX_TIME), *(state.wake for state in (*self.slots, *self.fed))])
        if self.unreplayed is None:
            return soonest
        times = read_times(self.unreplayed, self.program.schema)
        return min(soonest, int(next_timers(self._fed_timers, times, self.watermark).min(initial=MAX_TIME)))

    @property
    def unit_descriptions(self) -> list[dict[str, Any]]:
        return [slots.description for slots in self.slots]

    def save_sections(self) -> dict[str, Any]:
        """See `BranchOperator.save_sections`."""
        program = self.program
        sections = {"keys": table_to_bytes(self.keys.values)}
        for number, values in self.values.items():
            own = to_saved_values(program, program.queries[number], values)
            sections[f"values {program.fingerprints[number]}"] = table_to_bytes(own)
        for place, slots in enumerate(self.slots):
            for level, states in enumerate(slots.states):
                sections |= state_sections(f"unit {place} {level}", states)
        return sections

    def restore_sections(self, saved: SavedState) -> None:
        """See `BranchOperator.restore_sections`."""
        program = self.program
        for number in self.values:
            section = f"values {program.fingerprints[number]}"
            if section in saved.sections:
                self.values[number] = from_saved_values(program, program.queries[number], saved.table(section))
        self.keys.restore(saved.table("keys"))
        units = [
            SavedUnit(description, [read_states(saved, name) for name in state_names(saved, f"unit {place} ")])
            for place, description in enumerate(saved.header["units"])
        ]
        for slots in self.slots:
            slots.restore(units, saved.header["queries"])
        # What was kept as totals cannot be rebuilt from rows, nor the other way round: such queries begin anew.
        totals = {name for unit in saved.header["units"] for name in unit["queries"]}
        begins = max(int(saved.header["newest"]) + 1, int(saved.header["watermark"]))
        for unit_state in (*self.slots, *self.fed):
            is_kept = isinstance(unit_state, UnitState)
            for compiled in unit_state.unit.reported:
                name = program.fingerprints[compiled.number]
                if name in saved.header["queries"] and (name in totals) != is_kept:
                    self.start_times[compiled.number] = begins
        for state in self.fed:
            state.clear()
        self.unreplayed, self.is_restored = (self.retained.table if self.fed else None), True
