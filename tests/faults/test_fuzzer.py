"""A thousand hostile inputs: the oracle's answer or a message, never a traceback, a hang or a wrong answer. Results are
written in all formats, and what can be shown of an input without a run is shown.

One input again: `MOTET_FUZZ=17 pytest tests/faults/test_fuzzer.py`. Twenty thousand of them, others each time:
`MOTET_LONG=1 pytest tests/faults/test_fuzzer.py`.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import motet
from motet.api import Plan
from motet.errors import DataError, MotetError
from motet.io.writers import OutputFormat, write_file
from tests.comparison import assert_same_results
from tests.faults.hostile import make_queries, make_table

LONG = bool(os.environ.get("MOTET_LONG"))
FIRST = random.SystemRandom().randrange(10**9) if LONG else 0
INPUTS, PARTS = (20_000, 20) if LONG else (1_000, 4)
WINDOWS = ("auto", "auto", "panes", "pairs", "stacks")
WRITTEN = [OutputFormat(name) for name in ("table", "jsonl", "csv", "parquet", "arrow", "duckdb")]
AVERAGES = ("AVG(", "VAR(", "STDDEV(")
SECONDS = 60.0  # of the processor, for one input, the compilation of a kernel included


class Overrun(BaseException):
    """An input took longer than it may."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Overrun

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def answer(table: pa.Table, text: str, engine: Any, **options: Any) -> pa.Table | str:
    """Return the results, or the message of what is refused; whatever else is raised fails."""
    try:
        return motet.run(table, text, engine=engine, **options)
    except MotetError as refused:
        return check_message(refused)


def check_message(refused: MotetError) -> str:
    """Return a message, and fail where it says nothing or too much."""
    message = str(refused)
    assert 0 < len(message) < 20_000, "a message, not a book"
    return message


def show(table: pa.Table, text: str) -> None:
    """Show what there is to show of an input before it runs: the plan, what is in the data, and why matches fail."""
    for shown in (motet.plan, motet.profile, motet.explain_match):
        try:
            found = shown(table, text)
            assert str(found)
            if isinstance(found, Plan):
                assert found._repr_html_()
        except MotetError as refused:
            check_message(refused)


def write(results: pa.Table, text: str) -> None:
    """Write results in all formats; what a format has no type for is refused, and leaves nothing behind."""
    workload = motet.parse(text)
    with tempfile.TemporaryDirectory() as folder:
        for format in WRITTEN:
            target = Path(folder) / f"results.{format}"
            with suppress(DataError):
                write_file(results, workload, target, format)
                target.unlink()
            assert not list(Path(folder).iterdir()), format


def feed(table: pa.Table, text: str, rng: random.Random) -> pa.Table | str:
    """Return the results of a stream in process that gets the rows in two parts."""
    try:
        live = motet.live(table, text, watermark="100000 days")  # no row is late
        cut = rng.randint(0, len(table))
        return pa.concat_tables([live.feed(table.slice(0, cut)), live.feed(table.slice(cut)), live.finish()])
    except MotetError as refused:
        return str(refused)


def compare(found: pa.Table, expected: pa.Table, events: pa.Table) -> None:
    """Fail unless rows are the same; the oracle may have them as other types of the same kind, and averages and
    variances whose sums no double holds.
    """
    assert set(found.column_names) == set(expected.column_names)
    huge = any(is_huge(column) for column in events.columns)
    names = [name for name in found.column_names if not (huge and name.startswith(AVERAGES))]
    found, expected = found.select(names), expected.select(names)
    if found.schema != expected.schema:
        expected = expected.cast(found.schema)
    assert_same_results(found, expected)


def is_huge(column: pa.ChunkedArray) -> bool:
    return pa.types.is_float64(column.type) and any(abs(value) > 1e150 for value in column.drop_null().to_pylist())


def check_input(number: int) -> str:
    """Check one input; return what came of it."""
    rng = random.Random(number)
    table, text = make_table(rng), make_queries(rng)
    with time_limit(SECONDS), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # which a user would see among results
        if number % 5 == 0:
            show(table, text)
        found = answer(table, text, "local", windows=WINDOWS[number % len(WINDOWS)])
        expected = answer(table, text, "oracle")
        if isinstance(found, str) or isinstance(expected, str):
            return "refused by both" if isinstance(found, str) and isinstance(expected, str) else "refused by one"
        compare(found, expected, table)
        if number % 4 == 0:
            write(found, text)
        fed = feed(table, text, rng) if number % 3 == 0 else ""
        if not isinstance(fed, str):
            compare(fed, expected, table)
            return "answered, also by a stream"
    return "answered with rows" if len(expected) else "answered without rows"


if "MOTET_FUZZ" in os.environ:
    NUMBERS = [[int(os.environ["MOTET_FUZZ"])]]
else:
    NUMBERS = [list(range(FIRST + part, FIRST + INPUTS, PARTS)) for part in range(PARTS)]


@pytest.mark.parametrize("numbers", NUMBERS, ids=lambda numbers: f"{len(numbers)} from {numbers[0]}")
def test_hostile_inputs_get_the_answer_of_the_oracle_or_a_message(numbers: list[int]) -> None:
    outcomes: Counter[str] = Counter()
    for number in numbers:
        try:
            outcomes[check_input(number)] += 1
        except BaseException as error:
            rng = random.Random(number)
            shown = f"{make_table(rng).to_pydict()}\n{make_queries(rng)}"
            raise AssertionError(f"MOTET_FUZZ={number}: {type(error).__name__}: {error}\n{shown}") from error
    if len(numbers) > 100:  # or it tests nothing
        assert outcomes["answered with rows"] + outcomes["answered, also by a stream"] > len(numbers) // 12, outcomes
        assert outcomes["refused by both"] > len(numbers) // 20, outcomes
