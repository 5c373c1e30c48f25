"""MOTTO's experiments: seven kinds of sharing among detection queries (its Table V), in the mixtures of figure 13, and
by number of queries, windows and nesting (figure 14). Throughput relative to queries that run alone, in one run.

python -m benchmarks.motto
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from motet.language import parse
from motet.model.query import Workload

SYMBOLS = tuple(f"S{number}" for number in range(1, 14))  # 13 stocks, as in the paper
COMMON, RARE = SYMBOLS[:6], SYMBOLS[6:]
OPTIMIZERS = ("motto-merge", "motto-lcse", "motto")
SECOND = 1_000_000
Row = dict[str, Any]


def trades(events: int, seed: int = 1, per_second: float = 4.0) -> pa.Table:
    """Trades of 13 stocks, some traded more than others; prices are random walks with noise."""
    rng = np.random.default_rng(seed)
    shares = np.array([10.0 if symbol in COMMON else 1.0 for symbol in SYMBOLS])
    at = np.sort(rng.integers(0, int(events / per_second * SECOND), events))
    symbol = rng.choice(len(SYMBOLS), events, p=shares / shares.sum())
    price = 100 + np.cumsum(rng.normal(0, 0.1, events)) + rng.normal(0, 1, events)
    return pa.table(
        {
            "time": pa.array(at, pa.timestamp("us")),
            "type": pa.array(SYMBOLS).take(pa.array(symbol)),
            "price": pa.array(price),
        }
    )


# Workloads


@dataclass(frozen=True)
class Written:
    """A query in text: its pattern over numbered operands, conditions between some of them, and its window."""

    pattern: str
    conditions: tuple[str, ...]
    window: int
    shown: str

    def text(self, name: str) -> str:
        where = f"WHERE {' AND '.join(self.conditions)}\n" if self.conditions else ""
        return f"QUERY {name}\nRETURN {self.shown}\nPATTERN {self.pattern}\n{where}WITHIN {self.window} ms"


def listed(operator: str, operands: Sequence[str], window: int, rising: Sequence[str]) -> Written:
    """An operator over stocks; the prices of those in `rising` go up from one to the next."""
    names = [f"{operand} {operand.lower()}" for operand in operands]
    tests = tuple(f"{a.lower()}.price < {b.lower()}.price" for a, b in pairwise(rising))
    return Written(f"{operator}({', '.join(names)})", tests, window, operands[0].lower())


def pair(kind: int, core: Sequence[str], others: Sequence[str], window: int, ratio: float = 0.5) -> list[Written]:
    """Two queries with an opportunity to share of one of the seven types of Table V."""
    x, y = others[0], others[1]
    match kind:
        case 1:
            return [listed("SEQ", core, window, core), listed("SEQ", [*core, x], window, core)]
        case 2:
            return [listed("AND", core, window, core), listed("AND", [x, *core], window, core)]
        case 3:
            return [listed("SEQ", core, window, core), listed("SEQ", [*core[:-1], x, core[-1]], window, core)]
        case 4:
            return [listed("SEQ", [x, *core], window, core), listed("SEQ", [*core, y], window, core)]
        case 5:
            small = int(window * ratio)
            return [listed("SEQ", core, small, core), listed("SEQ", [*core, x], window, core)]
        case 6:
            return [listed("SEQ", core, window, core), listed("AND", core, window, core)]
    return [nested(operator, core, [x, y], window, 2) for operator in ("SEQ", "AND")]


def nested(operator: str, core: Sequence[str], around: Sequence[str], window: int, levels: int) -> Written:
    """The core as a sequence in the most inner of some levels, in turn of the one operator and the other."""
    inner = f"SEQ({', '.join(f'{each} {each.lower()}' for each in core)})"
    for level in range(2, levels + 1):
        outer = around[level % len(around)]
        name = f"{outer} l{level}"
        kind = operator if level == levels else "AND" if level % 2 else "SEQ"
        inner = f"{kind}({name}, {inner})"
    return Written(inner, listed("SEQ", core, window, core).conditions, window, core[0].lower())


def workload(
    count: int,
    basic: float,
    seed: int = 3,
    kinds: Sequence[int] | None = None,
    ratio: float = 0.5,
    window: int = 10_000,
) -> Workload:
    """So many different queries, a share of them of the basic group; a tenth as many cores are to be shared."""
    dice = random.Random(seed)
    cores = [dice.sample(COMMON, 3) for _ in range(max(count // 10, 1))]
    found: dict[Written, None] = {}
    while len(found) < count:
        group = (1, 2, 3, 4) if dice.random() < basic else (5, 6, 7)
        core = dice.choice(cores)
        others = dice.sample(RARE, 2)
        found |= dict.fromkeys(pair(dice.choice(kinds or group), core, others, window, ratio))
    return parse("\n\n".join(query.text(f"q{at}") for at, query in enumerate(list(found)[:count])))
