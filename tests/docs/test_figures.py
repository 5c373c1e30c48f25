"""README and the page of streams state no figure of speed that the tables of benchmarks do not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures import PEERS, read_number, read_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
STREAMS = (ROOT / "docs" / "streaming.md").read_text()
TABLES = (ROOT / "docs" / "benchmark-tables.md").read_text()
CONCLUSIONS = (ROOT / "docs" / "benchmarks.md").read_text()


def measured(bench: str, column: str, **row: str) -> float:
    """Return the number that a table has in a column of the row with these values."""
    found = [
        each
        for each in read_table(TABLES, f"<!-- bench {bench} -->")
        if all(each[name] == value for name, value in row.items())
    ]
    number = read_number(found[0][column])
    assert number is not None
    return number


def slower(way: str) -> str:
    """Return how many times as long as motet in process a way takes for the question of the comparison."""
    own, *others = read_table(CONCLUSIONS, PEERS)
    cell = next(row["s2"] for row in others if row["way"] == way)
    number = read_number(cell)
    if number is None:
        return cell
    if way.startswith("motet"):  # its cells have millions of events a second
        number = (read_number(own["s2"]) or 0.0) / number
    return f"{number:,.0f}"


def test_how_fast() -> None:
    rows = [row["what it took"] for row in read_table(README, "## How fast")]
    small, large = (
        measured("continuous", "M events/s", case=f"Arrow table to result table, {n}") for n in ("1,000", "1,000,000")
    )
    assert rows[0].startswith(f"{small:.0f} million events")
    assert f"{large:.0f}" == f"{small:.0f}"
    together, alone = (measured("strategies", "M events/s", strategy=name) for name in ("as planned", "queries alone"))
    assert f"{together:.0f} million" in rows[1]
    assert f"{alone:.1f} million" in rows[1]
    assert f"{measured('sharon-12b', 'auto gains', queries='120', executor='motet'):.1f} times" in rows[2]
    ours, bare = (
        measured("spark-batch", "wall s", pipeline=name) for name in ("100 queries, many keys", "identity, many keys")
    )
    assert rows[3].startswith(f"{ours:.1f} s;")
    assert f"takes {bare:.1f} s" in rows[3]
    assert rows[4].startswith(f"{measured('streaming', 'ratio', **{'micro-batch': '100 queries, the same'}):.1f} times")


@pytest.mark.parametrize(
    ("row", "ways"),
    [
        ("**motet**", ["motet, Spark local[2]"]),
        ("self-join in SQL", ["DuckDB, self-join", "Spark SQL, self-join"]),
        (
            "window or array functions in SQL",
            ["DuckDB, ASOF joins", "DuckDB, stacked sums", "Spark SQL, stacked sums", "Spark SQL, fold"],
        ),
        ("a pandas or Python loop over each key", ["plain Python A-Seq", "Spark, collect and loop"]),
        ("`MATCH_RECOGNIZE`", ["Flink SQL MATCH_RECOGNIZE"]),
    ],
)
def test_others_take_longer(row: str, ways: list[str]) -> None:
    stated = next(each for each in read_table(README, "## When to use it") if each[""] == row)["times as long"]
    assert {slower(way) for way in ways} <= set(stated.replace(";", " ").replace(", ", " ").split())


def test_flink_gives_no_answer_and_esper_takes_longer() -> None:
    rows = {row[""]: row["times as long"] for row in read_table(README, "## When to use it")}
    assert slower("Flink CEP (Java)") == "DNF"
    assert "`s1`, `s2`: 120 s" in CONCLUSIONS
    assert rows["Flink CEP"] == "no answer in two minutes"
    times = [read_number(row["times"]) for row in read_table(CONCLUSIONS, "**Engines for detection.**")]
    known = [each for each in times if each is not None]
    assert rows["Esper"].endswith(f"{min(known):.0f} to {max(known):.0f} times the CPU time")


def test_micro_batches() -> None:
    cases = (
        "100 queries, the same",
        "100 queries of all kinds, the same",
        "100 queries, one row",
        "100 queries, no row, windows that end",
        "1,000,000 keys, 1 % active",
    )
    for row, case in zip(read_table(STREAMS, "## How fast"), cases, strict=True):
        assert row["ms"] == f"{measured('streaming', 'ms', **{'micro-batch': case}):,.0f}"
        assert row["against"].startswith(f"{measured('streaming', 'ratio', **{'micro-batch': case}):.2f} times")
