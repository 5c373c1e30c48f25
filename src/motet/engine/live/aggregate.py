"""Run one branch of online aggregates over an endless stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.encode import EncodedEvents, encode_keys, read_column
from motet.engine.expressions import evaluate
from motet.engine.live.base import BranchOperator, MicroBatchResult
from motet.engine.live.rows import Flags, Times, find_bad_rows
from motet.engine.live.slots import UnitState, can_keep_totals
from motet.engine.live.sweep import sweep_changes
from motet.engine.live.timers import Timer, final_bounds, next_timers, reports_at_close, timers_for
from motet.engine.partials import finish, merge
from motet.engine.program import Branch, Program
from motet.engine.run import encode_branch, run_unit_partials
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.plans.compiled import CompiledQuery
from motet.template.symbols import Symbol


class AggregateOperator(BranchOperator):
    """The operator of a branch whose queries are aggregated online.

    Units whose totals can be carried on keep them; the windows of the others are recomputed from buffered rows.
    """

    branch: Branch

    def __init__(self, program: Program, branch: Branch, start_times: dict[int, int] | None = None) -> None:
        super().__init__(program, branch, start_times)
        self.slots = [UnitState(program, unit) for unit in branch.units if can_keep_totals(program, unit)]
        self.rerun = [unit for unit in branch.units if not can_keep_totals(program, unit)]
        self.rerun_queries = [compiled for unit in self.rerun for compiled in unit.queries]
        self.passed: Counter[Symbol] = Counter()  # events by symbol that the watermark passed at last
        self.oldest = int(MAX_TIME)  # the least time of any such event so far
        self.values = {c.number: program.partial_schema.empty_table() for c in branch.queries if c.needs_sweep}

    def _advance(self, rows: pa.Table, times: Times, watermark: int) -> MicroBatchResult:
        results, partials = self._finish_partials(self._run(rows, times, watermark))
        if self.program.options.mode == "update":
            results = pa.concat_tables([results, self._early_results(rows, times, watermark)])
        return replace(self._empty_result(), results=results, partials=partials)

    def _find_bad_rows(self, rows: pa.Table, times: Times, watermark: int) -> Flags:
        return find_bad_rows(rows, self._check_rows)

    @property
    def timers(self) -> set[Timer]:
        return {
            report
            for c in self.rerun_queries
            for report in timers_for(c.span, reports_at_close=reports_at_close(c), needs_sweep=c.needs_sweep)
        }

    def _run(self, rows: pa.Table, times: Times, watermark: int) -> pa.Table:
        """Return the partial results that become final as the watermark moves."""
        new = (times >= self.watermark) & (times < watermark)
        self.passed = Counter()
        tables = self._rerun_windows(rows, times, new, watermark) if self.rerun else []
        if self.slots:
            encoded = self._encode(rows.filter(pa.array(new)))
            self._count_passed(encoded)
            numbers = self.keys.number_keys(encoded.keys, len(encoded.offsets) - 1)
            tables += [table for slots in self.slots for table in slots.advance(encoded, numbers, self.keys, watermark)]
        return pa.concat_tables(tables) if tables else self.program.partial_schema.empty_table()

    def _count_passed(self, encoded: EncodedEvents) -> None:
        """Count the events of each symbol that the watermark passes now."""
        fresh = encoded.time >= self.watermark
        self.oldest = min(self.oldest, int(encoded.time[fresh].min(initial=MAX_TIME)))
        numbers = np.bincount(encoded.klass[fresh], minlength=len(encoded.classes))
        self.passed = Counter()
        for symbols, number in zip(encoded.classes, numbers.tolist(), strict=True):
            self.passed.update(dict.fromkeys(symbols, number))

    def _rerun_windows(self, rows: pa.Table, times: Times, new: Flags, watermark: int) -> list[pa.Table]:
        """Recompute the open windows of the keys that may have something to report."""
        codes, _, keys = encode_keys(rows, self.branch.partition)
        due = (times < watermark) & (next_timers(self.timers, times, self.watermark) <= watermark)
        active = np.zeros(keys, np.bool_)
        active[codes[new | due]] = True
        encoded = self._encode(rows.filter(pa.array((times < watermark) & active[codes])))
        self._count_passed(encoded)
        return [
            table
            for unit in self.rerun
            for table in run_unit_partials(
                self.program, unit, encoded, final_bounds(unit.queries[0], self.watermark, watermark)
            )
        ]

    def _early_results(self, rows: pa.Table, times: Times, watermark: int) -> pa.Table:
        """Return values of windows that are still open, over the events that the watermark has passed."""
        new = (times >= self.watermark) & (times < watermark)
        if not new.any():
            return self.program.result_schema.empty_table()
        tables = []
        if self.slots:
            encoded = self._encode(rows.filter(pa.array(new)))
            tables += [table for slots in self.slots for table in slots.early_results(encoded, self.keys)]
        if self.rerun:
            codes, _, keys = encode_keys(rows, self.branch.partition)
            active = np.full(keys, self.branch.needs_combine)
            active[codes[new]] = True
            encoded = self._encode(rows.filter(pa.array((times < watermark) & active[codes])))
            bounds = (watermark + 1, int(MAX_TIME) + 1)
            tables += [table for unit in self.rerun for table in run_unit_partials(self.program, unit, encoded, bounds)]
        partials = pa.concat_tables([self.program.partial_schema.empty_table(), *tables])
        certain = [c.number for c in self.branch.queries if not c.needs_window_close and not c.span.is_continuous]
        shown = partials.filter(pa.array(np.isin(partials["query"].to_numpy(), certain)))
        return finish(self.program, merge(self.program, self._drop_partial_windows(shown)))

    def _encode(self, rows: pa.Table) -> EncodedEvents:
        """Encode rows with the same class numbers as in earlier batches, so that machines can be reused."""
        encoded = encode_branch(self.program, self.branch, rows)
        if self.branch.ranked:  # its last class has a meaning of its own
            return encoded
        known = self.program.classes.setdefault(self.branch.name, {})
        numbers = np.array([known.setdefault(symbols, len(known)) for symbols in encoded.classes], np.int32)
        return replace(encoded, klass=numbers[encoded.klass], classes=list(known))

    def _check_rows(self, rows: pa.Table) -> None:
        """Compute everything that depends on single rows; a failure means that some row is bad."""
        self._encode(rows)
        for compiled in self.rerun_queries:
            for condition in compiled.adjacent:
                for side in (condition.before, condition.after):
                    evaluate(side, lambda attribute: read_column(rows, attribute.name), len(rows))

    def _finish_partials(self, partials: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Split partials into final results, and totals to be merged with those of other parts of the stream."""
        query = partials["query"].to_numpy()
        needs_sweep = [self._sweep(self.program.queries[number], partials, query) for number in self.values]
        plain = partials.filter(pa.array(~np.isin(query, list(self.values)))) if self.values else partials
        plain = self._drop_partial_windows(plain)
        combined = np.isin(plain["query"].to_numpy(), [c.number for c in self.branch.queries if c.is_combined])
        finals = pa.concat_tables([plain.filter(pa.array(~combined)), *map(self._drop_partial_windows, needs_sweep)])
        return finish(self.program, finals), merge(self.program, plain.filter(pa.array(combined)))

    def _sweep(self, compiled: CompiledQuery, partials: pa.Table, query: NDArray[np.int32]) -> pa.Table:
        own = partials.take(pa.array(np.flatnonzero(query == compiled.number)))
        shown, self.values[compiled.number] = sweep_changes(self.program, compiled, self.values[compiled.number], own)
        return shown

    def _drop_partial_windows(self, partials: pa.Table) -> pa.Table:
        """Drop windows that began before their query first saw the stream."""
        if not self.start_times or not len(partials):
            return partials
        since = np.full(max(self.program.queries) + 1, MIN_TIME, np.int64)
        for number, birth in self.start_times.items():
            span = self.program.queries[number].span
            since[number] = birth + (0 if span.ranked else span.within)
        return partials.filter(pa.array(partials["end"].to_numpy() >= since[partials["query"].to_numpy()]))

    def retention(self, watermark: int) -> tuple[int, int]:
        """See `BranchOperator.retention`."""
        spans = [compiled.span for compiled in self.rerun_queries]
        longest = max((span.within for span in spans if not span.ranked), default=0)
        return watermark - longest, max((span.within for span in spans if span.ranked), default=0)

    def _evict_rows(self, rows: pa.Table, times: Times, watermark: int) -> None:
        super()._evict_rows(rows, times, watermark)
        self._evict_keys()

    def _evict_keys(self) -> None:
        """Forget keys without state, once they are half of all keys."""
        alive = np.zeros(self.keys.count, np.bool_)
        for slots in self.slots:
            alive[slots.keys] = True
        if alive.sum() * 2 <= len(alive):
            self.needs_full_save |= self.keys.count > 0
            numbers = self.keys.keep(alive)
            for slots in self.slots:
                slots.renumber(numbers)
