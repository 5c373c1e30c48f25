"""Many event pattern queries, one shared plan, on Spark."""

from motet.api import batches, live, plan, profile, run
from motet.errors import DataError, MotetError, QueryError, RunError
from motet.language import parse, read
from motet.language.builder import event, query, seq, workload

__version__ = "0.1.0"

__all__ = [
    "DataError",
    "MotetError",
    "QueryError",
    "RunError",
    "__version__",
    "batches",
    "event",
    "live",
    "parse",
    "plan",
    "profile",
    "query",
    "read",
    "run",
    "seq",
    "workload",
]
