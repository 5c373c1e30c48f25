"""Fit the prices of aggregate plans (`motet.plans.cost.PRICES`) to what units take in runs of many settings.

    motet bench calibrate

Each unit of several plans is timed by itself, and told by the work that is counted for it; nonnegative least squares of
relative errors give the prices, in nanoseconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import pyarrow as pa
from scipy.optimize import nnls

from benchmarks.plan_settings import PlanSetting, list_settings
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting
from motet.compile import Program, compile_workload
from motet.engine.encode import encode_branch
from motet.engine.run import run_unit_partials
from motet.engine.workload_profile import profile_workload
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.model.query import Workload
from motet.options import Options
from motet.plans.cost import PRICES, Work, make_load, price
from motet.plans.units import count_work
from motet.schema import EventSchema

SEED = 3
MOST_UNITS = 5  # of one plan
PLANS = {
    "prefix": Options(optimizer="prefix"),
    "pairs": Options(windows="pairs"),
    "none": Options(optimizer="none"),
    "stacks": Options(windows="stacks"),
    "auto": Options(),
}
SHORT = 1e6  # a unit that takes fewer nanoseconds is fitted as one that takes so long: the rest is noise

Sample = tuple[str, str, Work, float]  # setting, plan, work of a unit in the whole run, nanoseconds


def measure_settings(settings: Sequence[PlanSetting], repeats: int = 3) -> Iterator[Sample]:
    """Yield the work of units, and the CPU time that they take."""
    for setting in settings:
        table, workload = setting.build(SEED)
        for name, program in compile_each(workload, table).items():
            for work, nanoseconds in measure_units(program, table, repeats):
                yield setting.name, name, work, nanoseconds


def compile_each(workload: Workload, table: pa.Table) -> dict[str, Program]:
    """Compile a workload by each plan, with the statistics of the whole table."""
    schema = EventSchema(table.schema)
    known = profile_workload(table, workload, schema)
    return {
        name: compile_workload(workload, schema, replace(options, statistics=known)) for name, options in PLANS.items()
    }


def measure_units(program: Program, table: pa.Table, repeats: int) -> Iterator[tuple[Work, float]]:
    """Yield the work of each unit over the whole table, and the least CPU nanoseconds of its runs."""
    bounds = (int(MIN_TIME), int(MAX_TIME) + 1)
    for branch in program.branches:
        encoded = encode_branch(program, branch, table.select(branch.columns))
        load = make_load(program.options.statistics, branch.partition)
        for unit in branch.units[:MOST_UNITS]:
            times = []
            for _ in range(repeats + 1):
                began = time.process_time_ns()
                run_unit_partials(program, unit, encoded, bounds)
                times.append(time.process_time_ns() - began)
            yield {name: amount * load.seconds for name, amount in count_work(unit, load).items()}, min(times[1:])


def fit_prices(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the prices for which relative errors are least."""
    names = list(PRICES)
    matrix = np.array([[work.get(name, 0.0) for name in names] for _, _, work, _ in samples])
    taken = np.maximum([nanoseconds for *_, nanoseconds in samples], SHORT)
    found, _ = nnls(matrix / taken[:, None], np.ones(len(taken)))
    return dict(zip(names, found.tolist(), strict=True))


def calibrate(setting: Setting) -> list[Row]:
    """Fit the prices, and return them beside those that are used; last how far estimates are from what was measured."""
    pa.set_cpu_count(1)
    samples = list(measure_settings(list(list_settings()), setting.repeats))
    prices = fit_prices(samples)
    errors = [abs(math.log(max(price(work, prices), SHORT) / max(taken, SHORT))) for _, _, work, taken in samples]
    rows: list[Row] = [
        {"piece of work": name, "ns, fitted": value, "ns, used": PRICES[name]} for name, value in prices.items()
    ]
    rows.append({"piece of work": f"units measured: {len(samples)}; error in the median", "ns, fitted": median(errors)})
    return rows


EXPERIMENT = Experiment(
    "calibrate",
    OURS,
    "",
    "the prices of aggregate plans, fitted to the kernels of this machine (`motet.plans.cost.PRICES`)",
    Seconds(300, 300),
    calibrate,
    heavy=True,
)
