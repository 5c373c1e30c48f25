"""Workloads and streams shaped as those of the Gloria paper (section 8), made from a seed.

Prices of companies by the minute: a company is an event type. Queries come in groups of about ten that speak of the
same companies: all of a group follow one run of types, most enter it at its head, some late, and leave it for a type of
their own or end with it. A Kleene query leaves the run for a repeated stretch, flat or nested, which is the same for
all of a group.

    workload(queries=60, kleene=1 / 7)   # 6:1 SEQ to Kleene, windows of 5 to 20 minutes sliding by 5
    stock(events=500_000)                # minute timestamps, 12 sectors to group by
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from motet.language import parse
from motet.model.query import Workload

GROUP = 10  # queries that have types in common
RUN = 10  # types that a group follows
OWN = 4  # types of a group that only some of its queries have
MINUTE = 60_000_000
WINDOWS = (
    "WITHIN 5 min SLIDE 5 min",
    "WITHIN 10 min SLIDE 5 min",
    "WITHIN 15 min SLIDE 5 min",
    "WITHIN 20 min SLIDE 5 min",
)
RETURNS = ("COUNT(*)", "COUNT(*)", "COUNT(*)", "SUM({last}.price)", "AVG({last}.price)", "MAX({last}.price)")


@dataclass(frozen=True, slots=True)
class Shape:
    """How a workload is drawn: the part of Kleene queries, the length and nesting of what they repeat, whether windows,
    aggregates and predicates differ, and whether there are groups.
    """

    kleene: float = 0.0
    repeated: int = 2
    nested: bool = False
    mixed: bool = True
    grouped: bool = True


def list_types(group: int) -> list[str]:
    """Return the types that the queries of a group speak of, those of its run first."""
    return [f"C{group * (RUN + OWN) + at}" for at in range(RUN + OWN)]


def make_workload(queries: int, shape: Shape = Shape(), seed: int = 5) -> Workload:  # noqa: B008
    """Return queries in groups of ten."""
    rng = np.random.default_rng(seed)
    return parse("\n\n".join(write_query(number, number // GROUP, shape, rng) for number in range(queries)))


def write_query(number: int, group: int, shape: Shape, rng: np.random.Generator) -> str:
    """Write one query of a group."""
    types = list_types(group)
    is_kleene = rng.random() < shape.kleene
    enters = 0 if rng.random() < 0.6 else int(rng.integers(1, 3))
    leaves = RUN - (0 if rng.random() < 0.5 else int(rng.integers(1, 3)))
    parts = types[enters:leaves]
    if is_kleene:
        length = shape.repeated
        run = [f"{types[0]}", *(f"K{group}_{at}" for at in range(length))]
        body = ", ".join(run[1:])
        again = f"SEQ({body})+" if not shape.nested or length < 3 else f"SEQ({run[1]}, SEQ({', '.join(run[2:])})+)+"
        parts = [*types[enters : enters + 2], again, types[5]]
    if rng.random() < 0.5:
        parts = [types[RUN + int(rng.integers(OWN // 2))], *parts]
    last = types[RUN + OWN // 2 + int(rng.integers(OWN // 2))] if rng.random() < 0.5 else None
    if last:
        parts = [*parts, last]
    *others, end = parts
    returns = RETURNS[int(rng.integers(len(RETURNS)))] if shape.mixed else "COUNT(*)"
    window = WINDOWS[int(rng.integers(len(WINDOWS)))] if shape.mixed else WINDOWS[-1]
    where = "WHERE last.price > 20\n" if shape.mixed and rng.random() < 0.2 else ""
    pattern = f"SEQ({', '.join((*others, f'{end} last'))})"
    groups = "GROUP BY sector\n" if shape.grouped else ""
    return f"QUERY q{number}\nRETURN {returns.format(last='last')}\nPATTERN {pattern}\n{where}{groups}{window}"


def make_bursty_workload(queries: int, share_complex: float, seed: int = 5) -> Workload:
    """Return the queries of Gloria against HAMLET (section 8).

    They are `SEQ(A, B+, C)` with one B for all, and flat Kleene queries of length 8 with predicates of their own.
    """
    rng = np.random.default_rng(seed)
    texts = []
    for number in range(queries):
        if rng.random() < share_complex:
            run = [f"C{at}" for at in range(8)]
            pattern = f"SEQ({run[0]}, SEQ({', '.join(run[1:7])})+, {run[7]} last)"
            where = f"WHERE last.price > {int(rng.integers(1, 6)) * 10}\n"
        else:
            pattern, where = f"SEQ(C{int(rng.integers(8, 12))}, C12+, C{int(rng.integers(13, 17))})", ""
        texts.append(f"QUERY q{number}\nRETURN COUNT(*)\nPATTERN {pattern}\n{where}GROUP BY sector\n{WINDOWS[1]}")
    return parse("\n\n".join(texts))


def list_companies(groups: int, repeated: int) -> list[str]:
    """Return every type that a workload of so many groups can speak of."""
    return [
        name for group in range(groups) for name in (*list_types(group), *(f"K{group}_{at}" for at in range(repeated)))
    ]


def make_stock_stream(
    events: int,
    names: list[str],
    per_minute: int = 2_000,
    sectors: int = 12,
    burst: int = 1,
    seed: int = 7,
    skew: float = 0.0,
) -> pa.Table:
    """Return prices by the minute, so many of one company and sector in a row.

    All companies are alike often, or the n-th in a random order n ** skew times as rarely as the first.
    """
    rng = np.random.default_rng(seed)
    bursts = -(-events // burst)
    if skew:
        weights = rng.permutation(np.arange(1, len(names) + 1) ** -skew)
        kind = rng.choice(len(names), bursts, p=weights / weights.sum())
    else:
        kind = rng.integers(0, len(names), bursts)
    kind = np.repeat(kind, burst)[:events]
    sector = np.repeat(rng.integers(0, sectors, bursts), burst)[:events]
    return pa.table(
        {
            "time": pa.array(np.arange(events, dtype=np.int64) // per_minute * MINUTE, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(pa.array(kind, pa.int32()), pa.array(names)),
            "sector": pa.array(sector),
            "price": pa.array(rng.integers(1, 100, events).astype(np.float64)),
        }
    )
