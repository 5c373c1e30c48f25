"""A whole program over an endless stream, in one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from motet.engine.detect.program import DetectBranch
from motet.engine.detect.run import finished
from motet.engine.live.base import Live
from motet.engine.live.branch import LiveBranch
from motet.engine.live.detect import LiveDetect
from motet.engine.live.saved import Saved
from motet.engine.live.state import begin_after, restore, save
from motet.engine.partials import finish, merge
from motet.engine.program import Program
from motet.kernels.tables import FOREVER


@dataclass(frozen=True)
class Answer:
    """Final results of a micro-batch, how many rows took no part in it, and the queries that a limit cut short."""

    results: pa.Table
    late: int
    set_aside: int
    truncated: frozenset[str] = frozenset()


def live_branch(program: Program, index: int, births: dict[int, int] | None = None) -> Live:
    """A branch of a program that has seen nothing; those that aggregate online come first."""
    branch = program.all_branches[index]
    if isinstance(branch, DetectBranch):
        return LiveDetect(program, branch, births)
    return LiveBranch(program, branch, births)


class Stream:
    """Feeds micro-batches to every branch, and adds up what their partitions have in common."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.branches = [live_branch(program, index) for index in range(len(program.all_branches))]

    def feed(self, events: pa.Table, watermark: int) -> Answer:
        """Take in rows, and give the results that are final once no row before the watermark can come any more."""
        fed = [branch.feed(events, watermark) for branch in self.branches]
        combined = finish(self.program, merge(self.program, pa.concat_tables([part.partials for part in fed])))
        contributions = pa.concat_tables([part.contributions for part in fed])
        tables = [part.results for part in fed] + [combined, *finished([contributions], self.program)]
        results = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
        late, aside = max(len(part.late) for part in fed), max(part.set_aside for part in fed)
        return Answer(results, late, aside, frozenset().union(*(part.truncated for part in fed)))

    def finish(self) -> Answer:
        """The stream has ended: all that waits becomes final."""
        return self.feed(self.program.schema.columns.empty_table(), int(FOREVER))

    def save(self) -> dict[str, bytes]:
        """The state of each branch, by its name."""
        return {live.branch.name: save(live).to_bytes() for live in self.branches}

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Go on from a saved state, of this or other queries; queries that it does not know begin where it ends."""
        saved = {name: Saved.from_bytes(state) for name, state in states.items()}
        begins = max((begin_after(state) for state in saved.values()), default=None)
        for live in self.branches:
            if live.branch.name in saved:
                restore(live, saved[live.branch.name])
            elif begins is not None:
                live.births = {compiled.number: begins for compiled in live.branch.queries}

    def going_on(self, program: Program) -> Stream:
        """The stream from here on with another plan or other queries; those that are new begin here."""
        stream = Stream(program)
        stream.restore(self.save())
        for branch in program.detect:
            known = self.program.plannings.get(branch.name)
            if known is not None:
                program.plannings.setdefault(branch.name, known.for_queries(branch, program.options))
        return stream
