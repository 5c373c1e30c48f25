"""A-Seq's figures 12 to 16 on one core, on the paper's executor and on ours: counting against building matches, long
patterns, negation, and what queries gain by sharing prefixes and parts within.

Trades of as many symbols as a figure needs, one every ten milliseconds, in windows of milliseconds as the paper has
them; a count at every completion. `two steps`, `A-Seq` and what is made of it are the paper's (`benchmarks.baselines`),
from sorted arrays to counts; `matches built` and `online` are ours, from Arrow table to result table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.baselines import a_seq
from benchmarks.baselines.prepared import PreparedEvents, prepare
from benchmarks.baselines.two_step import TwoStep
from benchmarks.engine import (
    READING,
    compare_whole_runs,
    compile_plans,
    describe_run,
    list_executed,
    time_programs,
)
from benchmarks.measure import Measurement, Timings, compute_ratio
from benchmarks.registry import Axes, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from motet.compile import Program
from motet.language import parse
from motet.model.query import Workload
from motet.options import OptimizerName, Options

SYMBOLS = ("DELL", "IPIX", "AMAT", "QQQ", *(f"S{number}" for number in range(4, 20)))
EVERY = 10_000  # microseconds from one trade to the next


def make_trades(events: int, symbols: int = 10, seed: int = 3) -> pa.Table:
    """Return a steady stream of trades."""
    rng = np.random.default_rng(seed)
    code = pa.array(rng.integers(0, symbols, events), pa.int32())
    return pa.table(
        {
            "time": pa.array(np.arange(events, dtype=np.int64) * EVERY, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(code, pa.array(SYMBOLS[:symbols])),
        }
    )


def write_queries(patterns: Sequence[str], window: int, returns: str = "COUNT(*)") -> Workload:
    """Return queries that count at every completion, or return every match."""
    texts = [f"QUERY q{n}\nRETURN {returns}\nPATTERN SEQ({p})\nWITHIN {window} ms" for n, p in enumerate(patterns)]
    return parse("\n\n".join(texts))


def compile_queries(workload: Workload, table: pa.Table, optimizer: OptimizerName = "auto") -> Program:
    return compile_plans(workload, table, {"": Options(optimizer=optimizer)})[""]


def list_symbols(count: int, skip: int = 0) -> str:
    return ", ".join(SYMBOLS[skip : skip + count])


def per_event(timings: Timings, events: int, names: Sequence[str]) -> Row:
    return {name: Measurement.of(timings[name]).scale(1e6 / events) for name in names}


def compare_counting(patterns: Sequence[str], window: int, table: pa.Table, repeats: int, listed: bool = True) -> Row:
    """Time the paper's two steps against A-Seq, and our matches built against online; objects as the paper counts."""
    online = write_queries(patterns, window)
    prepared = prepare(online, table)
    compiled = {"online": compile_queries(online, table)}
    executors: dict[str, TwoStep | a_seq.ASeq] = {"A-Seq": a_seq.run_alone(prepared)}
    if listed:
        compiled["matches built"] = compile_queries(write_queries(patterns, window, "*"), table)
        executors["two steps"] = TwoStep(prepared)
    cases: dict[str, Callable[[], object]] = {name: each.run for name, each in executors.items()}
    cases[READING] = prepared.read_again
    timings, ran = time_programs(compiled, table, repeats, cases)
    names = [name for name in LINES if name in timings]
    row = per_event(timings, len(table), names)
    if listed:
        row["A-Seq gains"] = compute_ratio(timings["two steps"], timings["A-Seq"])
        row["online gains"] = compute_ratio(timings["matches built"], timings["online"])
        row["objects: two steps"] = sum(executors["two steps"].run().objects.values())
    row["objects: A-Seq"] = executors["A-Seq"].run().objects["START events"]
    row |= per_event(timings, len(table), [READING])
    row["online over A-Seq"] = compare_whole_runs(timings, "A-Seq", "online")
    row["ran"] = ran
    return row


def vary_length(setting: Setting) -> list[Row]:
    table = make_trades(setting.pick(10_000, 120_000))
    lengths = setting.pick((2, 3, 4), (2, 3, 4, 5))
    return [{"length": n, **compare_counting([list_symbols(n)], 1000, table, setting.repeats)} for n in lengths]


def vary_window(setting: Setting) -> list[Row]:
    table = make_trades(setting.pick(20_000, 120_000))
    windows = setting.pick((100, 500, 1000), (100, 200, 400, 600, 800, 1000))
    return [{"window ms": w, **compare_counting([list_symbols(3)], w, table, setting.repeats)} for w in windows]


def measure_long_patterns(setting: Setting) -> list[Row]:
    """Measure patterns so long that building matches is out of the question."""
    table = make_trades(120_000)
    lengths = setting.pick((6, 10), (6, 7, 8, 9, 10))
    return [
        {
            "length": n,
            "window ms": window,
            **compare_counting([list_symbols(n)], window, table, setting.repeats, listed=False),
        }
        for window in (1000, 2000)
        for n in lengths
    ]


def measure_negation(setting: Setting) -> list[Row]:
    """Measure the same pattern with and without an absent type."""
    table = make_trades(setting.pick(30_000, 120_000), symbols=4)
    return [
        {"pattern": pattern, **compare_counting([pattern], 300, table, setting.repeats)}
        for pattern in ("DELL, IPIX, AMAT", "DELL, IPIX, NOT QQQ, AMAT")
    ]


def compare_sharing(setting: Setting) -> list[Row]:
    """Compare three queries with a part in common: matches or counts, alone or shared."""
    table = make_trades(setting.pick(10_000, 120_000))
    patterns = [f"{symbol}, S4, S5" for symbol in SYMBOLS[:3]]
    online, matches = (write_queries(patterns, 1000, returns) for returns in ("COUNT(*)", "*"))
    prepared = prepare(online, table)
    compiled = {
        "matches, alone": compile_queries(matches, table, "none"),
        "matches, shared": compile_queries(matches, table),
        "online, alone": compile_queries(online, table, "none"),
        "online, shared": compile_queries(online, table),
    }
    published: dict[str, TwoStep | a_seq.ASeq] = {
        "two steps": TwoStep(prepared),
        "A-Seq": a_seq.run_alone(prepared),
        "chop-connect": connect_shared_part(prepared, 1),
    }
    timings, _ = time_programs(compiled, table, setting.repeats, {name: one.run for name, one in published.items()})
    ran = {name: describe_run(list_executed(program, table)) for name, program in compiled.items()}
    return [
        {
            "way": name,
            "us an event": Measurement.of(timings[name]).scale(1e6 / len(table)),
            "times as long as chop-connect": compute_ratio(timings[name], timings["chop-connect"]),
            "times as long as online, shared": compute_ratio(timings[name], timings["online, shared"]),
            "ran": ran.get(name, "the paper's executor"),
        }
        for name in (*published, *compiled)
    ]


def connect_shared_part(prepared: PreparedEvents, at: int) -> a_seq.ASeq:
    """Chop queries before a position, and compute once what follows, which is the same in all (section 4.2)."""
    count = len(prepared.lines)
    return a_seq.ASeq(
        prepared, [[(number, 0, at), (count, at, len(line.symbols))] for number, line in enumerate(prepared.lines)]
    )


def vary_shared_part(setting: Setting, axis: str, within: bool) -> list[Row]:
    """Measure queries that share a prefix, or all behind their first type, of some length; the rest is their own."""
    table = make_trades(setting.pick(60_000, 120_000), symbols=len(SYMBOLS))
    rows: list[Row] = []
    for value in range(2, 7):
        queries, length = (value, 3) if axis == "queries" else (3, value)
        part = list_symbols(length)
        own = [SYMBOLS[10 + number] for number in range(queries)]
        patterns = [f"{name}, {part}" if within else f"{part}, {name}" for name in own]
        workload = write_queries(patterns, 1000)
        prepared = prepare(workload, table)
        shared = connect_shared_part(prepared, 1) if within else a_seq.share_prefixes(prepared)
        alone = a_seq.run_alone(prepared)
        plans: dict[str, OptimizerName] = {"none": "none", "prefix": "prefix", "auto": "auto"}
        compiled = {name: compile_queries(workload, table, optimizer) for name, optimizer in plans.items()}
        cases = {"A-Seq": alone.run, "A-Seq shared": shared.run, READING: prepared.read_again}
        timings, ran = time_programs(compiled, table, setting.repeats, cases)
        before, after = alone.run().objects, shared.run().objects
        rows.append(
            {
                axis: value,
                **per_event(timings, len(table), SHARED_LINES),
                "A-Seq gains": compute_ratio(timings["A-Seq"], timings["A-Seq shared"]),
                "auto gains": compute_ratio(timings["none"], timings["auto"]),
                **per_event(timings, len(table), [READING]),
                "auto over A-Seq shared": compare_whole_runs(timings, "A-Seq shared", "auto"),
                "additions saved": before["additions"] / after["additions"],
                "objects: A-Seq": before["START events"],
                "objects: shared": after["START events"] + after["snapshot entries"],
                "ran": ran,
            }
        )
    return rows


Rows = Sequence[Mapping[str, Any]]


def describe_ends(rows: Rows, column: str) -> str:
    return f"{get_median(rows[0][column]):.1f} to {get_median(rows[-1][column]):.1f}"


def claim_gains(what: str, paper: str) -> Claim:
    return Claim(
        what,
        paper,
        lambda rows: (
            f"{describe_ends(rows, 'A-Seq gains')} times on the paper's executor, "
            f"{describe_ends(rows, 'auto gains')} on ours"
        ),
    )


def describe_negation(rows: Rows) -> str:
    """State what the negation costs in each of the four ways."""
    costs = {name: get_median(rows[1][name]) / get_median(rows[0][name]) for name in LINES}
    return ", ".join(f"{name} {cost:.2f} times" for name, cost in costs.items())


def describe_growth(rows: Rows, column: str) -> str:
    """State how many times as much the last row takes as the first, by two steps and by A-Seq."""
    grown = {name: get_median(rows[-1][column + name]) / get_median(rows[0][column + name]) for name in LINES[:2]}
    return ", ".join(f"{name} {times:.1f} times" for name, times in grown.items())


OVER_A_SEQ = Claim(
    "motet online against A-Seq on the paper's executor, reading included",
    "",
    lambda rows: f"{describe_ends(rows, 'online over A-Seq')} times as fast",
)
LINES = ("two steps", "A-Seq", "matches built", "online")
SHARED_LINES = ("A-Seq", "A-Seq shared", "none", "prefix", "auto")
WITHIN = "sharing a part within (Chop-Connect)"
SHARED = (
    (
        "a",
        "sharing a prefix of three, by number of queries",
        "queries",
        False,
        "gain by sharing a prefix, 2 to 6 queries",
        "about 2 times",
    ),
    (
        "b",
        "sharing a prefix among three queries, by its length",
        "length",
        False,
        "gain by sharing a prefix of 2 to 6",
        "3 to 5 times",
    ),
    (
        "c",
        f"{WITHIN} among three queries, by its length",
        "length",
        True,
        "gain by a part of 2 to 6",
        "1.3 to 2.6 times",
    ),
    ("d", f"{WITHIN} of three, by number of queries", "queries", True, "gain by a part, 2 to 6 queries", "2 times"),
)
OBJECTS = (
    "Objects as the paper counts them: events in stacks, pointers and matches of the two steps; START events with "
    "their counters of A-Seq, with the entries of snapshots where parts are connected.",
)

EXPERIMENTS = (
    Experiment(
        "a-seq-12",
        "A-Seq",
        "12",
        "matches built against online, by pattern length",
        Seconds(3, 15),
        vary_length,
        Axes("length", LINES, "us an event", log_y=True),
        (
            Claim(
                "online against stacks of matches at length 5",
                "16,736 times",
                lambda rows: (
                    f"{get_median(rows[-1]['A-Seq gains']):,.0f} times on the paper's executors, "
                    f"{get_median(rows[-1]['online gains']):,.0f} on ours, at length {rows[-1]['length']}"
                ),
            ),
            Claim(
                "objects as patterns get longer",
                "two steps grow, A-Seq keeps one for each START event",
                lambda rows: f"on the paper's executors {describe_growth(rows, 'objects: ')}",
            ),
            OVER_A_SEQ,
        ),
        notes=OBJECTS,
    ),
    Experiment(
        "a-seq-13",
        "A-Seq",
        "13",
        "matches built against online, by window",
        Seconds(3, 12),
        vary_window,
        Axes("window ms", LINES, "us an event", log_y=True),
        (
            Claim(
                "time from the shortest window to the longest",
                "two steps polynomial, A-Seq linear in the events of a window",
                lambda rows: f"on the paper's executors {describe_growth(rows, '')}, at ten times the events",
            ),
            Claim(
                "objects from the shortest window to the longest",
                "as time does",
                lambda rows: f"on the paper's executors {describe_growth(rows, 'objects: ')}",
            ),
            OVER_A_SEQ,
        ),
        notes=OBJECTS,
    ),
    Experiment(
        "a-seq-14a",
        "A-Seq",
        "14(a)",
        "long patterns in long windows, online",
        Seconds(4, 8),
        measure_long_patterns,
        Axes("length", ("A-Seq", "online"), "us an event", by="window ms"),
        (
            Claim(
                "an event at length 10, window 2,000 ms",
                "21.9 us (Pentium IV)",
                lambda rows: (
                    f"{get_median(rows[-1]['A-Seq']):.2f} us on the paper's executor, "
                    f"{get_median(rows[-1]['online']):.2f} on ours"
                ),
            ),
            OVER_A_SEQ,
        ),
        notes=OBJECTS,
    ),
    Experiment(
        "a-seq-14b",
        "A-Seq",
        "14(b)",
        "the cost of a negation",
        Seconds(4, 9),
        measure_negation,
        None,
        (Claim("cost of a negation", "online almost none; two steps significant", describe_negation),),
        notes=OBJECTS,
    ),
    Experiment(
        "a-seq-15",
        "A-Seq",
        "15",
        "three queries: matches or counts, alone or shared",
        Seconds(4, 10),
        compare_sharing,
        None,
        (
            Claim(
                "shared matches (ECube) over online",
                "at least 100 times as long",
                lambda rows: (
                    f"no ECube here: matches alone {get_median(rows[0]['times as long as chop-connect']):.0f} times "
                    f"on the paper's executors; shared matches "
                    f"{get_median(rows[4]['times as long as online, shared']):.1f} times on ours"
                ),
            ),
        ),
    ),
    *(
        Experiment(
            f"a-seq-16{letter}",
            "A-Seq",
            f"16({letter})",
            measures,
            Seconds(4, 8),
            partial(vary_shared_part, axis=axis, within=within),
            Axes(axis, SHARED_LINES, "us an event"),
            (claim_gains(what, paper),),
            notes=OBJECTS,
        )
        for letter, measures, axis, within, what, paper in SHARED
    ),
)
