"""chDB (ClickHouse in process): stacked running sums, a self-join, and its own sequenceCount."""

from __future__ import annotations

from harness import Answer, Question, main
from sql import CHDB, expand_windows, self_join, stacked


def start(text: str) -> Answer:
    import chdb

    def rows() -> list[list[str]]:
        found = chdb.query(f"SELECT q, key, w, total FROM ({text})", "CSV")
        return [line.split(",") for line in str(found).splitlines() if line]

    return rows


def events(question: Question) -> str:
    return f"file('{question.parquet}', Parquet)"


def sequence_count(question: Question) -> str:
    """Count matches that do not overlap: the nearest that ClickHouse has of its own, and another question."""
    parts = []
    for number, pattern in enumerate(question.patterns):
        steps = "".join(f"(?{at})" if at == 1 else f".*(?{at})" for at in range(1, len(pattern) + 1))
        conditions = ", ".join(f"type = '{type}'" for type in pattern)
        parts.append(
            f"SELECT {number} AS q, key, w, sequenceCount('{steps}')(toUInt64(time), {conditions}) AS total "
            f"FROM {expand_windows(question, CHDB, events(question), pattern)} GROUP BY key, w HAVING total > 0"
        )
    return "\nUNION ALL\n".join(parts)


if __name__ == "__main__":
    main(
        {
            "stacked": lambda question: start(stacked(question, CHDB, events(question))),
            "self-join": lambda question: start(self_join(question, CHDB, events(question))),
            "sequenceCount": lambda question: start(sequence_count(question)),
        }
    )
