"""Many event pattern queries, one shared plan, on Spark."""

from motet.api import ask, batches, explain_match, live, plan, profile, run
from motet.errors import DataError, MotetError, QueryError, RunError
from motet.io.answer import Result
from motet.language import parse, read
from motet.language.builder import event, query, seq, workload
from motet.translate import translate

__version__ = "0.1.0"

__all__ = [
    "DataError",
    "MotetError",
    "QueryError",
    "Result",
    "RunError",
    "__version__",
    "ask",
    "batches",
    "event",
    "explain_match",
    "live",
    "parse",
    "plan",
    "profile",
    "query",
    "read",
    "run",
    "seq",
    "translate",
    "workload",
]
