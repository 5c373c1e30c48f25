"""The way of a query on Spark is the one that docs/architecture.md lists."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from motet import datasets
from motet.compile import compile_workload
from motet.engine import run
from motet.engine.context import RunContext
from motet.engine.live import slots
from motet.language import read
from motet.options import Options
from motet.schema import EventSchema
from motet.spark import batch, host_process, service, tasks
from motet.spark.operator_host import OperatorHost
from motet.spark.processor import BucketProcessor
from motet.spark.serialization import CachedPickle, table_to_ipc
from motet.spark.shuffle import ShufflePlan
from motet.spark.skew import TaskLayout
from motet.spark.state_store import Head
from tests.cli.test_way_through import ROOT, list_functions
from tests.command_line import Motet
from tests.event_files import add_event_file

pytestmark = pytest.mark.spark

QUERIES = ROOT / "examples" / "flights.motet"


def watch(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[list[str]]:
    """Note the functions of motet that each call of a function passes, the last of them being its own."""
    called = getattr(module, name)
    stacks: list[list[str]] = []

    def watched(*arguments: Any, **options: Any) -> Any:
        stacks.append([*list_passed(), called.__name__])
        return called(*arguments, **options)

    monkeypatch.setattr(module, name, watched)
    return stacks


def list_passed() -> list[str]:
    frames = [frame for frame in traceback.extract_stack() if "/src/motet/" in frame.filename]
    return [frame.name for frame in frames if not frame.name.startswith("<")]


def test_a_batch_passes_the_functions_that_the_documentation_lists(
    motet: Motet, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_driver = watch(monkeypatch, batch, "make_branch_task")
    assert motet("run", QUERIES, "--events", datasets.path("nyc_flights"), "--engine", "spark").status == 0
    in_worker = watch(monkeypatch, run, "run_slots")
    flights = datasets.load("nyc_flights").slice(0, 50_000)
    program = compile_workload(read(QUERIES), EventSchema(flights.schema), Options())
    (branch,) = program.branches
    rows = flights.select(branch.columns)
    plan = ShufflePlan(program.schema, rows.schema, branch.partition, None, False, TaskLayout(1))
    packed = pa.record_batch([[0], pa.array([0], pa.int32()), [table_to_ipc(rows)]], names=["task", "place", "rows"])
    assert list(tasks.make_branch_task(CachedPickle(program), 0, plan)(iter([packed])))
    passed = [*without_main(in_driver[0]), *(name for name in in_worker[0] if name != "run")]
    assert passed == list_functions(2)


def test_a_stream_passes_the_functions_that_the_documentation_lists(
    motet: Motet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flights = datasets.load("nyc_flights").slice(0, 5000)
    (tmp_path / "events").mkdir()
    add_event_file(tmp_path / "events", 0, flights)
    in_driver = watch(monkeypatch, service, "run")
    assert motet("stream", QUERIES, "--option", f"path={tmp_path / 'events'}", "--once").status == 0
    in_worker = watch(monkeypatch, slots, "resume_slots")
    monkeypatch.setattr(host_process, "_local_host", OperatorHost())
    program = compile_workload(read(QUERIES), EventSchema(flights.schema), Options(mode="append"))
    (branch,) = program.branches
    processor = BucketProcessor(CachedPickle(RunContext(program)), [b.name for b in program.all_branches], {}, "way")
    processor.init(Handle())  # type: ignore[arg-type]
    blob = table_to_ipc(flights.select(branch.columns))
    for rows, watermark in (([blob], 0), ([], 2**43)):  # the first time they wait
        timers: Any = SimpleNamespace(getCurrentWatermarkInMs=lambda watermark=watermark: watermark)
        assert list(processor.handleInputRows((f"{branch.name}/0",), [pd.DataFrame({"rows": rows})], timers))
    passed = [name for name in without_main(in_driver[0]) if name != "__init__"]
    assert [*passed, *in_worker[0]] == list_functions(3)


def without_main(passed: list[str]) -> list[str]:
    return [name for name in passed if name != "main"]


class Handle:
    """Spark's handle to the state of a bucket."""

    def __init__(self) -> None:
        self.head: Any = tuple(Head())

    def getValueState(self, name: str, schema: str) -> Any:
        return SimpleNamespace(get=lambda: self.head, update=self.set_head)

    def set_head(self, head: Any) -> None:
        self.head = head

    def getListState(self, name: str, schema: str) -> Any:
        return SimpleNamespace(get=list, put=lambda parts: None, appendValue=lambda part: None)

    def registerTimer(self, time: int) -> None:
        pass

    def deleteTimer(self, time: int) -> None:
        pass
