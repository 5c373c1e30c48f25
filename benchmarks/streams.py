"""Streams and workloads the benchmarks share, made from a seed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.workloads import TAXI, TRAFFIC, Scene
from motet.language import parse
from motet.model.query import Workload

SECOND = 1_000_000


def ecommerce(events: int, items: int = 50, customers: int = 20, rate: int = 3_000, seed: int = 7) -> pa.Table:
    """Return Sharon's e-commerce stream: purchases of items by customers at a steady rate (Sharon, section VIII)."""
    rng = np.random.default_rng(seed)
    time = np.arange(events, dtype=np.int64) * SECOND // rate
    names = pa.array([f"item{item}" for item in range(items)])
    return pa.table(
        {
            "time": pa.array(time, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, items, events), pa.int32()), names),
            "customer": pa.array(rng.integers(0, customers, events)),
            "price": pa.array(rng.integers(1, 100, events).astype(np.float64)),
        }
    )


def taxi(events: int, vehicles: int = 200, rate: int = 3_000, seed: int = 7) -> pa.Table:
    """Return position reports of vehicles at a steady rate, most of them on trips along popular streets."""
    rng = np.random.default_rng(seed)
    time = np.arange(events, dtype=np.int64) * SECOND // rate
    vehicle = rng.integers(0, vehicles, events)
    price = rng.integers(3, 80, events).astype(np.float64)
    return follow_runs(TAXI, time, vehicle, rng).append_column("price", pa.array(price))


def traffic(events: int, cars: int = 500, low: int = 40, high: int = 4_000, seed: int = 7) -> pa.Table:
    """Return Linear Road's reports: the rate grows from a few dozen to 4k events a second (Sharon, section VIII)."""
    rng = np.random.default_rng(seed)
    span = 2 * events / (low + high)
    slope = (high - low) / span
    # The moment by which so many events have come: low t + slope t^2 / 2 = number.
    number = np.arange(events)
    time = ((np.sqrt(low**2 + 2 * slope * number) - low) / slope * SECOND).astype(np.int64)
    car = rng.integers(0, cars, events)
    speed = rng.integers(0, 100, events).astype(np.float64)
    return follow_runs(TRAFFIC, time, car, rng).append_column("speed", pa.array(speed))


def follow_runs(
    scene: Scene, time: np.ndarray, mover: np.ndarray, rng: np.random.Generator, strays: float = 0.2
) -> pa.Table:
    """Draw reports of movers that follow one popular run after another, with some reports from elsewhere."""
    runs = scene.popular()
    order = np.argsort(mover, kind="stable")
    first = np.searchsorted(mover[order], np.arange(mover.max(initial=0) + 1))
    step = np.empty(len(mover), dtype=np.int64)
    step[order] = np.arange(len(mover)) - first[mover[order]]
    length = runs.shape[1]
    trips = rng.integers(0, len(runs), (mover.max(initial=0) + 1, step.max(initial=0) // length + 1))
    kind = runs[trips[mover, step // length], step % length]
    astray = rng.random(len(mover)) < strays
    kind[astray] = rng.integers(0, scene.kinds, astray.sum())
    return pa.table(
        {
            "time": pa.array(time, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(pa.array(kind, pa.int32()), pa.array(scene.types)),
            scene.key: pa.array(mover),
        }
    )


def make_item_queries(
    count: int, shortest: int, longest: int, items: int = 50, key: str = "customer", seed: int = 11
) -> Workload:
    """Return random item sequences, 20 minutes sliding by one."""
    rng = np.random.default_rng(seed)
    texts = []
    for number in range(count):
        length = int(rng.integers(shortest, longest + 1))
        pattern = ", ".join(f"item{item}" for item in rng.choice(items, length, replace=False))
        texts.append(
            f"QUERY q{number}\nRETURN COUNT(*)\nPATTERN SEQ({pattern})\nWHERE [{key}] WITHIN 20 min SLIDE 1 min"
        )
    return parse("\n\n".join(texts))


def make_keyed_stream(events: int, keys: int, types: int = 20, span: int = 6 * 3600, seed: int = 3) -> pa.Table:
    """Return events of many keys over a few hours, in time order."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, span * SECOND, events))
    return pa.table(
        {
            "time": pa.array(time, pa.timestamp("us")),
            "type": pa.array([f"t{number}" for number in range(types)]).take(pa.array(rng.integers(0, types, events))),
            "key": pa.array(rng.integers(0, keys, events)),
            "value": pa.array(rng.integers(0, 1000, events).astype(np.float64)),
        }
    )


def make_data_centre_log(events: int, machines: int = 100, rate: int = 1_000, seed: int = 7) -> pa.Table:
    """Return a data centre's log of 36 types, as in MOTTO's second application.

    Transmissions start, are delivered, end and are acknowledged; beside them are 32 types of other packages and of
    machines' messages, some much rarer.
    """
    rng = np.random.default_rng(seed)
    names = ["start", "delivered", "end", "acknowledged", *(f"other{number}" for number in range(32))]
    shares = np.concatenate([[12.0, 11.8, 11.5, 11.0], np.geomspace(10, 0.1, 32)])
    code = pa.array(rng.choice(len(names), events, p=shares / shares.sum()), pa.int32())
    return pa.table(
        {
            "time": pa.array(np.arange(events, dtype=np.int64) * SECOND // rate, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(code, pa.array(names)),
            "machine": pa.array(rng.integers(0, machines, events)),
        }
    )
