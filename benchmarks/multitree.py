"""Many patterns over stock-like events: no sharing and no reordering, each remedy alone, and multi-pattern trees.

python -m benchmarks.multitree
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

import motet
from benchmarks.report import arguments, median, show
from motet.engine import EventSchema, Options, Program, compile_workload
from motet.engine.detect.planning import Drift
from motet.engine.detect.run import DetectRun
from motet.engine.local import LocalRun
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.detect.multitree.search import METHODS, Search, search
from motet.plan.detect.build import trees_wanted
from motet.statistics.model import Statistics

# All are measured against the first.
PLANS = ("none", "share", "reorder", "multitree-prefix", "multitree")


@dataclass(frozen=True)
class Shape:
    """A workload as in the paper's section 6: how many patterns, of how many events, within how long or how many."""

    patterns: int = 100
    size: int = 5
    minutes: int = 15
    rows: int = 0  # where windows count events: how many
    types: int = 25
    seed: int = 1


def stocks(events: int, types: int, seed: int = 7) -> pa.Table:
    """Changes of prices: some stocks trade 23 times as often as others, as do the paper's with 2 to 47 a second."""
    rng = np.random.default_rng(seed)
    weights = np.exp(np.linspace(0, np.log(23.5), types))
    kind = rng.permutation(types)[rng.choice(types, events, p=weights / weights.sum())]
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(0, events * 1_000_000, events)), pa.timestamp("us")),
            "type": pa.array([f"S{at:02}" for at in range(types)]).take(pa.array(kind)),
            "diff": pa.array(rng.normal(0, 1, events)),
        }
    )


def workload_of(shape: Shape) -> Workload:
    """Sequences, with half as many conditions as events, each between two of them, that hold for 0.3 to 24 percent of
    pairs. One pattern in ten has a NOT, one a repetition, and one is a conjunction, with twice as many conditions: else
    almost all matches would be its.
    """
    rng = np.random.default_rng(shape.seed)
    # Two stocks are compared in the same way wherever they are.
    steps = rng.choice([1.0, 2.0, 3.0, 3.8], (shape.types, shape.types), p=[0.1, 0.25, 0.3, 0.35])
    texts = []
    for number in range(shape.patterns):
        chosen = [int(at) for at in rng.choice(shape.types, shape.size, replace=False)]
        events = [f"S{at:02} v{at}" for at in chosen]
        compared = list(chosen)
        kind = rng.random()
        if 0.1 <= kind < 0.2:
            looped = int(rng.integers(1, shape.size - 1))
            events[looped] = f"S{chosen[looped]:02}{{1,2}} v{chosen[looped]}"
            compared.remove(chosen[looped])
        elif kind < 0.1:
            events.insert(int(rng.integers(1, shape.size)), f"NOT S{rng.integers(shape.types):02}")
        pairs = [(a, b) for a in sorted(compared) for b in sorted(compared) if a < b]
        count = shape.size if kind > 0.9 else (shape.size + 1) // 2
        wanted = rng.choice(len(pairs), min(count, len(pairs)), replace=False)
        conditions = [f"v{a}.diff + {steps[a, b]} < v{b}.diff" for a, b in (pairs[at] for at in wanted)]
        window = f"{shape.rows} EVENTS" if shape.rows else f"{shape.minutes} min"
        texts.append(
            f"QUERY q{number}\nRETURN *\nPATTERN {'AND' if kind > 0.9 else 'SEQ'}({', '.join(events)})\n"
            f"WHERE {' AND '.join(conditions)}\nWITHIN {window}"
        )
    return parse("\n\n".join(texts))


# Throughput


def throughput(shape: Shape, events: int, budget: float, repeats: int, plans: Sequence[str] = PLANS) -> dict[str, Any]:
    """Events a second by each plan, in one run: a row of a table. Plans are made ahead, from statistics."""
    table, workload = stocks(events, shape.types), workload_of(shape)
    statistics = motet.profile(table, workload)
    seconds: dict[str, float] = {}
    matches: set[int] = set()
    for name in plans:
        program = compiled(workload, table, name, statistics, budget)
        taken = []
        for _ in range(repeats):
            began = time.process_time()
            matches.add(sum(len(part) for part in LocalRun(program).over_table(table)))
            taken.append(time.process_time() - began)
        seconds[name] = median(taken)
    (found,) = matches  # all plans find the same
    row: dict[str, Any] = {f"{plans[0]} events/s": events / seconds[plans[0]]}
    row |= {f"{name} times": seconds[plans[0]] / seconds[name] for name in plans[1:]}
    return row | {"matches": found}


def compiled(workload: Workload, table: pa.Table, optimizer: str, known: Statistics | None, budget: float) -> Program:
    options = Options(optimizer=optimizer, statistics=known, budget=budget)
    return compile_workload(workload, EventSchema(table.schema), options)


def workload_sizes(events: int, budget: float, repeats: int, sizes: Sequence[int] = (10, 50, 100, 500)) -> list[Any]:
    """The paper's figures 10 and 12(a): how many patterns."""
    rows = (throughput(Shape(patterns=count), events, budget, repeats) for count in sizes)
    return [{"patterns": count, **row} for count, row in zip(sizes, rows, strict=True)]


def pattern_sizes(events: int, budget: float, repeats: int, sizes: Sequence[int] = (3, 4, 5, 6, 8)) -> list[Any]:
    """Figures 11(a) and 12(b): how many events in a pattern; windows are smaller for larger ones."""
    minutes = {3: 20, 4: 15, 5: 10, 6: 5, 7: 4, 8: 3}
    rows = (throughput(Shape(40, size, minutes[size]), events, budget, repeats) for size in sizes)
    return [{"size": size, "minutes": minutes[size], **row} for size, row in zip(sizes, rows, strict=True)]


def time_windows(events: int, budget: float, repeats: int, minutes: Sequence[int] = (4, 8, 12)) -> list[Any]:
    """Figures 11(c) and 12(c): windows of so many minutes."""
    rows = (throughput(Shape(patterns=40, minutes=each), events, budget, repeats) for each in minutes)
    return [{"minutes": each, **row} for each, row in zip(minutes, rows, strict=True)]


def count_windows(events: int, budget: float, repeats: int, sizes: Sequence[int] = (250, 500, 750)) -> list[Any]:
    """Figures 11(d) and 12(d): windows of so many events."""
    rows = (throughput(Shape(patterns=40, rows=each), events, budget, repeats) for each in sizes)
    return [{"window events": each, **row} for each, row in zip(sizes, rows, strict=True)]


def search_times(events: int, patterns: int = 100, times: Sequence[float] = (0.1, 0.5, 2.0, 8.0)) -> list[Any]:
    """Figures 10 and 11(b): what the searches find in so many seconds, as a share of the cost without sharing."""
    shape = Shape(patterns=patterns)
    table, workload = stocks(events, shape.types), workload_of(shape)
    program = compiled(workload, table, "reorder", motet.profile(table, workload), 0.0)
    (branch,) = program.detect
    assert branch.trees is not None
    wanted, rates = trees_wanted(branch.queries), branch.trees.rates
    rows = []
    for name, how in {
        **{f"{method}, edge": Search(method) for method in METHODS},
        **{f"{method}, vertex-{most}": Search(method, most=most) for method in METHODS for most in (4, 8)},
        "annealing, edge, prefix": Search(ordered=True),
    }.items():
        row: dict[str, Any] = {"search": name}
        for seconds in times:
            found = search(wanted, rates, replace(how, seconds=seconds, patience=None))
            row[f"{seconds:g} s"] = found.cost / branch.trees.considered["reorder"]
        rows.append({**row, "steps": found.steps})
    return rows


# Adaptation


def reshuffled(table: pa.Table, every: int, moved: int = 5, seed: int = 3) -> pa.Table:
    """Events whose types change places, `moved` of them after so many events: rates change all at once."""
    rng = np.random.default_rng(seed)
    names = np.array(sorted(set(table.column("type").to_pylist())))
    kind = np.searchsorted(names, table.column("type").to_numpy(zero_copy_only=False).astype(str))
    place = np.arange(len(names))
    for start in range(0, len(kind), every):
        chosen = rng.choice(len(names), moved, replace=False)
        place[chosen] = place[rng.permutation(chosen)]
        kind[start : start + every] = place[kind[start : start + every]]
    return table.set_column(table.column_names.index("type"), "type", pa.array(names[kind]))


def adaptation(events: int, every: Sequence[int] = (5_000, 10_000, 20_000), patterns: int = 40) -> list[Any]:
    """Figure 13: the plan for the first events, and one that is made anew as rates change; both against none."""
    shape = Shape(patterns=patterns, minutes=8)
    workload, calm = workload_of(shape), stocks(events, shape.types)
    rows = []
    for stretch in every:
        table = reshuffled(calm, stretch)
        row: dict[str, Any] = {"events between changes": stretch}
        seconds: dict[str, float] = {}
        for name, optimizer, drift in (
            ("none", "none", None),
            ("static", "multitree", None),
            ("adaptive", "multitree", Drift(seconds=0.2)),
        ):
            program = compiled(workload, table, optimizer, None, 0.5)
            run = DetectRun(program, program.detect[0], drift=drift)
            began = time.process_time()
            for start in range(0, events, 2_000):
                for _ in run.pieces(table.slice(start, 2_000)):
                    pass
            seconds[name] = time.process_time() - began
        row |= {f"{name} times": seconds["none"] / seconds[name] for name in ("static", "adaptive")}
        rows.append({**row, "plans": sum(change.taken for change in run.planning.log)})
    return rows


def main() -> None:
    """Run and show."""
    options = arguments(__doc__ or "", repeats=1, events=10_000, budget=5)
    pa.set_cpu_count(1)
    events, budget, repeats = options.events, float(options.budget), options.repeats
    results = {
        "patterns": workload_sizes(events, budget, repeats),
        "events in a pattern": pattern_sizes(events, budget, repeats),
        "windows in minutes": time_windows(events, budget, repeats),
        "windows in events": count_windows(events, budget, repeats),
        "cost found by time of search, against each pattern by itself": search_times(events),
        "rates that change": adaptation(4 * events),
    }
    for title, rows in results.items():
        show(title, rows)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
