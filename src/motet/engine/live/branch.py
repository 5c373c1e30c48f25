"""One branch of a program that aggregates online over an endless stream: rows and a watermark in, final results out,
state in between.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.encode import Encoded, key_codes, read_column
from motet.engine.expressions import evaluate
from motet.engine.live.base import Fed, Live
from motet.engine.live.due import Report, closes, final_bounds, next_reports, reports_of
from motet.engine.live.rows import Flags, Times, poisoned
from motet.engine.live.slots import LiveSlots, keeps_totals
from motet.engine.live.sweep import sweep_on
from motet.engine.partials import finish, merge
from motet.engine.program import Branch, Program
from motet.engine.run import encode_branch, unit_partials
from motet.kernels.tables import FOREVER, LONG_AGO
from motet.plan.compiled import CompiledQuery
from motet.template.symbols import Symbol


class LiveBranch(Live):
    """A branch whose queries are aggregated online: totals where they can be carried on, else rows to run again."""

    branch: Branch

    def __init__(self, program: Program, branch: Branch, births: dict[int, int] | None = None) -> None:
        super().__init__(program, branch, births)
        self.slots = [LiveSlots(program, unit) for unit in branch.units if keeps_totals(program, unit)]
        self.rerun = [unit for unit in branch.units if not keeps_totals(program, unit)]
        self.rerun_queries = [compiled for unit in self.rerun for compiled in unit.queries]
        self.passed: Counter[Symbol] = Counter()  # events by symbol that the watermark passed at last
        self.oldest = int(FOREVER)  # the least time of any such event so far
        self.values = {c.number: program.partial_schema.empty_table() for c in branch.queries if c.swept}

    def _advance(self, rows: pa.Table, times: Times, watermark: int) -> Fed:
        results, partials = self._settled(self._run(rows, times, watermark))
        if self.program.options.live == "update":
            results = pa.concat_tables([results, self._early(rows, times, watermark)])
        return replace(self._nothing(), results=results, partials=partials)

    def _to_blame(self, rows: pa.Table, times: Times, watermark: int) -> Flags:
        return poisoned(rows, self._compute)

    @property
    def reports(self) -> set[Report]:
        return {report for c in self.rerun_queries for report in reports_of(c.span, closes=closes(c), swept=c.swept)}

    def _run(self, rows: pa.Table, times: Times, watermark: int) -> pa.Table:
        """Partial results that become final as the watermark moves."""
        new = (times >= self.watermark) & (times < watermark)
        self.passed = Counter()
        tables = self._run_again(rows, times, new, watermark) if self.rerun else []
        if self.slots:
            encoded = self._evaluate(rows.filter(pa.array(new)))
            self._count(encoded)
            numbers = self.keys.numbers(encoded.keys, len(encoded.offsets) - 1)
            tables += [table for slots in self.slots for table in slots.advance(encoded, numbers, self.keys, watermark)]
        return pa.concat_tables(tables) if tables else self.program.partial_schema.empty_table()

    def _count(self, encoded: Encoded) -> None:
        """Note how many events of each symbol the watermark passes now."""
        fresh = encoded.time >= self.watermark
        self.oldest = min(self.oldest, int(encoded.time[fresh].min(initial=FOREVER)))
        numbers = np.bincount(encoded.klass[fresh], minlength=len(encoded.classes))
        self.passed = Counter()
        for symbols, number in zip(encoded.classes, numbers.tolist(), strict=True):
            self.passed.update(dict.fromkeys(symbols, number))

    def _run_again(self, rows: pa.Table, times: Times, new: Flags, watermark: int) -> list[pa.Table]:
        """Run the live windows of the keys that may have something to report."""
        codes, _, keys = key_codes(rows, self.branch.partition)
        due = (times < watermark) & (next_reports(self.reports, times, self.watermark) <= watermark)
        active = np.zeros(keys, np.bool_)
        active[codes[new | due]] = True
        encoded = self._evaluate(rows.filter(pa.array((times < watermark) & active[codes])))
        self._count(encoded)
        return [
            table
            for unit in self.rerun
            for table in unit_partials(
                self.program, unit, encoded, final_bounds(unit.queries[0], self.watermark, watermark)
            )
        ]

    def _early(self, rows: pa.Table, times: Times, watermark: int) -> pa.Table:
        """Values of windows that are still open, over the events that the watermark has passed."""
        new = (times >= self.watermark) & (times < watermark)
        if not new.any():
            return self.program.result_schema.empty_table()
        tables = []
        if self.slots:
            encoded = self._evaluate(rows.filter(pa.array(new)))
            tables += [table for slots in self.slots for table in slots.early(encoded, self.keys)]
        if self.rerun:
            codes, _, keys = key_codes(rows, self.branch.partition)
            active = np.full(keys, self.branch.needs_combine)
            active[codes[new]] = True
            encoded = self._evaluate(rows.filter(pa.array((times < watermark) & active[codes])))
            bounds = (watermark + 1, int(FOREVER) + 1)
            tables += [table for unit in self.rerun for table in unit_partials(self.program, unit, encoded, bounds)]
        partials = pa.concat_tables([self.program.partial_schema.empty_table(), *tables])
        certain = [c.number for c in self.branch.queries if not c.certain_at_close and not c.span.continuous]
        shown = partials.filter(pa.array(np.isin(partials["query"].to_numpy(), certain)))
        return finish(self.program, merge(self.program, self._since_birth(shown)))

    def _evaluate(self, rows: pa.Table) -> Encoded:
        """The rows as kernels read them, their classes numbered as in all batches before: so machines can be kept."""
        encoded = encode_branch(self.program, self.branch, rows)
        if self.branch.ranked:  # its last class has a meaning of its own
            return encoded
        known = self.program.classes.setdefault(self.branch.name, {})
        numbers = np.array([known.setdefault(symbols, len(known)) for symbols in encoded.classes], np.int32)
        return replace(encoded, klass=numbers[encoded.klass], classes=list(known))

    def _compute(self, rows: pa.Table) -> None:
        """All that is computed of single rows: where this fails, some row is to blame."""
        self._evaluate(rows)
        for compiled in self.rerun_queries:
            for condition in compiled.adjacent:
                for side in (condition.before, condition.after):
                    evaluate(side, lambda attribute: read_column(rows, attribute.name), len(rows))

    def _settled(self, partials: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Finish what is whole here; add up, as far as it is here, what is combined over partitions."""
        query = partials["query"].to_numpy()
        swept = [self._swept(self.program.queries[number], partials, query) for number in self.values]
        plain = partials.filter(pa.array(~np.isin(query, list(self.values)))) if self.values else partials
        plain = self._since_birth(plain)
        combined = np.isin(plain["query"].to_numpy(), [c.number for c in self.branch.queries if c.combined])
        finals = pa.concat_tables([plain.filter(pa.array(~combined)), *map(self._since_birth, swept)])
        return finish(self.program, finals), merge(self.program, plain.filter(pa.array(combined)))

    def _swept(self, compiled: CompiledQuery, partials: pa.Table, query: NDArray[np.int32]) -> pa.Table:
        own = partials.take(pa.array(np.flatnonzero(query == compiled.number)))
        shown, self.values[compiled.number] = sweep_on(self.program, compiled, self.values[compiled.number], own)
        return shown

    def _since_birth(self, partials: pa.Table) -> pa.Table:
        """Results of windows that began after their query first saw the stream."""
        if not self.births or not len(partials):
            return partials
        since = np.full(max(self.program.queries) + 1, LONG_AGO, np.int64)
        for number, birth in self.births.items():
            span = self.program.queries[number].span
            since[number] = birth + (0 if span.ranked else span.within)
        return partials.filter(pa.array(partials["end"].to_numpy() >= since[partials["query"].to_numpy()]))

    def horizon(self, watermark: int) -> tuple[int, int]:
        """What is kept of rows that the watermark has passed: those at or after a time, and the last so many of each
        key.
        """
        spans = [compiled.span for compiled in self.rerun_queries]
        longest = max((span.within for span in spans if not span.ranked), default=0)
        return watermark - longest, max((span.within for span in spans if span.ranked), default=0)

    def _forget(self, rows: pa.Table, times: Times, watermark: int) -> None:
        super()._forget(rows, times, watermark)
        self._forget_keys()

    def _forget_keys(self) -> None:
        """Keys of which nothing is kept are forgotten, once they are half of all."""
        alive = np.zeros(self.keys.count, np.bool_)
        for slots in self.slots:
            alive[slots.keys] = True
        if alive.sum() * 2 <= len(alive):
            self.rewritten |= self.keys.count > 0
            numbers = self.keys.keep(alive)
            for slots in self.slots:
                slots.renumber(numbers)
