"""A sample of events: a few stretches of consecutive rows, which stand for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

WHOLE_BELOW = 20_000  # rows up to which all are taken
LEAST_ROWS, MOST_ROWS = 1 << 14, 1 << 15
SHARE = 0.01
STRETCHES = 16


@dataclass(frozen=True)
class SampledRows:
    """Stretches of consecutive rows, spread over `rows` in all; each stands for as many of them.

    `ends` are further rows that show how far times reach, such as the first and the last.
    """

    stretches: tuple[pa.Table, ...]
    rows: float
    ends: tuple[pa.Table, ...] = ()


def choose_stretches(rows: int, count: int = STRETCHES) -> Iterator[tuple[int, int]]:
    """Yield the first row and the length of each stretch to read of some rows.

    One in the middle has half of the sampled rows, so that events of one key can be seen far apart; the others show how
    rates change.
    """
    if rows <= WHOLE_BELOW:
        yield 0, rows
        return
    size = int(min(max(SHARE * rows, LEAST_ROWS), MOST_ROWS))
    for at in range(count):
        length = size // 2 // count + (size // 2 if at == count // 2 else 0)
        yield int((at + 0.5) * rows / count - length / 2), length


def sample_table(table: pa.Table) -> SampledRows:
    """Return a sample of the rows of a table."""
    stretches = tuple(table.slice(*place) for place in choose_stretches(len(table)))
    ends = () if len(stretches) == 1 else (table.slice(0, 1), table.slice(len(table) - 1))
    return SampledRows(stretches, len(table), ends)
