"""Hosts of operators: whichever of them a micro-batch comes to, and however often, results are those of batch."""

from __future__ import annotations

import json
import os
import pickle
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.context import RunContext
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.options import Options
from motet.plans.execution import ExecutionRecord
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from motet.spark import host_process, operator_host
from motet.spark.host_messages import LOG, PROGRAM, FeedReply, FeedRequest
from motet.spark.operator_host import OperatorHost
from motet.spark.serialization import CachedPickle, table_to_ipc
from motet.spark.stream import COUNTS, OVERFLOWS, make_result_task
from motet.spark.tasks import find_records
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import endless, micro_batches
from tests.strategies import build_stream_table, streams, workloads

LAST = 2**52  # milliseconds: all windows have ended by then


@dataclass
class Bucket:
    """What Spark's store has of a bucket."""

    branch: str
    token: str = ""
    whole: int = 0
    changes: int = 0
    log: list[bytes] = field(default_factory=list)

    def request(self, cached: CachedPickle[RunContext], branch: int, rows: pa.Table, watermark: int) -> FeedRequest:
        return FeedRequest(
            cached.name, branch, f"{self.branch}/0", {}, self.token, self.whole, self.changes, watermark,
            [table_to_ipc(rows)] if len(rows) else [],
        )  # fmt: skip

    def store(self, reply: FeedReply) -> None:
        self.token = reply.token
        if reply.is_whole:
            self.log, self.whole, self.changes = [reply.part], len(reply.part), 0
        else:
            self.log.append(reply.part)
            self.changes += len(reply.part)


class Simulation:
    """Buckets that are fed by hosts, as Spark's tasks do it."""

    def __init__(self, workload: Workload, schema: pa.Schema) -> None:
        self.workload, self.schema = workload, EventSchema(schema)
        self.start("prefix")
        self.buckets = [Bucket(branch.name) for branch in self.cached.value.program.all_branches]
        self.asked: list[str] = []

    def start(self, optimizer: Any) -> None:
        """Start the stream, again or with another plan."""
        options = Options(mode="append", optimizer=optimizer)
        self.cached = CachedPickle(RunContext(compile_workload(self.workload, self.schema, options)))

    def feed(self, host: OperatorHost, rows: pa.Table, watermark: int, *, fails: bool = False) -> list[FeedReply]:
        """Feed a micro-batch to all buckets; an attempt that fails stores nothing."""
        replies = []
        for branch, bucket in enumerate(self.buckets):

            def answer(what: str, bucket: Bucket = bucket) -> Any:
                self.asked.append(what)
                return pickle.loads(pickle.dumps(self.cached)) if what == PROGRAM else bucket.log

            replies.append(host.feed(bucket.request(self.cached, branch, rows, watermark), answer))
            if not fails:
                bucket.store(replies[-1])
        return replies

    def results(self, replies: list[FeedReply]) -> pa.Table:
        bodies = [(kind, body) for reply in replies for kind, _, body in reply.bodies]
        kinds, blobs = zip(*bodies, strict=True) if bodies else ((), ())
        packed = pa.record_batch([pa.array(kinds, pa.int32()), pa.array(blobs, pa.binary())], ["kind", "body"])
        tables = [pa.Table.from_batches([batch]) for batch in make_result_task(self.cached)(iter([packed]))]
        schema = self.cached.value.program.result_schema
        return pa.concat_tables([schema.empty_table(), *(table.drop_columns([COUNTS, OVERFLOWS]) for table in tables)])


@given(data=st.data())
def test_results_are_those_of_batch_whichever_host_is_asked(data: st.DataObject) -> None:
    workload = endless(data.draw(workloads(min_queries=1, max_queries=4, detection=True)))
    rows = data.draw(streams())
    if not workload.queries:
        return
    note(to_text(workload))
    table = build_stream_table(rows)
    simulation = Simulation(workload, table.schema)
    hosts = [OperatorHost() for _ in range(2)]
    found = []
    moments = [(build_stream_table(part), max(at // 1000, 0)) for part, at in data.draw(micro_batches(rows))]
    with patch("gc.collect"):  # which takes long in the process of all tests
        for part, watermark in [*moments, (table.slice(0, 0), LAST)]:
            event = data.draw(st.sampled_from(["none", "fails", "is lost", "other plan"]))
            host = data.draw(st.sampled_from([0, 1]))
            if event == "fails":
                simulation.feed(hosts[host], part, watermark, fails=True)
            elif event == "is lost":
                hosts[host] = OperatorHost()
            elif event == "other plan":
                simulation.start(data.draw(st.sampled_from(["none", "prefix"])))
            found.append(simulation.results(simulation.feed(hosts[host], part, watermark)))
    assert_same_results(pa.concat_tables(found), enumerate_table(workload, table))


PAIRS = "QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 1 h"
COLUMNS = pa.schema([("time", pa.int64()), ("type", pa.string()), ("k", pa.int64())])


def rows(*found: tuple[int, str, int]) -> pa.Table:
    return pa.table(list(zip(*found, strict=True)), schema=COLUMNS) if found else COLUMNS.empty_table()


def test_a_host_that_has_the_state_asks_for_nothing_and_writes_the_rows() -> None:
    simulation, host = Simulation(parse(PAIRS), COLUMNS), OperatorHost()
    simulation.feed(host, rows(*((second, "A", second) for second in range(1000))), 0)
    assert simulation.asked == [PROGRAM]
    for second in range(1001, 1005):
        simulation.feed(host, rows((second, "B", second)), second * 1000)
    assert simulation.asked == [PROGRAM]
    assert len(simulation.buckets[0].log) == 5
    assert max(map(len, simulation.buckets[0].log[1:])) < len(simulation.buckets[0].log[0])


def test_a_host_that_missed_a_micro_batch_is_fed_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, one, other = Simulation(parse(PAIRS), COLUMNS), OperatorHost(), OperatorHost()
    simulation.feed(one, rows((1, "A", 1)), 0)
    simulation.feed(one, rows((2, "A", 1)), 0)
    simulation.feed(other, rows((3, "B", 1)), 0)
    monkeypatch.setattr(operator_host, "restore_log", lambda *_: pytest.fail("it was restored"))
    replies = simulation.feed(one, rows(), LAST)
    assert [row["COUNT(*)"] for row in simulation.results(replies).to_pylist()] == [2]


def test_operators_that_nobody_feeds_are_dropped() -> None:
    now = [0.0]
    simulation, host = Simulation(parse(PAIRS), COLUMNS), OperatorHost(lambda: now[0])
    simulation.feed(host, rows((1, "A", 1)), 0)
    now[0] = operator_host.IDLE_SECONDS + 1
    host.drop_idle()
    assert not host.operators
    assert not host.programs


def test_operators_of_branches_that_are_gone_are_dropped_at_once() -> None:
    other = PAIRS.replace("pairs", "all").replace("GROUP BY k", "")
    simulation, host = Simulation(parse(f"{PAIRS}\n{other}"), COLUMNS), OperatorHost()
    simulation.feed(host, rows((1, "A", 1)), 0)
    assert len(host.operators) == 2
    simulation.workload = parse(PAIRS)
    simulation.start("prefix")
    simulation.buckets = [next(bucket for bucket in simulation.buckets if "k" in bucket.branch)]
    simulation.feed(host, rows((2, "B", 1)), 0)
    found = simulation.results(simulation.feed(host, rows(), LAST))
    assert found["COUNT(*)"].to_pylist() == [1]
    assert list(host.operators) == [(simulation.cached.name, f"{simulation.buckets[0].branch}/0")]
    assert LOG not in simulation.asked, "the state was taken over"


def test_starts_that_end_amid_a_micro_batch_leave_no_operators_behind() -> None:
    simulation, host = Simulation(parse(PAIRS), COLUMNS), OperatorHost()
    simulation.feed(host, rows((1, "A", 1)), 0)
    for number in range(5):
        simulation.workload = parse(PAIRS.replace("pairs", f"pairs_{number}"))
        simulation.start("prefix")
        simulation.feed(host, rows((2, "B", 1)), 0, fails=True)
    assert len(host.operators) == len(host.programs) == 2
    simulation.feed(host, rows((2, "B", 1)), 0)
    found = simulation.results(simulation.feed(host, rows(), LAST))
    assert found["COUNT(*)"].to_pylist() == [1]


def test_hosts_are_processes_that_end_with_their_parent(tmp_path: Path) -> None:
    """A process forks them as Spark's daemon does, feeds one twice, and ends."""
    report = tmp_path / "report"
    if (child := os.fork()) == 0:
        simulation = Simulation(parse(PAIRS), COLUMNS)
        host_process.start_spawner()
        asked = []
        for second in (1, 2):
            bucket = simulation.buckets[0]

            def answer(what: str) -> Any:
                asked.append(what)
                return simulation.cached

            request = bucket.request(simulation.cached, 0, rows((second, "A", 1)), 0)
            bucket.store(host_process.feed_bucket("slot", request, answer))
        kept = len(host_process._local_host.operators)
        report.write_text(f"{asked} {kept} {os.environ[host_process.FOLDER]}")
        os._exit(0)
    os.waitpid(child, 0)
    told, _, folder = report.read_text().rpartition(" ")
    assert told == "['program'] 0", "it was fed in a host, which had the state the second time"
    until = time.monotonic() + 600
    while Path(folder).exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not Path(folder).exists()


MIXED = """
QUERY one RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 10 s SLIDE 5 s

QUERY two RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 10 s

QUERY three PATTERN SEQ(A, B) WITHIN 10 s
"""


def test_hosts_say_what_they_executed_when_it_is_new_and_now_and_then() -> None:
    times = pa.array([1_000_000, 2_000_000], pa.timestamp("us"))
    table = pa.table({"time": times, "type": ["A", "B"], "k": ["p", "p"]})
    simulation = Simulation(parse(MIXED), table.schema)
    now = [0.0]
    host = OperatorHost(lambda: now[0])

    def feed(rows: pa.Table, watermark: int) -> list[ExecutionRecord]:
        told = [json.loads(reply.units) for reply in simulation.feed(host, rows, watermark)]
        notes = [note for each in told for note in each.get("executed", ())]
        return find_records(simulation.cached.value.program, notes)

    assert not feed(table, 0)  # all events wait for the watermark
    records = feed(table.slice(0, 0), 3_000)
    assert {each.queries: each.strategy for each in records} == {
        ("one",): "panes",
        ("two",): "stacks",
        ("three",): "joins",
    }
    units = [unit for branch in simulation.cached.value.program.branches for unit in branch.units]
    assert {each.signature for each in records} >= {unit.planned.signature for unit in units}
    assert not feed(table.slice(0, 0), 4_000)
    now[0] += 2 * operator_host.MEASURE_SECONDS
    assert feed(table.slice(0, 0), 5_000) == records


def test_a_log_is_not_written_anew_while_all_of_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_host, "MIN_LOG_BYTES", 0)
    workload = parse("QUERY pairs PATTERN SEQ(A, B) GROUP BY k WITHIN 20 s")
    simulation, host = Simulation(workload, COLUMNS), OperatorHost()
    parts = []
    for second in range(1, 201):
        simulation.feed(host, rows(*((second, "A", key) for key in range(20))), second * 1000)
        parts.append(len(simulation.buckets[0].log))
    assert parts[:40] == list(range(1, 41)), "two windows are needed"
    assert parts[-1] < 90, "rows that left them are gone"
    simulation.feed(OperatorHost(), rows((201, "B", 1)), 201_000)
    found = simulation.results(simulation.feed(host, rows(), LAST))
    assert found.num_rows == 19
