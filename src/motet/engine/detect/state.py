"""Detection over events that come bit by bit: what has to be kept from one batch to the next, as plain data.

What is kept are the events that a later match may bind or that may forbid one: those of two windows before the
watermark, of all keys in one table. Instances are found anew from them, so the state of a branch depends on neither the
plan nor its optimizer, and a changed plan takes it over as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.run import DetectRun, finished
from motet.engine.encode import microseconds
from motet.errors import DataError

REPORTED = b"motet.reported"


@dataclass(frozen=True)
class DetectState:
    """Events that still matter, and the time up to which all results are out; None before the first."""

    events: pa.Table
    reported: int | None = None

    def to_bytes(self) -> bytes:
        """The state as an Arrow stream."""
        reported = b"" if self.reported is None else str(self.reported).encode()
        table = self.events.replace_schema_metadata({REPORTED: reported})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, content: bytes) -> DetectState:
        """The state that `to_bytes` wrote."""
        table = pa.ipc.open_stream(content).read_all()
        reported = (table.schema.metadata or {}).get(REPORTED)
        if reported is None:
            raise DataError("this is no state of detection: is the checkpoint another query's?")
        return cls(table.replace_schema_metadata(None), int(reported) if reported else None)


@dataclass
class Detector:
    """Takes events batch by batch and gives the results that a watermark makes certain.

    Rows may come in any order as long as none is earlier than the watermark before it: such are late, counted and left
    out.
    """

    run: DetectRun
    state: DetectState
    late: int = field(default=0)

    @classmethod
    def begin(cls, run: DetectRun) -> Detector:
        """A detector that has seen nothing."""
        columns = [run.program.schema.columns.field(name) for name in run.branch.columns]
        return cls(run, DetectState(pa.schema(columns).empty_table()))

    def advance(self, events: pa.Table, watermark: int | None) -> Iterator[pa.Table]:
        """Take more events and give what is certain before the watermark (microseconds; None: no more will come).

        Results come as they are read; the state is that of afterwards once all of them are.
        """
        reported = self.state.reported
        fresh = events.select(self.state.events.column_names)
        if reported is not None:
            on_time = pc.greater_equal(self._times(fresh), reported)
            self.late += len(fresh) - (pc.sum(pc.fill_null(on_time, True)).as_py() or 0)
            fresh = fresh.filter(on_time)
        together = pa.concat_tables([self.state.events, fresh]).unify_dictionaries()
        if watermark is not None and reported is not None and watermark <= reported:
            self.state = DetectState(together, reported)
            return
        yield from finished(self.run.pieces(together, reported, watermark), self.run.program, reported, watermark)
        self.state = DetectState(self._needed(together, watermark), watermark)

    def _needed(self, events: pa.Table, watermark: int | None) -> pa.Table:
        if watermark is None:
            return events.slice(0, 0)
        if self.run.branch.halo is None:
            return events
        return events.filter(pc.greater_equal(self._times(events), watermark - self.run.branch.halo))

    def _times(self, events: pa.Table) -> pa.Array:
        column = events.column(self.run.program.schema.time).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        return microseconds(column, self.run.program.schema)
