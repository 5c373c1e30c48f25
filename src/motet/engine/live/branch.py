"""One branch of a program over an endless stream: rows and a watermark in, final results out, state in between."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.engine.encode import Encoded, key_codes
from motet.engine.live.due import final_bounds, next_reports
from motet.engine.live.fit import fit_rows, fit_values, plain_values
from motet.engine.live.keys import Keys
from motet.engine.live.rows import Flags, Times, poisoned, sort_out, still_needed, times_of
from motet.engine.live.saved import Saved, fingerprint, table_bytes
from motet.engine.live.slots import LiveSlots, keeps_totals
from motet.engine.live.sweep import sweep_on
from motet.engine.partials import finish, merge
from motet.engine.program import Program
from motet.engine.run import encode_branch, unit_partials
from motet.errors import DataError
from motet.kernels.tables import FOREVER, LONG_AGO
from motet.plan.compiled import CompiledQuery


@dataclass(frozen=True)
class Fed:
    """What a micro-batch gave: final results, totals that other parts of the stream may have to be added to, the rows
    that came too late, and how many could not be read.
    """

    results: pa.Table
    partials: pa.Table
    late: pa.Table
    set_aside: int


class LiveBranch:
    """The state of a branch, or of some of its keys.

    Rows wait until the watermark passes them, so the order in which they come means nothing. `births` tells, by query
    number, since when the stream has been seen: only windows that began later are reported.
    """

    def __init__(self, program: Program, index: int, births: dict[int, int] | None = None) -> None:
        self.program = program
        self.branch = program.branches[index]
        self.births = dict(births or {})
        self.watermark = int(LONG_AGO)
        schema = pa.schema([program.schema.columns.field(name) for name in self.branch.columns])
        self.rows = schema.empty_table()
        self.keys = Keys(pa.schema([schema.field(name) for name in self.branch.partition]))
        self.slots = [LiveSlots(program, unit) for unit in self.branch.units if keeps_totals(program, unit)]
        self.rerun = [unit for unit in self.branch.units if not keeps_totals(program, unit)]
        self.rerun_queries = [compiled for unit in self.rerun for compiled in unit.queries]
        self.values = {c.number: program.partial_schema.empty_table() for c in self.branch.queries if c.swept}

    def feed(self, events: pa.Table, watermark: int) -> Fed:
        """Take in the rows of a micro-batch and move on to a watermark; rows before it are late."""
        watermark = max(watermark, self.watermark)
        arrived = sort_out(events, self.branch, self.program.schema, watermark)
        rows, aside = self.rows, len(arrived.set_aside)
        if len(arrived.usable):
            rows = pa.concat_tables([rows, arrived.usable.select(rows.column_names).cast(rows.schema)])
        times = times_of(rows, self.program.schema)
        try:
            partials = self._run(rows, times, watermark)
        except DataError:
            bad = poisoned(rows, self._evaluate)
            if not bad.any():
                raise
            aside += int(bad.sum())
            rows, times = rows.filter(pa.array(~bad)), times[~bad]
            partials = self._run(rows, times, watermark)
        results, rest = self._settled(partials)
        self._forget(rows, times, watermark)
        return Fed(results, rest, arrived.late, aside)

    def _run(self, rows: pa.Table, times: Times, watermark: int) -> pa.Table:
        """Partial results that become final as the watermark moves."""
        new = (times >= self.watermark) & (times < watermark)
        tables = self._run_again(rows, times, new, watermark) if self.rerun else []
        if self.slots:
            encoded = self._evaluate(rows.filter(pa.array(new)))
            numbers = self.keys.numbers(encoded.keys, len(encoded.offsets) - 1)
            tables += [table for slots in self.slots for table in slots.advance(encoded, numbers, self.keys, watermark)]
        return pa.concat_tables(tables) if tables else self.program.partial_schema.empty_table()

    def _run_again(self, rows: pa.Table, times: Times, new: Flags, watermark: int) -> list[pa.Table]:
        """Run the live windows of the keys that may have something to report."""
        codes, _, keys = key_codes(rows, self.branch.partition)
        due = (times < watermark) & (next_reports(self.rerun_queries, times, self.watermark) <= watermark)
        active = np.zeros(keys, np.bool_)
        active[codes[new | due]] = True
        encoded = self._evaluate(rows.filter(pa.array((times < watermark) & active[codes])))
        return [
            table
            for unit in self.rerun
            for table in unit_partials(
                self.program, unit, encoded, final_bounds(unit.queries[0], self.watermark, watermark)
            )
        ]

    def _evaluate(self, rows: pa.Table) -> Encoded:
        return encode_branch(self.program, self.branch, rows)

    def _settled(self, partials: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Finish what is whole here; add up, as far as it is here, what is combined over partitions."""
        query = partials["query"].to_numpy()
        whole: list[pa.Table] = []
        parts: list[pa.Table] = []
        for compiled in self.branch.queries:
            own = partials.take(pa.array(np.flatnonzero(query == compiled.number)))
            if compiled.swept:
                own, self.values[compiled.number] = sweep_on(self.program, compiled, self.values[compiled.number], own)
            own = self._since_birth(compiled, own)
            (parts if compiled.combined and not compiled.swept else whole).append(own)
        rest = merge(self.program, pa.concat_tables(parts)) if parts else self.program.partial_schema.empty_table()
        finals = pa.concat_tables(whole) if whole else self.program.partial_schema.empty_table()
        return finish(self.program, finals), rest

    def _since_birth(self, compiled: CompiledQuery, partials: pa.Table) -> pa.Table:
        """Windows that began after the stream was first seen by this query."""
        birth = self.births.get(compiled.number)
        if birth is None or not len(partials):
            return partials
        within = 0 if compiled.span.ranked else compiled.span.within
        return partials.filter(pc.greater_equal(partials["end"], birth + within))

    def _forget(self, rows: pa.Table, times: Times, watermark: int) -> None:
        """Keep what waits, and what a later result may depend on."""
        spans = [compiled.span for compiled in self.rerun_queries]
        longest = max((span.within for span in spans if not span.ranked), default=0)
        last = max((span.within for span in spans if span.ranked), default=0)
        kept = still_needed(rows, times, self.branch.partition, watermark, watermark - longest, last)
        self.rows = rows if kept.all() else rows.filter(pa.array(kept)).combine_chunks()
        self.watermark = watermark
        self._forget_keys()

    def _forget_keys(self) -> None:
        """Keys of which nothing is kept are forgotten, once they are half of all."""
        alive = np.zeros(self.keys.count, np.bool_)
        for slots in self.slots:
            alive[slots.keys] = True
        if alive.sum() * 2 <= len(alive):
            numbers = self.keys.keep(alive)
            for slots in self.slots:
                slots.renumber(numbers)

    def save(self) -> bytes:
        """The state as bytes, for `restore` by this or a later version, with this or another program."""
        prints = {compiled.number: fingerprint(self.program, compiled) for compiled in self.branch.queries}
        header = {
            "watermark": self.watermark,
            "queries": {prints[number]: self.births.get(number) for number in prints},
            "units": [slots.describe() for slots in self.slots],
        }
        sections = {"rows": table_bytes(self.rows), "keys": table_bytes(self.keys.values)}
        for place, slots in enumerate(self.slots):
            sections |= {f"unit {place} {name}": body for name, body in slots.sections().items()}
        for number, values in self.values.items():
            own = plain_values(self.program, self.program.queries[number], values)
            sections[f"values {prints[number]}"] = table_bytes(own)
        return Saved(header, sections).to_bytes()

    def restore(self, data: bytes) -> None:
        """Go on from a saved state. Queries that it does not know begin where it ends."""
        saved = Saved.from_bytes(data)
        self.watermark = saved.header["watermark"]
        rows = saved.table("rows")
        newest = max(times_of(rows, self.program.schema).max(initial=LONG_AGO) + 1, self.watermark)
        known = saved.header["queries"]
        for compiled in self.branch.queries:
            name = fingerprint(self.program, compiled)
            birth = known.get(name) if name in known else int(newest)
            if birth is not None:
                self.births.setdefault(compiled.number, birth)
            if f"values {name}" in saved.sections and compiled.number in self.values:
                values = saved.table(f"values {name}")
                self.values[compiled.number] = fit_values(self.program, compiled, values)
        self.rows = fit_rows(rows, self.rows.schema)
        self.keys.restore(saved.table("keys"))
        for slots in self.slots:
            for place, description in enumerate(saved.header["units"]):
                if slots.restore(description, partial(_unit_words, saved, place)):
                    break

    @property
    def waiting(self) -> int:
        """Rows that the watermark has not passed."""
        return int((times_of(self.rows, self.program.schema) >= self.watermark).sum())

    @property
    def wake(self) -> int | None:
        """The least watermark at which there may be something to do without a further row."""
        times = times_of(self.rows, self.program.schema)
        waits = times[times >= self.watermark] + 1
        reports = next_reports(self.rerun_queries, times, self.watermark)
        soonest = min([int(FOREVER), *(slots.wake for slots in self.slots)])
        soonest = int(min(reports.min(initial=soonest), waits.min(initial=soonest)))
        return soonest if soonest < FOREVER else None


def _unit_words(saved: Saved, place: int, name: str) -> NDArray[np.int64]:
    return saved.words(f"unit {place} {name}")
