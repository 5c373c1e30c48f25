"""How far a run has come: a bar in a notebook or on a terminal, else a line on stderr now and then."""

from __future__ import annotations

import sys
import threading
import time
from html import escape
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_BARS = 0.2  # in a notebook


class NotebookBar:
    """A bar below a cell of a notebook, shown as plain HTML; a short run has none."""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.shown = time.monotonic()
        self.handle: Any = None

    def show(self, rows: int, words: str) -> None:
        """Show how far the run has come, unless it was shown just now."""
        if time.monotonic() - self.shown < SECONDS_BETWEEN_BARS:
            return
        self.shown = time.monotonic()
        value = f' value="{rows}" max="{self.total}"' if self.total else ""
        self._update(f'<progress{value} style="width: 18em; vertical-align: middle"></progress> {escape(words)}')

    def close(self) -> None:
        """Clear the bar."""
        if self.handle is not None:
            self._update("")

    def _update(self, text: str) -> None:
        from IPython import display

        notebook: Any = display
        if self.handle is None:
            self.handle = notebook.display(notebook.HTML(text), display_id=True)
        else:
            self.handle.update(notebook.HTML(text))


def is_in_notebook() -> bool:
    """Return whether this runs in the kernel of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


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
        self.notebook_bar = NotebookBar(total) if console is None and is_in_notebook() else None

    def __enter__(self) -> Self:
        self.bar.start()
        if not self.console.is_terminal and self.notebook_bar is None:
            threading.Thread(target=self._show_lines, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self.bar.stop()
        if self.notebook_bar is not None:
            self.notebook_bar.close()

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
        if self.notebook_bar is not None:
            self.notebook_bar.show(self.rows, self.describe(now))
            return
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
