"""MOTTO's experiments: seven kinds of sharing among detection queries (its Table V), in the mixtures of figure 13, and
by number of queries, windows and nesting (figure 14). CPU seconds on one core, plans made before; gains over queries
that run alone.

The paper runs 100 queries over 2 million trades of a real exchange, published as fast as they are taken. Ours at its
size are 100 queries (40 where kinds or windows are apart, 20 that are nested) over 20,000 trades that are made up:
what a query costs for an event follows rates and windows rather than the length of the stream.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from motet.bench.engine import against, programs
from motet.bench.measure import Measured, in_turn
from motet.bench.registry import Axes, Experiment, Row, Seconds, Setting
from motet.engine import Options
from motet.engine.detect.measure import rates_of
from motet.engine.encode import encode
from motet.engine.local import LocalRun
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.detect.motto.motto import VARIANTS, MottoOptions, optimize

SYMBOLS = tuple(f"S{number}" for number in range(1, 14))  # 13 stocks, as in the paper
SECOND = 1_000_000
WINDOW = 10_000  # milliseconds
COMPARED = (*VARIANTS, "reorder")  # what the engine does without sharing in view, but with the best order of joins


def trades(events: int, seed: int = 1, per_second: float = 100.0) -> pa.Table:
    """Trades of 13 stocks; prices are a random walk with noise."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, int(events / per_second * SECOND), events))
    symbol = rng.integers(0, len(SYMBOLS), events)
    price = 100 + np.cumsum(rng.normal(0, 0.01, events)) + rng.normal(0, 1, events)
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


def conditions(operands: Sequence[str], core: Sequence[str], by: int = 2) -> tuple[str, ...]:
    """Prices go up from one stock of the core to the next, and from every other stock to the first of the core: by 2 in
    about one of ten pairs of trades, by 1 in one of four.
    """
    steps = [*pairwise(core), *((operand, core[0]) for operand in operands if operand not in core)]
    return tuple(f"{a.lower()}.price + {by} < {b.lower()}.price" for a, b in steps)


def named(operands: Sequence[str]) -> str:
    return ", ".join(f"{operand} {operand.lower()}" for operand in operands)


def listed(operator: str, operands: Sequence[str], core: Sequence[str], window: int = WINDOW) -> Written:
    """An operator over stocks."""
    return Written(f"{operator}({named(operands)})", conditions(operands, core), window, core[0].lower())


def pair(kind: int, core: Sequence[str], others: Sequence[str]) -> list[Written]:
    """Two queries with an opportunity to share of one of the seven types of Table V."""
    x, y = others[0], others[1]
    match kind:
        case 1:
            return [listed("SEQ", core, core), listed("SEQ", [*core, x], core)]
        case 2:
            return [listed("AND", core, core), listed("AND", [x, *core], core)]
        case 3:
            return [listed("SEQ", core, core), listed("SEQ", [*core[:-1], x, core[-1]], core)]
        case 4:
            return [listed("SEQ", [x, *core], core), listed("SEQ", [*core, y], core)]
        case 5:
            return [listed("SEQ", core, core, WINDOW // 2), listed("SEQ", [*core, x], core)]
        case 6:
            return [listed("SEQ", core, core), listed("AND", core, core)]
    return [nested(operator, core, others, 2) for operator in ("SEQ", "AND")]


def nested(operator: str, core: Sequence[str], around: Sequence[str], levels: int) -> Written:
    """The core as a sequence in the most inner of some levels, each with one more operand around it; the most outer one
    is of the given operator, those between are SEQ and AND in turn.
    """
    inner = f"SEQ({named(core)})"
    for level in range(2, levels + 1):
        kind = operator if level == levels else "AND" if level % 2 else "SEQ"
        inner = f"{kind}({named([around[level - 2]])}, {inner})"
    return Written(inner, conditions([*core, *around[: levels - 1]], core, by=1), WINDOW, core[0].lower())


def cores_of(count: int, dice: random.Random) -> list[list[str]]:
    """What so many queries are to share: a tenth as many lists of stocks."""
    return [dice.sample(SYMBOLS, 3) for _ in range(max(count // 10, 1))]


def others_than(core: Sequence[str], dice: random.Random) -> list[str]:
    """Other stocks, in any order."""
    return dice.sample([symbol for symbol in SYMBOLS if symbol not in core], len(SYMBOLS) - len(core))


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
        core, known = dice.choice(cores), len(found)
        found |= dict.fromkeys(pair(dice.choice(group), core, others_than(core, dice)))
        if kinds and len(found) == known:  # there are only so many different ones of a core
            cores.append(dice.sample(SYMBOLS, 3))
    return written(list(found)[:count])


def windowed(count: int, source: int, beneficiary: int, seed: int = 5) -> Workload:
    """Sources and their beneficiaries with windows of so many milliseconds."""
    dice = random.Random(seed)
    found: dict[Written, None] = {}
    for core in cores_of(count, dice):
        found[listed("SEQ", core, core, source)] = None
        found |= dict.fromkeys(listed("SEQ", [*core, x], core, beneficiary) for x in others_than(core, dice))
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
    """Seconds of each variant, of queries that run alone, and of queries that run alone in the best order."""
    plans = {name: Options(optimizer=name, budget=setting.pick(2.0, 5.0)) for name in ("none", *COMPARED)}
    runs = {name: LocalRun(program) for name, program in programs(queries, events, plans).items()}
    pa.set_cpu_count(1)
    # A run plans for the first events that come, and goes on with that.
    cases = {name: partial(_leaving, run, events) for name, run in runs.items()}
    taken = in_turn(cases, setting.repeats, time.process_time)
    alone = Measured.of(taken["none"]).rate(len(events) / 1e3)
    return {"matches": _leaving(runs["none"], events), **against(taken, *COMPARED), "k events/s alone": alone}


def _leaving(run: LocalRun, events: pa.Table) -> int:
    """How many matches leave."""
    return sum(len(table) for table in run.over_table(events))


def searches(queries: Workload, events: pa.Table) -> Row:
    """What the plan costs by estimate against queries alone, and the seconds of the search, exact and approximate."""
    (program,) = programs(queries, events, {"motto": Options(optimizer="motto")}).values()
    (branch,) = program.detect
    read = events.select(branch.columns)
    encoded = encode(read, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)
    wanted, rates = branch.wanted, rates_of(branch, encoded)
    row: Row = {}
    for name, exact in (("exact", True), ("annealing", False)):
        plan = optimize(wanted, rates, MottoOptions(budget=20.0, exact=exact))
        row |= {f"{name} % of cost alone": 100 * plan.cost / plan.alone, f"{name} search s": plan.seconds}
    return row


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
    """The number of queries, with the search for a plan: exact, and by annealing."""
    table, rows = trades(setting.pick(5_000, 20_000)), []
    for count in setting.pick((20, 60), (20, 40, 60, 80, 100)):
        queries = workload(count, 1.0)
        rows.append({"queries": count, **throughput(queries, table, setting), **searches(queries, table)})
    return rows


def by_windows(setting: Setting) -> list[Row]:
    """Windows of sources against those of beneficiaries, from 4:1 to 1:4."""
    table, rows = trades(setting.pick(5_000, 20_000)), []
    for source, beneficiary in setting.pick(((2, 1), (1, 1), (1, 2)), ((4, 1), (2, 1), (1, 1), (1, 2), (1, 4))):
        part = WINDOW // max(source, beneficiary)
        queries = windowed(setting.pick(20, 40), part * source, part * beneficiary)
        rows.append({"windows": f"{source}:{beneficiary}", **throughput(queries, table, setting)})
    return rows


def by_nesting(setting: Setting) -> list[Row]:
    """Levels of nesting, the common sub-query in the most inner one. Fewer events a second, since every level takes the
    number of partial matches times that of the events in a window: 5 a second where there are up to 8 levels, as in
    the paper, or queries that run alone take minutes for each thousand events.
    """
    table = trades(setting.pick(5_000, 20_000), per_second=setting.pick(20.0, 5.0))
    levels = setting.pick((2, 4), (2, 3, 4, 6, 8))
    return [{"levels": level, **throughput(deep(20, level), table, setting)} for level in levels]


LINES = ("none", "reorder", "motto-merge", "motto-lcse", "motto")


def axes(x: str) -> Axes:
    return Axes(x, LINES, "CPU s")


EXPERIMENTS = (
    Experiment(
        "motto-13",
        "MOTTO",
        "13",
        "sharing in mixtures of the seven kinds of Table V, stocks",
        Seconds(20, 600),
        by_mixture,
        axes("basic %"),
    ),
    Experiment(
        "motto-kinds",
        "MOTTO",
        "Table V",
        "sharing of each kind by itself",
        Seconds(17, 290),
        by_kind,
        axes("type"),
    ),
    Experiment(
        "motto-14a", "MOTTO", "14(a)", "sharing by number of queries", Seconds(8, 200), by_queries, axes("queries")
    ),
    Experiment(
        "motto-14c",
        "MOTTO",
        "14(c)",
        "sharing between different windows",
        Seconds(6, 60),
        by_windows,
        axes("windows"),
    ),
    Experiment(
        "motto-14d",
        "MOTTO",
        "14(d)",
        "sharing within nested patterns, by levels",
        Seconds(12, 260),
        by_nesting,
        axes("levels"),
    ),
)
