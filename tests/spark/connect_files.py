"""What runs on Spark Connect over parquet files: `python -m tests.spark.connect_files FOLDER`.

Filters and columns that tasks can compute themselves are compared with what Spark makes of them, and so are results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import motet
from motet.spark.dataframes import get_event_schema
from motet.spark.sample import make_sampler
from motet.spark.session import local_session
from tests.comparison import assert_same_results
from tests.spark.test_parquet import COMPUTED, assert_read_as_by_spark, behind, events, stored

# Times in texts depend on the zone of the session; casts are not read in texts.
LEFT_TO_SPARK = {"times", "columns that are computed", "a constant", "parts of texts"}
MOMENT = datetime(1970, 1, 1, 0, 5, tzinfo=UTC)
BY_COLUMNS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "comparisons": lambda frame: frame.filter((frame.x > 3) & (frame.k != "k7-") | frame.r.isNull()),
    "a literal on the left": lambda frame: frame.filter(sf.lit(2.5) > sf.col("r")),
    "values by columns": lambda frame: frame.filter(frame.type.isin("A", "C") & ~frame.x.isin(1, 2)),
    "times by columns": lambda frame: frame.filter(frame.time >= sf.lit(MOMENT)),
    "choices": lambda frame: frame.withColumn("type", sf.when(frame.x > 9, "A").when(frame.r < 2, frame.type)),
    "a choice": lambda frame: frame.withColumn("r", sf.when(frame.x == 1, frame.r * 2).otherwise(frame.r - 1.5)),
    "first that is not null": lambda frame: frame.withColumn("k", sf.coalesce(frame.k, frame.type, sf.lit("none"))),
    "a column of before": lambda frame: frame.withColumn("y", frame.x).filter(frame.x > 5).drop("y"),
    "all columns": lambda frame: frame.select("*").filter("x < 9"),
    "always": lambda frame: frame.filter("1 = 1"),
    "a choice in a text": lambda frame: frame.selectExpr(
        "time", "CASE WHEN x BETWEEN 4 AND 9 THEN 'A' ELSE type END AS type", "K AS k", "r * -2.5 AS r", "x"
    ),
    "remainders": lambda frame: frame.filter((frame.x % 3 == 1) | (frame.x % -4 == sf.lit(2))),
    "parts of texts by columns": lambda frame: frame.filter(
        frame.k.startswith("k1") | frame.k.like("%2-") & ~frame.type.contains("the") | frame.k.endswith("3-")
    ),
    "NaN by columns": lambda frame: frame.filter(~sf.isnan("r") | (-frame.r < -1.0)),
    "a pattern with two ends": lambda frame: frame.filter(frame.k.like("%1%")),
    "a small number": lambda frame: frame.filter("r <= 1e0 OR r > 2D OR r = .5"),
}
NOT_READ: dict[str, Callable[[DataFrame], DataFrame]] = {
    # `frame.x` is what it was before, although another column has the name now.
    "an older column": lambda frame: frame.withColumn("x", sf.length("k").cast("long")).filter(frame.x > 5),
    "a renamed older column": lambda frame: frame.selectExpr("time", "type", "k", "r * 2D AS r", "x").filter(
        frame.r > 3
    ),
    "names in another case": lambda frame: frame.withColumn("X", sf.lit(1)),
    "a text in double quotes": lambda frame: frame.filter('type = "k"'),
    "two quotes": lambda frame: frame.filter("k <> 'k''1'"),
    "an escape": lambda frame: frame.filter(r"k <> 'k\1'"),
    "a text beside a number": lambda frame: frame.filter("k > 3 OR true"),
    "a decimal beside a whole number": lambda frame: frame.filter("x > 2.5"),
    "a remainder of its own": lambda frame: frame.filter("pmod(x, 3) = 1"),
    "a remainder by a column": lambda frame: frame.filter(sf.lit(7) % frame.x == 1),
    "a pattern with a letter left open": lambda frame: frame.filter(frame.k.like("k_-")),
    "the same with an escape": lambda frame: frame.filter(frame.k.like(r"k\%%")),
    "a sum that may overflow": lambda frame: frame.withColumn("x", sf.col("x") + 1),
    "a function": lambda frame: frame.filter("rand() >= 0"),
    "NaN": lambda frame: frame.filter(frame.r == float("nan")),
    "nothing": lambda frame: frame.filter(sf.lit(False)),
    "a limit": lambda frame: frame.limit(100),
}
QUERIES = "QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 8 s SLIDE 4 s"


def main(folder: str) -> None:
    """Compare all of them."""
    spark = local_session("local[2]", config={"spark.api.mode": "connect"})
    assert "connect" in type(spark).__module__
    rows = events(2_000)
    frame = spark.read.parquet(stored(Path(folder) / "events", rows))
    for name, change in {**COMPUTED, **BY_COLUMNS}.items():
        changed = change(frame)
        assert bool(behind(changed)) == (name not in LEFT_TO_SPARK), name
        if behind(changed):
            assert_read_as_by_spark(changed)
    for name, change in NOT_READ.items():
        assert not behind(change(frame)), name
    for condition in ("x > 3", "pmod(x, 4) > 1"):
        changed = frame.filter(condition)
        expected = motet.run(changed.toArrow().cast(rows.schema), QUERIES)
        assert_same_results(motet.run(changed, QUERIES).toArrow().cast(expected.schema), expected)
    kinds = spark.range(2).selectExpr("char(65 + id) AS type", "id AS kind")
    small = sf.broadcast(kinds)
    for changed, is_known in (
        (frame.filter("pmod(x, 4) > 1"), True),
        (frame.join(small, "type").withColumn("y", sf.hash("k")), True),
        (frame.join(small, frame.type == small.type).select(frame.time, frame.type, frame.k), True),
        (frame.join(kinds, "type"), False),
        (frame.join(small, "type").withColumn("k", sf.col("kind")), False),
        (frame.withColumn("k", sf.hash("k")), False),
        (frame.select("time", "type", sf.hash("k").alias("k")), False),
    ):
        schema = get_event_schema(changed, motet.Options())
        origin = make_sampler(changed, ["time", "type", "k"], schema).cheap_origin
        assert (origin is not None) == is_known, changed
    changed = frame.join(small, "type").drop("kind")
    expected = motet.run(changed.toArrow().select(rows.column_names).cast(rows.schema), QUERIES)
    assert_same_results(motet.run(changed, QUERIES).toArrow().cast(expected.schema), expected)
    for rows_of_each, taken, cut in (
        (25_000, [20_001], [0]),
        (10_000, [10_000, 10_000, 1], [2]),
        (6_000, [6_000] * 3, []),
    ):
        numbers = spark.range(0, 3 * rows_of_each, 1, 3)
        schema = get_event_schema(numbers.withColumn("type", sf.lit("A")), motet.Options(time="id"))
        first = make_sampler(numbers, ["id"], schema).first_rows
        assert np.bincount(first.partitions).tolist() == taken
        assert (first.cut.tolist(), first.like_rest) == (cut, True)
    spark.stop()
    sys.stdout.write("all the same\n")


if __name__ == "__main__":
    main(sys.argv[1])
