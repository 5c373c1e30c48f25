"""Prepare a batch of events for the queries of a branch: compile their expressions, and set up the run of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from motet.compile import Program
from motet.engine.detect.code import ExpressionCompiler
from motet.engine.detect.instances import MemoryBudget, NodeRunner
from motet.engine.detect.results import decode_columns
from motet.engine.detect.rules import compile_conditions
from motet.engine.detect.tables import compile_tests
from motet.engine.detect.values import EventColumns, finish_expressions
from motet.engine.detect.windows import compute_widest_starts
from motet.engine.encode import EncodedEvents
from motet.plans.compiled import WindowSpan
from motet.plans.detect.build import PlannedQuery, list_nodes
from motet.plans.detect.nodes import Node, inputs


class Batch:
    """A batch of events with what all queries of a branch have in common: bytecode, and instances of nodes."""

    def __init__(
        self, program: Program, planned: Sequence[PlannedQuery], encoded: EncodedEvents, events: pa.Table
    ) -> None:
        self.program = program
        self.encoded = encoded
        self.event_columns = decode_columns(events)
        self.spans = _node_spans(planned)
        self.readers = _count_readers(planned)
        columns = EventColumns(encoded)
        compiler = ExpressionCompiler(columns)
        tests = {node: compile_tests(node, compiler) for node in list_nodes(planned)}
        self.codes = {each.query.number: compile_conditions(each, compiler) for each in planned}
        oldest = {spans: compute_widest_starts(spans, encoded) for spans in map(frozenset, self.spans.values())}
        options = program.options
        self.runner = NodeRunner(
            encoded=encoded,
            expressions=finish_expressions(compiler, columns),
            tests=tests,
            oldest={node: oldest[frozenset(spans)] for node, spans in self.spans.items()},
            absent=tuple(dict.fromkeys(symbol for each in planned for symbol in each.query.absent)),
            budget=MemoryBudget(options.memory_bytes, truncate=options.on_limit == "truncate"),
        )


def _node_spans(planned: Sequence[PlannedQuery]) -> dict[Node, set[WindowSpan]]:
    """Map each node to the windows it serves."""
    found: dict[Node, set[WindowSpan]] = {}
    for each in planned:
        for node in each.nodes:
            found.setdefault(node, set()).add(each.query.span)
    return found


def _count_readers(planned: Sequence[PlannedQuery]) -> Counter[Node]:
    """Count the readers of each node, queries included."""
    found = Counter(root for each in planned for root in each.roots)
    found.update(read for node in list_nodes(planned) for read in inputs(node))
    return found
