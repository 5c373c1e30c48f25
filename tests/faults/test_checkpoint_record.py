"""The record of a checkpoint is written and read by Spark: what is missing or damaged is refused, and named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from motet.errors import RunError
from motet.spark.buckets import Buckets
from motet.spark.checkpoint import FOLDER, register_start
from motet.spark.stream import _bucket_of_row
from tests.faults.test_start_records import COUNTS, MATCHES, compiled

pytestmark = pytest.mark.spark


def commit(checkpoint: Path, watermark: int) -> None:
    """Write what Spark writes at the end of a micro-batch."""
    for folder, line in (("offsets", {}), ("commits", {"nextBatchWatermarkMs": watermark})):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / folder / "0").write_text("v1\n" + json.dumps(line))


def list_records(checkpoint: Path) -> list[Path]:
    return sorted((checkpoint / FOLDER).glob("part-*"), key=lambda file: file.stat().st_mtime_ns)


def test_a_new_query_begins_after_the_longest_delay_that_ever_was(spark: SparkSession, tmp_path: Path) -> None:
    """Rows were read up to 40 seconds after the watermark, whatever the delay is now."""
    first = compiled(COUNTS, watermark="40 seconds")
    assert register_start(spark, str(tmp_path), first)[1] == {}
    assert register_start(spark, str(tmp_path), first)[1] == {}
    assert len(list_records(tmp_path)) == 1  # nothing has changed
    commit(tmp_path, 60_000)
    assert register_start(spark, str(tmp_path), compiled(COUNTS, watermark="1 second"))[1] == {}
    _, started = register_start(spark, str(tmp_path), compiled(COUNTS + MATCHES, watermark="1 second"))
    assert list(started.values()) == [100_001_000]
    assert len(list_records(tmp_path)) == 3
    with pytest.raises(RunError, match="the checkpoint was made with 3 buckets, which cannot change to 7"):
        register_start(spark, str(tmp_path), compiled(COUNTS, buckets=7))


def test_state_without_its_record_is_refused_and_damage_is_named(spark: SparkSession, tmp_path: Path) -> None:
    program = compiled(COUNTS)
    for watermark in ("1 second", "2 seconds", "3 seconds"):
        register_start(spark, str(tmp_path), compiled(COUNTS, watermark=watermark))
    commit(tmp_path, 60_000)
    whole = tmp_path.with_name("whole")
    shutil.copytree(tmp_path, whole)

    def refuse(message: str) -> None:
        with pytest.raises(RunError, match=message):
            register_start(spark, str(tmp_path), program)
        shutil.rmtree(tmp_path)
        shutil.copytree(whole, tmp_path)

    shutil.rmtree(tmp_path / FOLDER)
    refuse(r"has state but no record of what it was made with.*start with a new --checkpoint")
    cut(list_records(tmp_path)[-1], checksum=False)
    refuse(r"the checkpoint is damaged.*part-.*it is no JSON.*bring it back, or start with a new --checkpoint")
    cut(list_records(tmp_path)[-1], checksum=True)
    refuse(r"the checkpoint is damaged.*motet")
    list_records(tmp_path)[0].unlink()
    refuse(r"records of the checkpoint are missing")
    file = list_records(tmp_path)[-1]
    file.with_name(f".{file.name}.crc").unlink()
    file.write_text(json.dumps({**json.loads(file.read_text()), "invented": 1}))
    refuse("was written by a newer motet")
    cut(tmp_path / "commits" / "0", checksum=False)
    refuse(r"the checkpoint is damaged.*commits/0")
    register_start(spark, str(tmp_path), program)


def cut(file: Path, *, checksum: bool) -> None:
    """Keep half of a file, with the checksum of the whole or without any."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    if not checksum:
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def test_whole_numbers_of_any_width_go_to_one_bucket(spark: SparkSession) -> None:
    values = spark.range(50).select(
        sf.col("id").cast("tinyint").alias("byte"),
        sf.col("id").cast("int").alias("narrow"),
        sf.col("id").alias("wide"),
    )
    names = ("byte", "narrow", "wide")

    def count_equal(buckets: Buckets) -> int:
        found = [_bucket_of_row(values, [name], buckets) for name in names]
        return values.filter((found[0] == found[1]) & (found[1] == found[2])).count()

    assert count_equal(Buckets(16)) == 50
    assert count_equal(Buckets(16, wide=False)) < 50
