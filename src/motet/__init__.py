"""Many event pattern queries, one shared plan, on Spark."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Module -> the public names that it has. Modules load when a name is first used: `import motet` costs next to nothing.
_HOMES = {
    "motet.api": "ask batches explain_match live plan profile register run sql stream",
    "motet.dialects": "translate",
    "motet.errors": "DataError MotetError OptionError QueryError RunError",
    "motet.io.result": "Result",
    "motet.language": "parse read",
    "motet.language.builder": "all_of any_of attr avg call column count count_distinct define event first last "
    "max_ min_ neg next_ query seq stddev sum_ var workload",
    "motet.options": "Options",
    "motet.statistics.model": "Statistics",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

if TYPE_CHECKING:
    from motet.api import ask, batches, explain_match, live, plan, profile, register, run, sql, stream
    from motet.dialects import translate
    from motet.errors import DataError, MotetError, OptionError, QueryError, RunError
    from motet.io.result import Result
    from motet.language import parse, read
    from motet.language.builder import (
        all_of,
        any_of,
        attr,
        avg,
        call,
        column,
        count,
        count_distinct,
        define,
        event,
        first,
        last,
        max_,
        min_,
        neg,
        next_,
        query,
        seq,
        stddev,
        sum_,
        var,
        workload,
    )
    from motet.options import Options
    from motet.statistics.model import Statistics


def __getattr__(name: str) -> object:
    """Load a public name from its module on first use."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'motet' has no attribute {name!r}")
    found = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = found
    return found


def load_ipython_extension(shell: object) -> None:
    """Register the cell magic `%%motet`, for `%load_ext motet` in a notebook."""
    import_module("motet.notebook").register_magic(shell)


def __dir__() -> list[str]:
    """List every public name, loaded or not."""
    return sorted({*globals(), *_HOME_OF})


__all__ = [
    "DataError", "MotetError", "OptionError", "Options", "QueryError", "Result", "RunError", "Statistics",
    "__version__", "all_of", "any_of", "ask", "attr", "avg", "batches", "call", "column", "count", "count_distinct",
    "define", "event", "explain_match", "first", "last", "live", "max_", "min_", "neg", "next_", "parse", "plan",
    "profile", "query", "read", "register", "run", "seq", "sql", "stddev", "stream", "sum_", "translate", "var",
    "workload",
]  # fmt: skip
