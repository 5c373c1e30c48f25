"""Every plan of many settings, run: does the plan that `auto` takes come close to the best, and do estimates rank plans
as they run?

CPU seconds on one core from Arrow table to result table, without the search for a plan. Plans that execute the same are
run once. Statistics are sampled from each table as `motet run` samples them; prices were fitted to other streams and
workloads, made from another seed.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from benchmarks import fit_plan_prices
from benchmarks.engine import time_programs
from benchmarks.measure import Measurement
from benchmarks.plan_settings import PlanSetting, list_settings
from benchmarks.registry import OURS, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from motet.compile import Program
from motet.model.query import Workload
from motet.options import Options
from motet.pipeline import TableSource, prepare
from motet.plans.cost import make_load
from motet.plans.units import estimate_cost

SEED = 1
PLANS = {
    "none": Options(optimizer="none", windows="panes"),
    "stacks": Options(windows="stacks"),
    "prefix": Options(optimizer="prefix"),
    "pairs": Options(windows="pairs"),
    "greedy": Options(optimizer="sharon-greedy", budget=1.0),
    "sharon": Options(optimizer="sharon", budget=1.0),
    "gloria": Options(optimizer="gloria", budget=1.0),
    "auto": Options(),
}
PURE = ("stacks", "prefix", "pairs")


def compare_plans(setting: Setting) -> list[Row]:
    """Measure every plan of every setting."""
    return [measure_setting(each, setting.repeats) for each in list_settings()]


def measure_setting(setting: PlanSetting, repeats: int) -> Row:
    """Measure the plans of one setting: seconds, how far `auto` is behind the best, and how estimates rank them."""
    table, workload = setting.build(SEED)
    programs = compile_plans(workload, table)
    distinct: dict[tuple[str, ...], str] = {}
    for name in ("auto", *programs):
        distinct.setdefault(list_signatures(programs[name]), name)
    measured = {name: programs[name] for name in distinct.values()}
    timings, ran = time_programs(measured, table, repeats)
    seconds = {name: Measurement.of(timings[distinct[list_signatures(program)]]) for name, program in programs.items()}
    best = min(measured, key=lambda name: seconds[name].median)
    pure = min((name for name in PURE), key=lambda name: seconds[name].median)
    estimates = [estimate_program(programs[name]) for name in measured]
    return {
        "setting": setting.name,
        "queries": len(workload.queries),
        **seconds,
        "best": best,
        "auto behind best": seconds["auto"].median / seconds[best].median,
        "auto over best pure": seconds[pure].median / seconds["auto"].median,
        "mixture": setting.mixture,
        "rank correlation": correlate_ranks(estimates, [seconds[name].median for name in measured]),
        "ran": ran,
    }


def compile_plans(workload: Workload, table: pa.Table) -> dict[str, Program]:
    """Compile a workload by each plan, as a run does."""
    found = {}
    for name, options in PLANS.items():
        program = prepare(TableSource(table), workload, options).program
        assert program is not None
        found[name] = program
    return found


def list_signatures(program: Program) -> tuple[str, ...]:
    return tuple(unit.planned.signature for branch in program.branches for unit in branch.units)


def estimate_program(program: Program) -> float:
    """Return the estimated cost of a program, in nanoseconds per second of event time."""
    known = program.options.statistics
    return sum(estimate_cost(branch.units, make_load(known, branch.partition)) for branch in program.branches)


def correlate_ranks(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's rank correlation; 1 where there is nothing to rank."""
    ranks = [[sorted(values).index(value) for value in values] for values in (one, other)]
    return statistics.correlation(*ranks) if len(one) > 1 else 1.0


def summarize(column: str, how: Any, rows: Sequence[Mapping[str, Any]], mixtures: bool = False) -> str:
    values = [get_median(row[column]) for row in rows if row["mixture"] or not mixtures]
    return f"{how(values):.2f}" if values else "-"


EXPERIMENTS = [
    fit_plan_prices.EXPERIMENT,
    Experiment(
        "plans",
        OURS,
        "",
        "every plan of 30 settings: what `auto` takes against the best of them",
        Seconds(300, 600),
        compare_plans,
        heavy=True,
        stated=(
            Claim(
                "auto against the best plan, in the median (goal: at most 1.05)",
                "",
                lambda rows: summarize("auto behind best", statistics.median, rows),
            ),
            Claim(
                "auto against the best plan, at worst (goal: at most 1.15)",
                "",
                lambda rows: summarize("auto behind best", max, rows),
            ),
            Claim(
                "auto against the best pure form on mixtures, at least (goal: at least 1.3)",
                "",
                lambda rows: summarize("auto over best pure", min, rows, mixtures=True),
            ),
            Claim(
                "rank correlation of estimates and times, mean over settings (goal: at least 0.9)",
                "",
                lambda rows: summarize("rank correlation", statistics.mean, rows),
            ),
        ),
    ),
]
