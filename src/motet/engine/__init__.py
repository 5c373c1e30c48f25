"""Execute compiled workloads over Arrow tables."""

from motet.engine.partials import count_overflows, finish, merge
from motet.engine.program import Branch, Program, compile_workload
from motet.engine.run import run_branch
from motet.engine.schema import EventSchema

__all__ = [
    "Branch",
    "EventSchema",
    "Program",
    "compile_workload",
    "count_overflows",
    "finish",
    "merge",
    "run_branch",
]
