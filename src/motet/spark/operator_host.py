"""Feed micro-batches to operators that stay alive from one to the next, as long as they agree with the stored state.

Every state that is stored has a token, drawn anew for each micro-batch. An operator whose token is that of the stored
state goes on; one that has missed some micro-batches is fed them from the log; all others are restored.
"""

from __future__ import annotations

import gc
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from motet.compile.contributions import END, QUERY
from motet.engine.context import RunContext
from motet.engine.live import (
    BranchOperator,
    MicroBatchResult,
    SavedState,
    can_extend_log,
    count_bytes,
    create_operator,
    find_unknown_queries,
    repeat_feed,
    restore,
    restore_log,
    save,
    save_feed,
)
from motet.errors import RunError
from motet.kernels.tables import MIN_TIME
from motet.spark.buckets import find_branch, hash_text
from motet.spark.host_messages import (
    CONTRIBUTIONS,
    LATE,
    LOG,
    PARTIALS,
    PROGRAM,
    RESULTS,
    Ask,
    FeedReply,
    FeedRequest,
)
from motet.spark.serialization import CachedPickle, table_from_ipc, table_to_ipc
from motet.spark.shuffle import FIRST
from motet.spark.tasks import ROWS_PER_BATCH, note_execution

MERGE_PLACES = 16
# A log is written anew once its changes are larger than this, and than the whole state, and half of it is not needed.
MIN_LOG_BYTES = 1 << 16
MEASURE_SECONDS = 5.0  # between two counts of the bytes that units keep
IDLE_SECONDS = 600.0  # after which an operator that nobody feeds is dropped


@dataclass
class HostedOperator:
    """An operator, the token of the state that it agrees with, and when it was used."""

    operator: BranchOperator
    token: str
    used: float
    extends_log: bool  # whether changes can be appended to the log that it was restored from
    row_bytes: float = 0.0  # that a row of a change took in the log, and what the whole state has beside rows, ...
    other_bytes: float = 0.0  # ... as far as known here
    sizes: dict[str, int] = field(default_factory=dict)  # bytes of each unit
    measured: float = -MEASURE_SECONDS  # when they were counted
    noted: set[str] = field(default_factory=set)  # signatures of what was executed, as far as it was told since then

    def write_part(self, whole: int, changes: int) -> tuple[bytes, bool]:
        """Return what to store, and whether it is the whole state: else it is the rows that came. `whole` and `changes`
        are the bytes of the log.
        """
        if self.extends_log and whole:
            part = save_feed(self.operator, self.token).to_bytes(compressed=True)
            if rows := len(self.operator.added):
                self.row_bytes = len(part) / rows
            changes += len(part)
            if changes <= max(whole, MIN_LOG_BYTES) or 2 * self._estimate_whole() > whole + changes:
                return part, False
        saved = save(self.operator, self.token)
        part = saved.to_bytes(compressed=True)
        self.other_bytes = len(part) * (1 - len(saved.sections["rows"]) / saved.size)
        return part, True

    def _estimate_whole(self) -> float:
        """Return about how many bytes the whole state would take."""
        return self.other_bytes + self.row_bytes * self.operator.count_needed_rows()

    def read_costs(self, bucket: str, seconds: float, now: float) -> str:
        """Return what the units of this operator cost, as JSON; what they have in common is charged to the branch.

        What was executed comes with it when it is new and, since a reply may be lost, now and then.
        """
        operator = self.operator
        branch = operator.branch.name
        if now - self.measured >= MEASURE_SECONDS:
            self.sizes = {name: count_bytes(state) for name, state in operator.unit_states.items()}
            self.sizes[branch] = count_bytes([operator.retained, operator.waiting])
            self.measured, self.noted = now, set()
        executed = [each for each in operator.executed if each.signature not in self.noted]
        self.noted |= {each.signature for each in executed}
        times = operator.times.take()
        times[branch] = seconds - sum(times.values())
        names = times.keys() | self.sizes.keys()
        costs = {name: [round(times.get(name, 0.0), 6), self.sizes.get(name, 0)] for name in names}
        told = {"bucket": bucket, "branch": branch, "keys": operator.num_keys, "units": costs}
        return json.dumps(told | ({"executed": [note_execution(each) for each in executed]} if executed else {}))


class OperatorHost:
    """The operators of some buckets, by program and bucket."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.operators: dict[tuple[str, str], HostedOperator] = {}
        self.programs: dict[str, CachedPickle[RunContext]] = {}
        self.clock = clock

    def feed(self, request: FeedRequest, ask: Ask) -> FeedReply:
        """Feed the rows of a micro-batch to the operator of its bucket."""
        hosted = self._find_operator(request, ask)
        operator = hosted.operator
        began = time.thread_time()
        rows = [table_from_ipc(blob) for blob in request.blobs]
        events = pa.concat_tables(rows) if rows else operator.program.schema.columns.empty_table()
        # Spark's watermark is 0 before there is one.
        result = operator.feed(events, request.watermark * 1000 if request.watermark > 0 else int(MIN_TIME))
        hosted.token = uuid.uuid4().hex
        part, is_whole = hosted.write_part(request.whole, request.changes)
        hosted.extends_log, hosted.used = True, self.clock()
        self.operators[request.program, request.bucket] = hosted  # only now: what fails has no state
        late = result.late.filter(result.late[FIRST]) if FIRST in result.late.column_names else result.late
        tables = _build_bodies(request.bucket, result, late if operator.program.options.keep_late else None)
        bodies = [(kind, place, table_to_ipc(table)) for kind, place, table in tables if len(table)]
        return FeedReply(
            bodies,
            len(late),
            result.invalid_rows,
            tuple(sorted(result.truncated)),
            operator.wake,
            operator.num_buffered_rows,
            part,
            is_whole,
            hosted.token,
            hosted.read_costs(request.bucket, time.thread_time() - began, self.clock()),
        )

    def drop_idle(self) -> None:
        """Drop operators that were not used for long, and programs without operators."""
        since = self.clock() - IDLE_SECONDS
        self.operators = {key: hosted for key, hosted in self.operators.items() if hosted.used > since}
        names = {program for program, _ in self.operators}
        self.programs = {name: program for name, program in self.programs.items() if name in names}
        gc.collect()  # operators refer to themselves, and Python would keep such garbage for long

    def _load_program(self, name: str, ask: Ask) -> None:
        """Ask for a program that is new here, and drop the operators of branches that it does not have: their state
        is removed too. Of each bucket only the operator that was fed last may agree with the stored state.
        """
        program: CachedPickle[RunContext] = ask(PROGRAM)
        branches = {branch.name for branch in program.value.program.all_branches}
        fed_last = {key[1]: key for key in sorted(self.operators, key=lambda key: self.operators[key].used)}
        kept = [key for bucket, key in fed_last.items() if find_branch(bucket) in branches]
        self.operators = {key: self.operators[key] for key in kept}
        self.drop_idle()
        self.programs[name] = program

    def _find_operator(self, request: FeedRequest, ask: Ask) -> HostedOperator:
        """Return an operator that agrees with the stored state; nobody else has it any more."""
        own = self.operators.pop((request.program, request.bucket), None)
        if own is not None and own.token == request.token:
            return own
        if request.program not in self.programs:
            self._load_program(request.program, ask)
        # A context of its own: what one bucket sees is no drift from what another one does.
        context = RunContext(self.programs[request.program].value.program)
        operator = create_operator(context, request.branch, request.start_times)
        if not request.token:
            return HostedOperator(operator, "", self.clock(), extends_log=False)
        for key, other in self.operators.items():
            if other.token == request.token:  # of an earlier start, with other queries or another plan
                del self.operators[key]
                saved = save(other.operator)
                _check_queries(operator, saved)
                restore(operator, saved)
                return HostedOperator(operator, request.token, self.clock(), extends_log=False)
        parts = [SavedState.from_bytes(part) for part in ask(LOG)]
        tokens = [part.header.get("token") for part in parts]
        if own is not None and own.token in tokens:
            for part in parts[tokens.index(own.token) + 1 :]:
                repeat_feed(own.operator, part)
            return own
        _check_queries(operator, parts[0])
        restore_log(operator, parts)
        return HostedOperator(operator, request.token, self.clock(), can_extend_log(operator, parts))


def _check_queries(operator: BranchOperator, saved: SavedState) -> None:
    if new := find_unknown_queries(operator, saved):
        raise RunError(
            f"{', '.join(new)}: new to this checkpoint, so give its folder as checkpoint= to motet.stream: "
            "since when each query sees the stream has to be noted there"
        )


def _build_bodies(bucket: str, result: MicroBatchResult, late: pa.Table | None) -> Iterator[tuple[int, int, pa.Table]]:
    """Yield tables of output with their kind and the place where parts of a result meet."""
    own = hash_text(bucket) % MERGE_PLACES  # results are combined with no others
    for first in range(0, len(result.results), ROWS_PER_BATCH):  # matches may be many
        rows = result.results.slice(first, ROWS_PER_BATCH)
        # Columns without a value are filled in where results are read.
        yield RESULTS, own, rows.select([name for name in rows.column_names if rows[name].null_count < len(rows)])
    for place, table in _split_by_place(result.partials, "query", "end"):
        yield PARTIALS, place, table
    for place, table in _split_by_place(result.contributions, QUERY, END):
        yield CONTRIBUTIONS, place, table
    if late is not None:
        yield LATE, own, late


def _split_by_place(partials: pa.Table, query: str, end: str) -> Iterator[tuple[int, pa.Table]]:
    """Split partial results by where they are combined: all of a query and window in one place."""
    place = (partials[query].to_numpy() + partials[end].to_numpy() // 1000) % MERGE_PLACES
    for number in np.unique(place).tolist():
        yield number, partials.filter(pa.array(place == number))
