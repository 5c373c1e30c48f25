"""A checkpoint of which a file was cut, emptied, removed or changed: refused with the place, or the results are right.

`MOTET_LONG=1` damages every file in every way, not a few of each folder.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import motet as library
from motet.io.writers import json_lines
from motet.spark.checkpoint import FOLDER
from tests.command_line import Motet
from tests.spark.test_stream import Folder, last_event, random_events

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONG = bool(os.environ.get("MOTET_LONG"))
QUERIES = """
QUERY counts RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 60 s SLIDE 20 s
QUERY matches RETURN * PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10 s
"""


def flip(file: Path) -> None:
    """Change one byte in the middle."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x55
    file.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "emptied": lambda file: file.write_bytes(b""),
    "removed": Path.unlink,
    "changed": flip,
}


class Trial:
    """A stream that has been stopped, and is started again from copies of its checkpoint."""

    def __init__(self, path: Path, session: SparkSession, motet: Motet) -> None:
        self.state, self.kept, self.motet = path / "state", path / "kept", motet
        self.before: list[str] = []
        self.folder = Folder(path / "events", session)
        self.file = path / "queries.motet"
        self.file.write_text(QUERIES)
        for seed in range(2):
            self.folder.add(random_events(60, seed, first=40 * seed, last=40 * (seed + 1)))
            found, said = self.start()
            assert not said
            self.before += found
        shutil.copytree(self.state, self.kept)
        self.folder.add(pa.concat_tables([random_events(60, 2, first=80, last=120), last_event()]))
        workload = library.read(QUERIES)
        results = library.run(pa.concat_tables(self.folder.batches), workload)
        self.expected = sort_lines(json_lines(results, workload))

    def start(self) -> tuple[list[str], str]:
        """Read all that is there; return the results as lines, and what is said where it is refused."""
        arguments = ["stream", self.file, "--option", f"path={self.folder.path}", "--option", "maxFilesPerTrigger=1"]
        arguments += ["--checkpoint", self.state, "--watermark", "0 seconds", "--status", "60", "--once"]
        ended = self.motet(*arguments, "--buckets", "1")
        return ended.stdout.splitlines(), ended.stderr if ended.status else ""

    def list_files(self, pattern: str = "**/*") -> list[Path]:
        """List the files of the checkpoint; checksums are not among them, they are damaged with what they are of."""
        files = [file for file in sorted(self.kept.glob(pattern)) if file.is_file() and file.suffix != ".crc"]
        return [file.relative_to(self.kept) for file in files if file.stat().st_size]

    def damage(self, file: Path, how: str, with_checksum: bool) -> str:
        """Damage one file, or its copy without a checksum, and start: return what came of it.

        Without its last commit a checkpoint is that of a stream which was killed after it wrote the results of its last
        micro-batch to the terminal: they come again.
        """
        shutil.rmtree(self.state)
        shutil.copytree(self.kept, self.state)
        if not with_checksum:
            (self.state / file).with_name(f".{file.name}.crc").unlink(missing_ok=True)
        DAMAGES[how](self.state / file)
        found, said = self.start()
        if said:
            place = self.state / Path(*file.parts[:3])  # of the state, the partition at least
            assert str(place) in said or (file.parts[0] == FOLDER and "its folder 'motet' is missing" in said), said
            assert "new --checkpoint" in said, said
            assert "internal error" not in said, said
            return "refused"
        results = sort_lines([*self.before, *found])
        if (file, how) == (self.list_files("commits/*")[-1], "removed"):
            results, repeated = self.expected, Counter(results) - Counter(self.expected)
            assert sort_lines([*self.before, *found]) == sorted([*self.expected, *repeated.elements()])
            assert repeated.keys() <= set(sort_lines(self.before))
        assert results == self.expected, f"{file} was {how}: wrong results"
        return "right"


def sort_lines(lines: Any) -> list[str]:
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines if line.strip())


def choose_trials(files: list[Path]) -> list[tuple[Path, str, bool]]:
    """Return all files, damages and whether there is a checksum; or one of each folder, in a way that differs.

    Without a checksum nothing tells that a letter of a text was changed.
    """
    every = [(file, how, checked) for file in files for how in DAMAGES for checked in (True, False)]
    if LONG:
        return [each for each in every if each[0].parts[0] == "state" or each[1:] != ("changed", False)]
    rng = random.Random(5)
    folders = sorted({file.parts[0] for file in files})
    return [
        (rng.choice([file for file in files if file.parts[0] == folder]), how, how != "cut")
        for folder in folders
        for how in rng.sample(list(DAMAGES), 1 if folder != "state" else 2)
    ]


def test_a_damaged_checkpoint_is_refused_or_gives_the_right_results(
    tmp_path: Path, spark: SparkSession, motet: Motet
) -> None:
    trial = Trial(tmp_path, spark, motet)
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for file, how, checked in choose_trials(trial.list_files()):
        try:
            outcome = trial.damage(file, how, checked)
        except AssertionError as error:
            place = f"{file} {how}{'' if checked else ' without its checksum'}"
            wrong.append(f"{place}: {str(error)[:1500]}")
            outcome = "wrong"
        outcomes[outcome] += 1
    assert not wrong, "\n\n".join(wrong)
    assert outcomes["refused"] >= 2, outcomes
