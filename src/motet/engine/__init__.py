"""The aggregate engine: a compiled workload run over Arrow tables."""

from motet.engine.choosing import SEARCHING
from motet.engine.partials import finish, merge, overflows_of
from motet.engine.program import DETECTING, OPTIMIZERS, Branch, Options, Program, compile_workload
from motet.engine.run import run_branch
from motet.engine.schema import EventSchema

__all__ = [
    "DETECTING",
    "OPTIMIZERS",
    "SEARCHING",
    "Branch",
    "EventSchema",
    "Options",
    "Program",
    "compile_workload",
    "finish",
    "merge",
    "overflows_of",
    "run_branch",
]
