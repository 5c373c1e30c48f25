"""Sharon's figures 11, 12 and 14 on one core: matches built against online, and shared against not shared, by events in
a window, queries and pattern length.

Every line is one workload over two windows of a stream. `none` runs every query alone, as A-Seq does; `prefix` shares
prefixes, `greedy` and `sharon` run Sharon's plans, `auto` is what motet does unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from benchmarks import streams, workloads
from benchmarks.engine import compare_times, compile_plans, count_totals, time_programs
from benchmarks.measure import Measurement, compute_ratio
from benchmarks.registry import Axes, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from motet.language import parse
from motet.options import OptimizerName, Options

OPTIMIZERS: dict[str, OptimizerName] = {
    "none": "none",
    "prefix": "prefix",
    "greedy": "sharon-greedy",
    "sharon": "sharon",
    "auto": "auto",
}
WINDOW = 600  # seconds, sliding by 60


def make_plans(setting: Setting, *names: str) -> dict[str, Options]:
    """Return the options of each plan; the search has as long as `motet plan` gives it, less for a quick run."""
    budget = setting.pick(2.0, 10.0)
    return {name: Options(optimizer=OPTIMIZERS[name], budget=budget) for name in names or OPTIMIZERS}


def vary_events(setting: Setting, scene: str) -> list[Row]:
    sizes = setting.pick((100_000, 400_000), (200_000, 400_000, 800_000, 1_200_000))
    return [measure_point(scene, setting, {"events": events}) for events in sizes]


def vary_queries(setting: Setting, scene: str, legs: bool = False) -> list[Row]:
    counts = setting.pick((20, 120), (20, 40, 80, 120))
    return [measure_point(scene, setting, {"queries": number}, legs) for number in counts]


def vary_length(setting: Setting, scene: str) -> list[Row]:
    return [measure_point(scene, setting, {"length": number}) for number in setting.pick((10, 30), (10, 20, 30))]


def measure_point(scene: str, setting: Setting, varied: Mapping[str, int], legs: bool = False) -> Row:
    """Measure seconds with each plan, the gain over no sharing, and how many totals one key keeps."""
    size = {"events": 200_000, "queries": 20, "length": 10, **varied}
    table = make_stream(scene, size["events"])
    make = getattr(workloads, scene)
    workload = make(size["queries"], size["length"], within=f"{WINDOW} s", slide="60 s", legs=legs)
    compiled = compile_plans(workload, table, make_plans(setting))
    timings = time_programs(compiled, table, setting.repeats)
    return {
        **{name: value for name, value in size.items() if name in varied},
        **compare_times(timings, "sharon", "auto"),
        "M events/s": Measurement.of(timings["auto"]).rate(len(table) / 1e6),
        "totals: none": count_totals(compiled["none"]),
        "totals: sharon": count_totals(compiled["sharon"]),
        "totals: auto": count_totals(compiled["auto"]),
    }


def make_stream(scene: str, events_in_window: int) -> pa.Table:
    """Return two windows of a scene's stream."""
    rate = -(-events_in_window // WINDOW)
    events = 2 * events_in_window
    if scene == "traffic":
        return streams.traffic(events, low=rate // 2, high=rate + rate // 2)
    return streams.taxi(events, rate=rate) if scene == "taxi" else streams.ecommerce(events, rate=rate)


def compare_two_step(setting: Setting) -> list[Row]:
    """Compare matches built and then counted with counts alone: sequences of three segments, all cars alike."""
    rows: list[Row] = []
    for events in setting.pick((1_000, 2_000, 4_000), (1_000, 2_000, 4_000, 6_000, 7_000)):
        table = make_stream("traffic", events)
        kinds = workloads.TRAFFIC.popular()[0][:5]
        names = [workloads.TRAFFIC.types[kind] for kind in kinds]
        steps = [f"SEQ({', '.join(names[at : at + 3])})" for at in range(3)]
        window = f"WITHIN {WINDOW} s SLIDE {WINDOW} s"
        online = parse("\n\n".join(f"QUERY q{n}\nRETURN COUNT(*)\nPATTERN {p}\n{window}" for n, p in enumerate(steps)))
        built = parse("\n\n".join(f"QUERY q{n}\nRETURN *\nPATTERN {p}\n{window}" for n, p in enumerate(steps)))
        compiled = {
            "matches built": compile_plans(built, table, {"": Options()})[""],
            "online": compile_plans(online, table, {"": Options()})[""],
        }
        timings = time_programs(compiled, table, setting.repeats)
        rows.append(
            {
                "events": events,
                **{name: Measurement.of(times) for name, times in timings.items()},
                "online gains": compute_ratio(timings["matches built"], timings["online"]),
            }
        )
    return rows


def compare_plans(setting: Setting) -> list[Row]:
    """Compare the greedy plan with the optimal one, in time and in totals, on taxi queries."""
    rows: list[Row] = []
    for queries in setting.pick((20, 100, 180), (20, 60, 100, 140, 180)):
        table = make_stream("taxi", setting.pick(20_000, 200_000))
        workload = workloads.taxi(queries)
        compiled = compile_plans(workload, table, make_plans(setting, "greedy", "sharon", "auto"))
        timings = time_programs(compiled, table, setting.repeats)
        rows.append(
            {
                "queries": queries,
                **{name: Measurement.of(times) for name, times in timings.items()},
                "sharon gains": compute_ratio(timings["greedy"], timings["sharon"]),
                "totals: greedy": count_totals(compiled["greedy"]),
                "totals: sharon": count_totals(compiled["sharon"]),
            }
        )
    return rows


Rows = Sequence[Mapping[str, Any]]


def describe_gain(column: str) -> Any:
    """Return a function that states the first and the last value of a column."""
    return lambda rows: f"{get_median(rows[0][column]):.1f} to {get_median(rows[-1][column]):.1f}"


def describe_both_gains(rows: Rows) -> str:
    sharon, auto = describe_gain("sharon gains")(rows), describe_gain("auto gains")(rows)
    return f"{sharon} by Sharon's plan, {auto} by auto"


def describe_saved_totals(rows: Rows) -> str:
    return f"{rows[-1]['totals: none'] / rows[-1]['totals: auto']:.1f} times fewer totals"


LINES = ("none", "prefix", "greedy", "sharon", "auto")
BY_EVENTS = Claim("gain of sharing over A-Seq, fewest to most events in a window", "5 to 7 times", describe_both_gains)
BY_QUERIES = Claim("gain of sharing over A-Seq, 20 to 120 queries", "5 to 18 times", describe_both_gains)
BY_LENGTH = Claim("gain of sharing over A-Seq, short to long patterns", "4 to 6 times", describe_both_gains)

EXPERIMENTS = (
    Experiment(
        "sharon-11",
        "Sharon",
        "11",
        "matches built against online, by events in a window, traffic",
        Seconds(4, 15),
        compare_two_step,
        Axes("events", ("matches built", "online"), "CPU s", log_y=True),
        (
            Claim(
                "online against building matches at 7k events in a window",
                "five orders of magnitude (SPASS); Flink fails above 6k",
                lambda rows: (
                    f"{get_median(rows[-1]['online gains']):,.0f} times at {rows[-1]['events']:,} (our own joins)"
                ),
            ),
        ),
    ),
    Experiment(
        "sharon-12a",
        "Sharon",
        "12(a), (e)",
        "shared against alone, by events in a window, e-commerce",
        Seconds(10, 40),
        partial(vary_events, scene="ecommerce"),
        Axes("events", LINES, "CPU s"),
        (BY_EVENTS,),
    ),
    *(
        Experiment(
            f"sharon-12b{suffix}",
            "Sharon",
            "12(b), (d), (f)",
            f"shared against alone, by number of queries, {name}",
            Seconds(20, 40),
            partial(vary_queries, scene=scene, legs=legs),
            Axes("queries", LINES, "CPU s"),
            (
                BY_QUERIES,
                Claim("memory at 120 queries", "up to two orders of magnitude less", describe_saved_totals),
            ),
            heavy=bool(suffix),
        )
        for suffix, scene, legs, name in (
            ("", "ecommerce", False, "e-commerce"),
            ("-legs", "ecommerce", True, "e-commerce, patterns of shared runs alone"),
            ("-taxi", "taxi", False, "taxi"),
            ("-traffic", "traffic", False, "traffic"),
        )
    ),
    Experiment(
        "sharon-12c",
        "Sharon",
        "12(c), (g), (h)",
        "shared against alone, by pattern length, e-commerce",
        Seconds(12, 30),
        partial(vary_length, scene="ecommerce"),
        Axes("length", LINES, "CPU s"),
        (BY_LENGTH, Claim("memory at length 30", "20 times less", describe_saved_totals)),
    ),
    Experiment(
        "sharon-14",
        "Sharon",
        "14",
        "the greedy plan against the optimal one, by number of queries, taxi",
        Seconds(10, 40),
        compare_plans,
        Axes("queries", ("greedy", "sharon", "auto"), "CPU s"),
        (
            Claim(
                "time with the optimal plan against the greedy one, 180 queries",
                "2 times less, 3 times less memory",
                lambda rows: (
                    f"{get_median(rows[-1]['sharon gains']):.2f} times less, "
                    f"{rows[-1]['totals: greedy'] / rows[-1]['totals: sharon']:.2f} times fewer totals"
                ),
            ),
        ),
    ),
)
