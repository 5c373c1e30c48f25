"""Spark's own solutions: SQL by self-join, stacked sums and a fold, and the rows of a key collected and looped over."""

from __future__ import annotations

from typing import Any

from harness import Answer, Question, main
from python_solutions import count_by_window
from sql import SPARK, fold, self_join, stacked

CORES = 2


def session() -> Any:
    from motet.spark.session import local_session  # how a session is started, and nothing else

    return local_session(f"local[{CORES}]")


def start(question: Question, make: Any) -> Answer:
    spark = session()
    spark.read.parquet(question.parquet).createOrReplaceTempView("events")
    text = make(question, SPARK, "events")
    return lambda: [tuple(row) for row in spark.sql(text).collect()]


def collect_and_loop(question: Question) -> Answer:
    import pandas as pd

    spark = session()
    patterns, slide, panes = question.patterns, question.slide, question.panes

    def loop(frame: pd.DataFrame) -> pd.DataFrame:
        ordered = frame.sort_values("time", kind="stable")
        events = list(zip(ordered["time"].tolist(), ordered["type"].tolist(), strict=True))
        key = int(frame["key"].iloc[0])
        found = [
            (number, key, window, count)
            for number, pattern in enumerate(patterns)
            for window, count in count_by_window(events, pattern, slide, panes)
        ]
        return pd.DataFrame(found, columns=["q", "key", "w", "total"])

    def rows() -> list[tuple[int, ...]]:
        events = spark.read.parquet(question.parquet)
        found = events.groupBy("key").applyInPandas(loop, "q BIGINT, key BIGINT, w BIGINT, total BIGINT")
        return [tuple(row) for row in found.collect()]

    return rows


if __name__ == "__main__":
    main(
        {
            "self-join": lambda question: start(question, self_join),
            "stacked": lambda question: start(question, stacked),
            "fold": lambda question: start(question, fold),
            "collect-and-loop": collect_and_loop,
        }
    )
