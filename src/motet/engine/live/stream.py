"""A whole program over an endless stream, in one process."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from motet.engine.live.branch import LiveBranch
from motet.engine.live.saved import Saved
from motet.engine.live.state import restore, save
from motet.engine.partials import finish, merge
from motet.engine.program import Program
from motet.kernels.tables import FOREVER


@dataclass(frozen=True)
class Answer:
    """Final results of a micro-batch, and how many rows took no part in it."""

    results: pa.Table
    late: int
    set_aside: int


class Stream:
    """Feeds micro-batches to every branch, and adds up what their partitions have in common."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.branches = [LiveBranch(program, index) for index in range(len(program.branches))]

    def feed(self, events: pa.Table, watermark: int) -> Answer:
        """Take in rows, and give the results that are final once no row before the watermark can come any more."""
        fed = [branch.feed(events, watermark) for branch in self.branches]
        combined = finish(self.program, merge(self.program, pa.concat_tables([part.partials for part in fed])))
        tables = [part.results for part in fed] + [combined]
        results = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
        return Answer(results, max(len(part.late) for part in fed), max(part.set_aside for part in fed))

    def finish(self) -> Answer:
        """The stream has ended: all that waits becomes final."""
        return self.feed(self.program.schema.columns.empty_table(), int(FOREVER))

    def save(self) -> list[bytes]:
        """The state of each branch."""
        return [save(branch).to_bytes() for branch in self.branches]

    def restore(self, states: list[bytes]) -> None:
        """Go on from a saved state."""
        for branch, state in zip(self.branches, states, strict=True):
            restore(branch, Saved.from_bytes(state))
