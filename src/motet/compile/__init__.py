"""Compile workloads into programs: plain data that says what runs."""

from motet.compile.compiler import check_workload, compile_workload, estimate_all_plans
from motet.compile.detect import DetectBranch
from motet.compile.program import Branch, Program

__all__ = [
    "Branch",
    "DetectBranch",
    "Program",
    "check_workload",
    "compile_workload",
    "estimate_all_plans",
]
