"""MOTTO's experiments: seven kinds of sharing among detection queries (its Table V), in the mixtures of figure 13, and
by number of queries, windows and nesting (figure 14). Throughput relative to queries that run alone, in one run.

python -m benchmarks.motto
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.report import arguments, in_turn, median, show
from motet.engine import EventSchema, Options, Program, compile_workload
from motet.engine.detect.measure import rates_of
from motet.engine.encode import encode
from motet.engine.local import LocalRun
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.detect.motto.motto import VARIANTS, MottoOptions, optimize
from motet.plan.detect.build import trees_wanted

SYMBOLS = tuple(f"S{number}" for number in range(1, 14))  # 13 stocks, as in the paper
SECOND = 1_000_000
WINDOW = 10_000  # milliseconds
Row = dict[str, Any]


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


def conditions(operands: Sequence[str], core: Sequence[str]) -> tuple[str, ...]:
    """Prices go up by 2 from one stock of the core to the next, and from every other stock to the first of the core: of
    ten pairs of trades about one does that.
    """
    steps = [*pairwise(core), *((operand, core[0]) for operand in operands if operand not in core)]
    return tuple(f"{a.lower()}.price + 2 < {b.lower()}.price" for a, b in steps)


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
    return Written(inner, conditions([*core, *around[: levels - 1]], core), WINDOW, core[0].lower())


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
        core = dice.choice(cores)
        found |= dict.fromkeys(pair(dice.choice(group), core, others_than(core, dice)))
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


def throughput(queries: Workload, events: pa.Table, repeats: int) -> Row:
    """How many times as many events a second each variant takes as queries that run alone; all in turn, CPU seconds on
    one core, plans made before.
    """
    pa.set_cpu_count(1)
    schema = EventSchema(events.schema)
    names = ("none", *VARIANTS)
    runs = {name: LocalRun(compile_workload(queries, schema, Options(optimizer=name, budget=5.0))) for name in names}
    matches = sum(len(table) for table in runs["none"].over_table(events))
    seconds = in_turn({name: partial(_all, run, events) for name, run in runs.items()}, repeats, time.process_time)
    alone = median(seconds["none"])
    row: Row = {"queries": len(queries.queries), "matches": matches, "alone events/s": round(len(events) / alone)}
    return row | {f"x {name.removeprefix('motto-')}": alone / median(seconds[name]) for name in VARIANTS}


def _all(run: LocalRun, events: pa.Table) -> int:
    return sum(len(table) for table in run.over_table(events))


def by_mixture(events: int = 20_000, count: int = 100, repeats: int = 3) -> list[Row]:
    """Figure 13: the share of queries with the opportunities of the basic group."""
    table = trades(events)
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    return [{"basic": f"{share:.0%}"} | throughput(workload(count, share), table, repeats) for share in shares]


def by_kind(events: int = 20_000, count: int = 40, repeats: int = 3) -> list[Row]:
    """Each of the seven types of Table V by itself."""
    table = trades(events)
    return [{"type": kind} | throughput(workload(count, 0, kinds=(kind,)), table, repeats) for kind in range(1, 8)]


def by_queries(events: int = 20_000, repeats: int = 3) -> list[Row]:
    """Figure 14a: the number of queries; what the plan costs by branch and bound and by annealing, and the search."""
    table = trades(events)
    rows = []
    for count in (20, 40, 60, 80, 100):
        queries = workload(count, 1.0)
        rows.append(throughput(queries, table, repeats) | dict(searches(queries, table)))
    return rows


def searches(queries: Workload, events: pa.Table) -> Iterator[tuple[str, Any]]:
    """The estimated cost against queries alone, and the seconds of the search, exact and approximate."""
    program = compile_workload(queries, EventSchema(events.schema), Options(optimizer="motto"))
    for name, exact in (("exact", True), ("annealing", False)):
        cost, alone, seconds, proved = planned(
            program, events, MottoOptions(budget=60.0 if exact else 20.0, exact=exact)
        )
        yield f"{name} cost", f"{cost / alone:.1%}" + (" (proved)" if proved else "")
        yield f"{name} s", seconds


def planned(program: Program, events: pa.Table, options: MottoOptions) -> tuple[float, float, float, bool]:
    """The estimated cost of a plan and of queries alone, the seconds it took, and whether it is proved the best."""
    (branch,) = program.detect
    read = events.select(branch.columns)
    encoded = encode(read, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)
    wanted = trees_wanted(branch.queries)
    plan = optimize(wanted, rates_of(branch, encoded, "motto"), options)
    return plan.cost, plan.alone, plan.seconds, plan.proved


def by_windows(events: int = 20_000, count: int = 40, repeats: int = 3) -> list[Row]:
    """Figure 14c: windows of sources against those of beneficiaries, from 4:1 to 1:4."""
    table = trades(events)
    rows = []
    for source, beneficiary in ((4, 1), (2, 1), (1, 1), (1, 2), (1, 4)):
        larger = WINDOW // max(source, beneficiary)
        queries = windowed(count, larger * source, larger * beneficiary)
        rows.append({"windows": f"{source}:{beneficiary}"} | throughput(queries, table, repeats))
    return rows


def by_nesting(events: int = 20_000, count: int = 20, repeats: int = 3) -> list[Row]:
    """Figure 14d: levels of nesting, the common sub-query in the most inner one."""
    table = trades(events)
    return [{"levels": levels} | throughput(deep(count, levels), table, repeats) for levels in (2, 3, 4, 6, 8)]


def main() -> None:
    options = arguments(__doc__ or "", repeats=3, events=20_000)
    for title, rows in (
        ("Figure 13: mixtures", by_mixture),
        ("Table V: kinds", by_kind),
        ("Figure 14a: number of queries", by_queries),
        ("Figure 14c: windows of source and beneficiary", by_windows),
        ("Figure 14d: levels of nesting", by_nesting),
    ):
        show(title, rows(events=options.events, repeats=options.repeats))  # type: ignore[operator]


if __name__ == "__main__":
    main()
