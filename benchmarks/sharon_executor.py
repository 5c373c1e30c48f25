"""Shared against not shared, on one core: Sharon's figures 12 and 14, by events in a window, queries, pattern length.

python -m benchmarks.sharon_executor --scene ecommerce --axis queries

Each line is one workload over two windows of a stream, from Arrow table to result table, with the plans of the
optimizers: `none` runs every query alone, `prefix` shares prefixes, `greedy` and `sharon` run Sharon's plans, `auto` is
what motet does unless told otherwise. Times are without the search for a plan. Totals are those kept for one key.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks import streams, workloads
from benchmarks.report import finish, in_turn, median
from motet.engine import EventSchema, Options, Program, compile_workload
from motet.engine.local import run_table
from motet.plan.units import Unit

OPTIMIZERS = {
    "none": "none",
    "prefix": "prefix",
    "greedy": "sharon-greedy",
    "sharon": "sharon",
    "auto": "auto",
}
WINDOW = 600  # seconds, sliding by 60
AXES = {
    "events": [{"events": thousands * 1000} for thousands in (200, 400, 800, 1200)],
    "queries": [{"queries": number} for number in (20, 40, 80, 120)],
    "length": [{"length": number} for number in (10, 20, 30)],
}
PAPERS_DEFAULT = {"events": 400_000, "queries": 20, "length": 10}


def main() -> None:
    """Run and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", choices=("ecommerce", "taxi", "traffic"), default="ecommerce")
    parser.add_argument("--axis", choices=tuple(AXES), default="queries")
    parser.add_argument("--legs", action="store_true", help="patterns made of shared runs alone")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    rows = [
        measured(options.scene, {**PAPERS_DEFAULT, **size}, options.legs, options.repeats)
        for size in AXES[options.axis]
    ]
    finish(f"{options.scene}: seconds by plan, one core, {WINDOW // 60} min sliding by one", rows, options)


def measured(scene: str, size: dict[str, int], legs: bool, repeats: int) -> dict[str, object]:
    """One line: seconds with each plan, how much is gained over no sharing, and what is kept."""
    table = stream(scene, size["events"])
    make = getattr(workloads, scene)
    workload = make(size["queries"], size["length"], within=f"{WINDOW} s", slide="60 s", legs=legs)
    programs = {
        name: compile_workload(workload, EventSchema(table.schema), Options(optimizer=optimizer))
        for name, optimizer in OPTIMIZERS.items()
    }
    seconds = in_turn({name: partial(run_table, program, table) for name, program in programs.items()}, repeats)
    times = {name: median(found) for name, found in seconds.items()}
    return {
        **size,
        **times,
        "sharon gains": times["none"] / times["sharon"],
        "auto gains": times["none"] / times["auto"],
        "M events/s": len(table) / times["auto"] / 1e6,
        "totals: none": sum(map(totals, units(programs["none"]))),
        "totals: auto": sum(map(totals, units(programs["auto"]))),
    }


def stream(scene: str, events_in_window: int) -> pa.Table:
    """Two windows of a scene's stream."""
    rate = -(-events_in_window // WINDOW)
    events = 2 * events_in_window
    if scene == "traffic":
        return streams.traffic(events, low=rate // 2, high=rate + rate // 2)
    return streams.taxi(events, rate=rate) if scene == "taxi" else streams.ecommerce(events, rate=rate)


def units(program: Program) -> Iterator[Unit]:
    for branch in program.branches:
        yield from branch.units


def totals(unit: Unit) -> int:
    """How many totals one key keeps."""
    if unit.pairs is None:
        return len(unit.merged.settled) * unit.slots
    return unit.pairs.size + unit.pairs.rows * unit.slots


if __name__ == "__main__":
    main()
