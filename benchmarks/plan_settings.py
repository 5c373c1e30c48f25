"""Settings in which plans of aggregate queries are compared: streams and workloads of many shapes, made from a seed.

The papers' streams at several densities (events of a key in a pane), lengths and windows, mixtures of dense and sparse
queries, several aggregates, repetitions, and real data where it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import streams, workloads
from benchmarks.experiments.real import find_data_folder
from benchmarks.trends import Shape, list_companies, make_stock_stream, make_workload
from motet.language import parse
from motet.model.query import Workload

Make = Callable[[int], tuple[pa.Table, Workload]]  # takes a seed
MIXED_AGGREGATES = ("COUNT(*)", "SUM({0}.price)", "MIN({0}.price)", "AVG({0}.price)")


@dataclass(frozen=True, slots=True)
class PlanSetting:
    """A stream and a workload over it. A `mixture` has queries over frequent and over rare types."""

    name: str
    make: Make
    mixture: bool = False

    def build(self, seed: int) -> tuple[pa.Table, Workload]:
        return self.make(seed)


def _shop(
    customers: int, queries: int, length: int = 10, within: str = "20 min", slide: str = "1 min", **more: int
) -> Make:
    def make(seed: int) -> tuple[pa.Table, Workload]:
        events, rate = more.get("events", 400_000), more.get("rate", 100)
        table = streams.ecommerce(events, customers=customers, rate=rate, seed=seed)
        return table, workloads.ecommerce(queries, length, seed, within, slide, bool(more.get("legs")))

    return make


def _scene(scene: str, movers: int, queries: int, length: int, rate: int = 100, legs: bool = False) -> Make:
    def make(seed: int) -> tuple[pa.Table, Workload]:
        if scene == "taxi":
            return streams.taxi(300_000, movers, rate, seed), workloads.taxi(queries, length, seed, legs=legs)
        return streams.traffic(300_000, movers, rate // 2, 2 * rate, seed), workloads.traffic(queries, length, seed)

    return make


def _stock(queries: int, shape: Shape) -> Make:
    def make(seed: int) -> tuple[pa.Table, Workload]:
        companies = list_companies(-(-queries // 10), shape.repeated)
        return make_stock_stream(100_000, companies), make_workload(queries, shape, seed)

    return make


def _dense_and_sparse(dense: int, sparse: int, length: int = 8, customers: int = 4) -> Make:
    """Some queries over 20 items that are bought all the time, others over 200 that are bought rarely."""

    def make(seed: int) -> tuple[pa.Table, Workload]:
        rng = np.random.default_rng(seed)
        events = 400_000
        rare = rng.random(events) < 0.02
        item = np.where(rare, 20 + rng.integers(0, 200, events), rng.integers(0, 20, events))
        customer = rng.integers(0, customers, events)
        table = pa.table(
            {
                "time": pa.array(np.arange(events, dtype=np.int64) * 1_000, pa.timestamp("us")),
                "type": pa.DictionaryArray.from_arrays(
                    pa.array(item, pa.int32()), pa.array([f"item{at}" for at in range(220)])
                ),
                "customer": pa.array(customer),
            }
        )
        texts = []
        for number in range(dense + sparse):
            kinds = 20 + _draw_run(rng, 200, length, 40, 60) if number >= dense else _draw_run(rng, 20, length)
            steps = [f"item{at}" for at in kinds]
            texts.append(
                f"QUERY q{number}\nRETURN COUNT(*)\nPATTERN SEQ({', '.join(steps)})\nWHERE [customer]\n"
                "WITHIN 60 s SLIDE 2 s"
            )
        return table, parse("\n\n".join(texts))

    return make


def _draw_run(rng: np.random.Generator, kinds: int, length: int, runs: int = 3, begins: int = 4) -> np.ndarray:
    """Draw a stretch of one of a few fixed runs, so that queries have parts in common."""
    run = np.random.default_rng(int(rng.integers(runs))).permutation(kinds)
    begin = int(rng.integers(0, begins))
    return run[begin : begin + length]


def _aggregates(customers: int, queries: int) -> Make:
    def make(seed: int) -> tuple[pa.Table, Workload]:
        rng = np.random.default_rng(seed)
        texts = []
        for number in range(queries):
            run = _draw_run(rng, 30, 5)
            names = ", ".join(f"item{kind} e{at}" for at, kind in enumerate(run))
            returns = MIXED_AGGREGATES[number % 4].format(f"e{int(rng.integers(5))}")
            texts.append(
                f"QUERY q{number}\nRETURN {returns}\nPATTERN SEQ({names})\nWHERE [customer]\nWITHIN 10 min SLIDE 1 min"
            )
        return streams.ecommerce(300_000, 30, customers, 100, seed), parse("\n\n".join(texts))

    return make


def _real(data: str, types: tuple[str, ...], within: str, slide: str, queries: int = 24, key: str = "key") -> Make:
    def make(seed: int) -> tuple[pa.Table, Workload]:
        table = pq.read_table(find_data_folder() / f"{data}.parquet")
        rng = np.random.default_rng(seed)
        texts = []
        for number in range(queries):
            steps = [types[int(at)] for at in rng.integers(0, len(types), 3 + number % 3)]
            texts.append(
                f"QUERY q{number}\nRETURN COUNT(*)\nPATTERN SEQ({', '.join(steps)})\nWHERE [{key}]\n"
                f"WITHIN {within} SLIDE {slide}"
            )
        return table, parse("\n\n".join(texts))

    return make


SETTINGS = (
    PlanSetting("shop, 20 customers, 20 queries", _shop(20, 20)),
    PlanSetting("shop, 20 customers, 120 queries", _shop(20, 120)),
    PlanSetting("shop, 5 customers, 60 queries", _shop(5, 60)),
    PlanSetting("shop, 200 customers, 60 queries", _shop(200, 60)),
    PlanSetting("shop, 3,000 customers, 60 queries", _shop(3_000, 60)),
    PlanSetting("shop, length 5", _shop(20, 60, 5)),
    PlanSetting("shop, length 20", _shop(20, 20, 20)),
    PlanSetting("shop, length 30", _shop(20, 20, 30)),
    PlanSetting("shop, 2 windows open", _shop(20, 60, 10, "2 min", "1 min")),
    PlanSetting("shop, 60 windows open", _shop(20, 40, 10, "60 min", "1 min")),
    PlanSetting("shop, 300 windows open", _shop(20, 20, 6, "300 s", "1 s", rate=500)),
    PlanSetting("shop, panes of a second", _shop(5, 40, 8, "30 s", "1 s", rate=1000)),
    PlanSetting("shop, legs, 20 queries", _shop(20, 20, legs=1)),
    PlanSetting("shop, legs, 120 queries", _shop(20, 120, legs=1)),
    PlanSetting("taxi, 200 vehicles", _scene("taxi", 200, 20, 10)),
    PlanSetting("taxi, 120 queries", _scene("taxi", 200, 120, 10)),
    PlanSetting("taxi, 5 vehicles", _scene("taxi", 5, 60, 10)),
    PlanSetting("traffic, 500 cars", _scene("traffic", 500, 40, 10)),
    PlanSetting("traffic, 10 cars", _scene("traffic", 10, 40, 10)),
    PlanSetting("aggregates, 5 customers", _aggregates(5, 40)),
    PlanSetting("aggregates, 300 customers", _aggregates(300, 40)),
    PlanSetting("stock, mixed aggregates and windows", _stock(60, Shape(1 / 7))),
    PlanSetting("stock, repetitions, counts", _stock(60, Shape(1 / 2, mixed=False, grouped=False))),
    PlanSetting("stock, nested repetitions", _stock(40, Shape(1.0, 3, nested=True, mixed=False, grouped=False))),
    PlanSetting("dense and sparse, 20 and 300", _dense_and_sparse(20, 300, customers=5), mixture=True),
    PlanSetting("dense and sparse, 40 and 200", _dense_and_sparse(40, 200, 10, customers=5), mixture=True),
    PlanSetting("dense and sparse, 10 and 200", _dense_and_sparse(10, 200, 10, customers=10), mixture=True),
    PlanSetting(
        "taxi trips",
        _real("nyc_green_taxi", ("pickup_hail", "dropoff_cash", "dropoff_card"), "60 min", "5 min"),
    ),
    PlanSetting("road traffic", _real("aarhus_traffic", ("normal", "slow", "jam"), "2 h", "10 min")),
    PlanSetting("buses", _real("austin_bus", ("moving", "stopped", "trip_start"), "30 min", "2 min")),
)


def list_settings() -> Iterator[PlanSetting]:
    """Yield the settings whose data is there."""
    has_data = (find_data_folder() / "austin_bus.parquet").is_file()
    yield from (each for each in SETTINGS if has_data or each.name not in ("taxi trips", "road traffic", "buses"))
