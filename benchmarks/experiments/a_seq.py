"""A-Seq's figures 12 to 16 on one core: counting against building matches, long patterns, negation, and what queries
gain by sharing prefixes and parts within.

Trades of as many symbols as a figure needs, one every ten milliseconds, in windows of milliseconds as the paper has
them; a count at every completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.engine import compare_times, compile_plans, time_programs
from benchmarks.measure import Measurement, compute_ratio
from benchmarks.registry import Axes, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from motet.compile import Program
from motet.language import parse
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


def compile_patterns(
    patterns: Sequence[str], window: int, table: pa.Table, returns: str, optimizer: OptimizerName
) -> Program:
    """Compile queries that count at every completion, or return every match."""
    texts = [f"QUERY q{n}\nRETURN {returns}\nPATTERN SEQ({p})\nWITHIN {window} ms" for n, p in enumerate(patterns)]
    return compile_plans(parse("\n\n".join(texts)), table, {"": Options(optimizer=optimizer)})[""]


def list_symbols(count: int, skip: int = 0) -> str:
    return ", ".join(SYMBOLS[skip : skip + count])


def compare_matches_with_counts(axis: str, value: int, pattern: str, window: int, table: pa.Table, repeats: int) -> Row:
    """Time one pattern, its matches built against counted online."""
    timings = time_programs(
        {
            "matches built": compile_patterns([pattern], window, table, "*", "auto"),
            "online": compile_patterns([pattern], window, table, "COUNT(*)", "auto"),
        },
        table,
        repeats,
    )
    return {
        axis: value,
        **{name: Measurement.of(times).scale(1e6 / len(table)) for name, times in timings.items()},
        "online gains": compute_ratio(timings["matches built"], timings["online"]),
    }


def vary_length(setting: Setting) -> list[Row]:
    table = make_trades(setting.pick(10_000, 120_000))
    lengths = setting.pick((2, 3, 4), (2, 3, 4, 5))
    return [compare_matches_with_counts("length", n, list_symbols(n), 1000, table, setting.repeats) for n in lengths]


def vary_window(setting: Setting) -> list[Row]:
    table = make_trades(setting.pick(20_000, 120_000))
    windows = setting.pick((100, 500, 1000), (100, 200, 400, 600, 800, 1000))
    return [compare_matches_with_counts("window ms", w, list_symbols(3), w, table, setting.repeats) for w in windows]


def measure_long_patterns(setting: Setting) -> list[Row]:
    """Measure patterns so long that building matches is out of the question."""
    rows: list[Row] = []
    table = make_trades(120_000)
    for window in (1000, 2000):
        for length in setting.pick((6, 10), (6, 7, 8, 9, 10)):
            program = compile_patterns([list_symbols(length)], window, table, "COUNT(*)", "auto")
            timings = time_programs({"": program}, table, setting.repeats)[""]
            rows.append(
                {"length": length, "window ms": window, "us an event": Measurement.of(timings).scale(1e6 / len(table))}
            )
    return rows


def measure_negation(setting: Setting) -> list[Row]:
    """Measure the same pattern with and without an absent type, online and by matches."""
    table = make_trades(setting.pick(30_000, 120_000), symbols=4)
    plain, negated = "DELL, IPIX, AMAT", "DELL, IPIX, NOT QQQ, AMAT"
    rows: list[Row] = []
    for name, returns, window in (("online", "COUNT(*)", 1000), ("matches built", "*", 300)):
        timings = time_programs(
            {text: compile_patterns([text], window, table, returns, "auto") for text in (plain, negated)},
            table,
            setting.repeats,
        )
        rows.append(
            {
                "way": name,
                **{text: Measurement.of(times).scale(1e6 / len(table)) for text, times in timings.items()},
                "cost of the negation": compute_ratio(timings[negated], timings[plain]),
            }
        )
    return rows


def compare_sharing(setting: Setting) -> list[Row]:
    """Compare three queries with a part in common: matches or counts, alone or shared."""
    table = make_trades(setting.pick(10_000, 120_000))
    common = "S4, S5"
    patterns = [f"{symbol}, {common}" for symbol in SYMBOLS[:3]]
    timings = time_programs(
        {
            "matches, alone": compile_patterns(patterns, 1000, table, "*", "none"),
            "matches, shared": compile_patterns(patterns, 1000, table, "*", "auto"),
            "online, alone": compile_patterns(patterns, 1000, table, "COUNT(*)", "none"),
            "online, shared": compile_patterns(patterns, 1000, table, "COUNT(*)", "auto"),
        },
        table,
        setting.repeats,
    )
    return [
        {
            "way": name,
            "us an event": Measurement.of(times).scale(1e6 / len(table)),
            "times as long as the last": compute_ratio(times, timings["online, shared"]),
        }
        for name, times in timings.items()
    ]


def vary_shared_part(setting: Setting, axis: str, within: bool) -> list[Row]:
    """Measure queries that share a prefix, or a part within, of some length; each has types of its own beside it."""
    table = make_trades(setting.pick(60_000, 120_000), symbols=len(SYMBOLS))
    rows: list[Row] = []
    for value in range(2, 7):
        queries, length = (value, 3) if axis == "queries" else (3, value)
        part = list_symbols(length)
        own = [SYMBOLS[10 + number] for number in range(queries)]
        patterns = [f"{name}, {part}, S9" if within else f"{part}, {name}" for name in own]
        plans = {name: compile_patterns(patterns, 1000, table, "COUNT(*)", name) for name in ("none", "prefix", "auto")}
        rows.append({axis: value, **compare_times(time_programs(plans, table, setting.repeats), "prefix", "auto")})
    return rows


def claim_gains(what: str, paper: str) -> Claim:
    return Claim(
        what,
        paper,
        lambda rows: f"{get_median(rows[0]['auto gains']):.1f} to {get_median(rows[-1]['auto gains']):.1f} times",
    )


BOTH = ("matches built", "online")
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
PLANS = ("none", "prefix", "auto")

EXPERIMENTS = (
    Experiment(
        "a-seq-12",
        "A-Seq",
        "12",
        "matches built against online, by pattern length",
        Seconds(3, 12),
        vary_length,
        Axes("length", BOTH, "us an event", log_y=True),
        (
            Claim(
                "online against stacks of matches at length 5",
                "16,736 times",
                lambda rows: (
                    f"{get_median(rows[-1]['online gains']):,.0f} times at length {rows[-1]['length']}, "
                    "over our own joins"
                ),
            ),
        ),
    ),
    Experiment(
        "a-seq-13",
        "A-Seq",
        "13",
        "matches built against online, by window",
        Seconds(3, 7),
        vary_window,
        Axes("window ms", BOTH, "us an event", log_y=True),
    ),
    Experiment(
        "a-seq-14a",
        "A-Seq",
        "14(a)",
        "long patterns in long windows, online",
        Seconds(3, 6),
        measure_long_patterns,
        Axes("length", ("us an event",), "us an event"),
        (
            Claim(
                "an event at length 10, window 2,000 ms",
                "21.9 us (Pentium IV)",
                lambda rows: f"{get_median(rows[-1]['us an event']):.2f} us",
            ),
        ),
    ),
    Experiment(
        "a-seq-14b",
        "A-Seq",
        "14(b)",
        "the cost of a negation",
        Seconds(3, 7),
        measure_negation,
        None,
        (
            Claim(
                "cost of a negation, online and with matches",
                "almost none; significant",
                lambda rows: (
                    f"{get_median(rows[0]['cost of the negation']):.2f} and "
                    f"{get_median(rows[1]['cost of the negation']):.2f} times"
                ),
            ),
        ),
    ),
    Experiment(
        "a-seq-15",
        "A-Seq",
        "15",
        "three queries: matches or counts, alone or shared",
        Seconds(3, 9),
        compare_sharing,
        None,
        (
            Claim(
                "shared matches (ECube) over online",
                "at least 100 times as long",
                lambda rows: f"{get_median(rows[1]['times as long as the last']):.1f} times",
            ),
        ),
    ),
    *(
        Experiment(
            f"a-seq-16{letter}",
            "A-Seq",
            f"16({letter})",
            measures,
            Seconds(4, 6),
            partial(vary_shared_part, axis=axis, within=within),
            Axes(axis, PLANS, "CPU s"),
            (claim_gains(what, paper),),
        )
        for letter, measures, axis, within, what, paper in SHARED
    ),
)
