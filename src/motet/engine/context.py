"""The caches of a run, kept apart from the program, which never changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.compile import DetectBranch, Program
from motet.engine.detect.planner import BranchPlanner, DetectReplanPolicy
from motet.engine.encode import TypeIndex
from motet.kernels.tables import Machine, Queries
from motet.plans.machine import build_machine, build_queries_table
from motet.plans.units import Unit
from motet.template.symbols import Symbol

Classes = Sequence[frozenset[Symbol]]
RECENT_PROGRAMS = 4  # whose plans are kept for their next run


@dataclass
class RunContext:
    """A program, with what its runs over many small batches reuse. Only the program is pickled."""

    program: Program
    types: TypeIndex = field(default_factory=TypeIndex, compare=False)
    _planners: dict[str, BranchPlanner] = field(default_factory=dict)
    _machines: dict[int, tuple[Classes, Machine, Queries]] = field(default_factory=dict)
    _classes: dict[str, dict[frozenset[Symbol], int]] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return RunContext, (self.program,)

    def planner(self, branch: DetectBranch) -> BranchPlanner:
        """Return the planner of a detection branch, which plans anew as the option `replan` says."""
        if branch.name not in self._planners:
            options = self.program.options
            policy = DetectReplanPolicy(factor=1 / (1 - options.replan)) if options.replan else None
            self._planners[branch.name] = BranchPlanner(branch, options, policy)
        return self._planners[branch.name]

    def machine(self, unit: Unit, classes: Classes) -> tuple[Machine, Queries]:
        """Return a unit's machine for these event classes, and its queries; the last one is cached."""
        number = unit.queries[0].number
        if number not in self._machines or self._machines[number][0] != classes:
            self._machines[number] = classes, build_machine(unit.merged, classes), build_queries_table(unit.merged)
        return self._machines[number][1:]

    def number_classes(self, branch: str, classes: Classes) -> tuple[NDArray[np.int32], list[frozenset[Symbol]]]:
        """Assign event classes the numbers of earlier batches, so that machines can be reused; also list them."""
        known = self._classes.setdefault(branch, {})
        numbers = np.array([known.setdefault(symbols, len(known)) for symbols in classes], np.int32)
        return numbers, list(known)

    def continue_with(self, program: Program) -> RunContext:
        """Return the context of another program that takes over; planners of the same branches go on."""
        context = RunContext(program)
        for branch in program.detect:
            if branch.name in self._planners:
                context._planners[branch.name] = self._planners[branch.name].with_queries(branch, program.options)
        return context


_recent: list[RunContext] = []


def recent_context(program: Program) -> RunContext:
    """Return the context of the last run of a program, if it is one of a few recent ones, so that it is not planned
    again.
    """
    found = next((context for context in _recent if context.program is program), None) or RunContext(program)
    _recent[:] = [found, *(context for context in _recent if context is not found)][:RECENT_PROGRAMS]
    return found
