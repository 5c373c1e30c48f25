"""Compile workloads into programs: plain data that says what runs."""

from motet.compile.compiler import JOIN_OPTIMIZERS, OPTIMIZERS, check_workload, compile_workload, estimate_all_plans
from motet.compile.detect import DetectBranch
from motet.compile.plan_choice import SEARCH_OPTIMIZERS
from motet.compile.program import Branch, Program

__all__ = [
    "JOIN_OPTIMIZERS",
    "OPTIMIZERS",
    "SEARCH_OPTIMIZERS",
    "Branch",
    "DetectBranch",
    "Program",
    "check_workload",
    "compile_workload",
    "estimate_all_plans",
]
