"""Peers on the same work: DuckDB, chDB, Spark, Flink and plain Python answer the same questions as motet.

`make peers` makes the environment they need, `.venv-peers`; then `motet bench peers-s1` and so on. Each solution
runs in a process of its own, on two cores, from file to rows. Whether it is exact is checked on a slice with many ties
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

from benchmarks.engine import describe_units
from benchmarks.measure import Measurement, MemoryMonitor
from benchmarks.peers.questions import SCENARIOS, Scenario
from benchmarks.registry import OURS, Experiment, Row, Setting
from motet.language import parse
from motet.reference import evaluate

CHECKOUT = Path(__file__).resolve().parents[2]
SCRIPTS = CHECKOUT / "benchmarks" / "peers" / "solutions"
ENVIRONMENT = CHECKOUT / ".venv-peers" / "bin" / "python"
START_LIMIT = 180.0
SLICE = 400  # events that the oracle enumerates


@dataclass(frozen=True)
class Solution:
    """How a peer answers: its script, the name of the solution in it, and what it cannot say.

    Quick runs leave out those that start a JVM for a second solution of the same peer, and ask a JVM only once.
    """

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


def make_spark_solution(title: str, name: str, lacks: str, in_quick_runs: bool = True) -> Solution:
    return Solution(title, "spark_solutions.py", name, lacks, False, in_quick_runs, starts_jvm=True)


def make_flink_solution(title: str, name: str, lacks: str, in_quick_runs: bool = True) -> Solution:
    return Solution(title, "flink_solutions.py", name, lacks, True, in_quick_runs, starts_jvm=True)


SQL = "no Kleene, no NOT in between without another join each; queries one by one"
SOLUTIONS = (
    Solution("motet, in process", "motet_solutions.py", "local", own_environment=False),
    Solution("motet, Spark local[2]", "motet_solutions.py", "spark", own_environment=False, starts_jvm=True),
    Solution("plain Python A-Seq", "python_solutions.py", "a-seq", "what its author wrote", own_environment=False),
    Solution("DuckDB, ASOF joins", "duckdb_solutions.py", "asof", SQL),
    Solution("DuckDB, stacked sums", "duckdb_solutions.py", "stacked", SQL),
    Solution("DuckDB, self-join", "duckdb_solutions.py", "self-join", SQL),
    Solution("chDB, stacked sums", "chdb_solutions.py", "stacked", SQL),
    Solution("chDB, self-join", "chdb_solutions.py", "self-join", SQL),
    Solution(
        "chDB, sequenceCount", "chdb_solutions.py", "sequenceCount", "all matches: those it counts do not overlap"
    ),
    make_spark_solution("Spark SQL, stacked sums", "stacked", SQL, in_quick_runs=False),
    make_spark_solution("Spark SQL, fold", "fold", SQL, in_quick_runs=False),
    make_spark_solution("Spark SQL, self-join", "self-join", SQL),
    make_spark_solution("Spark, collect and loop", "collect-and-loop", "what its author wrote", in_quick_runs=False),
    make_flink_solution("Flink SQL, stacked sums", "stacked", SQL, in_quick_runs=False),
    make_flink_solution("Flink CEP (Java)", "cep", "aggregates without building matches; sharing"),
    make_flink_solution(
        "Flink SQL MATCH_RECOGNIZE", "match-recognize", "all matches: one for each first row", in_quick_runs=False
    ),
)


def run_solution(
    solution: Solution, folders: Sequence[Path], limit: float, repeats: int = 1
) -> tuple[list[dict[str, Any]], str, int]:
    """Return the answers to each folder, why it went no further, and the peak memory of the process tree.

    To start and to answer the first folders it has a time that is long enough for all that we know of; for the last,
    which it answers as often as asked for, twice the limit.
    """
    scratch = Path(tempfile.mkdtemp(dir=folders[0].parent))
    answer = scratch / "answer"
    answers = [answer.with_suffix(f".{place}") for place in range(len(folders))]
    command = [
        str(solution.python),
        str(SCRIPTS / solution.script),
        solution.name,
        str(answer),
        str(repeats),
        *map(str, folders),
    ]
    # A group of its own, so that whatever the solution starts ends with it.
    with (scratch / "said.txt").open("w") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=said, env=make_environment(solution), start_new_session=True
        )
    watch = MemoryMonitor(process.pid)
    why = ""
    try:
        poll = process.poll
        deadline = time.monotonic() + START_LIMIT
        while poll() is None and not all(file.exists() for file in answers[:-1]) and time.monotonic() < deadline:
            time.sleep(0.02)
        # A process that has answered need not end in good order.
        deadline = time.monotonic() + 2 * limit
        while poll() is None and not answers[-1].exists() and time.monotonic() < deadline:
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
            else f"fails: {find_error(scratch)}"
        )
    return found, why, peak


def find_error(scratch: Path) -> str:
    """Return the last error that a solution printed."""
    lines = (scratch / "said.txt").read_text().splitlines()
    errors = [line.strip() for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines or ["no word"])[-1][:160]


def make_environment(solution: Solution) -> dict[str, str]:
    """Return the environment of this process; a peer in its own environment does not see our packages."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if solution.own_environment:
        return kept
    # Workers of Spark look for the scripts that their functions came from.
    return {**kept, "PYTHONPATH": os.pathsep.join([str(SCRIPTS), *(path for path in sys.path if path)])}


def evaluate_oracle(scenario: Scenario, table: Any) -> list[list[int]]:
    """Return what the oracle counts, as rows of a solution."""
    found = evaluate(parse(scenario.text()), table.to_pylist())
    rows = (
        [int(row["query"][1:]), row["group"]["key"], row["window_start"] // 60_000_000, row["values"]["COUNT(*)"]]
        for row in found.rows
    )
    return sorted(row for row in rows if row[3])


def write_slices(scenario: Scenario, folder: Path, limit: float) -> dict[str, tuple[Path, list[list[int]]]]:
    """Write a few events without ties and with many, and return what the oracle counts in them."""
    made = {}
    for name, ties in (("plain", False), ("ties", True)):
        table = scenario.table(SLICE, keys=3, ties=ties)
        scenario.write(folder / name, table, limit, True)
        made[name] = (folder / name, evaluate_oracle(scenario, table))
    return made


def judge_answers(found: Sequence[dict[str, Any]], right: Sequence[list[list[int]]]) -> str:
    """Say whether a solution counts as the oracle does."""
    plain, ties = (one["answer"] == other for one, other in zip(found[:2], right, strict=True))
    return "yes" if plain and ties else "not with ties" if plain else "no"


def compare_solutions(setting: Setting, scenario: Scenario) -> list[Row]:
    """Run every solution of one scenario."""
    solutions = [solution for solution in SOLUTIONS if setting.size == "paper" or solution.in_quick_runs]
    events = setting.pick(scenario.quick, scenario.events)
    limit = setting.pick(4.0, 20.0)
    rows: list[Row] = []
    counted: tuple[int, int] | None = None
    with tempfile.TemporaryDirectory(prefix="motet-peers-") as scratch:
        small = write_slices(scenario, Path(scratch), limit)
        right = [answer for _, answer in small.values()]
        folders = [*(folder for folder, _ in small.values()), Path(scratch) / "all"]
        scenario.write(folders[-1], scenario.table(events), limit, False)
        for solution in solutions:
            row: Row = {"way": solution.title}
            rows.append(row)
            if not solution.python.exists():
                row["exact"] = "not installed: make peers"
                continue
            once = solution.starts_jvm and setting.size == "quick"
            found, why, peak = run_solution(solution, folders, limit, 1 if once else setting.repeats)
            row["exact"] = judge_answers(found, right) if len(found) > 1 else why
            if found:
                row["start s"] = found[0]["startup"]
            if len(found) == len(folders):
                seconds = Measurement.of(found[-1]["seconds"])
                counted = counted or (found[-1]["rows"], found[-1]["total"])
                if row["exact"] == "yes" and counted != (found[-1]["rows"], found[-1]["total"]):
                    row["exact"] = "not on all events"
                row |= {"k events/s": seconds.rate(events / 1e3), "peak MiB": peak / 2**20}
                if found[-1]["ran"]:
                    row["ran"] = describe_units(found[-1]["ran"])
            else:
                row["k events/s"] = why
    fastest = rows[0].get("k events/s")
    for row, solution in zip(rows, solutions, strict=True):
        rate = row.get("k events/s")
        if isinstance(fastest, Measurement) and isinstance(rate, Measurement):
            row["times slower"] = fastest.high / rate.high
        row["cannot say"] = solution.lacks
    return rows


def make_experiment(scenario: Scenario) -> Experiment:
    run: Callable[[Setting], list[Row]] = partial(compare_solutions, scenario=scenario)
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


EXPERIMENTS = tuple(map(make_experiment, SCENARIOS))
