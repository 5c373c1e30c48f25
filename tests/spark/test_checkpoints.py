"""Checkpoints that earlier versions wrote are read by this one: `checkpoints/` holds one of each format of the state.

After a change of the format, run `python -m tests.spark.test_checkpoints` for a new file, and keep the old ones.
"""

from __future__ import annotations

import re
import sys
import tarfile
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import motet
from motet.engine.live.saved import VERSION
from tests.comparison import assert_same_results
from tests.event_files import add_event_file
from tests.spark.test_stream import END, last_event, random_events

pytestmark = pytest.mark.spark

CHECKPOINTS = Path(__file__).with_name("checkpoints")
# Totals by panes and by starts, two stacks, a count window, neighbours, matches, and partitions that are combined.
WORKLOAD = """
QUERY sliding RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 60 s SLIDE 20 s
QUERY combined RETURN COUNT(*) PATTERN SEQ(A, NOT C) WHERE [k] WITHIN 40 s SLIDE 20 s
QUERY continuous RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE [k] WITHIN 30 s
QUERY absent RETURN COUNT(*) PATTERN SEQ(B, NOT A) GROUP BY k WITHIN 20 s
QUERY counted RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 6 EVENTS
QUERY rising RETURN COUNT(*) PATTERN A a+ WHERE a.x < NEXT(a).x GROUP BY k WITHIN 40 s SLIDE 20 s
QUERY matches RETURN a, b PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 20 s
QUERY detected RETURN COUNT(*) PATTERN SEQ(A a, D, B b) WHERE [k] AND a.x < b.x WITHIN 40 s SLIDE 20 s
"""


def write_events(folder: Path, tables: list[pa.Table]) -> None:
    folder.mkdir()
    for number, table in enumerate(tables):
        add_event_file(folder, number, table)


def first_half() -> list[pa.Table]:
    """Four micro-batches: a whole state, and changes."""
    return [random_events(60, seed, first=25 * seed, last=25 * (seed + 1)) for seed in range(4)]


def second_half() -> list[pa.Table]:
    return [random_events(100, 9, first=100, last=200), last_event()]


def run_stream(session: SparkSession, events: Path, checkpoint: Path, queries: str = WORKLOAD) -> pa.Table:
    """Read all files, one in a micro-batch, and return the results."""
    schema = session.read.parquet(str(events)).schema
    rows = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(events))
    stream = motet.stream(rows, queries, watermark="5 seconds", checkpoint=str(checkpoint))
    found: list[pa.Table] = []
    writer = stream.results.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(lambda batch, number: found.append(batch.toArrow())).start().awaitTermination()
    return pa.concat_tables(found)


@pytest.mark.parametrize("file", sorted(CHECKPOINTS.glob("*.tar.gz")), ids=lambda file: file.name)
def test_a_checkpoint_of_every_format_goes_on(file: Path, tmp_path: Path, spark: SparkSession) -> None:
    with tarfile.open(file) as packed:
        packed.extractall(tmp_path, filter="data")
    # Spark notes where a checkpoint is.
    metadata = tmp_path / "state/state/0/_metadata/v2/0"
    metadata.write_text(re.sub(r'file:[^"]*/state/state/', f"file:{tmp_path}/state/state/", metadata.read_text()))
    write_events(tmp_path / "second", second_half())
    before = pq.read_table(tmp_path / "before.parquet")
    after = run_stream(spark, tmp_path / "second", tmp_path / "state")
    expected = motet.run(pa.concat_tables([*first_half(), *second_half()]), WORKLOAD)
    assert END > 200
    assert_same_results(pa.concat_tables([before, after.cast(before.schema)]).cast(expected.schema), expected)


def test_there_is_a_checkpoint_of_this_format() -> None:
    assert (CHECKPOINTS / f"format-{VERSION}.tar.gz").exists()


def write_checkpoint(folder: Path) -> Path:
    """Run the first half and pack its checkpoint and results."""
    from motet.spark.session import stream_session

    session = stream_session("local[1]")
    write_events(folder / "first", first_half())
    results = run_stream(session, folder / "first", folder / "state")
    session.stop()
    pq.write_table(results, folder / "before.parquet")
    target = folder / f"format-{VERSION}.tar.gz"
    with tarfile.open(target, "w:gz") as packed:
        for name in ("state", "before.parquet"):
            packed.add(folder / name, name, filter=_keep)
    return target


def _keep(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out checksums and what names this machine."""
    if entry.name.endswith(".crc"):
        return None
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        written = write_checkpoint(Path(temporary))
        CHECKPOINTS.mkdir(exist_ok=True)
        (CHECKPOINTS / written.name).write_bytes(written.read_bytes())
        sys.stdout.write(f"{written.name}: {written.stat().st_size} bytes\n")
