"""motet itself: in process, and on Spark, from the same file."""

from __future__ import annotations

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


def local(question: Question) -> Answer:
    import pyarrow.parquet as pq

    from motet.language import parse

    workload = parse(question.text)

    def rows() -> list[tuple[int, int, int, int]]:
        return rows_of(motet.run(pq.read_table(question.parquet), workload, time_unit="us"), question)

    return rows


def spark(question: Question) -> Answer:
    from motet.language import parse
    from motet.spark.session import local_session

    session = local_session("local[2]")
    workload = parse(question.text)

    def rows() -> list[tuple[int, int, int, int]]:
        found = motet.run(session.read.parquet(question.parquet), workload, time_unit="us")
        return rows_of(found.toArrow(), question)

    return rows


if __name__ == "__main__":
    main({"local": local, "spark": spark})
