"""How benchmarks measure and show: repeated in turn, by medians, with the spread."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PIPED_WIDTH = 120  # where no terminal says how wide it is


def in_turn(
    cases: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each case, the cases taking turns so that a noisy moment hits them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for case in cases.values():
        case()
    for _ in range(repeats):
        for name, case in cases.items():
            began = clock()
            case()
            seconds[name].append(clock() - began)
    return seconds


def median(values: list[float]) -> float:
    return statistics.median(values)


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows as a table, or as json where asked by --json FILE."""
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(f"{value:,.2f}" if isinstance(value, float) else f"{value}" for value in row.values()))
    console = Console()
    (console if console.is_terminal else Console(width=PIPED_WIDTH)).print(table)


def arguments(description: str, repeats: int, **sizes: int) -> argparse.Namespace:
    """The options every benchmark has: repeats, its sizes, and where to write json."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--json", type=Path)
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    return parser.parse_args()


def finish(title: str, rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Show the rows and, where asked, write them."""
    show(title, rows)
    if options.json:
        options.json.write_text(json.dumps({"title": title, "rows": rows}, indent=2) + "\n")
