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

from motet.bench.engine import against, programs, timed
from motet.bench.measure import Measured, ratio
from motet.bench.registry import Axes, Experiment, Row, Seconds, Setting, Stated
from motet.bench.run import middle
from motet.engine import Options, Program
from motet.language import parse

SYMBOLS = ("DELL", "IPIX", "AMAT", "QQQ", *(f"S{number}" for number in range(4, 20)))
EVERY = 10_000  # microseconds from one trade to the next


def trades(events: int, symbols: int = 10, seed: int = 3) -> pa.Table:
    """A steady stream of trades."""
    rng = np.random.default_rng(seed)
    code = pa.array(rng.integers(0, symbols, events), pa.int32())
    return pa.table(
        {
            "time": pa.array(np.arange(events, dtype=np.int64) * EVERY, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(code, pa.array(SYMBOLS[:symbols])),
        }
    )


def compiled(patterns: Sequence[str], window: int, table: pa.Table, returns: str, optimizer: str) -> Program:
    """Queries that count at every completion, or return every match."""
    texts = [f"QUERY q{n}\nRETURN {returns}\nPATTERN SEQ({p})\nWITHIN {window} ms" for n, p in enumerate(patterns)]
    return programs(parse("\n\n".join(texts)), table, {"": Options(optimizer=optimizer)})[""]


def length_of(count: int, skip: int = 0) -> str:
    return ", ".join(SYMBOLS[skip : skip + count])


def built_and_counted(axis: str, value: int, pattern: str, window: int, table: pa.Table, repeats: int) -> Row:
    """One pattern, its matches built against counted online."""
    taken = timed(
        {
            "matches built": compiled([pattern], window, table, "*", "auto"),
            "online": compiled([pattern], window, table, "COUNT(*)", "auto"),
        },
        table,
        repeats,
    )
    return {
        axis: value,
        **{name: Measured.of(times).scaled(1e6 / len(table)) for name, times in taken.items()},
        "online gains": ratio(taken["matches built"], taken["online"]),
    }


def by_length(setting: Setting) -> list[Row]:
    table = trades(setting.pick(10_000, 120_000))
    lengths = setting.pick((2, 3, 4), (2, 3, 4, 5))
    return [built_and_counted("length", n, length_of(n), 1000, table, setting.repeats) for n in lengths]


def by_window(setting: Setting) -> list[Row]:
    table = trades(setting.pick(20_000, 120_000))
    windows = setting.pick((100, 500, 1000), (100, 200, 400, 600, 800, 1000))
    return [built_and_counted("window ms", w, length_of(3), w, table, setting.repeats) for w in windows]


def long_patterns(setting: Setting) -> list[Row]:
    """Where building matches is out of the question."""
    rows: list[Row] = []
    table = trades(120_000)
    for window in (1000, 2000):
        for length in setting.pick((6, 10), (6, 7, 8, 9, 10)):
            program = compiled([length_of(length)], window, table, "COUNT(*)", "auto")
            taken = timed({"": program}, table, setting.repeats)[""]
            rows.append(
                {"length": length, "window ms": window, "us an event": Measured.of(taken).scaled(1e6 / len(table))}
            )
    return rows


def negation(setting: Setting) -> list[Row]:
    """The same pattern with and without an absent type, online and by matches."""
    table = trades(setting.pick(30_000, 120_000), symbols=4)
    plain, negated = "DELL, IPIX, AMAT", "DELL, IPIX, NOT QQQ, AMAT"
    rows: list[Row] = []
    for name, returns, window in (("online", "COUNT(*)", 1000), ("matches built", "*", 300)):
        taken = timed(
            {text: compiled([text], window, table, returns, "auto") for text in (plain, negated)},
            table,
            setting.repeats,
        )
        rows.append(
            {
                "way": name,
                **{text: Measured.of(times).scaled(1e6 / len(table)) for text, times in taken.items()},
                "cost of the negation": ratio(taken[negated], taken[plain]),
            }
        )
    return rows


def four_ways(setting: Setting) -> list[Row]:
    """Three queries with a part in common: matches or counts, alone or shared."""
    table = trades(setting.pick(10_000, 120_000))
    common = "S4, S5"
    patterns = [f"{symbol}, {common}" for symbol in SYMBOLS[:3]]
    taken = timed(
        {
            "matches, alone": compiled(patterns, 1000, table, "*", "none"),
            "matches, shared": compiled(patterns, 1000, table, "*", "auto"),
            "online, alone": compiled(patterns, 1000, table, "COUNT(*)", "none"),
            "online, shared": compiled(patterns, 1000, table, "COUNT(*)", "auto"),
        },
        table,
        setting.repeats,
    )
    return [
        {
            "way": name,
            "us an event": Measured.of(times).scaled(1e6 / len(table)),
            "times as long as the last": ratio(times, taken["online, shared"]),
        }
        for name, times in taken.items()
    ]


def shared(setting: Setting, axis: str, within: bool) -> list[Row]:
    """Queries that share a prefix, or a part within, of some length; each has types of its own beside it."""
    table = trades(setting.pick(60_000, 120_000), symbols=len(SYMBOLS))
    rows: list[Row] = []
    for value in range(2, 7):
        queries, length = (value, 3) if axis == "queries" else (3, value)
        part = length_of(length)
        own = [SYMBOLS[10 + number] for number in range(queries)]
        patterns = [f"{name}, {part}, S9" if within else f"{part}, {name}" for name in own]
        plans = {name: compiled(patterns, 1000, table, "COUNT(*)", name) for name in ("none", "prefix", "auto")}
        rows.append({axis: value, **against(timed(plans, table, setting.repeats), "prefix", "auto")})
    return rows


def gains(what: str, paper: str) -> Stated:
    return Stated(
        what, paper, lambda rows: f"{middle(rows[0]['auto gains']):.1f} to {middle(rows[-1]['auto gains']):.1f} times"
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
        by_length,
        Axes("length", BOTH, "us an event", log_y=True),
        (
            Stated(
                "online against stacks of matches at length 5",
                "16,736 times",
                lambda rows: (
                    f"{middle(rows[-1]['online gains']):,.0f} times at length {rows[-1]['length']}, over our own joins"
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
        by_window,
        Axes("window ms", BOTH, "us an event", log_y=True),
    ),
    Experiment(
        "a-seq-14a",
        "A-Seq",
        "14(a)",
        "long patterns in long windows, online",
        Seconds(3, 6),
        long_patterns,
        Axes("length", ("us an event",), "us an event"),
        (
            Stated(
                "an event at length 10, window 2,000 ms",
                "21.9 us (Pentium IV)",
                lambda rows: f"{middle(rows[-1]['us an event']):.2f} us",
            ),
        ),
    ),
    Experiment(
        "a-seq-14b",
        "A-Seq",
        "14(b)",
        "the cost of a negation",
        Seconds(3, 7),
        negation,
        None,
        (
            Stated(
                "cost of a negation, online and with matches",
                "almost none; significant",
                lambda rows: (
                    f"{middle(rows[0]['cost of the negation']):.2f} and "
                    f"{middle(rows[1]['cost of the negation']):.2f} times"
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
        four_ways,
        None,
        (
            Stated(
                "shared matches (ECube) over online",
                "at least 100 times as long",
                lambda rows: f"{middle(rows[1]['times as long as the last']):.1f} times",
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
            partial(shared, axis=axis, within=within),
            Axes(axis, PLANS, "CPU s"),
            (gains(what, paper),),
        )
        for letter, measures, axis, within, what, paper in SHARED
    ),
)
