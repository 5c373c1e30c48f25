"""Real data: a query that makes sense on each of seven public data sets, counted online and by its matches.

The flights come with motet. The others are read from the folder that MOTET_DATA names, or from `../shared/data` beside
a checkout; those that are not there are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from motet import datasets
from motet.bench.engine import programs, timed
from motet.bench.measure import Measured, ratio
from motet.bench.registry import OURS, Experiment, Row, Seconds, Setting
from motet.engine import Options
from motet.engine.local import run_table
from motet.language import parse

FLIGHTS = "nyc_flights"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a data set."""

    data: str
    pattern: str
    within: str
    key: str = "key"

    def text(self, returns: str) -> str:
        return f"RETURN {returns} PATTERN {self.pattern} WHERE [{self.key}] WITHIN {self.within}"


QUESTIONS = (
    Question(FLIGHTS, "SEQ(dep_very_late, dep_late, cancelled)", "24 h", "aircraft"),
    Question("nyc_green_taxi", "SEQ(dropoff_cash, pickup_hail, dropoff_card)", "15 min"),
    Question("aarhus_traffic", "SEQ(normal, slow, jam+, normal)", "1 h"),
    Question("austin_bus", "SEQ(moving, stopped+, moving, trip_start)", "30 min"),
    Question("zeek", "SEQ(dns_NXDOMAIN, dns_NOERROR, ssl_ok)", "10 s"),
    Question("online_retail", "SEQ(bulk_sale, return)", "30 days"),
)


def folder() -> Path:
    """Where data that does not come with motet is."""
    named = os.environ.get("MOTET_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[5] / "shared" / "data"


def present() -> Iterator[tuple[Question, pa.Table]]:
    """The data sets that are there."""
    for question in QUESTIONS:
        file = folder() / f"{question.data}.parquet"
        if question.data == FLIGHTS:
            yield question, datasets.load(FLIGHTS)
        elif file.is_file():
            yield question, pq.read_table(file)


def real(setting: Setting) -> list[Row]:
    """A count at every completion, and every match, on each data set."""
    rows: list[Row] = []
    for question, table in present():
        compiled = programs(parse(question.text("COUNT(*)")), table, {"counted": Options()})
        (total,) = run_table(compiled["counted"], table).table.select(["COUNT(*)"]).to_pydict().values()
        row: Row = {"data": question.data, "pattern": question.pattern, "within": question.within, "events": len(table)}
        matches = sum(count for count in total if count)
        if matches < setting.pick(1_000_000, 20_000_000):
            compiled |= programs(parse(question.text("*")), table, {"found": Options()})
        taken = timed(compiled, table, setting.repeats)
        row |= {"matches": matches, "M events/s counted": Measured.of(taken["counted"]).rate(len(table) / 1e6)}
        if "found" in taken:
            row["M events/s found"] = Measured.of(taken["found"]).rate(len(table) / 1e6)
            row["found over counted"] = ratio(taken["found"], taken["counted"])
        rows.append(row)
    return rows


EXPERIMENTS = (
    Experiment(
        "real",
        OURS,
        "",
        "a query on each public data set that is there, counted online and by its matches, one core",
        Seconds(7, 9),
        real,
        notes=("Matches are found only where there are few enough of them; only the flights come with motet.",),
    ),
)
