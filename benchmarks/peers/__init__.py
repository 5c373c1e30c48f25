"""Peers on the same work: DuckDB, chDB, Spark, Flink and plain Python answer the same questions as motet.

`make peers` makes the environment they need, `.venv-peers`; then `motet bench peers-s1` and so on. Each way runs in a
process of its own, in two cores' reach, from file to rows; whether it is exact is checked on a slice with many ties
against the oracle, and on all events against motet.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.questions import SCENARIOS, Scenario
from motet.bench.measure import Measured, Watch
from motet.bench.registry import OURS, Experiment, Row, Setting
from motet.language import parse
from motet.reference import evaluate

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parents[1] / ".venv-peers" / "bin" / "python"
START_LIMIT = 180.0
SLICE = 400  # events that the oracle enumerates


@dataclass(frozen=True)
class Way:
    """How a peer answers: its script, the name of the way in it, what it cannot say, and whether it is asked in quick
    runs too: those that start a JVM for a second way of the same peer are not, and a JVM is asked but once there."""

    title: str
    script: str
    name: str
    lacks: str = ""
    own_environment: bool = True
    in_quick_runs: bool = True
    starts_jvm: bool = False

    @property
    def python(self) -> Path:
        return ENVIRONMENT if self.own_environment else Path(sys.executable)


def of_spark(title: str, name: str, lacks: str, in_quick_runs: bool = True) -> Way:
    return Way(title, "spark_ways.py", name, lacks, False, in_quick_runs, starts_jvm=True)


def of_flink(title: str, name: str, lacks: str, in_quick_runs: bool = True) -> Way:
    return Way(title, "flink_ways.py", name, lacks, True, in_quick_runs, starts_jvm=True)


SQL = "no Kleene, no NOT in between without another join each; queries one by one"
WAYS = (
    Way("motet, in process", "motet_ways.py", "local", own_environment=False),
    Way("motet, Spark local[2]", "motet_ways.py", "spark", own_environment=False, starts_jvm=True),
    Way("plain Python A-Seq", "python_ways.py", "a-seq", "what its author wrote", own_environment=False),
    Way("DuckDB, ASOF joins", "duckdb_ways.py", "asof", SQL),
    Way("DuckDB, stacked sums", "duckdb_ways.py", "stacked", SQL),
    Way("DuckDB, self-join", "duckdb_ways.py", "self-join", SQL),
    Way("chDB, stacked sums", "chdb_ways.py", "stacked", SQL),
    Way("chDB, self-join", "chdb_ways.py", "self-join", SQL),
    Way("chDB, sequenceCount", "chdb_ways.py", "sequenceCount", "all matches: those it counts do not overlap"),
    of_spark("Spark SQL, stacked sums", "stacked", SQL, in_quick_runs=False),
    of_spark("Spark SQL, fold", "fold", SQL, in_quick_runs=False),
    of_spark("Spark SQL, self-join", "self-join", SQL),
    of_spark("Spark, collect and loop", "collect-and-loop", "what its author wrote", in_quick_runs=False),
    of_flink("Flink SQL, stacked sums", "stacked", SQL, in_quick_runs=False),
    of_flink("Flink CEP (Java)", "cep", "aggregates without building matches; sharing"),
    of_flink(
        "Flink SQL MATCH_RECOGNIZE", "match-recognize", "all matches: one for each first row", in_quick_runs=False
    ),
)


def asked(way: Way, folders: Sequence[Path], limit: float, repeats: int = 1) -> tuple[list[dict[str, Any]], str, int]:
    """What a way answers to each folder, why it went no further, and the most memory that it and its family held.

    To start and to answer the first folders it has a time that is long enough for all that we know of; for the last,
    which it answers as often as asked for, twice the limit.
    """
    scratch = Path(tempfile.mkdtemp(dir=folders[0].parent))
    answer = scratch / "answer"
    answers = [answer.with_suffix(f".{place}") for place in range(len(folders))]
    command = [
        str(way.python),
        str(HERE / "ways" / way.script),
        way.name,
        str(answer),
        str(repeats),
        *map(str, folders),
    ]
    # A group of its own, so that whatever the way starts ends with it.
    with (scratch / "said.txt").open("w") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=environment(way), start_new_session=True)
    watch = Watch(process.pid)
    why = ""
    try:
        waited = process.poll
        deadline = time.monotonic() + START_LIMIT
        while waited() is None and not all(file.exists() for file in answers[:-1]) and time.monotonic() < deadline:
            time.sleep(0.02)
        # A process that has answered need not end in good order.
        deadline = time.monotonic() + 2 * limit
        while waited() is None and not answers[-1].exists() and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        peak = watch.stop()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found = [json.loads(file.read_text()) for file in answers if file.exists()]
    if len(found) < len(folders):
        killed = process.returncode == -signal.SIGKILL
        why = (
            ("DNF" if len(found) == len(folders) - 1 else "does not start")
            if killed
            else f"fails: {complaint(scratch)}"
        )
    return found, why, peak


def complaint(scratch: Path) -> str:
    """The last error that a way spoke of."""
    lines = (scratch / "said.txt").read_text().splitlines()
    errors = [line.strip() for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines or ["no word"])[-1][:160]


def environment(way: Way) -> dict[str, str]:
    """That of this process; a peer in its own environment has none of our packages in reach."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if way.own_environment:
        return kept
    # Workers of Spark look for the scripts that their functions came from.
    return {**kept, "PYTHONPATH": os.pathsep.join([str(HERE / "ways"), *(path for path in sys.path if path)])}


def right_answer(scenario: Scenario, table: Any) -> list[list[int]]:
    """What the oracle counts, as rows of a way."""
    found = evaluate(parse(scenario.text()), table.to_pylist())
    rows = (
        [int(row["query"][1:]), row["group"]["key"], row["window_start"] // 60_000_000, row["values"]["COUNT(*)"]]
        for row in found.rows
    )
    return sorted(row for row in rows if row[3])


def slices(scenario: Scenario, folder: Path, limit: float) -> dict[str, tuple[Path, list[list[int]]]]:
    """A few events without ties and with many, and what the oracle says of them."""
    made = {}
    for name, ties in (("plain", False), ("ties", True)):
        table = scenario.table(SLICE, keys=3, ties=ties)
        scenario.write(folder / name, table, limit, True)
        made[name] = (folder / name, right_answer(scenario, table))
    return made


def verdict(found: Sequence[dict[str, Any]], right: Sequence[list[list[int]]]) -> str:
    """Whether a way counts as the oracle does."""
    plain, ties = (one["answer"] == other for one, other in zip(found[:2], right, strict=True))
    return "yes" if plain and ties else "not with ties" if plain else "no"


def compare(setting: Setting, scenario: Scenario) -> list[Row]:
    """Every way on one question."""
    ways = [way for way in WAYS if setting.size == "paper" or way.in_quick_runs]
    events = setting.pick(scenario.quick, scenario.events)
    limit = setting.pick(4.0, 20.0)
    rows: list[Row] = []
    counted: tuple[int, int] | None = None
    with tempfile.TemporaryDirectory(prefix="motet-peers-") as scratch:
        small = slices(scenario, Path(scratch), limit)
        right = [answer for _, answer in small.values()]
        folders = [*(folder for folder, _ in small.values()), Path(scratch) / "all"]
        scenario.write(folders[-1], scenario.table(events), limit, False)
        for way in ways:
            row: Row = {"way": way.title}
            rows.append(row)
            if not way.python.exists():
                row["exact"] = "not installed: make peers"
                continue
            once = way.starts_jvm and setting.size == "quick"
            found, why, peak = asked(way, folders, limit, 1 if once else setting.repeats)
            row["exact"] = verdict(found, right) if len(found) > 1 else why
            if found:
                row["start s"] = found[0]["startup"]
            if len(found) == len(folders):
                seconds = Measured.of(found[-1]["seconds"])
                counted = counted or (found[-1]["rows"], found[-1]["total"])
                if row["exact"] == "yes" and counted != (found[-1]["rows"], found[-1]["total"]):
                    row["exact"] = "not on all events"
                row |= {"k events/s": seconds.rate(events / 1e3), "peak MiB": peak / 2**20}
            else:
                row["k events/s"] = why
    fastest = rows[0].get("k events/s")
    for row, way in zip(rows, ways, strict=True):
        rate = row.get("k events/s")
        if isinstance(fastest, Measured) and isinstance(rate, Measured):
            row["times slower"] = fastest.high / rate.high
        row["cannot say"] = way.lacks
    return rows


def experiment(scenario: Scenario) -> Experiment:
    run: Callable[[Setting], list[Row]] = partial(compare, scenario=scenario)
    return Experiment(
        f"peers-{scenario.name}",
        OURS,
        "",
        f"peers on the same question: {scenario.about}",
        scenario.seconds,
        run,
        needs=("pyspark",),
        notes=(
            "From file to rows, two cores; `times slower` by the best run of each. `exact`: as the oracle counts on "
            "slices with and without ties, and as motet counts on all events. DNF: an answer takes more than 8 s "
            "(paper size: 40 s). The quick size asks one way of each peer that needs a JVM, once.",
        ),
    )


EXPERIMENTS = tuple(map(experiment, SCENARIOS))
