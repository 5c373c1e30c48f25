"""How far a run has come, on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

SECONDS_BETWEEN_LINES = 10.0


class Meter:
    """Counts the rows of a run and shows them while it runs."""

    def __init__(self, total: int | None, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.total = total
        self.rows = 0
        self.started = self.shown = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.fields[shown]}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("", total=total, shown="reading")

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def reached(self, rows: int) -> None:
        """So many rows are done."""
        self.rows = rows
        now = time.monotonic()
        self.bar.update(self.task, completed=self.rows, shown=self.describe(now))
        if not self.console.is_terminal and now - self.shown >= SECONDS_BETWEEN_LINES:
            self.shown = now
            self.console.print(self.describe(now), highlight=False)

    def describe(self, now: float) -> str:
        """So many of so many rows, and how fast."""
        of_total = f" of {self.total:,}" if self.total else ""
        rate = self.rows / max(now - self.started, 1e-9)
        return f"{self.rows:,}{of_total} rows, {rate:,.0f} rows/s"

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started
