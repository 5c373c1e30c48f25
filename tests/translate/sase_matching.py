"""What SASE's automaton finds for a sequence: at each event a run takes it, or may ignore it, as its strategy says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Match = tuple[tuple[str, int], ...]  # variable and time of each event, in order


@dataclass(frozen=True)
class SasePart:
    """An event of a sequence, once or more often, or one that may not come."""

    variable: str
    holds: Callable[[Row], bool]
    repeated: bool = False
    negated: bool = False
    rises: bool = False  # b[i].x > b[i-1].x, or x greater than that of the single event before it


@dataclass(frozen=True)
class _Run:
    at: int
    bound: tuple[tuple[int, int], ...]  # part and row of each event


def sase_matches(parts: Sequence[SasePart], rows: Sequence[Row], strategy: str, window: int) -> list[Match]:
    """Every match of a sequence under a strategy: any, next or contiguity."""
    positive = [at for at, part in enumerate(parts) if not part.negated]
    runs: list[_Run] = []
    found: list[Match] = []
    for number, row in enumerate(rows):
        kept: list[_Run] = []
        for run in [*runs, _Run(-1, ())]:
            if run.bound and row["time"] - rows[run.bound[0][1]]["time"] >= window:
                continue
            taken = [_Run(at, (*run.bound, (at, number))) for at in _options(parts, positive, rows, run, number)]
            for each in taken:
                kept.append(each)
                if each.at == positive[-1] and not _is_forbidden(parts, rows, each, window):
                    found.append(tuple((parts[at].variable, rows[which]["time"]) for at, which in each.bound))
            if run.bound and (strategy == "any" or (strategy == "next" and not taken)):
                kept.append(run)
        runs = kept
    return found


def _is_forbidden(parts: Sequence[SasePart], rows: Sequence[Row], run: _Run, window: int) -> bool:
    """Whether an event that may not come lies in the window before the first event, or in that after the last."""
    first, last = (rows[run.bound[at][1]]["time"] for at in (0, -1))
    before, after = parts[: run.bound[0][0]], parts[run.at + 1 :]
    return any(
        (last - window < row["time"] < first and any(part.holds(row) for part in before))
        or (last < row["time"] < first + window and any(part.holds(row) for part in after))
        for row in rows
    )


def _options(parts: Sequence[SasePart], positive: list[int], rows: Sequence[Row], run: _Run, number: int) -> list[int]:
    """The parts that a row may be bound to."""
    found = []
    rises = bool(run.bound) and rows[number]["x"] > rows[run.bound[-1][1]]["x"]
    own = parts[run.at] if run.bound else None
    if own is not None and own.repeated and own.holds(rows[number]) and (rises or not own.rises):
        found.append(run.at)
    later = [at for at in positive if at > run.at]
    if later and parts[later[0]].holds(rows[number]):
        target = parts[later[0]]
        between = rows[run.bound[-1][1] + 1 : number] if run.bound else []
        forbidden = any(part.holds(row) for part in parts[run.at + 1 : later[0]] for row in between)
        compares = target.rises and not target.repeated and run.bound
        if not forbidden and (rises or not compares):
            found.append(later[0])
    return found
