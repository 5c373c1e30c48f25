"""Flink: SQL's MATCH_RECOGNIZE and stacked sums through PyFlink, and its CEP library in Java with PyFlink's jars.

CEP has no Python interface, so FlinkCep.java is compiled against those jars on the way (needs a JDK).
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from harness import Answer, Question, main
from sql import FLINK
from sql import stacked as stacked_sums

PARALLEL = 2


def jars() -> str:
    import pyflink

    return str(Path(pyflink.__file__).parent / "lib" / "*")


def make_tables(question: Question) -> Any:
    """Register the events as a table of Flink's."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("parallelism.default", str(PARALLEL))
    tables.execute_sql(
        "CREATE TABLE events (`time` BIGINT, `type` STRING, `key` BIGINT, "
        "`at` AS TO_TIMESTAMP_LTZ(`time` / 1000, 3), WATERMARK FOR `at` AS `at`) WITH "
        f"('connector' = 'filesystem', 'path' = 'file://{question.csv}', 'format' = 'csv')"
    )
    return tables


def stacked(question: Question) -> Answer:
    """Return running sums over running sums, in batch mode."""
    tables = make_tables(question)
    # These names are words of Flink's SQL.
    text = re.sub(r"\b(time|type|key)\b", r"`\1`", stacked_sums(question, FLINK, "events"))
    return lambda: [tuple(row) for row in tables.execute_sql(text).collect()]


def match_recognize(question: Question) -> Answer:
    """Find at most one match for each row that begins one: another question than all matches."""
    tables = make_tables(question)
    minutes = question.within // 60_000_000
    matches = []
    for number, pattern in enumerate(question.patterns):
        last = len(pattern) - 1
        steps = " ".join(f"E{at}" if at == 0 else f"X{at}*? E{at}" for at in range(len(pattern)))
        defined = ", ".join(f"E{at} AS E{at}.`type` = '{type}'" for at, type in enumerate(pattern))
        matches.append(
            f"SELECT {number} AS q, `key`, first_time, last_time FROM events MATCH_RECOGNIZE (PARTITION BY `key` "
            f"ORDER BY `at` MEASURES E0.`time` AS first_time, E{last}.`time` AS last_time ONE ROW PER MATCH "
            f"AFTER MATCH SKIP TO NEXT ROW PATTERN ({steps}) WITHIN INTERVAL '{minutes}' MINUTE DEFINE {defined})"
        )
    text = (
        "SELECT q, `key`, first_pane, last_pane, COUNT(*) FROM (SELECT q, `key`, "
        f"first_time / {question.slide} AS first_pane, last_time / {question.slide} AS last_pane FROM "
        f"({' UNION ALL '.join(matches)})) GROUP BY q, `key`, first_pane, last_pane"
    )

    def rows() -> list[tuple[int, int, int, int]]:
        return sum_by_window([tuple(row) for row in tables.execute_sql(text).collect()], question.panes)

    return rows


def sum_by_window(found: list[tuple[int, ...]], panes: int) -> list[tuple[int, int, int, int]]:
    """Sum counts by first and last pane into counts by window."""
    totals: dict[tuple[int, int, int], int] = {}
    for query, key, first, last, count in found:
        for window in range(last - panes + 1, first + 1):
            place = (query, key, window)
            totals[place] = totals.get(place, 0) + count
    return [(*place, count) for place, count in totals.items()]


def cep(question: Question) -> Answer:
    """Build every match by `followedByAny`; a JVM for each run, whose start counts in its time."""
    folder = tempfile.mkdtemp(prefix="motet-peers-")
    source = Path(__file__).with_name("FlinkCep.java")
    built = subprocess.run(["javac", "-cp", jars(), "-d", folder, str(source)], capture_output=True, text=True)
    if built.returncode != 0:
        raise RuntimeError(built.stderr)
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.util", "java.time")]
    command = ["java", *opened, "-cp", f"{folder}:{jars()}", "FlinkCep", question.csv]
    shape = [str(question.within), str(question.slide), str(PARALLEL), ";".join(map(",".join, question.patterns))]

    def rows() -> list[tuple[int, int, int, int]]:
        done = subprocess.run([*command, *shape], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(next((line for line in done.stderr.splitlines() if "Caused by" in line), done.stderr))
        found = [tuple(map(int, line.split(","))) for line in done.stdout.splitlines() if line[:1].isdigit()]
        return sum_by_window(found, question.panes)

    return rows


if __name__ == "__main__":
    main({"match-recognize": match_recognize, "stacked": stacked, "cep": cep})
