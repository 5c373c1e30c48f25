"""Half an hour at a steady rate with an edit of the queries every half minute: no window is wrong, and memory is level.

    MOTET_LONG=1 pytest -s tests/faults/test_steady_edits.py

`MOTET_EDIT_MINUTES` makes it shorter or longer, `MOTET_EDIT_SECONDS=3` makes hundreds of edits of it; what was measured
is printed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import motet
from benchmarks.measure import read_tree_memory

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("MOTET_LONG"), reason="half an hour: MOTET_LONG=1"),
]

MINUTES = float(os.environ.get("MOTET_EDIT_MINUTES", "30"))
EDIT_SECONDS = float(os.environ.get("MOTET_EDIT_SECONDS", "30"))
SAMPLE_SECONDS = min(5.0, EDIT_SECONDS)
RATE, WINDOW = 1_000, 10  # rows and seconds
GROWTH = 1.05  # of the median memory, from the third quarter of the time to the last one
STAYS = f"QUERY stays RETURN COUNT(*) PATTERN A WITHIN {WINDOW} s SLIDE {WINDOW} s\n"
EDITED = (
    "QUERY sliding RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 20 s SLIDE 10 s\n",
    "QUERY matches RETURN * PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 1 s\n",
    "QUERY continuous RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 10 s\n",
    "QUERY counted RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 5 EVENTS\n",
)


def edit(file: Path, number: int) -> None:
    """Write queries that no earlier edit had, as an editor does: one kind is left out, and all have other names."""
    kinds = [text.replace("QUERY ", f"QUERY e{number}_") for at, text in enumerate(EDITED) if at != number % 4]
    beside = file.with_suffix(".tmp")
    beside.write_text(STAYS + "".join(kinds))
    beside.replace(file)


@contextmanager
def start_stream(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    arguments = ["stream", str(folder / "queries.motet"), "--watch", "--status", "2 s", "--source", "rate"]
    arguments += ["--option", f"rowsPerSecond={RATE}", "--trigger", "1 second", "--watermark", "2 seconds"]
    for select in ("timestamp AS time", "IF(value % 2 = 0, 'A', 'B') AS type", "value % 501 AS k", "value % 7 AS x"):
        arguments += ["--select", select]
    arguments += ["--checkpoint", str(folder / "state"), "--sink", "parquet", "--output", str(folder / "out")]
    arguments += ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
    # The Java heap has its full size from the start: what grows then is no heap that was not collected yet.
    arguments += ["--conf", "spark.driver.memory=1g"]
    arguments += ["--conf", "spark.driver.extraJavaOptions=-Xms1g -XX:+AlwaysPreTouch"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    environment["PYTHONPATH"] = str(Path(motet.__file__).parents[1])
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "motet", *arguments], stdout=said, stderr=said, env=environment
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(120)
            finally:
                process.kill()


def list_rows(folder: Path) -> pa.Table:
    """Return the results of the query that stays, of the files that Spark's log names: an edit that ends a micro-batch
    leaves others.
    """
    logs = [file for file in (folder / "_spark_metadata").iterdir() if not file.name.startswith(".")]
    names = {json.loads(line)["path"].rpartition("/")[2] for log in logs for line in log.read_text().splitlines()[1:]}
    tables = [pq.read_table(folder / name, columns=["query", "window_start", "COUNT(*)"]) for name in sorted(names)]
    rows = pa.concat_tables(tables)
    return rows.filter(pa.array([name == "stays" for name in rows["query"].to_pylist()])).sort_by("window_start")


def test_memory_is_level_over_half_an_hour_of_edits(tmp_path: Path) -> None:
    queries, said = tmp_path / "queries.motet", tmp_path / "said"
    samples, edits, taken_up = [], 0, 0
    edit(queries, edits)
    with start_stream(tmp_path) as process:
        until = time.monotonic() + 300
        while not list((tmp_path / "out").glob("*.parquet")) and time.monotonic() < until:
            assert process.poll() is None, said.read_text()[-3000:]
            time.sleep(0.5)
        began = time.monotonic()
        edited = began
        while time.monotonic() - began < MINUTES * 60:
            time.sleep(SAMPLE_SECONDS)
            assert process.poll() is None, said.read_text()[-3000:]
            samples.append(read_tree_memory(process.pid) / 1e6)
            taken_up = said.read_text().count("queries changed")
            if taken_up >= edits and time.monotonic() - edited > EDIT_SECONDS:  # on a busy machine a start takes longer
                edited = time.monotonic()
                edits += 1
                edit(queries, edits)
    assert process.returncode == 0
    quarters = [median(samples[at * len(samples) // 4 : (at + 1) * len(samples) // 4]) for at in range(4)]
    found = list_rows(tmp_path / "out")
    starts = [int(start.timestamp()) for start in found["window_start"].to_pylist()]
    memory = ", ".join(f"{quarter:,.0f} MB" for quarter in quarters)
    sys.stdout.write(f"\n{MINUTES:g} minutes, {taken_up} of {edits} edits taken up, {len(found)} windows that stay\n")
    sys.stdout.write(f"median memory in each quarter: {memory}\n")
    assert taken_up >= max(edits - 1, 2), said.read_text()[-3000:]
    assert starts == list(range(starts[0], starts[0] + WINDOW * len(starts), WINDOW)), "a window is missing or twice"
    assert set(found["COUNT(*)"].to_pylist()[1:]) == {RATE * WINDOW // 2}
    assert quarters[3] <= GROWTH * quarters[2], quarters
