"""motet itself: in process, and on Spark, from the same file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import Answer, Question, main

import motet


def rows_of(table: object, question: Question) -> list[tuple[int, int, int, int]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    assert isinstance(table, pa.Table)
    numbers = pc.cast(pc.utf8_slice_codeunits(table["query"], 1), pa.int64())
    starts = pc.divide(pc.cast(table["window_start"], pa.int64()), question.slide)
    columns = (numbers, table["key"], starts, table["COUNT(*)"])
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


class MotetAnswer:
    """An answer of motet to a question, from what `read` returns; `ran` is what was executed for it."""

    def __init__(self, question: Question, read: Callable[[str], Any]) -> None:
        from motet.language import parse

        self.question, self.read = question, read
        self.workload = parse(question.text)
        self.ran: list[dict[str, object]] = []

    def __call__(self) -> list[tuple[int, int, int, int]]:
        found = motet.ask(self.read(self.question.parquet), self.workload, time_unit="us")
        self.ran = [each.describe() for each in found.executed]
        return rows_of(found.to_arrow(), self.question)


def local(question: Question) -> Answer:
    import pyarrow.parquet as pq

    return MotetAnswer(question, pq.read_table)


def spark(question: Question) -> Answer:
    from motet.spark.session import local_session

    return MotetAnswer(question, local_session("local[2]").read.parquet)


if __name__ == "__main__":
    main({"local": local, "spark": spark})
