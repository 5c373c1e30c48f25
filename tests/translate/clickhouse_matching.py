"""What ClickHouse's windowFunnel, sequenceMatch and sequenceCount compute, from their documentation and behaviour."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]
Condition = Callable[[Row], bool]


def compute_level(rows: Sequence[Row], conditions: Sequence[Condition], window: int) -> int:
    """The level of a funnel: each step knows the latest start from which it was reached in time."""
    starts: list[int | None] = [None] * len(conditions)
    for row in rows:
        for at, holds in enumerate(conditions):
            if holds(row):
                start = row["time"] if at == 0 else starts[at - 1]
                if start is not None and row["time"] <= start + window:
                    starts[at] = start
    return max((at for at, start in enumerate(starts, 1) if start is not None), default=0)


def compute_strict_level(rows: Sequence[Row], conditions: Sequence[Condition], window: int) -> int:
    """The level of a funnel in the mode `strict_order`: from the first start on, a row that no condition describes, or
    whose step before it was not reached, ends the funnel.
    """
    starts: list[int | None] = [None] * len(conditions)
    for row in rows:
        at = next((at for at, holds in enumerate(conditions) if holds(row)), None)
        if at != 0 and starts[0] is None:
            continue
        if at is None or (at and starts[at - 1] is None):
            break
        start = row["time"] if at == 0 else starts[at - 1]
        if start is not None and row["time"] <= start + window:
            starts[at] = start
    return next((at for at, start in enumerate(starts) if start is None), len(starts))


def count_sequences(pattern: str, rows: Sequence[Row], conditions: Sequence[Condition]) -> int:
    """How many chains that do not overlap the rows hold that some condition describes, each the first that is found.

    A time lets any rows lie before the next event.
    """
    described = [row for row in rows if any(holds(row) for holds in conditions)]
    actions = re.findall(r"\(\?t(?:<=|<|>=|>|==)\d+\)|\(\?\d+\)|\.\*|\.", pattern.removesuffix(".*"))

    def find_end(at: int, row: int, base: int | None) -> int | None:
        """The row after a chain that goes on with an action at a row."""
        if at == len(actions):
            return row
        action = actions[at]
        if action == ".*":
            ends = (find_end(at + 1, later, base) for later in range(row, len(described)))
            return next((end for end in ends if end is not None), None)
        if action.startswith("(?t"):
            operator, seconds = re.findall(r"t([<>=]+)(\d+)", action)[0]
            ends = (
                find_end(at + 1, later, base)
                for later in range(row, len(described))
                if base is not None
                and compare(operator, described[later]["time"] - described[base]["time"], int(seconds))
            )
            return next((end for end in ends if end is not None), None)
        if row < len(described) and (action == "." or conditions[int(action[2:-1]) - 1](described[row])):
            return find_end(at + 1, row + 1, row)
        return None

    count, start = 0, 0
    while start < len(described):
        end = find_end(0, start, None)
        count += end is not None
        start = start + 1 if end is None else end
    return count


def compare(operator: str, left: int, right: int) -> bool:
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right, "==": left == right}[
        operator
    ]
