"""Sharon's figures 11, 12 and 14 on one core, on the paper's executor and on ours: matches built against online, and
shared against not shared, by events in a window, queries and pattern length.

Every two rows are one workload over two windows of a stream. `published` is A-Seq and Sharon's shared method
(`benchmarks.baselines`), from sorted arrays to counts: `alone` runs every query by itself (SEM), `prefix` shares
beginnings (PreTree), `greedy` and `sharon` are plans by the paper's equations and the rates of the stream. `motet` is
ours, from Arrow table to result table, with the optimizers of the same names and `auto`, by calibrated costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from benchmarks import streams, workloads
from benchmarks.baselines import a_seq, sharon_shared
from benchmarks.baselines.prepared import PreparedEvents, prepare
from benchmarks.baselines.two_step import TwoStep
from benchmarks.engine import READING, compare_times, compare_whole_runs, compile_plans, count_totals, time_programs
from benchmarks.measure import Measurement, Timings, compute_ratio
from benchmarks.registry import Axes, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from motet.engine.workload_profile import profile_workload
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.rates import estimate_window_rates
from motet.optimizer.sharon.sharon import SharonOptions, optimize
from motet.options import OptimizerName, Options
from motet.schema import EventSchema

OPTIMIZERS: dict[str, OptimizerName] = {
    "alone": "none",
    "prefix": "prefix",
    "greedy": "sharon-greedy",
    "sharon": "sharon",
    "auto": "auto",
}
THEIRS = ("alone", "prefix", "greedy", "sharon")
WINDOW = 600  # seconds, sliding by 60


def vary_events(setting: Setting, scene: str) -> list[Row]:
    sizes = setting.pick((50_000, 100_000), (200_000, 400_000, 800_000, 1_200_000))
    return [row for events in sizes for row in measure_point(scene, setting, {"events": events})]


def vary_queries(setting: Setting, scene: str, legs: bool = False, most: int = 120) -> list[Row]:
    counts = setting.pick((20, most), (20, most // 3, 2 * most // 3, most))
    return [row for number in counts for row in measure_point(scene, setting, {"queries": number}, legs)]


def vary_length(setting: Setting, scene: str) -> list[Row]:
    lengths = setting.pick((10, 30), (10, 20, 30))
    return [row for number in lengths for row in measure_point(scene, setting, {"length": number})]


def measure_point(scene: str, setting: Setting, varied: Mapping[str, int], legs: bool = False) -> list[Row]:
    """Measure a workload on both executors: seconds with each plan, what sharing gains, and numbers kept."""
    size = {"events": setting.pick(50_000, 200_000), "queries": 20, "length": 10, **varied}
    table = make_stream(scene, size["events"])
    make = getattr(workloads, scene)
    workload = make(size["queries"], size["length"], within=f"{WINDOW} s", slide="60 s", legs=legs)
    prepared = prepare(workload, table)
    executors, described = build_published(prepared, workload, table, setting)
    budget = setting.pick(2.0, 10.0)
    plans = {name: Options(optimizer=each, budget=budget) for name, each in OPTIMIZERS.items()}
    compiled = compile_plans(workload, table, plans)
    cases: dict[str, Callable[[], object]] = {f"their {name}": each.run for name, each in executors.items()}
    cases[READING] = prepared.read_again
    timings, ran = time_programs(compiled, table, setting.repeats, cases)
    objects = {name: each.run().objects for name, each in executors.items()}
    found = {name: each["additions"] for name, each in objects.items()}
    read = {name: found[name] + each["additions to read results"] for name, each in objects.items()}
    theirs: Timings = {name: timings[f"their {name}"] for name in THEIRS}
    ours: Timings = {name: timings[name] for name in OPTIMIZERS}
    keys = len(prepared.offsets) - 1
    axis = {name: value for name, value in size.items() if name in varied}
    return [
        {
            **axis,
            "executor": "published",
            **compare_plans(theirs),
            READING: Measurement.of(timings[READING]),
            "M events/s": Measurement.of(theirs["sharon"]).rate(len(table) / 1e6),
            **{f"kept: {name}": each["counters"] + each["snapshot entries"] for name, each in objects.items()},
            "kept: auto": None,
            "ran": "; ".join(
                f"{name}: {text}, {found['alone'] / found[name]:.2f} times fewer additions, "
                f"{read['alone'] / read[name]:.2f} with those to read results"
                for name, text in described.items()
            ),
        },
        {
            **axis,
            "executor": "motet",
            **compare_plans(ours),
            "M events/s": Measurement.of(ours["auto"]).rate(len(table) / 1e6),
            **{f"kept: {name}": keys * count_totals(compiled[name]) for name in OPTIMIZERS},
            "times A-Seq": compare_whole_runs(timings, "their alone", "auto"),
            "times Sharon": compare_whole_runs(timings, "their sharon", "auto"),
            "ran": ran,
        },
    ]


def build_published(
    prepared: PreparedEvents, workload: Workload, table: pa.Table, setting: Setting
) -> tuple[dict[str, a_seq.ASeq], dict[str, str]]:
    """Return the paper's executor with each plan, and what it shares, with the gain that the equations promise."""
    known = profile_workload(table, workload, EventSchema(table.schema))
    rates = estimate_window_rates(prepared.queries, known)
    not_shared = sum(own[0] * sum(own) for own in rates.values())  # equations 1 to 3
    executors = {"alone": a_seq.run_alone(prepared), "prefix": a_seq.share_prefixes(prepared)}
    described = {"prefix": f"{len(executors['prefix'].room.head)} trees"}
    for name in ("greedy", "sharon"):
        options = SharonOptions(OPTIMIZERS[name], setting.pick(2.0, 10.0), costs="printed")
        found = optimize(prepared.queries, known, options)
        executors[name] = sharon_shared.run_plan(prepared, found.plan)
        promised = not_shared / (not_shared - found.score)
        described[name] = f"{len(found.plan.segments)} segments, {promised:.2f} times by equation 8"
    return executors, described


def compare_plans(timings: Timings) -> Row:
    """Return the seconds by plan, the gain over queries alone, and that of the optimal plan over the greedy one."""
    gaining = [name for name in ("greedy", "sharon", "auto") if name in timings]
    compared = compare_times(timings, *gaining, base="alone")
    return {**compared, "sharon over greedy": compute_ratio(timings["greedy"], timings["sharon"])}


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
        online, built = (
            parse("\n\n".join(f"QUERY q{n}\nRETURN {what}\nPATTERN {p}\n{window}" for n, p in enumerate(steps)))
            for what in ("COUNT(*)", "*")
        )
        compiled = {
            "matches built": compile_plans(built, table, {"": Options()})[""],
            "online": compile_plans(online, table, {"": Options()})[""],
        }
        prepared = prepare(online, table)
        others = {"two steps": TwoStep(prepared).run, "A-Seq": a_seq.run_alone(prepared).run}
        timings, ran = time_programs(compiled, table, setting.repeats, others)
        rows.append(
            {
                "events": events,
                **{name: Measurement.of(timings[name]) for name in TWO_STEP_LINES},
                "A-Seq gains": compute_ratio(timings["two steps"], timings["A-Seq"]),
                "online gains": compute_ratio(timings["matches built"], timings["online"]),
                "ran": ran,
            }
        )
    return rows


Rows = Sequence[Mapping[str, Any]]


def select_executor(rows: Rows, executor: str) -> Rows:
    return [row for row in rows if row["executor"] == executor]


def describe_span(rows: Rows, column: str, executor: str) -> str:
    """State the first and the last value of a column on one executor."""
    own = select_executor(rows, executor)
    return f"{get_median(own[0][column]):.2f} to {get_median(own[-1][column]):.2f}"


def describe_gains(rows: Rows) -> str:
    published, motet = (describe_span(rows, "sharon gains", executor) for executor in ("published", "motet"))
    auto = describe_span(rows, "auto gains", "motet")
    return f"{published} on the paper's executor; on ours {motet} by Sharon's plan, {auto} by auto"


def describe_memory(rows: Rows) -> str:
    theirs, ours = (select_executor(rows, executor)[-1] for executor in ("published", "motet"))
    return (
        f"{theirs['kept: alone'] / theirs['kept: sharon']:.2f} times fewer numbers kept on the paper's executor, "
        f"{ours['kept: alone'] / ours['kept: auto']:.1f} times on ours"
    )


def describe_optimal(rows: Rows) -> str:
    theirs, ours = (select_executor(rows, executor)[-1] for executor in ("published", "motet"))
    return (
        f"{get_median(theirs['sharon over greedy']):.2f} times less and "
        f"{theirs['kept: greedy'] / theirs['kept: sharon']:.2f} times fewer numbers on the paper's executor, "
        f"{get_median(ours['sharon over greedy']):.2f} and {ours['kept: greedy'] / ours['kept: sharon']:.2f} on ours"
    )


OURS_AGAINST_THEIRS = Claim(
    "motet's auto against A-Seq and against Sharon's plan, each on the paper's executor",
    "",
    lambda rows: (
        f"{describe_span(rows, 'times A-Seq', 'motet')} and "
        f"{describe_span(rows, 'times Sharon', 'motet')} times as fast"
    ),
)
BY_EVENTS = Claim("gain of sharing over A-Seq, fewest to most events in a window", "5 to 7 times", describe_gains)
BY_QUERIES = Claim("gain of sharing over A-Seq, 20 to 120 queries", "5 to 18 times", describe_gains)
BY_LENGTH = Claim("gain of sharing over A-Seq, short to long patterns", "4 to 6 times", describe_gains)
KEPT = (
    "`kept`: counters and snapshot entries on the paper's executor, totals on ours, of all keys, each at its most. "
    "The paper's executor is timed from sorted arrays, and what it takes to read and sort them apart; ours from an "
    "Arrow table. `times A-Seq` and `times Sharon` compare whole runs, reading included.",
)
TWO_STEP_LINES = ("two steps", "A-Seq", "matches built", "online")


def draw(x: str) -> Axes:
    return Axes(x, tuple(OPTIMIZERS), "CPU s", by="executor")


EXPERIMENTS = (
    Experiment(
        "sharon-11",
        "Sharon",
        "11",
        "matches built against online, by events in a window, traffic",
        Seconds(5, 20),
        compare_two_step,
        Axes("events", TWO_STEP_LINES, "CPU s", log_y=True),
        (
            Claim(
                "online against building matches at 7k events in a window",
                "five orders of magnitude (SPASS); Flink fails above 6k",
                lambda rows: (
                    f"{get_median(rows[-1]['A-Seq gains']):,.0f} times on the papers' executors, "
                    f"{get_median(rows[-1]['online gains']):,.0f} on ours, at {rows[-1]['events']:,}"
                ),
            ),
        ),
        notes=("`two steps` and `A-Seq` are the papers' executors, `matches built` and `online` ours.",),
    ),
    Experiment(
        "sharon-12a",
        "Sharon",
        "12(a), (e)",
        "shared against alone, by events in a window, e-commerce",
        Seconds(10, 300),
        partial(vary_events, scene="ecommerce"),
        draw("events"),
        (BY_EVENTS, OURS_AGAINST_THEIRS),
        notes=KEPT,
    ),
    *(
        Experiment(
            f"sharon-12b{suffix}",
            "Sharon",
            "12(b), (d), (f)",
            f"shared against alone, by number of queries, {name}",
            Seconds(12, 120),
            partial(vary_queries, scene=scene, legs=legs),
            draw("queries"),
            (
                BY_QUERIES,
                Claim("memory at 120 queries", "up to two orders of magnitude less", describe_memory),
                OURS_AGAINST_THEIRS,
            ),
            heavy=bool(suffix),
            notes=KEPT,
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
        Seconds(10, 60),
        partial(vary_length, scene="ecommerce"),
        draw("length"),
        (BY_LENGTH, Claim("memory at length 30", "20 times less", describe_memory), OURS_AGAINST_THEIRS),
        notes=KEPT,
    ),
    Experiment(
        "sharon-14",
        "Sharon",
        "14",
        "the greedy plan against the optimal one, by number of queries, taxi",
        Seconds(12, 120),
        partial(vary_queries, scene="taxi", most=180),
        draw("queries"),
        (
            Claim(
                "time with the optimal plan against the greedy one, 180 queries",
                "2 times less, 3 times less memory",
                describe_optimal,
            ),
            OURS_AGAINST_THEIRS,
        ),
        notes=KEPT,
    ),
)
