"""One branch of a program over an endless stream: rows and a watermark in, final results out, state in between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.encode import Encoded, key_codes
from motet.engine.live.due import final_bounds, next_reports
from motet.engine.live.fit import fit_rows, fit_values, plain_values
from motet.engine.live.rows import Times, poisoned, sort_out, still_needed, times_of
from motet.engine.live.saved import Saved, fingerprint, table_bytes
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
        """Partial results that become final as the watermark moves, over the keys for which there may be any."""
        before = self.watermark
        codes, _, keys = key_codes(rows, self.branch.partition)
        passed = times < watermark
        calls = (times >= before) | (next_reports(self.branch.queries, times, before) <= watermark)
        active = np.zeros(keys, np.bool_)
        active[codes[passed & calls]] = True
        encoded = self._evaluate(rows.filter(pa.array(passed & active[codes])))
        tables = [
            table
            for unit in self.branch.units
            for table in unit_partials(
                self.program, unit, encoded, final_bounds(unit.queries[0], before, watermark)
            )
        ]
        return pa.concat_tables(tables) if tables else self.program.partial_schema.empty_table()

    def _evaluate(self, rows: pa.Table) -> Encoded:
        return encode_branch(self.program, self.branch, rows)

    def _settled(self, partials: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Finish what is whole here; add up, as far as it is here, what is combined over partitions."""
        query = partials["query"].to_numpy()
        whole, parts = [], []
        for compiled in self.branch.queries:
            own = partials.take(pa.array(np.flatnonzero(query == compiled.number)))
            if compiled.swept:
                own, self.values[compiled.number] = sweep_on(
                    self.program, compiled, self.values[compiled.number], own
                )
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
        spans = [compiled.span for compiled in self.branch.queries]
        longest = max((span.within for span in spans if not span.ranked), default=0)
        last = max((span.within for span in spans if span.ranked), default=0)
        kept = still_needed(rows, times, self.branch.partition, watermark, watermark - longest, last)
        self.rows = rows if kept.all() else rows.filter(pa.array(kept)).combine_chunks()
        self.watermark = watermark

    def save(self) -> bytes:
        """The state as bytes, for `restore` by this or a later version, with this or another program."""
        prints = {compiled.number: fingerprint(self.program, compiled) for compiled in self.branch.queries}
        header = {
            "watermark": self.watermark,
            "queries": {prints[number]: self.births.get(number) for number in prints},
        }
        sections = {"rows": table_bytes(self.rows)}
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

    @property
    def waiting(self) -> int:
        """Rows that the watermark has not passed."""
        return int((times_of(self.rows, self.program.schema) >= self.watermark).sum())

    @property
    def wake(self) -> int | None:
        """The least watermark at which there may be something to do without a further row."""
        times = times_of(self.rows, self.program.schema)
        if not len(times):
            return None
        waits = times[times >= self.watermark] + 1
        reports = next_reports(self.branch.queries, times, self.watermark)
        soonest = min(int(reports.min()), int(waits.min()) if len(waits) else int(FOREVER))
        return soonest if soonest < FOREVER else None
