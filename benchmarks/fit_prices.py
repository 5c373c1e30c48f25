"""Fit the prices of detection plans (`motet.plans.detect.cost.Prices`) to what nodes take in runs of workloads.

    python -m benchmarks.fit_prices

Each node is timed by itself, and told by the outer instances it searches for, the pairs that its search finds, and the
instances it makes; nonnegative least squares over all of them give the prices.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import nnls

import motet.engine.detect.batch
from benchmarks.engine import compile_plans
from benchmarks.experiments import motto, multitree
from motet.engine.detect.instances import NodeRunner
from motet.engine.local import LocalRun
from motet.kernels.instances import Instances
from motet.kernels.join import BEFORE
from motet.model.query import Workload
from motet.options import Options
from motet.plans.detect.nodes import FilterNode, JoinNode, LoopNode, Node, PathScanNode

# A node that takes less than this is fitted as one that takes so long: what it takes is mostly noise.
SHORT = 5e4


def count_pairs(runner: NodeRunner, node: JoinNode, outer: Instances, inner: Instances) -> int:
    """Return how many pairs a join of events of one key looks at."""
    table, oldest = runner._table(node), runner.oldest[node]
    low, high = oldest[outer.end].copy(), np.full(len(outer.first), np.int64(1) << 62)
    for item, events in enumerate(outer.columns):
        if table.before_all[item]:
            high = np.minimum(high, runner.bundles.first[events])
        if (table.relation[item] == BEFORE).any():
            low = np.maximum(low, runner.bundles.last[events] + 1)
    begin = np.searchsorted(inner.last, low)
    end = np.minimum(np.searchsorted(inner.last, high), np.searchsorted(oldest[inner.end], outer.first, side="right"))
    return int(np.maximum(end - begin, 0).sum())


# Nanoseconds, then what a node did in them.
Rows = list[tuple[float, ...]]
JOINS: Rows = []
FILTERS: Rows = []
WALKS: Rows = []


class TimedRunner(NodeRunner):
    """A runner that writes down what its nodes take in nanoseconds, and of what."""

    def join_blocks(self, node: JoinNode, *rest: Any) -> Iterator[Any]:
        if isinstance(node.inner, LoopNode):
            yield from super().join_blocks(node, *rest)
            return
        outer, inner = self.instances(node.outer), self.instances(node.inner)
        pairs, blocks = count_pairs(self, node, outer, inner), super().join_blocks(node, *rest)
        nanoseconds, made = 0.0, 0
        while True:
            begun = time.perf_counter_ns()
            block = next(blocks, None)
            nanoseconds += time.perf_counter_ns() - begun
            if block is None:
                break
            made += len(block[1])
            yield block
        JOINS.append((nanoseconds, len(outer.first), pairs, made))

    def _run(self, node: Node) -> Instances:
        match node:
            case JoinNode():
                blocks = list(self.join_blocks(node))
                begun = time.perf_counter_ns()
                found = self._sort_blocks(blocks)
                if not isinstance(node.inner, LoopNode):
                    nanoseconds, *work = JOINS[-1]
                    JOINS[-1] = (nanoseconds + time.perf_counter_ns() - begun, *work)
                return found
            case FilterNode():
                given = len(self.instances(node.input).first)
                begun = time.perf_counter_ns()
                found = super()._run(node)
                FILTERS.append((time.perf_counter_ns() - begun, given, len(found.first)))
                return found
            case PathScanNode():
                events = sum(len(self.instances(item).first) for item in node.items)
                begun = time.perf_counter_ns()
                found = super()._run(node)
                WALKS.append((time.perf_counter_ns() - begun, events, len(found.first)))
                return found
        return super()._run(node)


def workloads() -> Iterator[tuple[Workload, pa.Table]]:
    """Return sequences, conjunctions, nested patterns; many matches and few."""
    trades = motto.make_trades(10_000)
    for basic in (0.0, 1.0):
        yield motto.make_workload(30, basic), trades
    for kind in (2, 4, 6):
        yield motto.make_workload(20, 0, kinds=(kind,)), trades
    yield motto.make_nested_workload(20, 3), motto.make_trades(5_000, per_second=20.0)
    yield multitree.make_workload(multitree.Shape(patterns=30)), multitree.make_stocks(3_000, 25)


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
    motet.engine.detect.batch.__dict__["NodeRunner"] = TimedRunner
    pa.set_cpu_count(1)
    for workload, events in workloads():
        options = {name: Options(optimizer=name, budget=1.0) for name in ("none", "reorder", "motto")}
        for program in compile_plans(workload, events, options).values():
            run = LocalRun(program)
            for warm in (True, False):
                sizes = len(JOINS), len(FILTERS), len(WALKS)
                list(run.run(events))
                if warm:
                    for rows, size in zip((JOINS, FILTERS, WALKS), sizes, strict=True):
                        del rows[size:]
    fit_prices(JOINS, ("joins: node", "row", "pair", "instance"))
    fit_prices(FILTERS, ("filters: node", "sifted", "instance"))
    if WALKS:
        fit_prices(WALKS, ("walks: node", "event", "instance"))


if __name__ == "__main__":
    main()
