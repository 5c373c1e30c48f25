"""Many event pattern queries, one shared plan, on Spark."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Public name -> the module that has it. Modules load when a name is first used: `import motet` costs next to nothing.
_HOMES = {
    "ask": "motet.api",
    "batches": "motet.api",
    "explain_match": "motet.api",
    "live": "motet.api",
    "plan": "motet.api",
    "profile": "motet.api",
    "register": "motet.api",
    "run": "motet.api",
    "sql": "motet.api",
    "stream": "motet.api",
    "DataError": "motet.errors",
    "MotetError": "motet.errors",
    "OptionError": "motet.errors",
    "QueryError": "motet.errors",
    "RunError": "motet.errors",
    "Result": "motet.io.result",
    "parse": "motet.language",
    "read": "motet.language",
    "all_of": "motet.language.builder",
    "any_of": "motet.language.builder",
    "attr": "motet.language.builder",
    "avg": "motet.language.builder",
    "call": "motet.language.builder",
    "column": "motet.language.builder",
    "count": "motet.language.builder",
    "count_distinct": "motet.language.builder",
    "define": "motet.language.builder",
    "event": "motet.language.builder",
    "first": "motet.language.builder",
    "last": "motet.language.builder",
    "max_": "motet.language.builder",
    "min_": "motet.language.builder",
    "neg": "motet.language.builder",
    "next_": "motet.language.builder",
    "query": "motet.language.builder",
    "seq": "motet.language.builder",
    "stddev": "motet.language.builder",
    "sum_": "motet.language.builder",
    "var": "motet.language.builder",
    "workload": "motet.language.builder",
    "Options": "motet.options",
    "Statistics": "motet.statistics.model",
    "translate": "motet.dialects",
}

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
    if name not in _HOMES:
        raise AttributeError(f"module 'motet' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def load_ipython_extension(shell: object) -> None:
    """Register the cell magic `%%motet`, for `%load_ext motet` in a notebook."""
    import_module("motet.notebook").register_magic(shell)


def __dir__() -> list[str]:
    """List every public name, loaded or not."""
    return sorted({*globals(), *_HOMES})


__all__ = [
    "DataError",
    "MotetError",
    "OptionError",
    "Options",
    "QueryError",
    "Result",
    "RunError",
    "Statistics",
    "__version__",
    "all_of",
    "any_of",
    "ask",
    "attr",
    "avg",
    "batches",
    "call",
    "column",
    "count",
    "count_distinct",
    "define",
    "event",
    "explain_match",
    "first",
    "last",
    "live",
    "max_",
    "min_",
    "neg",
    "next_",
    "parse",
    "plan",
    "profile",
    "query",
    "read",
    "register",
    "run",
    "seq",
    "sql",
    "stddev",
    "stream",
    "sum_",
    "translate",
    "var",
    "workload",
]
