"""Finding the matches themselves: many patterns over stock-like events, the order of joins, and the shared graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.engine import Executed, count_matches, describe_run, describe_runs, list_executed
from benchmarks.experiments import motto, multitree
from benchmarks.measure import Measurement, compute_ratio, run_interleaved
from benchmarks.registry import OURS, Axes, Experiment, Row, Seconds, Setting
from motet.compile import compile_workload
from motet.engine.local import LocalRun
from motet.language import parse
from motet.model.query import Workload
from motet.options import OptimizerName, Options
from motet.schema import EventSchema

SYMBOLS = ("AAPL", "AMZN", "GOOG", "MSFT")
# OpenCEP on 1,652 events of 4 symbols, SEQ of 3 with two pairwise conditions in 5 minutes: events per CPU second with
# sharing of subtrees, by number of patterns.
OPENCEP = {1: 9_000, 10: 1_400, 50: 370}


def make_stocks(events: int, seed: int = 2) -> pa.Table:
    """Return prices of four symbols, a random walk with noise; matches are as many per event as in OpenCEP's run."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, events * 9, events)) * 1_000_000
    symbol = rng.integers(0, len(SYMBOLS), events)
    price = 100 + np.cumsum(rng.normal(0, 0.2, events))
    return pa.table(
        {
            "time": pa.array(at, pa.timestamp("us")),
            "type": pa.array(SYMBOLS).take(pa.array(symbol)),
            "price": pa.array(price + rng.normal(0, 1, events)),
            "volume": pa.array(rng.integers(100, 1000, events)),
        }
    )


def make_patterns(count: int, seed: int = 4) -> Workload:
    """Return different sequences of three symbols with two conditions between them, in windows of 3 to 5 minutes."""
    rng = np.random.default_rng(seed)
    texts = []
    for number in range(count):
        a, b, c = (SYMBOLS[at] for at in rng.choice(len(SYMBOLS), 3, replace=False))
        one, other = rng.choice(["<", ">"], 2)
        left, right = rng.choice(["price", "volume"], 2)
        factor = 1 + number % 25 / 100
        texts.append(
            f"QUERY q{number}\nRETURN *\nPATTERN SEQ({a} a, {b} b, {c} c)\n"
            f"WHERE a.{left} {one} b.{left} AND b.{right} * {factor} {other} c.{right}\nWITHIN {3 + number % 3} min"
        )
    return parse("\n\n".join(texts))


def run_whole(workload: Workload, events: pa.Table, optimizer: OptimizerName = "auto") -> int:
    """Compile and run queries in process, and return how many matches left, batch by batch."""
    return count_matches(compile_workload(workload, EventSchema(events.schema), Options(optimizer=optimizer)), events)


def describe_whole(workload: Workload, events: pa.Table, optimizer: OptimizerName = "auto") -> str:
    """Compile and run queries in process, and say what was executed."""
    program = compile_workload(workload, EventSchema(events.schema), Options(optimizer=optimizer))
    return describe_run(list_executed(program, events))


def measure_many_patterns(setting: Setting) -> list[Row]:
    """Measure events and matches per CPU second, by number of patterns."""
    pa.set_cpu_count(1)
    table = make_stocks(setting.pick(3_000, 50_000))
    rows: list[Row] = []
    for count in setting.pick((1, 10, 50), (1, 10, 50, 500)):
        workload = make_patterns(count)
        found = run_whole(workload, table)
        timings = Measurement.of(
            run_interleaved({"": partial(run_whole, workload, table)}, setting.repeats, time.process_time)[""]
        )
        rows.append(
            {
                "patterns": count,
                "k events/s": timings.rate(len(table) / 1e3),
                "matches": found,
                "M matches/s": timings.rate(found / 1e6),
                "times OpenCEP": timings.rate(len(table)).scale(1 / OPENCEP[count]) if count in OPENCEP else None,
                "ran": describe_whole(workload, table),
            }
        )
    return rows


def measure_reordering(setting: Setting) -> list[Row]:
    """Measure SEQ(A, B, C) where C is a hundred times as rare: joined as written, and as planned."""
    pa.set_cpu_count(1)
    events = setting.pick(20_000, 100_000)
    rng = np.random.default_rng(6)
    kind = rng.choice(3, events, p=[0.4975, 0.4975, 0.005])
    table = pa.table(
        {
            "time": pa.array(np.arange(events) * 1_000_000, pa.timestamp("us")),
            "type": pa.array(["A", "B", "C"]).take(pa.array(kind)),
            "x": pa.array(rng.random(events)),
        }
    )
    text = "RETURN a.x AS ax, c.x AS cx PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x * 0.1 WITHIN 10 min"
    workload = parse(text)
    cases = {
        "as written": partial(run_whole, workload, table, "none"),
        "planned": partial(run_whole, workload, table, "auto"),
    }
    found = {name: case() for name, case in cases.items()}
    ran = {"as written": describe_whole(workload, table, "none"), "planned": describe_whole(workload, table)}
    timings = run_interleaved(cases, setting.repeats, time.process_time)
    return [
        {
            "joined": name,
            "seconds": Measurement.of(times),
            "matches": found[name],
            "times faster": compute_ratio(timings["as written"], times),
            "ran": ran[name],
        }
        for name, times in timings.items()
    ]


def measure_compact_matches(setting: Setting) -> list[Row]:
    """Measure SEQ(A, B+, C): countless partial matches in every window, and a C only where few of them complete."""
    pa.set_cpu_count(1)
    events = setting.pick(500_000, 1_000_000)
    rng = np.random.default_rng(8)
    kind = rng.choice(2, events)
    # A stretch at the end longer than the largest window without A, then one match.
    kind[-200_000:] = 3
    kind[-4:] = (0, 1, 1, 2)
    table = pa.table(
        {
            "time": pa.array(np.arange(events), pa.timestamp("us")),
            "type": pa.array(["A", "B", "C", "Z"]).take(pa.array(kind)),
        }
    )
    windows = (1_000, 10_000, 100_000)
    workloads = {window: parse(f"RETURN * PATTERN SEQ(A a, B+ b, C c) WITHIN {window} us") for window in windows}
    cases = {str(window): partial(run_whole, workload, table) for window, workload in workloads.items()}
    timings = run_interleaved(cases, setting.repeats, time.process_time)
    return [
        {
            "events in the window": int(window),
            "ns an event": Measurement.of(times).scale(1e9 / events),
            "against the first": compute_ratio(times, timings[str(windows[0])]),
            "ran": describe_whole(workloads[int(window)], table),
        }
        for window, times in timings.items()
    ]


MINUTE = 60_000_000
INSTRUMENTS = 20
LONGEST = 10  # bars of a match
Valley = tuple[str, list[tuple[int, float]], list[tuple[int, float]]]  # instrument, falling bars, rising bars


def make_bars(count: int, seed: int = 2) -> pa.Table:
    """Return minute bars of some instruments, a random walk each."""
    rng = np.random.default_rng(seed)
    minutes = count // INSTRUMENTS
    close = np.round(100 + np.cumsum(rng.normal(size=(minutes, INSTRUMENTS)), axis=0), 1)
    names = pa.array([f"s{number}" for number in range(INSTRUMENTS)])
    return pa.table(
        {
            "time": pa.array(np.repeat(np.arange(minutes) * MINUTE, INSTRUMENTS), pa.timestamp("us")),
            "type": pa.array(["bar"]).take(pa.array(np.zeros(close.size, np.int64))),
            "symbol": names.take(pa.array(np.tile(np.arange(INSTRUMENTS), minutes))),
            "price": close.ravel(),
        }
    )


def write_valleys(least: int, returned: str) -> Workload:
    """Write a query for prices that fall for some bars and then rise for as many or more."""
    times = "+" if least == 1 else f"{{{least},}}"
    return parse(
        f"RETURN {returned} PATTERN SEQ(bar{times} down, bar{times} up) WHERE [symbol] AND "
        "down.price > NEXT(down).price AND up.price < NEXT(up).price AND LAST(down).price < FIRST(up).price "
        f"WITHIN {LONGEST} min CONTIGUOUS"
    )


def group_bars(bars: pa.Table) -> dict[str, list[tuple[int, float]]]:
    """Return the bars of each instrument as a hand-written program keeps them."""
    groups: dict[str, list[tuple[int, float]]] = {}
    columns = (bars.column("symbol"), bars.column("time").cast(pa.int64()), bars.column("price"))
    for symbol, time_, price in zip(*(column.to_pylist() for column in columns), strict=True):
        groups.setdefault(symbol, []).append((time_, price))
    return groups


def find_valleys(groups: dict[str, list[tuple[int, float]]], least: int) -> list[Valley]:
    """Find the same matches with their bars by a plain loop: from each bar down to the bottom, and up again."""
    found: list[Valley] = []
    for symbol, bars in groups.items():
        prices = [price for _, price in bars]
        count = len(prices)
        for first in range(count):
            last = first
            while last + 1 < count and prices[last + 1] < prices[last]:
                last += 1
            bottom = last
            if bottom - first + 1 < least:
                continue
            while last + 1 < count and prices[last + 1] > prices[last] and last + 1 - first < LONGEST:
                last += 1
                if last - bottom >= least:
                    found.append((symbol, bars[first : bottom + 1], bars[bottom + 1 : last + 1]))
    return found


def group_and_find(bars: pa.Table, least: int) -> list[Valley]:
    """Find the matches of a table by the plain loop."""
    return find_valleys(group_bars(bars), least)


def check_valleys(bars: pa.Table, least: int) -> int:
    """Check that motet finds what the loop finds; return how many matches that is."""
    program = compile_workload(write_valleys(least, "down, up"), EventSchema(bars.schema), Options())
    sums = np.zeros(4)
    for table in LocalRun(program).run(bars):
        for at, name in enumerate(("down", "up")):
            inside = table.column(name).combine_chunks().flatten()
            price = inside.field("price").to_numpy()
            sums += [len(table) if at == 0 else 0, len(price), (at + 1) * price.sum(), (price * price).sum()]
    wanted = np.zeros(4)
    for _, *parts in (valleys := group_and_find(bars, least)):
        for at, part in enumerate(parts):
            own = [price for _, price in part]
            wanted += [1 - at, len(own), (at + 1) * sum(own), sum(price * price for price in own)]
    assert np.allclose(sums, wanted, rtol=1e-9), (sums, wanted)
    return len(valleys)


def measure_valleys(setting: Setting) -> list[Row]:
    """Measure a V-shape of prices, CONTIGUOUS, per instrument: motet and a plain Python loop, both from a table."""
    pa.set_cpu_count(1)
    bars = make_bars(setting.pick(200_000, 1_000_000))
    groups = group_bars(bars)
    rows: list[Row] = []
    for least in (3, 1):
        values = "FIRST(down).price AS top, LAST(up).price AS recovered"
        programs = {
            "motet, prices": write_valleys(least, values),
            "motet, all bars": write_valleys(least, "down, up"),
        }
        found = check_valleys(bars, least)
        compiled = {
            name: compile_workload(workload, EventSchema(bars.schema), Options()) for name, workload in programs.items()
        }
        cases: dict[str, Callable[[], object]] = {
            name: partial(count_matches, program, bars) for name, program in compiled.items()
        }
        cases["loop"] = partial(group_and_find, bars, least)
        cases["loop over lists"] = partial(find_valleys, groups, least)
        timings = run_interleaved(cases, max(setting.repeats, 3), time.process_time)
        for name in compiled:
            rows.append(
                {
                    "falls, then rises": f"bar{{{least},}}" if least > 1 else "bar+",
                    "bars": len(bars),
                    "matches": found,
                    "who": name,
                    "seconds": Measurement.of(timings[name]),
                    "loop": Measurement.of(timings["loop"]),
                    "loop over lists": Measurement.of(timings["loop over lists"]),
                    "times faster": compute_ratio(timings["loop"], timings[name]),
                    "than over lists": compute_ratio(timings["loop over lists"], timings[name]),
                    "ran": describe_run(list_executed(compiled[name], bars)),
                }
            )
    return rows


OPTIMIZERS: tuple[OptimizerName, ...] = ("none", "share", "reorder", "multitree", "motto", "auto")
BUDGET = 0.2  # seconds for optimizers that search


def make_types(events: int, types: int = 15, keys: int = 100, skew: float = 0.0, seed: int = 5) -> pa.Table:
    """Return events of some types, one in a millisecond; with `skew` some types are much rarer than others."""
    rng = np.random.default_rng(seed)
    weights = np.exp(-skew * np.arange(types))
    return pa.table(
        {
            "time": pa.array(np.arange(events) * 1000, pa.timestamp("us")),
            "type": pa.array([f"T{at}" for at in range(types)]).take(
                pa.array(rng.choice(types, events, p=weights / weights.sum()))
            ),
            "k": pa.array(rng.integers(0, keys, events)),
            "x": pa.array(rng.random(events)),
            "v": pa.array(rng.integers(0, 1000, events)),
        }
    )


def write_queries(count: int, size: int, where: Sequence[str], within: str, common: int = 0, types: int = 15) -> str:
    """Write sequences of `size` different types, the first `common` of them the same in all."""
    rng = np.random.default_rng(size)
    texts = []
    for number in range(count):
        others = common + rng.choice(types - common, size - common, replace=False)
        chosen = [*range(common), *others.tolist()]
        events = ", ".join(f"T{name} e{at}" for at, name in enumerate(chosen))
        conditions = " AND ".join(each.format(number=number * 17 % 500) for each in where)
        texts.append(f"QUERY q{number} RETURN * PATTERN SEQ({events}) {conditions and 'WHERE ' + conditions} {within}")
    return "\n".join(texts)


def list_detect_workloads(setting: Setting) -> dict[str, tuple[Workload, pa.Table]]:
    """Return workloads of all kinds: one pattern or many, plain or with conditions, with rare types, keys and NOT."""
    events = setting.pick(20_000, 200_000)
    even, uneven = make_types(events), make_types(events, skew=0.4)
    rise, offset = "e0.x < e1.x", "e0.v + {number} < e2.v"
    near, far = "WITHIN 60 ms", "WITHIN 300 ms"
    texts = {
        "one": (write_queries(1, 3, (rise, offset), near), even),
        "one, rare types": (write_queries(1, 4, (rise, "e2.x < e3.x"), far), uneven),
        "one per key": (write_queries(1, 3, ("[k]", rise), "WITHIN 10 s"), even),
        "10": (write_queries(10, 3, (rise, offset), near), even),
        "10, rare types": (write_queries(10, 4, (rise, offset), near), uneven),
        "50": (write_queries(50, 3, (rise, offset), near), even),
        "50, common beginning": (write_queries(50, 4, (rise, "e1.x < e2.x"), near, common=3), even),
        "50 per key": (write_queries(50, 3, ("[k]", rise), "WITHIN 5 s"), even),
        "plain": (write_queries(1, 4, (), near), even),
        "20 plain": (write_queries(20, 4, (), near), even),
        "50 plain, common beginning": (write_queries(50, 5, (), near, common=3), even),
        "20 plain, rare types": (write_queries(20, 4, (), near), uneven),
        "selective": (write_queries(10, 3, ("e0.x + 0.9 < e1.x", rise), far), even),
        "equal values": (write_queries(20, 3, ("e0.v = e1.v", "e1.x < e2.x"), "WITHIN 2 s"), even),
    }
    found = {name: (parse(text), table) for name, (text, table) in texts.items()}
    absent = "RETURN * PATTERN SEQ(T0 a, NOT T5 n, T1 b, T2 c) WHERE a.x < b.x WITHIN 120 ms"
    beside = "RETURN * PATTERN AND(T0 a, T1 b, T2 c) WHERE a.x < b.x AND b.x < c.x WITHIN 60 ms"
    trades = motto.make_trades(setting.pick(5_000, 30_000))
    stocks = multitree.make_stocks(setting.pick(2_000, 10_000), 25)
    return found | {
        "NOT": (parse(absent), even),
        "AND": (parse(beside), even),
        "MOTTO's": (motto.make_workload(20, 0.5), trades),
        "MOTTO's, nested": (motto.make_nested_workload(10, 3), trades),
        "multi-pattern's": (multitree.make_workload(multitree.Shape(patterns=30)), stocks),
    }


def plan_and_run(workload: Workload, events: pa.Table, optimizer: OptimizerName) -> Executed:
    """Plan and run queries in process, and return what was executed."""
    options = Options(optimizer=optimizer, budget=BUDGET)
    return list_executed(compile_workload(workload, EventSchema(events.schema), options), events)


def measure_auto(setting: Setting) -> list[Row]:
    """Measure every optimizer on every workload, planning counted: how far is `auto` behind the best?"""
    pa.set_cpu_count(1)
    rows: list[Row] = []
    for name, (workload, events) in list_detect_workloads(setting).items():
        cases: dict[str, Callable[[], Executed]] = {
            each: partial(plan_and_run, workload, events, each) for each in OPTIMIZERS
        }
        ran = describe_runs({each: case() for each, case in cases.items()})
        timings = run_interleaved(cases, max(setting.repeats, 3), time.process_time, warm=False)
        best = min(OPTIMIZERS, key=lambda each: min(timings[each]))
        rows.append(
            {
                "workload": name,
                **{each: Measurement.of(times) for each, times in timings.items()},
                "best": best,
                "auto behind": min(timings["auto"]) / min(timings[best]) - 1,
                "ran": ran,
            }
        )
    return rows


EXPERIMENTS = (
    Experiment(
        "detect",
        OURS,
        "",
        "matches found: SEQ of three with two conditions between events, by number of patterns",
        Seconds(6, 90),
        measure_many_patterns,
        Axes("patterns", ("k events/s",), "k events / CPU s", log_x=True, log_y=True),
        notes=("OpenCEP (Python) on work of this kind: 9,000, 1,400 and 370 events per CPU second.",),
    ),
    Experiment(
        "detect-order",
        OURS,
        "",
        "joins as planned against as written, rarest type last",
        Seconds(4, 12),
        measure_reordering,
    ),
    Experiment(
        "detect-auto",
        OURS,
        "",
        "every optimizer on workloads of all kinds, planning counted: how far auto is behind the best",
        Seconds(60, 300),
        measure_auto,
        heavy=True,
    ),
    Experiment(
        "detect-valleys",
        OURS,
        "",
        "a V-shape of prices per instrument, CONTIGUOUS: motet and a plain Python loop that finds the same matches",
        Seconds(15, 60),
        measure_valleys,
        notes=(
            "The loop begins with the same table, whose bars it keeps in a list for each instrument; "
            '"over lists" is the same loop with these lists there before.',
        ),
    ),
    Experiment(
        "detect-compact",
        OURS,
        "",
        "SEQ(A, B+, C) returning matches: an event that completes none, by window",
        Seconds(3, 8),
        measure_compact_matches,
    ),
)
