"""Many patterns over stock-like events (the multi-pattern paper's figures 10 to 13): no sharing and no reordering, each
remedy alone, multi-pattern trees, and what happens when rates change. CPU seconds on one core.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import pyarrow as pa

from benchmarks.baselines import spass, tabu
from benchmarks.engine import Executed, compare_times, compile_plans, count_matches, describe_runs, time_programs
from benchmarks.measure import Measurement, run_interleaved
from benchmarks.registry import Axes, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from motet import api
from motet.compile import Program
from motet.engine.detect.planner import BranchPlanner, DetectReplanPolicy
from motet.engine.detect.run import DetectRun
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.multitree.graph import MultiPatternGraph
from motet.optimizer.multitree.multitree import LocalSearch, MultitreeOptions, optimize
from motet.optimizer.multitree.patterns import KeyedPattern, Numbering
from motet.optimizer.solvers.local_search import anneal
from motet.options import OptimizerName, Options

PAPER = "multi-pattern trees"
SEARCHES: dict[str, LocalSearch] = {"annealing": anneal, "tabu": tabu.search_plans}
BATCH = 10_000  # events of a stream that come together
# All are measured against the first.
PLANS: tuple[OptimizerName, ...] = (
    "none",
    "share",
    "reorder",
    cast(OptimizerName, spass.NAME),
    "motto",
    "multitree-prefix",
    "multitree",
)
# The combinations of figure 10, each by how long its plan runs.
NEIGHBOURHOODS = (
    "multitree",
    "multitree-vertex",
    tabu.WIDE_VERTEX,
    tabu.EDGE,
    tabu.VERTEX,
    "multitree-prefix",
)


@dataclass(frozen=True)
class Shape:
    """A workload as in the paper's section 6: how many patterns, of how many events, within how long or how many."""

    patterns: int = 100
    size: int = 5
    minutes: int = 15
    rows: int = 0  # where windows count events: how many
    conditions: int = 0  # between two events of a pattern each; 0: half as many as it has events
    alike: float = 0.0  # where all conditions hold as often: by how much one change has to exceed another
    types: int = 25
    seed: int = 1
    is_traffic: bool = False  # observations of roads in place of changes of prices
    spread: float = 23.5  # how many times as often the most frequent type occurs as the rarest


def make_stocks(events: int, types: int, seed: int = 7, spread: float = 23.5) -> pa.Table:
    """Return changes of prices: some stocks trade 23 times as often as others (in the paper: 2 to 47 a second)."""
    rng = np.random.default_rng(seed)
    weights = np.exp(np.linspace(0, np.log(spread), types))
    kind = rng.permutation(types)[rng.choice(types, events, p=weights / weights.sum())]
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(0, events * 1_000_000, events)), pa.timestamp("us")),
            "type": pa.array([f"S{at:02}" for at in range(types)]).take(pa.array(kind)),
            "diff": pa.array(rng.normal(0, 1, events)),
        }
    )


def make_traffic(events: int, types: int, seed: int = 8) -> pa.Table:
    """Return observations of roads, one point as often as another: where there are more vehicles they are slower."""
    rng = np.random.default_rng(seed)
    vehicles = rng.gamma(2.0, 10.0, events)
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(0, events * 1_000_000, events)), pa.timestamp("us")),
            "type": pa.array([f"S{at:02}" for at in range(types)]).take(pa.array(rng.integers(0, types, events))),
            "vehicles": pa.array(vehicles),
            "speed": pa.array(90 - vehicles + rng.normal(0, 8, events)),
        }
    )


def make_events(events: int, shape: Shape) -> pa.Table:
    """Return the events of a workload."""
    if shape.is_traffic:
        return make_traffic(events, shape.types)
    return make_stocks(events, shape.types, spread=shape.spread)


def make_workload(shape: Shape) -> Workload:
    """Return sequences with half as many conditions as events, each between two of them.

    A condition holds for 0.3 to 24 percent of pairs. One pattern in ten has a NOT, one a repetition, and one is a
    conjunction with twice as many conditions: else almost all matches would be its.
    """
    rng = np.random.default_rng(shape.seed)
    # Two stocks are compared in the same way wherever they are.
    steps = rng.choice([1.0, 2.0, 3.0, 3.8], (shape.types, shape.types), p=[0.1, 0.25, 0.3, 0.35])
    if shape.alike:
        steps[:] = shape.alike
    texts = []
    for number in range(shape.patterns):
        chosen = [int(at) for at in rng.choice(shape.types, shape.size, replace=False)]
        events = [f"S{at:02} v{at}" for at in chosen]
        compared = list(chosen)
        kind = rng.random()
        if 0.1 <= kind < 0.2:
            looped = int(rng.integers(1, shape.size - 1))
            events[looped] = f"S{chosen[looped]:02}{{1,2}} v{chosen[looped]}"
            compared.remove(chosen[looped])
        elif kind < 0.1:
            events.insert(int(rng.integers(1, shape.size)), f"NOT S{rng.integers(shape.types):02}")
        pairs = [(a, b) for a in sorted(compared) for b in sorted(compared) if a < b]
        count = shape.conditions or (shape.size if kind > 0.9 else (shape.size + 1) // 2)
        wanted = rng.choice(len(pairs), min(count, len(pairs)), replace=False)
        conditions = [compare_events(shape, a, b, float(steps[a, b])) for a, b in (pairs[at] for at in wanted)]
        window = f"{shape.rows} EVENTS" if shape.rows else f"{shape.minutes} min"
        texts.append(
            f"QUERY q{number}\nRETURN *\nPATTERN {'AND' if kind > 0.9 else 'SEQ'}({', '.join(events)})\n"
            f"WHERE {' AND '.join(conditions)}\nWITHIN {window}"
        )
    return parse("\n\n".join(texts))


def compare_events(shape: Shape, one: int, other: int, step: float) -> str:
    """Write a condition on two events: prices rise, or both vehicles and speed do, by so many steps."""
    if shape.is_traffic:
        rises = (("vehicles", 4 * step), ("speed", 4 * step))
        return " AND ".join(f"v{one}.{name} + {by} < v{other}.{name}" for name, by in rises)
    return f"v{one}.diff + {step} < v{other}.diff"


# Throughput


def measure_throughput(shape: Shape, setting: Setting, names: Sequence[str] = PLANS) -> Row:
    """Measure the seconds of each plan against the first; plans are made ahead, from statistics.

    The more patterns, the fewer events: in the order as written, 500 patterns take 5 seconds for every 1,000 events.
    The stream of the paper has 80 million.
    """
    events = setting.pick(3_000, min(10_000, 2_000_000 // shape.patterns))
    table, workload = make_events(events, shape), make_workload(shape)
    known = api.profile(table, workload)
    plans: dict[str, Options] = {
        name: Options(optimizer=cast(OptimizerName, name), statistics=known, budget=setting.pick(1.0, 5.0))
        for name in names
    }
    compiled = compile_plans(workload, table, plans)
    timings, ran = time_programs(compiled, table, setting.repeats)
    unshared_cost = Measurement.of(timings["none"]).rate(len(table) / 1e3)
    row = compare_times(timings, *names[1:])
    return {**row, "k events/s alone": unshared_cost, "matches": count_matches(compiled["none"], table), "ran": ran}


def vary_workload_size(setting: Setting, is_traffic: bool = False) -> list[Row]:
    """Measure how many patterns: the paper's 10 to 500, of 5 events in windows of 15 minutes."""
    counts = setting.pick((10, 50), (10, 50, 100, 500))
    shapes = {count: Shape(patterns=count, is_traffic=is_traffic) for count in counts}
    return [{"patterns": count, **measure_throughput(shape, setting)} for count, shape in shapes.items()]


def vary_neighbourhood(setting: Setting, is_traffic: bool) -> list[Row]:
    """Measure the plans of every local search and neighbourhood by how long they run, not by what they should cost."""
    counts = setting.pick((10, 30), (10, 50, 100))
    shapes = {count: Shape(patterns=count, is_traffic=is_traffic) for count in counts}
    names = ("none", *NEIGHBOURHOODS)
    return [{"patterns": count, **measure_throughput(shape, setting, names)} for count, shape in shapes.items()]


def vary_density(setting: Setting, is_traffic: bool) -> list[Row]:
    """Vary how many patterns have something in common with one of them, by the number of types they are made of."""
    rows: list[Row] = []
    for types in setting.pick((40, 10), (80, 40, 20, 10)):
        shape = Shape(patterns=setting.pick(20, 40), minutes=8, types=types, is_traffic=is_traffic)
        names = ("none", "share", "reorder", "multitree", tabu.EDGE)
        rows.append({"density": measure_density(shape), **measure_throughput(shape, setting, names)})
    return rows


def measure_density(shape: Shape) -> float:
    """Return the share of other patterns with which a pattern has a part in common, on average."""
    table, workload = make_events(1_000, shape), make_workload(shape)
    (branch,) = compile_plans(workload, table, {"": Options(optimizer="reorder")})[""].detect
    numbering = Numbering()
    graph = MultiPatternGraph(KeyedPattern(spec, numbering) for spec in branch.join_specs)
    peers = [{peer for key in keys for peer in graph.sharers[key]} - {at} for at, keys in graph.shared.items()]
    return sum(map(len, peers)) / (len(peers) * max(len(peers) - 1, 1))


def vary_rates(setting: Setting) -> list[Row]:
    """Vary how much more often the most frequent type occurs than the rarest."""
    rows: list[Row] = []
    for spread in setting.pick((1.0, 50.0), (1.0, 5.0, 25.0, 100.0)):
        shape = Shape(patterns=setting.pick(20, 40), minutes=8, spread=spread)
        names = ("none", "share", "reorder", "multitree", tabu.EDGE)
        rows.append({"rates differ by": spread, **measure_throughput(shape, setting, names)})
    return rows


def vary_pattern_size(setting: Setting, is_traffic: bool = False) -> list[Row]:
    """Vary the number of events in a pattern: the paper's 3 to 8.

    The paper has 100 patterns and 15 minutes. Here there are 40, and longer patterns have shorter windows: as written,
    a pattern of 8 keeps more partial matches in 15 minutes than there is memory.
    """
    minutes = {3: 20, 4: 15, 5: 10, 6: 8, 8: 8}
    sizes = setting.pick((3, 5), tuple(minutes))
    count = setting.pick(20, 40)
    shapes = {size: Shape(count, size, minutes[size], is_traffic=is_traffic) for size in sizes}
    return [{"size": size, **measure_throughput(shape, setting)} for size, shape in shapes.items()]


def vary_windows(setting: Setting, of_events: bool, is_traffic: bool = False) -> list[Row]:
    """Measure windows of so many minutes, or of so many events; 40 patterns where the paper has 100, to save time."""
    count = setting.pick(20, 40)
    if of_events:
        sizes = setting.pick((250, 500), (250, 500, 750))
        shapes = {size: Shape(count, rows=size, is_traffic=is_traffic) for size in sizes}
        return [{"events": size, **measure_throughput(shape, setting)} for size, shape in shapes.items()]
    sizes = setting.pick((4, 8), (4, 8, 12))
    shapes = {size: Shape(count, minutes=size, is_traffic=is_traffic) for size in sizes}
    return [{"minutes": size, **measure_throughput(shape, setting)} for size, shape in shapes.items()]


def measure_searches(setting: Setting) -> list[Row]:
    """Measure the cost of the plans that searches find in so many seconds, as a share of the best unshared trees."""
    shape = Shape(patterns=setting.pick(50, 100))
    table, workload = make_stocks(setting.pick(3_000, 10_000), shape.types), make_workload(shape)
    options = Options(optimizer="reorder", statistics=api.profile(table, workload), budget=0.0)
    (branch,) = compile_plans(workload, table, {"": options})[""].detect
    if branch.trees is None:
        raise AssertionError("a plan of trees has none")
    wanted, rates = branch.join_specs, branch.trees.rates
    ways = {
        **{f"{name}, edge": MultitreeOptions(search=search) for name, search in SEARCHES.items()},
        **{
            f"{name}, vertex-{most}": MultitreeOptions(max_patterns=most, search=search)
            for name, search in SEARCHES.items()
            for most in (4, 8)
        },
        "annealing, edge, prefix": MultitreeOptions(orders_only=True),
    }
    rows: list[Row] = []
    for name, how in ways.items():
        row: Row = {"search": name}
        for seconds in setting.pick((0.1, 1.0), (0.1, 0.5, 2.0, 8.0)):
            found = optimize(wanted, rates, replace(how, seconds=seconds, patience=None))
            row[f"% after {seconds:g} s"] = 100 * found.cost / found.unshared_cost
            row["steps"] = found.steps
        rows.append(row)
    return rows


# Adaptation


def change_rates(table: pa.Table, every: int, moved: int = 5, seed: int = 3) -> pa.Table:
    """Swap the types of events, `moved` of them after so many events: rates change all at once."""
    rng = np.random.default_rng(seed)
    names = np.array(sorted(set(table.column("type").to_pylist())))
    kind = np.searchsorted(names, table.column("type").to_numpy(zero_copy_only=False).astype(str))
    place = np.arange(len(names))
    for start in range(0, len(kind), every):
        chosen = rng.choice(len(names), moved, replace=False)
        place[chosen] = place[rng.permutation(chosen)]
        kind[start : start + every] = place[kind[start : start + every]]
    return table.set_column(table.column_names.index("type"), "type", pa.array(names[kind]))


def measure_adaptation(setting: Setting) -> list[Row]:
    """Compare the plan for the first events with one that is made anew as rates change, searches included.

    In one case 15 of 25 types change places after so many events, in the other none ever do.

    The paper has 5 types change places after 10 to 1,000 events, in a stream of 80 million. Here rates are counted over
    a batch of 10,000 events, and changes within one are not seen. All pairs of events are compared, all as selectively,
    in windows of two hours: else conditions decide about the order of joins, and a plan is as good for other rates. In
    the order of the patterns such windows need more memory than there is, so nothing is measured against that.
    """
    shape = Shape(patterns=setting.pick(20, 40), minutes=120, conditions=10, alike=2.0)
    workload, calm = make_workload(shape), make_stocks(setting.pick(40_000, 120_000), shape.types)
    compiled = compile_plans(workload, calm, {"": Options(optimizer="multitree", budget=0.2)})[""]
    rows: list[Row] = []
    for stretch in setting.pick((20_000, 0), (20_000, 40_000, 0)):
        table = change_rates(calm, stretch, moved=15) if stretch else calm
        cases = {
            "static": partial(run_in_pieces, compiled, table, None),
            "adaptive": partial(run_in_pieces, compiled, table, DetectReplanPolicy()),
        }
        ran = describe_runs({name: case() for name, case in cases.items()})
        timings = run_interleaved(cases, setting.repeats, time.process_time, warm=False)
        row = compare_times(timings, "adaptive", base="static")
        rows.append({"events between changes": stretch or "all", **row, "ran": f"at the end: {ran}"})
    return rows


def run_in_pieces(program: Program, table: pa.Table, drift: DetectReplanPolicy | None) -> Executed:
    """Run over one piece of a table after another, as a stream comes, and return what was executed for the last."""
    branch = program.detect[0]
    run = DetectRun(program, branch, planning=BranchPlanner(branch, program.options, drift))
    for start in range(0, len(table), BATCH):
        for _ in run.process(table.slice(start, BATCH)):
            pass
    return [] if run.executed is None else [run.executed]


EXPERIMENTS = (
    Experiment(
        "multitree-10",
        PAPER,
        "10, 12(a)",
        "joins shared and reordered, by number of patterns",
        Seconds(15, 900),
        vary_workload_size,
        Axes("patterns", PLANS, "CPU s", log_y=True),
        (
            Claim(
                "trees of arbitrary parts over trees of prefixes",
                "up to 5 times",
                lambda rows: (
                    f"{get_median(rows[-1]['multitree-prefix']) / get_median(rows[-1]['multitree']):.1f} times"
                ),
            ),
        ),
    ),
    Experiment(
        "multitree-11a",
        PAPER,
        "11(a), 12(b)",
        "the same by events in a pattern",
        Seconds(7, 150),
        vary_pattern_size,
        Axes("size", PLANS, "CPU s", log_y=True),
        (
            Claim(
                "gain over no sharing and no reordering, long patterns",
                "up to two orders of magnitude",
                lambda rows: f"{get_median(rows[-1]['multitree gains']):.1f} times at {rows[-1]['size']}",
            ),
        ),
    ),
    Experiment(
        "multitree-11b",
        PAPER,
        "10, 11(b)",
        "cost of the plan found, by method and time of the search",
        Seconds(11, 180),
        measure_searches,
    ),
    Experiment(
        "multitree-11c",
        PAPER,
        "11(c), 12(c)",
        "the same by window in minutes",
        Seconds(9, 120),
        partial(vary_windows, of_events=False),
        Axes("minutes", PLANS, "CPU s", log_y=True),
    ),
    Experiment(
        "multitree-11d",
        PAPER,
        "11(d), 12(d)",
        "the same by window in events",
        Seconds(8, 120),
        partial(vary_windows, of_events=True),
        Axes("events", PLANS, "CPU s", log_y=True),
    ),
    Experiment(
        "multitree-10ab",
        PAPER,
        "10(a), 10(b)",
        "local searches and neighbourhoods by how long their plans run, stocks",
        Seconds(20, 300),
        partial(vary_neighbourhood, is_traffic=False),
        heavy=True,
    ),
    Experiment(
        "multitree-10cd",
        PAPER,
        "10(c), 10(d)",
        "the same, traffic",
        Seconds(20, 300),
        partial(vary_neighbourhood, is_traffic=True),
        heavy=True,
    ),
    Experiment(
        "multitree-12e",
        PAPER,
        "12(e)",
        "joins shared and reordered by number of patterns, traffic",
        Seconds(20, 900),
        partial(vary_workload_size, is_traffic=True),
        heavy=True,
    ),
    Experiment(
        "multitree-12f",
        PAPER,
        "12(f)",
        "the same by events in a pattern, traffic",
        Seconds(10, 150),
        partial(vary_pattern_size, is_traffic=True),
    ),
    Experiment(
        "multitree-12g",
        PAPER,
        "12(g)",
        "the same by window in minutes, traffic",
        Seconds(10, 120),
        partial(vary_windows, of_events=False, is_traffic=True),
    ),
    Experiment(
        "multitree-12h",
        PAPER,
        "12(h)",
        "the same by window in events, traffic",
        Seconds(10, 120),
        partial(vary_windows, of_events=True, is_traffic=True),
    ),
    Experiment(
        "multitree-14a",
        PAPER,
        "14(a), appendix D",
        "by how many patterns have something in common, stocks",
        Seconds(10, 120),
        partial(vary_density, is_traffic=False),
    ),
    Experiment(
        "multitree-14b",
        PAPER,
        "14(b), appendix D",
        "the same, traffic",
        Seconds(10, 120),
        partial(vary_density, is_traffic=True),
    ),
    Experiment(
        "multitree-14c",
        PAPER,
        "14(c), appendix D",
        "by how much the rates of types differ, stocks",
        Seconds(10, 120),
        vary_rates,
    ),
    Experiment(
        "multitree-13",
        PAPER,
        "13",
        "a plan that is made anew as rates change, against one that is not",
        Seconds(23, 560),
        measure_adaptation,
        stated=(
            Claim(
                "gain of a plan that is made anew",
                "static plans fail; at least 10 times none",
                lambda rows: f"{get_median(rows[0]['adaptive gains']):.1f} times static",
            ),
            Claim(
                "what watching rates costs where none change",
                "",
                lambda rows: f"{100 * (1 / get_median(rows[-1]['adaptive gains']) - 1):.0f} %",
            ),
        ),
    ),
)
