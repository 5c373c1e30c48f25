"""MOTTO's experiments: seven kinds of sharing among detection queries (its Table V), in the mixtures of figure 13, and
by number of queries, windows and nesting (figure 14). CPU seconds on one core, plans made before; gains over queries
that run alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from motet.bench.engine import against, matches, programs, timed
from motet.bench.measure import Measured
from motet.bench.registry import Axes, Experiment, Row, Setting
from motet.engine import Options
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.detect.motto.motto import VARIANTS

SYMBOLS = tuple(f"S{number}" for number in range(1, 14))  # 13 stocks, as in the paper
COMMON, RARE = SYMBOLS[:6], SYMBOLS[6:]
SECOND = 1_000_000
WINDOW = 10_000  # milliseconds


def trades(events: int, seed: int = 1, per_second: float = 30.0) -> pa.Table:
    """Trades of 13 stocks, six of them traded a hundred times as much; prices are a random walk with noise."""
    rng = np.random.default_rng(seed)
    shares = np.array([100.0 if symbol in COMMON else 1.0 for symbol in SYMBOLS])
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


def pair(kind: int, core: Sequence[str], others: Sequence[str]) -> list[Written]:
    """Two queries with an opportunity to share of one of the seven types of Table V."""
    x, y = others[0], others[1]
    match kind:
        case 1:
            return [listed("SEQ", core, WINDOW, core), listed("SEQ", [*core, x], WINDOW, core)]
        case 2:
            return [listed("AND", core, WINDOW, core), listed("AND", [x, *core], WINDOW, core)]
        case 3:
            return [listed("SEQ", core, WINDOW, core), listed("SEQ", [*core[:-1], x, core[-1]], WINDOW, core)]
        case 4:
            return [listed("SEQ", [x, *core], WINDOW, core), listed("SEQ", [*core, y], WINDOW, core)]
        case 5:
            return [listed("SEQ", core, WINDOW // 2, core), listed("SEQ", [*core, x], WINDOW, core)]
        case 6:
            return [listed("SEQ", core, WINDOW, core), listed("AND", core, WINDOW, core)]
    return [nested(operator, core, others, 2) for operator in ("SEQ", "AND")]


def nested(operator: str, core: Sequence[str], around: Sequence[str], levels: int) -> Written:
    """The core as a sequence in the most inner of some levels, each with one more operand around it; the most outer one
    is of the given operator, those between are SEQ and AND in turn.
    """
    inner = f"SEQ({', '.join(f'{each} {each.lower()}' for each in core)})"
    for level in range(2, levels + 1):
        kind = operator if level == levels else "AND" if level % 2 else "SEQ"
        outer = around[level - 2]
        inner = f"{kind}({outer} {outer.lower()}, {inner})"
    return Written(inner, listed("SEQ", core, WINDOW, core).conditions, WINDOW, core[0].lower())


def cores_of(count: int, dice: random.Random) -> list[list[str]]:
    """What so many queries are to share, a tenth as many: two stocks that are traded much and one that is not. So most
    of what is found on the way to a match comes to nothing, as where one looks for something rare.
    """
    return [[*dice.sample(COMMON, 2), dice.choice(RARE)] for _ in range(max(count // 10, 1))]


def others_than(core: Sequence[str], dice: random.Random) -> list[str]:
    """Stocks that are not traded much either, in any order."""
    return dice.sample([symbol for symbol in RARE if symbol not in core], len(RARE) - 1)


def written(queries: Sequence[Written]) -> Workload:
    return parse("\n\n".join(query.text(f"q{at}") for at, query in enumerate(queries)))


def workload(count: int, basic: float, seed: int = 3, kinds: Sequence[int] = ()) -> Workload:
    """So many different queries, a share of them with the opportunities of the basic group, or only those of some
    kinds.
    """
    dice = random.Random(seed)
    cores = cores_of(count, dice)
    found: dict[Written, None] = {}
    while len(found) < count:
        group = kinds or ((1, 2, 3, 4) if dice.random() < basic else (5, 6, 7))
        core = dice.choice(cores)
        found |= dict.fromkeys(pair(dice.choice(group), core, others_than(core, dice)))
    return written(list(found)[:count])


def windowed(count: int, source: int, beneficiary: int, seed: int = 5) -> Workload:
    """Sources and their beneficiaries with windows of so many milliseconds."""
    dice = random.Random(seed)
    found: dict[Written, None] = {}
    for core in cores_of(count, dice):
        found[listed("SEQ", core, source, core)] = None
        found |= dict.fromkeys(listed("SEQ", [*core, each], beneficiary, core) for each in others_than(core, dice))
    return written(list(found)[:count])


def deep(count: int, levels: int, seed: int = 6) -> Workload:
    """Nested queries with a common sub-query in the most inner of so many levels."""
    dice = random.Random(seed)
    cores = cores_of(count, dice)
    found: dict[Written, None] = {}
    while len(found) < count:
        core = dice.choice(cores)
        found[nested(dice.choice(["SEQ", "AND"]), core, others_than(core, dice), levels)] = None
    return written(list(found))


# Measuring


def throughput(queries: Workload, events: pa.Table, setting: Setting) -> Row:
    """Seconds of each variant and of queries that run alone."""
    plans = {name: Options(optimizer=name, budget=setting.pick(2.0, 5.0)) for name in ("none", *VARIANTS)}
    compiled = programs(queries, events, plans)
    taken = timed(compiled, events, setting.repeats)
    alone = Measured.of(taken["none"]).rate(len(events) / 1e3)
    return {"matches": matches(compiled["none"], events), **against(taken, *VARIANTS), "k events/s alone": alone}


def by_mixture(setting: Setting) -> list[Row]:
    """The share of queries with the opportunities of the basic group."""
    table, count = trades(setting.pick(5_000, 20_000)), setting.pick(50, 100)
    shares = setting.pick((0, 50, 100), (0, 25, 50, 75, 100))
    return [{"basic %": share, **throughput(workload(count, share / 100), table, setting)} for share in shares]


def by_kind(setting: Setting) -> list[Row]:
    """Each of the seven types of Table V by itself."""
    table, count = trades(setting.pick(5_000, 20_000)), setting.pick(20, 40)
    return [{"type": kind, **throughput(workload(count, 0, kinds=(kind,)), table, setting)} for kind in range(1, 8)]


def by_queries(setting: Setting) -> list[Row]:
    """The number of queries."""
    table = trades(setting.pick(5_000, 20_000))
    counts = setting.pick((20, 60), (20, 40, 60, 80, 100))
    return [{"queries": count, **throughput(workload(count, 1.0), table, setting)} for count in counts]


def by_windows(setting: Setting) -> list[Row]:
    """Windows of sources against those of beneficiaries, from 4:1 to 1:4."""
    table, rows = trades(setting.pick(5_000, 20_000)), []
    for source, beneficiary in setting.pick(((2, 1), (1, 1), (1, 2)), ((4, 1), (2, 1), (1, 1), (1, 2), (1, 4))):
        part = WINDOW // max(source, beneficiary)
        queries = windowed(setting.pick(20, 40), part * source, part * beneficiary)
        rows.append({"windows": f"{source}:{beneficiary}", **throughput(queries, table, setting)})
    return rows


def by_nesting(setting: Setting) -> list[Row]:
    """Levels of nesting, the common sub-query in the most inner one."""
    table = trades(setting.pick(5_000, 20_000))
    levels = setting.pick((2, 4), (2, 3, 4, 6, 8))
    return [{"levels": level, **throughput(deep(20, level), table, setting)} for level in levels]


LINES = ("none", "motto-merge", "motto-lcse", "motto")


def axes(x: str) -> Axes:
    return Axes(x, LINES, "CPU s")


EXPERIMENTS = (
    Experiment(
        "motto-13",
        "MOTTO",
        "13",
        "sharing in mixtures of the seven kinds of Table V, stocks",
        25,
        by_mixture,
        axes("basic %"),
    ),
    Experiment("motto-kinds", "MOTTO", "Table V", "sharing of each kind by itself", 30, by_kind, axes("type")),
    Experiment("motto-14a", "MOTTO", "14(a)", "sharing by number of queries", 15, by_queries, axes("queries")),
    Experiment("motto-14c", "MOTTO", "14(c)", "sharing between different windows", 15, by_windows, axes("windows")),
    Experiment(
        "motto-14d", "MOTTO", "14(d)", "sharing within nested patterns, by levels", 15, by_nesting, axes("levels")
    ),
)
