"""What the command line says on stderr, and the status it ends with."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING

from motet.errors import DataError, Diagnostic, MotetError, OptionError, QueryError, UnreadableError

if TYPE_CHECKING:
    from motet.model.query import Workload

FINE, FAILED, WRONG = 0, 1, 2
started: float | None = None  # when the command began
COMPILING = "compiling kernels, once on this machine: this may take a minute or two"


def say(message: str) -> None:
    """Write a line to stderr."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201


def warn(diagnostics: Iterable[Diagnostic], workload: Workload) -> None:
    """Show warnings with their place in the queries."""
    for diagnostic in diagnostics:
        say(diagnostic.render(workload.text, workload.origin))


def say_warnings_or_raise(found: Iterable[Diagnostic], workload: Workload) -> None:
    """Show warnings; raise where there is an error."""
    problems = list(found)
    errors = [problem for problem in problems if not problem.warning]
    if errors:
        raise QueryError(errors, workload.text, workload.origin)
    warn(problems, workload)


def status_of(error: BaseException) -> int:
    """2 where the queries or arguments are wrong, 1 where a run failed."""
    is_wrong = isinstance(error, QueryError | DataError | OptionError) and not isinstance(error, UnreadableError)
    return WRONG if is_wrong else FAILED


def _summarize(error: Exception) -> str:
    """Return the first line of what an error says; where that begins the traceback of a Spark worker, its end too."""
    lines = str(error).strip().splitlines()
    if not lines:
        return ""
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Refused|Reset|Timeout)\b", line)]
    return f": {lines[0]}{' ' + raised[0] if 'Traceback' in lines[0] and raised else ''}"


def report_error(error: Exception) -> int:
    """Say what went wrong, in a line where it is the user's to mend, and return the status to end with."""
    if os.environ.get("MOTET_DEBUG"):
        traceback.print_exception(error)
    match error:
        case QueryError():
            say(str(error))
            count = len(error.diagnostics)
            say(f"{count} problem{'' if count == 1 else 's'} found")
        case MotetError():
            say(f"error: {error}")
        case OSError():
            say(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        case MemoryError():
            say("error: out of memory")
        case _:
            say(f"internal error: {type(error).__name__}{_summarize(error)}; run with MOTET_DEBUG=1 for the traceback")
    return status_of(error)
