"""DuckDB: ASOF joins on running sums, stacked running sums, a self-join."""

from __future__ import annotations

from harness import Answer, Question, main


def start(question: Question, text: str) -> Answer:
    import duckdb

    connection = duckdb.connect()
    return lambda: connection.execute(text).fetchall()


def events(question: Question) -> str:
    return f"read_parquet('{question.parquet}')"


if __name__ == "__main__":
    from sql import DUCKDB, asof, self_join, stacked

    main(
        {
            "asof": lambda question: start(question, asof(question, DUCKDB, events(question))),
            "stacked": lambda question: start(question, stacked(question, DUCKDB, events(question))),
            "self-join": lambda question: start(question, self_join(question, DUCKDB, events(question))),
        }
    )
