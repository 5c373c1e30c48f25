"""Plan by a sample of the events: statistics for what queries share, selectivities for how matches are joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from motet.compile import Program, compile_workload
from motet.compile.compiler import plan_joins
from motet.compile.stated_rates import typed_test_text
from motet.compile.times import lower_times
from motet.engine.detect.measured_rates import measure_selectivities
from motet.engine.workload_profile import estimate_statistics, request_for_queries
from motet.errors import DataError
from motet.model.query import Workload
from motet.optimizer.registry import get_join_optimizer
from motet.options import Options
from motet.plans.compiled import CompiledQuery
from motet.plans.detect.query import DetectQuery
from motet.schema import EventSchema
from motet.statistics.model import Statistics
from motet.statistics.sample import SampledRows

ReadSample = Callable[[int | None], SampledRows]  # takes for how many queries: see `choose_size`


def compile_by_sample(
    workload: Workload,
    schema: EventSchema,
    options: Options,
    types: Sequence[str] | None,
    read: ReadSample,
) -> Program:
    """Compile a workload; where the options have no statistics, by a sample of the columns that it names.

    The sample is read once. The program's options have the statistics that it was planned by. Raises `QueryError`.
    """
    sampled = _SampledWorkload(workload, schema, read)
    program = compile_workload(workload, schema, options, types, sample=sampled.estimate)
    return program if options.statistics is not None else sampled.plan_joins(program)


@dataclass
class _SampledWorkload:
    workload: Workload
    schema: EventSchema
    read: ReadSample
    sample: SampledRows | None = None  # once it has been read

    def estimate(self, queries: Sequence[CompiledQuery | DetectQuery]) -> Statistics | None:
        """Return the statistics of the sample; None if there are no events, or wrong ones, as the run will say."""
        # Finding matches takes longer than aggregating them, and of pairs of events there must be many.
        is_online = all(isinstance(query, CompiledQuery) for query in queries)
        try:
            self.sample = self.read(len(queries) if is_online else None)
            lowered = lower_times(self.workload, self.schema)
            found = estimate_statistics(self.sample, request_for_queries(lowered, queries), self.schema)
        except DataError:
            return None
        return found if found.counts else None

    def plan_joins(self, program: Program) -> Program:
        """Plan the joins of detection queries where their order depends on the events."""
        known, optimizer = program.options.statistics, get_join_optimizer(program.options.optimizer)
        searched = any(branch.join_specs for branch in program.detect)
        if known is None or self.sample is None or not (searched and optimizer.uses_statistics):
            return program
        shares = measure_selectivities(program, pa.concat_tables(self.sample.stretches))
        known = replace(known, selectivities={typed_test_text(test): share for test, share in shares.items()})
        options = replace(program.options, statistics=known)
        detect = tuple(plan_joins(branch, options) for branch in program.detect)
        return replace(program, options=options, detect=detect)
