"""Buckets are named so that Spark's hash spreads them evenly."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from motet.spark.buckets import Buckets, choose_buckets, find_balanced_keys, hash_text

pytestmark = pytest.mark.spark

TEXTS = ["", "a", "ABC", "four", "fives", "key/key/3.17", "Größe/ключ", "a text of more than sixteen bytes"]


def test_the_hash_of_a_text_is_that_of_spark(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text,) for text in TEXTS], "text string")
    hashes = {row["text"]: row["hash"] for row in frame.select("text", sf.hash("text").alias("hash")).collect()}
    assert hashes == {text: hash_text(text) for text in TEXTS}


@pytest.mark.parametrize("count", [1, 2, 7, 300])
def test_every_partition_has_a_number_that_spark_sends_to_it(spark: SparkSession, count: int) -> None:
    frame = spark.createDataFrame([(int(number),) for number in find_balanced_keys(count)], "number int")
    places = frame.select(sf.pmod(sf.hash("number"), sf.lit(count)).alias("place")).collect()
    assert [row["place"] for row in places] == list(range(count))


@pytest.mark.parametrize("number", [1, 2, 3, 16])
def test_every_bucket_of_a_branch_has_a_partition_of_its_own(number: int) -> None:
    for branch in ("/", "k/k", "g+k/g", "k/k/matches"):
        names = Buckets(number).names(branch)
        assert sorted(hash_text(name) % number for name in names) == list(range(number))
        assert all(name.rpartition("/")[0] == branch for name in names)


def test_branches_that_need_one_bucket_do_not_all_take_the_same() -> None:
    places = {hash_text(Buckets(4).names(branch)[0]) % 4 for branch in ("k/", "g/", "u+k/", "v/", "w/")}
    assert len(places) > 1


def test_names_of_older_checkpoints_stay() -> None:
    assert Buckets(3, even=False).names("k/k") == ("k/k/0", "k/k/1", "k/k/2")


def test_there_are_as_many_as_state_partitions_unless_told(spark: SparkSession) -> None:
    assert (choose_buckets(spark, None), choose_buckets(spark, 5)) == (Buckets(3), Buckets(5))
