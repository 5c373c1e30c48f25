"""Engines that people use for detection on the same questions: Esper, Siddhi and Flink's CEP beside motet.

`make peers` fetches what they need from Maven Central. Peers get events one by one, as objects that are there before
the clock starts, in a JVM that has answered once before; their queries are compiled and deployed before, too. motet
gets an Arrow table, whose types are words of a dictionary as peers' are names in an array. Its queries are compiled
before, and how long that takes is told; planning by the data and rows of results are part of its time. All give the
numbers of the events of each match, and that they find the same is told by a checksum.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

from benchmarks.engine import describe_run, list_executed
from benchmarks.experiments.peers import CHECKOUT
from benchmarks.measure import Measurement, MemoryMonitor
from benchmarks.peers.detection_questions import DetectionQuestion, compute_checksum, list_questions, make_events
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting
from motet.compile import Program, compile_workload
from motet.engine.local import LocalRun
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema

SOURCES = CHECKOUT / "benchmarks" / "peers" / "detection"
JARS = CHECKOUT / ".venv-peers" / "jars"
JAVA_LIMIT = 300.0
Answer = tuple[int, int]  # matches, and their checksum


@dataclass(frozen=True)
class DetectionPeer:
    """An engine: its program, the folder of its jars, which kinds of question it can be asked, and of how many events.

    One that takes minutes for a million events is asked about the first of them. `more`: it finds others beside them.
    """

    title: str
    program: str
    folder: str
    kinds: tuple[str, ...]
    share: float = 1.0
    more: str = ""

    @property
    def jars(self) -> Path:
        return JARS / self.folder

    def is_installed(self) -> bool:
        return self.jars.is_dir() and shutil.which("javac") is not None


PEERS = (
    DetectionPeer("Esper 8.9", "EsperDetection", "esper", ("seq", "not", "kleene")),
    DetectionPeer("Siddhi 5.1", "SiddhiDetection", "siddhi", ("seq",), more="some beyond the window"),
    DetectionPeer("Flink CEP 1.20", "FlinkDetection", "flink", ("seq", "not", "kleene-any"), share=0.02),
)


def run_motet(question: DetectionQuestion, events: pa.Table) -> list[pa.Table]:
    """Parse, plan and run a question in process, and return what was found."""
    return run_program(compile_question(question, events), events)


def run_program(program: Program, events: pa.Table) -> list[pa.Table]:
    """Plan and run a compiled question in process, and return what was found."""
    return list(LocalRun(program).run(events))


def compile_question(question: DetectionQuestion, events: pa.Table) -> Program:
    """Compile a question for motet."""
    return compile_workload(parse(question.text()), EventSchema(events.schema), Options())


def add_up(found: Sequence[pa.Table]) -> Answer:
    """Return how many matches there are, and their checksum."""
    matches = checksum = 0
    for table in (table for table in found if len(table)):
        names = table.column("query").combine_chunks().dictionary_encode()
        names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
        number = np.array([int(name[1:]) if name else 0 for name in names.dictionary.to_pylist()], np.int64)
        bound = [table.column(name).to_numpy() for name in "abc"]
        matches += len(table)
        checksum += compute_checksum(number[names.indices.to_numpy()], bound)
    return matches, (checksum + 2**63) % 2**64 - 2**63


def compile_peer(peer: DetectionPeer, folder: Path) -> Path:
    """Compile the program of a peer and return where its classes are."""
    classes = folder / peer.program
    sources = [str(SOURCES / "Peer.java"), str(SOURCES / f"{peer.program}.java")]
    command = ["javac", "-nowarn", "-cp", f"{peer.jars}/*", "-d", str(classes), *sources]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return classes


def ask_peer(
    peer: DetectionPeer, classes: Path, folder: Path, repeats: int
) -> tuple[Answer | None, list[float], int, str]:
    """Return what a peer finds, its CPU seconds each time, its peak memory, and why it has no answer."""
    # Flink serializes by reflection.
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util")]
    command = ["java", "-Xmx6g", "-XX:+UseSerialGC", *opened, "-cp", f"{peer.jars}/*:{classes}", peer.program]
    arguments = [str(folder / "question.txt"), str(folder / "events.csv"), str(repeats)]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        watch = MemoryMonitor(process.pid)
        try:
            said, errors = process.communicate(timeout=JAVA_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            return None, [], watch.stop(), f"DNF: more than {JAVA_LIMIT:.0f} s"
        peak = watch.stop()
    lines = [line.split()[1:] for line in said.splitlines() if line.startswith("found ")]
    if len(lines) <= repeats:
        wrong = [line for line in errors.splitlines() if "Exception" in line or "Error" in line]
        return None, [], peak, f"fails: {(wrong or ['no word'])[0][:120]}"
    return (int(lines[-1][0]), int(lines[-1][1])), [float(line[2]) for line in lines[1:]], peak, ""


def write_question(question: DetectionQuestion, events: pa.Table, folder: Path) -> None:
    """Write a question and its events as peers read them."""
    (folder / "question.txt").write_text("\n".join(query.line() for query in question.queries) + "\n")
    place = events.column_names.index("time")
    milliseconds = pa.array(events.column("time").cast(pa.int64()).to_numpy() // 1_000)
    types = events.column_names.index("type")
    written = events.set_column(place, "time", milliseconds)
    written = written.set_column(types, "type", events.column("type").cast(pa.string()))
    csv.write_csv(written, folder / "events.csv", csv.WriteOptions(include_header=False, quoting_style="none"))


def compare_engines(setting: Setting) -> list[Row]:
    """Ask every engine every question that it can be asked."""
    pa.set_cpu_count(1)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="motet-peers-") as scratch:
        folder = Path(scratch)
        classes = {peer: compile_peer(peer, folder) for peer in PEERS if peer.is_installed()}
        for question in list_questions():
            rows += compare_on_question(question, setting, folder, classes)
    return rows


def compare_on_question(
    question: DetectionQuestion, setting: Setting, folder: Path, classes: dict[DetectionPeer, Path]
) -> list[Row]:
    """Ask motet and every peer one question."""
    events = make_events(setting.pick(question.quick, question.events))
    answer = add_up(run_motet(question, events))
    seconds, to_compile = [], []
    for _ in range(max(setting.repeats, 3)):
        began = time.process_time()
        program = compile_question(question, events)
        compiled = time.process_time()
        run_program(program, events)
        to_compile.append(compiled - began)
        seconds.append(time.process_time() - compiled)
    ours = Measurement.of(seconds).rate(len(events) / 1e3)
    rows: list[Row] = [
        {
            "question": question.name,
            "engine": "motet",
            "events": len(events),
            "matches": answer[0],
            "k events/CPU s": ours,
            "to compile, ms": Measurement.of(to_compile).scale(1e3),
            "ran": describe_run(list_executed(compile_question(question, events), events)),
        }
    ]
    for peer in PEERS:
        if any(query.kind not in peer.kinds for query in question.queries):
            continue
        row: Row = {"question": question.name, "engine": peer.title}
        rows.append(row)
        if peer not in classes:
            row["same"] = "not installed: make peers"
            continue
        part = events.slice(0, max(int(len(events) * peer.share), 5_000))
        write_question(question, part, folder)
        found, times, peak, why = ask_peer(peer, classes[peer], folder, setting.pick(2, 3))
        row |= {"events": len(part), "peak MiB": peak / 2**20, "same": why}
        if found is not None:
            wanted = answer if len(part) == len(events) else add_up(run_motet(question, part))
            rate = Measurement.of(times).rate(len(part) / 1e3)
            row |= {
                "matches": found[0],
                "same": "yes" if found == wanted else f"no: {peer.more}" if peer.more else "no",
                "k events/CPU s": rate,
                "motet is faster": ours.high / rate.high,
            }
    return rows


EXPERIMENTS = (
    Experiment(
        "peers-detection",
        OURS,
        "",
        "matches found by Esper, Siddhi, Flink's CEP and motet, events per CPU second after warm-up",
        Seconds(240, 1500),
        compare_engines,
        heavy=True,
        notes=(
            "One core of CPU time; the best of each is compared. Queries are compiled before; planning by the data is "
            "part of motet's time. "
            "Flink is asked about the first 2 % of events.",
        ),
    ),
)
