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

from benchmarks.engine import compile_plans, time_programs
from benchmarks.measure import Measurement, compute_ratio
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting
from motet import datasets
from motet.engine.local import run_table
from motet.language import parse
from motet.options import Options

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


def find_data_folder() -> Path:
    """Return the folder of data that does not come with motet."""
    named = os.environ.get("MOTET_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"


def load_questions() -> Iterator[tuple[Question, pa.Table]]:
    """Yield the data sets that are there."""
    for question in QUESTIONS:
        file = find_data_folder() / f"{question.data}.parquet"
        if question.data == FLIGHTS:
            yield question, datasets.load(FLIGHTS)
        elif file.is_file():
            yield question, pq.read_table(file)


def measure_real_data(setting: Setting) -> list[Row]:
    """Measure a count at every completion, and every match, on each data set."""
    rows: list[Row] = []
    for question, table in load_questions():
        compiled = compile_plans(parse(question.text("COUNT(*)")), table, {"counted": Options()})
        (total,) = run_table(compiled["counted"], table).table.select(["COUNT(*)"]).to_pydict().values()
        row: Row = {"data": question.data, "pattern": question.pattern, "within": question.within, "events": len(table)}
        matches = sum(count for count in total if count)
        if matches < setting.pick(1_000_000, 20_000_000):
            compiled |= compile_plans(parse(question.text("*")), table, {"found": Options()})
        timings, ran = time_programs(compiled, table, setting.repeats)
        row |= {"matches": matches, "M events/s counted": Measurement.of(timings["counted"]).rate(len(table) / 1e6)}
        if "found" in timings:
            row["M events/s found"] = Measurement.of(timings["found"]).rate(len(table) / 1e6)
            row["found over counted"] = compute_ratio(timings["found"], timings["counted"])
        rows.append({**row, "ran": ran})
    return rows


EXPERIMENTS = (
    Experiment(
        "real",
        OURS,
        "",
        "a query on each public data set that is there, counted online and by its matches, one core",
        Seconds(7, 9),
        measure_real_data,
        notes=("Matches are found only where there are few enough of them; only the flights come with motet.",),
    ),
)
