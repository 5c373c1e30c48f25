"""Fit the prices of detection plans (`motet.plans.detect.cost.Prices`) to what nodes take in runs of workloads.

    python -m benchmarks.fit_prices

Each node is timed by itself, and told by the outer instances it searches for, the pairs that its search finds, and the
instances it makes; nonnegative least squares over all of them give the prices.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from scipy.optimize import nnls

import motet.engine.detect.run
from benchmarks.engine import compile_plans
from benchmarks.experiments import motto, multitree
from motet.engine.detect.instances import PlanRunner
from motet.engine.detect.tables import join_relation
from motet.engine.local import LocalRun
from motet.kernels.instances import Tests
from motet.kernels.operators import (
    AFTER,
    ARENA_FULL,
    AT_MATCH,
    AT_OTHER,
    BEFORE,
    DONE,
    MATCHES,
    PREPARED,
    MatchOutput,
    allocate_output,
    allocate_scratch,
    run_operators,
)
from motet.language import parse
from motet.model.query import Workload
from motet.options import Options
from motet.plans.detect.nodes import FilterNode, JoinNode, LeafNode, LoopNode, PathScanNode

# A node that takes less than this is fitted as one that takes so long: what it takes is mostly noise.
SHORT = 5e4
BLOCK_ROWS = 1 << 16

# Nanoseconds, then what a node did in them.
Rows = list[tuple[float, ...]]
JOINS: Rows = []
FILTERS: Rows = []
WALKS: Rows = []
LEAVES: Rows = []


def count_pairs(runner: PlanRunner, node: JoinNode) -> int:
    """Return how many pairs a join of events of one key looks at."""
    outer, inner, oldest = runner.instances(node.outer), runner.instances(node.inner), runner.oldest(node)
    relation = join_relation(node, ())
    low, high = oldest[outer.end].copy(), np.full(len(outer.first), np.int64(1) << 62)
    for item, events in enumerate(outer.columns):
        if (relation[item] == AFTER).all():
            high = np.minimum(high, runner.bundles.first[events])
        if (relation[item] == BEFORE).any():
            low = np.maximum(low, runner.bundles.last[events] + 1)
    begin = np.searchsorted(inner.last, low)
    end = np.minimum(np.searchsorted(inner.last, high), np.searchsorted(oldest[inner.end], outer.first, side="right"))
    return int(np.maximum(end - begin, 0).sum())


class TimedRunner(PlanRunner):
    """A runner that runs one operator at a time, and writes down what it takes in nanoseconds, and of what."""

    def run_all(self) -> Iterator[MatchOutput | int]:
        for operator, node in enumerate(self.plan.nodes):
            work: tuple[float, ...] = ()
            match node:
                case JoinNode() if not isinstance(node.inner, LoopNode):
                    work = float(len(self.instances(node.outer).first)), float(count_pairs(self, node))
                case FilterNode():
                    work = (float(len(self.instances(node.input).first)),)
                case PathScanNode():
                    work = (float(sum(len(self.instances(item).first) for item in node.items)),)
                case LeafNode():
                    work = (float(len(self.encoded.time)),)
            nanoseconds = self._run_one(operator)
            made = float(self.instance_counts[node])
            match node:
                case JoinNode() if work:
                    JOINS.append((nanoseconds, *work, made))
                case FilterNode():
                    FILTERS.append((nanoseconds, *work, made))
                case PathScanNode():
                    WALKS.append((nanoseconds, *work, len(node.items) * made, made))
                case LeafNode():
                    LEAVES.append((nanoseconds, *work, made))
        yield from ()

    def _run_one(self, operator: int) -> float:
        """Run an operator; return how many nanoseconds it takes. Its matches are dropped."""
        width, state = self.plan.width, self.run.state
        table = self.run.operators.table[: operator + 1]
        run = self.run._replace(operators=self.run.operators._replace(table=table))
        output, scratch = allocate_output(width, BLOCK_ROWS), allocate_scratch(width, 0, 0)
        nanoseconds = 0
        while True:
            context = self._context(Tests(self.plan.tests, self.code), width)
            if len(scratch.first) < len(self.arena.first):
                scratch = allocate_scratch(width, self.plan.most_comparisons, len(self.arena.first))
                state[PREPARED] = -1
            begun = time.thread_time_ns()
            status = run_operators(run, self.arena, context, scratch, output)
            nanoseconds += time.thread_time_ns() - begun
            state[MATCHES] = 0
            if status == ARENA_FULL:
                self._make_room(operator)
            elif status == AT_OTHER:
                begun = time.thread_time_ns()
                for _ in self._run_from_outside(operator):
                    pass
                nanoseconds += time.thread_time_ns() - begun
                state[AT_MATCH] = 0
            elif status == DONE:
                return float(nanoseconds)


def workloads() -> Iterator[tuple[Workload, pa.Table]]:
    """Return sequences, conjunctions, nested patterns; many matches and few."""
    trades = motto.make_trades(10_000)
    for basic in (0.0, 1.0):
        yield motto.make_workload(30, basic), trades
    for kind in (2, 4, 6):
        yield motto.make_workload(20, 0, kinds=(kind,)), trades
    yield motto.make_nested_workload(20, 3), motto.make_trades(5_000, per_second=20.0)
    yield multitree.make_workload(multitree.Shape(patterns=30)), multitree.make_stocks(3_000, 25)
    for size, seconds in ((3, 1), (4, 1), (5, 2)):
        items = [motto.SYMBOLS[at : at + size] for at in range(8)]
        texts = [", ".join(f"{name} v{place}" for place, name in enumerate(names)) for names in items]
        queries = [f"QUERY q{at} RETURN * PATTERN SEQ({text}) WITHIN {seconds} s" for at, text in enumerate(texts)]
        yield parse("\n".join(queries)), trades


def fit_prices(rows: Rows, names: tuple[str, ...]) -> None:
    """Print the prices of what some nodes do, and how far they are off."""
    table = np.array(rows)
    nanoseconds, work = table[:, 0], np.column_stack([np.ones(len(table)), table[:, 1:]])
    weight = 1 / np.sqrt(np.maximum(nanoseconds, SHORT))
    prices, _ = nnls(work * weight[:, None], nanoseconds * weight)
    off = np.quantile(work @ prices / nanoseconds, [0.05, 0.25, 0.5, 0.75, 0.95])
    print(", ".join(f"{name} {price:,.1f}" for name, price in zip(names, prices, strict=True)))
    print(f"  {len(rows)} nodes; estimated / measured at 5, 25, 50, 75, 95 %: {', '.join(f'{x:.2f}' for x in off)}")


def main() -> None:
    motet.engine.detect.run.__dict__["PlanRunner"] = TimedRunner
    pa.set_cpu_count(1)
    for workload, events in workloads():
        options = {name: Options(optimizer=name, budget=1.0) for name in ("none", "reorder", "motto")}
        for program in compile_plans(workload, events, options).values():
            run = LocalRun(program)
            for warm in (True, False):
                tables = (JOINS, FILTERS, WALKS, LEAVES)
                sizes = [len(rows) for rows in tables]
                list(run.run(events))
                if warm:
                    for rows, size in zip(tables, sizes, strict=True):
                        del rows[size:]
    fit_prices(JOINS, ("joins: node", "row", "pair", "instance"))
    fit_prices(FILTERS, ("filters: node", "sifted", "instance"))
    fit_prices(WALKS, ("walks: node", "event", "step", "path"))
    fit_prices(LEAVES, ("leaves: node", "event", "instance"))


if __name__ == "__main__":
    main()
