"""Streams and workloads the benchmarks share, made from a seed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from motet.language import parse
from motet.model.query import Workload

SECOND = 1_000_000


def ecommerce(events: int, items: int = 50, customers: int = 20, rate: int = 3_000, seed: int = 7) -> pa.Table:
    """Sharon's e-commerce stream: purchases of items by customers at a steady rate (Sharon, section VIII)."""
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


def item_queries(
    count: int, shortest: int, longest: int, items: int = 50, key: str = "customer", seed: int = 11
) -> Workload:
    """Random item sequences, 20 minutes sliding by one."""
    rng = np.random.default_rng(seed)
    texts = []
    for number in range(count):
        length = int(rng.integers(shortest, longest + 1))
        pattern = ", ".join(f"item{item}" for item in rng.choice(items, length, replace=False))
        texts.append(
            f"QUERY q{number}\nRETURN COUNT(*)\nPATTERN SEQ({pattern})\nWHERE [{key}] WITHIN 20 min SLIDE 1 min"
        )
    return parse("\n\n".join(texts))


def keyed(events: int, keys: int, types: int = 20, span: int = 6 * 3600, seed: int = 3) -> pa.Table:
    """Events of many keys over a few hours, in time order."""
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
