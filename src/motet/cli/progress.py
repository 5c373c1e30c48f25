"""How far a run has come, on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

SECONDS_BETWEEN_LINES = 10.0


class Meter:
    """Counts the rows of a run, knows what it is doing, and shows both while it runs."""

    def __init__(self, total: int | None, console: Console | None = None, started: float | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.total = total
        self.rows = self.results = 0
        self.shown = self.entered = time.monotonic()
        self.started = self.entered if started is None else started
        self.step, self.step_began = "", self.entered  # what is done with rows that were read
        self.ended = threading.Event()
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
        if not self.console.is_terminal:
            threading.Thread(target=self._show_lines, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self.bar.stop()

    def _show_lines(self) -> None:
        """Show a line now and then also where nothing is reported."""
        while not self.ended.wait(SECONDS_BETWEEN_LINES):
            self._show()

    def reached(self, rows: int) -> None:
        """So many rows are read."""
        self.rows, self.step = rows, ""
        self._show()

    def begin(self, step: str) -> None:
        """Something is done with the rows that were read, such as "finding matches of q"."""
        self.step, self.step_began = step, time.monotonic()
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        self.bar.update(self.task, completed=self.rows, shown=self.describe(now))
        if not self.console.is_terminal and now - self.shown >= SECONDS_BETWEEN_LINES:
            self.shown = now
            self.console.print(self.describe(now), highlight=False)

    def describe(self, now: float) -> str:
        """So many of so many rows, and how fast, or what is done with them, and for how long."""
        of_total = f" of {self.total:,}" if self.total else ""
        if self.step and not self.rows:
            return f"{self.step} for {now - self.step_began:,.0f} s"
        if self.step:
            return f"{self.rows:,}{of_total} rows read, {self.step} for {now - self.step_began:,.0f} s"
        rate = self.rows / max(now - self.entered, 1e-9)
        return f"{self.rows:,}{of_total} rows, {rate:,.0f} rows/s"

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started
