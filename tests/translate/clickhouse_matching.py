"""What ClickHouse's windowFunnel and sequenceMatch compute, written from their documentation and behaviour."""

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


def has_sequence(pattern: str, rows: Sequence[Row], conditions: Sequence[Condition]) -> bool:
    """Whether the rows that some condition describes hold a chain; a time lets any rows lie before the next event."""
    described = [row for row in rows if any(holds(row) for holds in conditions)]
    actions = re.findall(r"\(\?t(?:<=|<|>=|>|==)\d+\)|\(\?\d+\)|\.\*|\.", pattern)

    def goes_on(at: int, row: int, base: int | None) -> bool:
        if at == len(actions):
            return True
        action = actions[at]
        if action == ".*":
            return any(goes_on(at + 1, later, base) for later in range(row, len(described) + 1))
        if row == len(described):
            return False
        if action.startswith("(?t"):
            operator, seconds = re.findall(r"t([<>=]+)(\d+)", action)[0]
            return base is not None and any(
                goes_on(at + 1, later, base)
                for later in range(row, len(described))
                if compare(operator, described[later]["time"] - described[base]["time"], int(seconds))
            )
        if action == "." or conditions[int(action[2:-1]) - 1](described[row]):
            return goes_on(at + 1, row + 1, row)
        return False

    return any(goes_on(0, start, None) for start in range(len(described) + 1))


def compare(operator: str, left: int, right: int) -> bool:
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right, "==": left == right}[
        operator
    ]
