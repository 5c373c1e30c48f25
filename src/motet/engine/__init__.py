"""Execute compiled workloads over Arrow tables."""

from motet.engine.partials import count_overflows, finish, merge
from motet.engine.plan_choice import SEARCH_OPTIMIZERS
from motet.engine.program import JOIN_OPTIMIZERS, OPTIMIZERS, Branch, Program, compile_workload
from motet.engine.run import run_branch
from motet.engine.schema import EventSchema

__all__ = [
    "JOIN_OPTIMIZERS",
    "OPTIMIZERS",
    "SEARCH_OPTIMIZERS",
    "Branch",
    "EventSchema",
    "Program",
    "compile_workload",
    "count_overflows",
    "finish",
    "merge",
    "run_branch",
]
