"""MOTTO's experiments: seven kinds of sharing among detection queries (its Table V), in the mixtures of figure 13, and
by number of queries, windows and nesting (figure 14). CPU seconds on one core, plans made before; gains over queries
that run alone.

The paper runs 100 queries over 2 million trades of a real exchange, published as fast as they are taken. Ours at its
size are 100 queries (40 where kinds or windows are apart, 20 that are nested) over 20,000 trades that are made up:
what a query costs for an event follows rates and windows rather than the length of the stream.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from typing import cast

import numpy as np
import pyarrow as pa

from benchmarks.baselines import motto_lcse
from benchmarks.engine import compare_times, compile_plans, describe_run, describe_runs
from benchmarks.measure import Measurement, run_interleaved
from benchmarks.registry import Axes, Experiment, Row, Seconds, Setting
from motet.engine.detect.measured_rates import measure_rates
from motet.engine.encode import encode_branch
from motet.engine.local import LocalRun
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.motto.motto import MottoOptions, optimize
from motet.options import OptimizerName, Options

SYMBOLS = tuple(f"S{number}" for number in range(1, 14))  # 13 stocks, as in the paper
SECOND = 1_000_000
WINDOW = 10_000  # milliseconds
COMPARED: tuple[OptimizerName, ...] = (
    "motto",
    "motto-merge",
    cast(OptimizerName, motto_lcse.NAME),
    "reorder",
)  # what the engine does without sharing in view, but with the best order of joins


def make_trades(events: int, seed: int = 1, per_second: float = 100.0, symbols: Sequence[str] = SYMBOLS) -> pa.Table:
    """Return trades of 13 stocks, or events of other types; prices are a random walk with noise."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, int(events / per_second * SECOND), events))
    symbol = rng.integers(0, len(symbols), events)
    price = 100 + np.cumsum(rng.normal(0, 0.01, events)) + rng.normal(0, 1, events)
    return pa.table(
        {
            "time": pa.array(at, pa.timestamp("us")),
            "type": pa.array(symbols).take(pa.array(symbol)),
            "price": pa.array(price),
        }
    )


# Workloads


@dataclass(frozen=True)
class QueryText:
    """A query in text: its pattern over numbered operands, conditions between some of them, and its window."""

    pattern: str
    conditions: tuple[str, ...]
    window: int
    shown: str

    def text(self, name: str) -> str:
        where = f"WHERE {' AND '.join(self.conditions)}\n" if self.conditions else ""
        return f"QUERY {name}\nRETURN {self.shown}\nPATTERN {self.pattern}\n{where}WITHIN {self.window} ms"


def write_conditions(operands: Sequence[str], core: Sequence[str], by: int = 2) -> tuple[str, ...]:
    """Write conditions by which prices rise along the core, and from every other stock to the first of the core.

    A rise by 2 holds for about one of ten pairs of trades, a rise by 1 for one of four.
    """
    steps = [*pairwise(core), *((operand, core[0]) for operand in operands if operand not in core)]
    return tuple(f"{a.lower()}.price + {by} < {b.lower()}.price" for a, b in steps)


def name_operands(operands: Sequence[str]) -> str:
    return ", ".join(f"{operand} {operand.lower()}" for operand in operands)


def write_query(operator: str, operands: Sequence[str], core: Sequence[str], window: int = WINDOW) -> QueryText:
    """Write an operator over stocks."""
    return QueryText(
        f"{operator}({name_operands(operands)})", write_conditions(operands, core), window, core[0].lower()
    )


def write_pair(kind: int, core: Sequence[str], others: Sequence[str]) -> list[QueryText]:
    """Write two queries with an opportunity to share of one of the seven types of Table V."""
    x, y = others[0], others[1]
    match kind:
        case 1:
            return [write_query("SEQ", core, core), write_query("SEQ", [*core, x], core)]
        case 2:
            return [write_query("AND", core, core), write_query("AND", [x, *core], core)]
        case 3:
            return [write_query("SEQ", core, core), write_query("SEQ", [*core[:-1], x, core[-1]], core)]
        case 4:
            return [write_query("SEQ", [x, *core], core), write_query("SEQ", [*core, y], core)]
        case 5:
            return [write_query("SEQ", core, core, WINDOW // 2), write_query("SEQ", [*core, x], core)]
        case 6:
            return [write_query("SEQ", core, core), write_query("AND", core, core)]
    return [write_nested(operator, core, others, 2) for operator in ("SEQ", "AND")]


def write_nested(operator: str, core: Sequence[str], around: Sequence[str], levels: int) -> QueryText:
    """Write the core as a sequence inside some levels, each with one more operand around it.

    The outermost level is of the given operator; those between are SEQ and AND in turn.
    """
    inner = f"SEQ({name_operands(core)})"
    for level in range(2, levels + 1):
        kind = operator if level == levels else "AND" if level % 2 else "SEQ"
        inner = f"{kind}({name_operands([around[level - 2]])}, {inner})"
    return QueryText(inner, write_conditions([*core, *around[: levels - 1]], core, by=1), WINDOW, core[0].lower())


@dataclass(frozen=True)
class Application:
    """One of the paper's two: its types of events, how many of them queries have in common, and how often they come."""

    symbols: tuple[str, ...] = SYMBOLS
    core: int = 3
    per_second: float = 100.0


STOCKS = Application()
# 36 types; lists of operands are shorter than those of stocks.
DATA_CENTRE = Application(tuple(f"E{number}" for number in range(1, 37)), core=2)


def choose_cores(count: int, dice: random.Random, of: Application = STOCKS) -> list[list[str]]:
    """Choose what so many queries share: a tenth as many lists of types."""
    return [dice.sample(of.symbols, of.core) for _ in range(max(count // 10, 1))]


def list_other_symbols(core: Sequence[str], dice: random.Random, of: Application = STOCKS) -> list[str]:
    """Return the other types, in any order."""
    return dice.sample([symbol for symbol in of.symbols if symbol not in core], len(of.symbols) - len(core))


def parse_queries(queries: Sequence[QueryText]) -> Workload:
    return parse("\n\n".join(query.text(f"q{at}") for at, query in enumerate(queries)))


def make_workload(
    count: int,
    basic: float,
    seed: int = 3,
    kinds: Sequence[int] = (),
    of: Application = STOCKS,
    is_printed: bool = False,
) -> Workload:
    """Return different queries: a share with the opportunities of the basic group, or only those of some kinds; with
    conditions on prices, or as printed, without any.
    """
    dice = random.Random(seed)
    cores = choose_cores(count, dice, of)
    found: dict[QueryText, None] = {}
    while len(found) < count:
        group = kinds or ((1, 2, 3, 4) if dice.random() < basic else (5, 6, 7))
        core, known = dice.choice(cores), len(found)
        pair = write_pair(dice.choice(group), core, list_other_symbols(core, dice, of))
        found |= dict.fromkeys(replace(each, conditions=()) if is_printed else each for each in pair)
        if len(found) == known:  # there are only so many different ones of a core
            cores.append(dice.sample(of.symbols, of.core))
    return parse_queries(list(found)[:count])


def make_windowed_workload(count: int, source: int, beneficiary: int, seed: int = 5) -> Workload:
    """Return sources and their beneficiaries with windows of so many milliseconds."""
    dice = random.Random(seed)
    found: dict[QueryText, None] = {}
    for core in choose_cores(count, dice):
        found[write_query("SEQ", core, core, source)] = None
        found |= dict.fromkeys(
            write_query("SEQ", [*core, x], core, beneficiary) for x in list_other_symbols(core, dice)
        )
    return parse_queries(list(found)[:count])


def make_nested_workload(count: int, levels: int, seed: int = 6) -> Workload:
    """Return nested queries with a common sub-query in the most inner of so many levels."""
    dice = random.Random(seed)
    cores = choose_cores(count, dice)
    found: dict[QueryText, None] = {}
    while len(found) < count:
        core = dice.choice(cores)
        found[write_nested(dice.choice(["SEQ", "AND"]), core, list_other_symbols(core, dice), levels)] = None
    return parse_queries(list(found))


# Measuring


def measure_throughput(queries: Workload, events: pa.Table, setting: Setting) -> Row:
    """Measure seconds of each variant, of queries that run alone, and of queries that run alone in the best order."""
    names: tuple[OptimizerName, ...] = ("none", *COMPARED)
    plans: dict[str, Options] = {name: Options(optimizer=name, budget=setting.pick(2.0, 5.0)) for name in names}
    runs = {name: LocalRun(program) for name, program in compile_plans(queries, events, plans).items()}
    pa.set_cpu_count(1)
    # A run plans for the first events that come, and goes on with that.
    cases = {name: partial(_count_matches, run, events) for name, run in runs.items()}
    timings = run_interleaved(cases, setting.repeats, time.process_time)
    unshared_cost = Measurement.of(timings["none"]).rate(len(events) / 1e3)
    return {
        "matches": _count_matches(runs["none"], events),
        **compare_times(timings, *COMPARED),
        "k events/s alone": unshared_cost,
        "ran": describe_runs({name: run.executed for name, run in runs.items()}),
    }


def _count_matches(run: LocalRun, events: pa.Table) -> int:
    """Run over events and return how many matches leave."""
    return sum(len(table) for table in run.run(events))


def measure_search(queries: Workload, events: pa.Table) -> Row:
    """Measure the estimated cost against queries alone, and how long the search takes, exact and approximate."""
    (program,) = compile_plans(queries, events, {"motto": Options(optimizer="motto")}).values()
    (branch,) = program.detect
    read = events.select(branch.columns)
    encoded = encode_branch(program, branch, read)
    wanted, rates = branch.join_specs, measure_rates(branch, encoded)
    row: Row = {}
    for name, exact in (("exact", True), ("annealing", False)):
        plan = optimize(wanted, rates, MottoOptions(seconds=20.0, exact=exact))
        row |= {f"{name} % of cost alone": 100 * plan.cost / plan.unshared_cost, f"{name} search s": plan.seconds}
    return row


def vary_mixture(setting: Setting, of: Application = STOCKS, is_printed: bool = False) -> list[Row]:
    """Vary the share of queries with the opportunities of the basic group.

    As printed, without conditions, a query has thousands of matches for an event where 100 events come in a second: so
    then fewer do.
    """
    per_second = of.per_second / 10 if is_printed else of.per_second
    table = make_trades(setting.pick(5_000, 20_000), per_second=per_second, symbols=of.symbols)
    count = setting.pick(50, 100)
    rows: list[Row] = []
    for share in setting.pick((0, 50, 100), (0, 25, 50, 75, 100)):
        queries = make_workload(count, share / 100, of=of, is_printed=is_printed)
        rows.append({"basic %": share, **measure_throughput(queries, table, setting)})
    return rows


def vary_cores(setting: Setting) -> list[Row]:
    """Measure seconds by the clock on one core and more: processes, each with its share of independent streams.

    The paper spreads sub-queries over cores. A run in process finds matches on one core, so here streams are spread, as
    Spark does with its tasks.
    """
    streams = [make_trades(setting.pick(5_000, 20_000), seed=seed) for seed in range(4)]
    queries = make_workload(setting.pick(50, 100), 1.0)
    rows: list[Row] = []
    first = 0.0
    for cores in (1, 2, 4):
        if cores > (os.cpu_count() or 1):
            break
        # Fresh processes: numba's threads do not survive a fork.
        with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
            run = partial(_find_in_stream, queries)
            ran = "; ".join(sorted({each for _, each in pool.map(run, streams)}))
            seconds, matches = [], 0
            for _ in range(setting.repeats):
                began = time.perf_counter()
                matches = sum(count for count, _ in pool.map(run, streams))
                seconds.append(time.perf_counter() - began)
        measured = Measurement.of(seconds)
        first = first or measured.median
        rate = measured.rate(sum(map(len, streams)) / 1e3)
        row: Row = {"cores": cores, "matches": matches, "wall s": measured, "speed-up": first / measured.median}
        rows.append({**row, "k events/s": rate, "ran": ran})
    return rows


def _find_in_stream(queries: Workload, events: pa.Table) -> tuple[int, str]:
    """Plan and run by MOTTO, and return how many matches leave, and what was executed."""
    pa.set_cpu_count(1)
    run = LocalRun(compile_plans(queries, events, {"": Options(optimizer="motto", budget=0.5)})[""])
    return _count_matches(run, events), describe_run(run.executed)


def vary_kind(setting: Setting) -> list[Row]:
    """Measure each of the seven types of Table V by itself."""
    table, count = make_trades(setting.pick(5_000, 20_000)), setting.pick(20, 40)
    return [
        {"type": kind, **measure_throughput(make_workload(count, 0, kinds=(kind,)), table, setting)}
        for kind in range(1, 8)
    ]


def vary_queries(setting: Setting) -> list[Row]:
    """Measure the number of queries, with the search for a plan: exact, and by annealing."""
    table, rows = make_trades(setting.pick(5_000, 20_000)), []
    for count in setting.pick((20, 60), (20, 40, 60, 80, 100)):
        queries = make_workload(count, 1.0)
        rows.append({"queries": count, **measure_throughput(queries, table, setting), **measure_search(queries, table)})
    return rows


def vary_windows(setting: Setting) -> list[Row]:
    """Measure windows of sources against those of beneficiaries, from 4:1 to 1:4."""
    table, rows = make_trades(setting.pick(5_000, 20_000)), []
    for source, beneficiary in setting.pick(((2, 1), (1, 1), (1, 2)), ((4, 1), (2, 1), (1, 1), (1, 2), (1, 4))):
        part = WINDOW // max(source, beneficiary)
        queries = make_windowed_workload(setting.pick(20, 40), part * source, part * beneficiary)
        rows.append({"windows": f"{source}:{beneficiary}", **measure_throughput(queries, table, setting)})
    return rows


def vary_nesting(setting: Setting) -> list[Row]:
    """Vary the levels of nesting, with the common sub-query in the innermost one.

    Every level multiplies the partial matches by the events in a window, so events come more slowly: 5 a second where
    there are up to 8 levels, as in the paper. Else queries that run alone take minutes for each thousand events.
    """
    table = make_trades(setting.pick(5_000, 20_000), per_second=setting.pick(20.0, 5.0))
    levels = setting.pick((2, 4), (2, 3, 4, 6, 8))
    return [
        {"levels": level, **measure_throughput(make_nested_workload(20, level), table, setting)} for level in levels
    ]


LINES = ("none", "reorder", "motto-merge", "motto-lcse", "motto")


def make_axes(x: str) -> Axes:
    return Axes(x, LINES, "CPU s")


EXPERIMENTS = (
    Experiment(
        "motto-13",
        "MOTTO",
        "13(a)",
        "sharing in mixtures of the seven kinds of Table V, stocks",
        Seconds(10, 600),
        vary_mixture,
        make_axes("basic %"),
    ),
    Experiment(
        "motto-13b",
        "MOTTO",
        "13(b)",
        "the same, a data centre: 36 types, shorter patterns",
        Seconds(20, 600),
        partial(vary_mixture, of=DATA_CENTRE),
        make_axes("basic %"),
        heavy=True,
    ),
    Experiment(
        "motto-13-printed",
        "MOTTO",
        "13(a)",
        "the same, stocks: queries as printed, without conditions",
        Seconds(20, 600),
        partial(vary_mixture, is_printed=True),
        make_axes("basic %"),
        heavy=True,
    ),
    Experiment(
        "motto-14b",
        "MOTTO",
        "14(b)",
        "matches of four streams by number of cores",
        Seconds(20, 120),
        vary_cores,
        heavy=True,
    ),
    Experiment(
        "motto-kinds",
        "MOTTO",
        "Table V",
        "sharing of each kind by itself",
        Seconds(8, 290),
        vary_kind,
        make_axes("type"),
    ),
    Experiment(
        "motto-14a",
        "MOTTO",
        "14(a)",
        "sharing by number of queries",
        Seconds(8, 200),
        vary_queries,
        make_axes("queries"),
    ),
    Experiment(
        "motto-14c",
        "MOTTO",
        "14(c)",
        "sharing between different windows",
        Seconds(6, 60),
        vary_windows,
        make_axes("windows"),
    ),
    Experiment(
        "motto-14d",
        "MOTTO",
        "14(d)",
        "sharing within nested patterns, by levels",
        Seconds(12, 260),
        vary_nesting,
        make_axes("levels"),
    ),
)
