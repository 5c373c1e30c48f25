"""A sample of events: a few stretches of consecutive rows, which stand for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

WHOLE_BELOW = 20_000  # rows up to which all are taken
LEAST_ROWS, MOST_ROWS = 1 << 14, 1 << 15
ROWS_SHARE = 0.01
STRETCHES = 16
FEWEST_ROWS = 1 << 12  # for a short run
# The share of a run that its sample may take, and what both cost in nanoseconds (`motet bench sample`): a run once, for
# each query, for each row, and for each row and query; a sample once, and for each of its rows.
SHARE = 0.02
RUN, RUN_QUERY, RUN_ROW, RUN_QUERY_ROW = 5e6, 1.3e6, 9.0, 2.4
SAMPLE, SAMPLE_ROW = 5e5, 50.0


@dataclass(frozen=True)
class SampledRows:
    """Stretches of consecutive rows, spread over `rows` in all; each stands for as many of them.

    `ends` are further rows that show how far times reach, such as the first and the last.
    """

    stretches: tuple[pa.Table, ...]
    rows: float
    ends: tuple[pa.Table, ...] = ()


def choose_size(rows: float, queries: int | None) -> int:
    """Return how many rows to sample of so many: fewer where so many queries run in process over them in a short time;
    None stands for a run that is never short.
    """
    size = min(max(ROWS_SHARE * rows, LEAST_ROWS), MOST_ROWS)
    if queries is not None:
        run = RUN + RUN_QUERY * queries + (RUN_ROW + RUN_QUERY_ROW * queries) * rows
        size = min(size, max((SHARE * run - SAMPLE) / SAMPLE_ROW, FEWEST_ROWS))
    return int(size)


def choose_stretches(rows: int, queries: int | None = None, count: int = STRETCHES) -> Iterator[tuple[int, int]]:
    """Yield the first row and the length of each stretch to read of some rows, for so many queries: see `choose_size`.

    One in the middle has half of the sampled rows, so that events of one key can be seen far apart; the others show how
    rates change.
    """
    if rows <= WHOLE_BELOW:
        yield 0, rows
        return
    size = choose_size(rows, queries)
    for at in range(count):
        length = size // 2 // count + (size // 2 if at == count // 2 else 0)
        yield int((at + 0.5) * rows / count - length / 2), length


def sample_table(table: pa.Table, queries: int | None = None) -> SampledRows:
    """Return a sample of the rows of a table, for so many queries: see `choose_size`."""
    stretches = tuple(table.slice(*place) for place in choose_stretches(len(table), queries))
    ends = () if len(stretches) == 1 else (table.slice(0, 1), table.slice(len(table) - 1))
    return SampledRows(stretches, len(table), ends)
