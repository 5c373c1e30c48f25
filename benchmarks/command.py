"""The command `motet bench`: run experiments, print them, and write them as JSON and charts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.chart import check_chart, write_chart
from benchmarks.measure import ChildError
from benchmarks.registry import Experiment, Setting, load_experiments, select_experiments
from benchmarks.run import run_experiment
from benchmarks.show import format_duration, print_experiments, print_result
from motet.cli.report import say
from motet.errors import MotetError, RunError
from motet.explain.formatting import format_count


def list_experiments(names: Sequence[str]) -> None:
    """Print which experiments there are."""
    print_experiments(select_experiments(names) if names else list(load_experiments().values()))


def run_experiments(
    names: Sequence[str], setting: Setting, json_target: Path | None, chart_target: Path | None
) -> None:
    """Run experiments one by one, and write each result as soon as it is there.

    An experiment that fails, or an interruption, costs no result of another.
    """
    experiments = select_experiments(names)
    several = len(experiments) > 1
    if chart_target is not None:
        check_chart(_resolve_target(chart_target, experiments[0], "html", several))
    failed: dict[str, str] = {}
    began = time.monotonic()
    for place, experiment in enumerate(experiments):
        say(describe_progress(experiments, place, setting, time.monotonic() - began))
        try:
            result = run_experiment(experiment, setting)
            print_result(result)
        except KeyboardInterrupt:
            if several:
                done = format_count(place - len(failed), "experiment")
                say(f"\nstopped in {experiment.name}: {done} of {len(experiments)} done")
            raise
        except Exception as error:  # noqa: BLE001  whatever one meets with, the others run
            why = str(error) if isinstance(error, ChildError | MotetError) else f"{type(error).__name__}: {error}"
            say(f"error: {why}")
            failed[experiment.name] = why
            continue
        if json_target is not None:
            write_json(_resolve_target(json_target, experiment, "json", several), result.as_json())
        if chart_target is not None and not write_chart(
            result, _resolve_target(chart_target, experiment, "html", several)
        ):
            say(f"{experiment.name} is a table: no chart of it")
    if several:
        say(f"{len(experiments) - len(failed)} of {len(experiments)} in {format_duration(time.monotonic() - began)}")
    if failed:
        raise RunError(
            f"{len(failed)} of {len(experiments)} failed"
            + "".join(f"\n  {name}: {why}" for name, why in failed.items())
        )


def _resolve_target(target: Path, experiment: Experiment, kind: str, several: bool) -> Path:
    """Return the file for a result: one for each of several experiments, or in the target where it is a folder."""
    return target / f"{experiment.name}.{kind}" if several or target.is_dir() else target


def describe_progress(experiments: Sequence[Experiment], place: int, setting: Setting, elapsed: float) -> str:
    """Say which experiment is next, and how long it and the rest may take, judged by those that are over."""
    experiment = experiments[place]
    stated = [setting.pick(one.seconds.quick, one.seconds.paper) for one in experiments]
    if len(experiments) == 1:
        return f"{experiment.name}: about {format_duration(stated[0])}"
    done, left = sum(stated[:place]), sum(stated[place:])
    pace = elapsed / done if done else 1.0
    return f"{experiment.name}: {place + 1} of {len(experiments)}, about {format_duration(left * pace)} left"


def write_json(target: Path, found: object) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=2) + "\n")
