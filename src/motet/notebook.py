"""The cell magic `%%motet` of notebooks: `%load_ext motet` brings it."""

from __future__ import annotations

import ast
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from motet.api import ask, plan
from motet.errors import MotetError
from motet.pipeline import is_spark

USAGE = "%%motet EVENTS [--into NAME] [--plan | --analyze] [--OPTION VALUE ...]"
FLAGS = ("plan", "analyze")


@dataclass
class MagicLine:
    """What the first line of a cell says: events, what to do, the name for the result, and options of the run."""

    events: str = ""
    into: str = ""
    flags: set[str] = field(default_factory=set)
    options: dict[str, Any] = field(default_factory=dict)


def register_magic(shell: InteractiveShell) -> None:
    """Register `%%motet` with a shell."""

    def motet(line: str, cell: str) -> Any:
        """Run the queries of a cell over events.

        %%motet EVENTS [--into NAME] [--plan | --analyze] [--OPTION VALUE ...]

        EVENTS is a variable or the path of a file. The result is shown; --into also gives it a name. --plan shows the
        plan in place of a run, --analyze the plan with what a run of it found. Any other option is one of
        motet.Options, such as --optimizer sharon.
        """
        try:
            return run_cell(shell, line, cell)
        except MotetError as error:  # its message has the place: no traceback says more
            raise UsageError(str(error)) from None

    register: Any = shell.register_magic_function
    register(motet, "cell")


def run_cell(shell: InteractiveShell, line: str, cell: str) -> Any:
    """Run the queries of a cell, or plan them; return what is shown.

    Raises:
        UsageError: The line cannot be read.
        MotetError: The run failed.
    """
    asked = parse_line(line)
    events = _find_events(shell, asked.events)
    if asked.flags:
        found: Any = plan(events, cell, analyze="analyze" in asked.flags, **asked.options)
    else:
        in_process = not is_spark(events) and asked.options.get("engine", "local") == "local"
        found = ask(events, cell, progress=in_process, **asked.options)
    if asked.into:
        shell.user_ns[asked.into] = found
    return found


def parse_line(line: str) -> MagicLine:
    """Parse the first line of a cell.

    Raises:
        UsageError: There are no events, or too many, or an option has no value.
    """
    found = MagicLine()
    words = iter(shlex.split(line))
    for word in words:
        name = word.removeprefix("--").replace("-", "_")
        if name in FLAGS and word.startswith("--"):
            found.flags.add(name)
        elif word.startswith("--"):
            value = next(words, None)
            if value is None:
                raise UsageError(f"{word} needs a value: {USAGE}")
            if name == "into":
                found.into = value
            else:
                found.options[name] = _parse_value(value)
        elif found.events:
            raise UsageError(f"one variable or path of events, not also {word!r}: {USAGE}")
        else:
            found.events = word
    if not found.events:
        raise UsageError(f"events are missing: {USAGE}")
    return found


def _parse_value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _find_events(shell: InteractiveShell, name: str) -> Any:
    """Return the variable of a name, else the path."""
    if name.isidentifier() and not Path(name).exists():
        if name not in shell.user_ns:
            raise UsageError(f"there is no variable and no file {name!r}")
        return shell.user_ns[name]
    return shell.user_ns.get(name, name)
