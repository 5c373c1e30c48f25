"""A stream whose driver is killed at random moments loses nothing and gives nothing twice, with all kinds of query, by
plans that change, beside a query that comes and goes.

The long form, twenty kills over a million events, takes some ten minutes:
    MOTET_LONG=1 pytest tests/spark/test_exactly_once.py
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import motet
from tests.comparison import assert_same_results
from tests.event_files import add_event_file

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORKLOAD = """
QUERY sliding RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 20 s SLIDE 10 s
QUERY combined RETURN COUNT(*) PATTERN SEQ(A, NOT C) WHERE [k] WITHIN 20 s SLIDE 20 s
QUERY continuous RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE [k] WITHIN 3 s
QUERY absent RETURN COUNT(*) PATTERN SEQ(B, NOT A) GROUP BY k WITHIN 4 s
QUERY matches RETURN a, b PATTERN SEQ(A a, B b) WHERE [x] AND a.k < b.k AND b.k - a.k < 40 WITHIN 3 s
QUERY waiting RETURN * PATTERN SEQ(C c, NOT B b) WHERE [x] AND b.k - c.k < 90 AND c.k % 50 = 0 WITHIN 3 s
QUERY detected RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE [x] AND a.k < b.k AND b.k - COUNT(a) - a.k < 40
WITHIN 5 s SLIDE 5 s
QUERY counted RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY g WITHIN 5 EVENTS
QUERY rising RETURN COUNT(*) PATTERN A a+ WHERE a.k < NEXT(a).k GROUP BY g WITHIN 8 s SLIDE 4 s
QUERY next RETURN a, c PATTERN SEQ(A a, B b, C c) WHERE [g] AND a.x <= c.x WITHIN 6 s SKIP TILL NEXT
QUERY neighbours RETURN * PATTERN SEQ(A a, B b) WHERE [g] AND a.x < b.x WITHIN 5 s CONTIGUOUS
QUERY taken RETURN COUNT(*) PATTERN SEQ(A a, B b, C c) WHERE [g] AND a.x + b.x > c.x WITHIN 8 s SLIDE 4 s
AFTER MATCH SKIP PAST LAST EVENT
QUERY leg RETURN COUNT(*) PATTERN SEQ(A, B, C) GROUP BY g WITHIN 20 s SLIDE 10 s
QUERY legs RETURN COUNT(*) PATTERN SEQ(A, B, C, D) GROUP BY g WITHIN 40 s SLIDE 10 s
"""
# Another start may have this query as well; it is in none of the comparisons.
GUEST = "QUERY guest RETURN COUNT(*) PATTERN SEQ(B, C, A) GROUP BY g WITHIN 20 s SLIDE 10 s\n"
OPTIMIZERS = ("auto", "sharon", "none", "gloria", "prefix")
# How often it is killed, and the files and rows in each that it reads.
KILLS, FILES, ROWS = (20, 100, 10_000) if os.environ.get("MOTET_LONG") else (1, 8, 2_000)


def written(folder: Path, files: int, rows: int) -> pa.Table:
    """Files of shuffled seconds, and one that ends every window."""
    rng = np.random.default_rng(17)
    tables = []
    for number in range(files):
        tables.append(
            pa.table(
                {
                    "time": pa.array(rng.integers(number * 20, number * 20 + 25, rows)),
                    "type": pa.array(rng.choice(list("ABCD"), rows)),
                    "k": pa.array(rng.integers(0, 4 * rows, rows)),
                    "x": pa.array(rng.integers(0, 5, rows).astype(np.float64)),
                    "g": pa.array(rng.integers(0, rows // 8, rows)),
                }
            )
        )
    end = {"time": pa.array([10**6]), "type": ["Z"], "k": pa.array([0]), "x": [0.0], "g": pa.array([0])}
    tables.append(pa.table(end, schema=tables[0].schema))
    folder.mkdir()
    for number, table in enumerate(tables):
        add_event_file(folder, number, table)
    return pa.concat_tables(tables)


def start(folder: Path, number: int) -> subprocess.Popen[str]:
    """Start the stream, each time by the plans of another optimizer, and every other time with one query more."""
    (folder / "queries.motet").write_text((GUEST if number % 2 else "") + WORKLOAD)
    arguments = ["--option", f"path={folder / 'events'}", "--option", "maxFilesPerTrigger=1", "--once"]
    arguments += ["--sink", "parquet", "--output", str(folder / "out"), "--checkpoint", str(folder / "state")]
    arguments += ["--watermark", "6 seconds", "--master", "local[2]"]
    arguments += ["--optimizer", OPTIMIZERS[number % len(OPTIMIZERS)]]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    environment["PYTHONPATH"] = str(Path(motet.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-m", "motet", "stream", str(folder / "queries.motet"), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True,
    )  # fmt: skip


def commits(folder: Path) -> int:
    return len(list((folder / "state" / "commits").glob("[0-9]*")))


def test_kills_of_the_driver_lose_and_double_nothing(tmp_path: Path) -> None:
    events = written(tmp_path / "events", FILES, ROWS)
    moments = random.Random(5)
    for number in range(KILLS):
        before = commits(tmp_path)
        process = start(tmp_path, number)
        until = time.monotonic() + 1800
        while commits(tmp_path) <= before and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(moments.uniform(0.0, 2.0))
        assert process.poll() is None, "it ended before it could be killed: " + process.communicate()[0][-3000:]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    last = start(tmp_path, KILLS)
    said, _ = last.communicate(timeout=1800)
    assert last.returncode == 0, said[-3000:]
    expected = motet.run(events, WORKLOAD)
    found = pq.read_table(written_files(tmp_path / "out"), schema=expected.schema)
    found = found.filter(pc.not_equal(found["query"], "guest"))
    assert len(found) == len(expected)
    assert_same_results(found, expected)


def written_files(out: Path) -> list[str]:
    """The files that the sink's own log names: Spark leaves those of broken attempts beside them."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    files: list[str] = session.read.parquet(str(out)).inputFiles()
    return [file.removeprefix("file://") for file in files]
