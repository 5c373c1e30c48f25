"""What `motet bench` does: run experiments, show them, and write them as JSON and charts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from motet.bench.chart import check_chart, draw
from motet.bench.measure import ChildError
from motet.bench.registry import Experiment, Setting, chosen, known
from motet.bench.run import run
from motet.bench.show import duration, listing, show
from motet.cli.report import say
from motet.errors import MotetError, RunError
from motet.explain.words import count


def list_experiments(names: Sequence[str]) -> None:
    """Show which there are."""
    listing(chosen(names) if names else list(known().values()))


def bench(names: Sequence[str], setting: Setting, json_target: Path | None, chart_target: Path | None) -> None:
    """Run experiments one by one, each written as soon as it is over: one that fails, or whoever interrupts, costs no
    result of another.
    """
    experiments = chosen(names)
    several = len(experiments) > 1
    if chart_target is not None:
        check_chart(_file(chart_target, experiments[0], "html", several))
    failed: dict[str, str] = {}
    began = time.monotonic()
    for place, experiment in enumerate(experiments):
        say(outlook(experiments, place, setting, time.monotonic() - began))
        try:
            result = run(experiment, setting)
            show(result)
        except KeyboardInterrupt:
            if several:
                done = count(place - len(failed), "experiment")
                say(f"\nstopped in {experiment.name}: {done} of {len(experiments)} done")
            raise
        except Exception as error:  # noqa: BLE001  whatever one meets with, the others run
            why = str(error) if isinstance(error, ChildError | MotetError) else f"{type(error).__name__}: {error}"
            say(f"error: {why}")
            failed[experiment.name] = why
            continue
        if json_target is not None:
            write(_file(json_target, experiment, "json", several), result.as_json())
        if chart_target is not None and not draw(result, _file(chart_target, experiment, "html", several)):
            say(f"{experiment.name} is a table: no chart of it")
    if several:
        say(f"{len(experiments) - len(failed)} of {len(experiments)} in {duration(time.monotonic() - began)}")
    if failed:
        raise RunError(
            f"{len(failed)} of {len(experiments)} failed"
            + "".join(f"\n  {name}: {why}" for name, why in failed.items())
        )


def _file(target: Path, experiment: Experiment, kind: str, several: bool) -> Path:
    """Where what is found goes: one of its own for each of several experiments, or where the target is a folder."""
    return target / f"{experiment.name}.{kind}" if several or target.is_dir() else target


def outlook(experiments: Sequence[Experiment], place: int, setting: Setting, taken: float) -> str:
    """Which experiment is next, and how long it and the rest may take, going by those that are over."""
    experiment = experiments[place]
    stated = [setting.pick(one.seconds.quick, one.seconds.paper) for one in experiments]
    if len(experiments) == 1:
        return f"{experiment.name}: about {duration(stated[0])}"
    done, left = sum(stated[:place]), sum(stated[place:])
    pace = taken / done if done else 1.0
    return f"{experiment.name}: {place + 1} of {len(experiments)}, about {duration(left * pace)} left"


def write(target: Path, found: object) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=2) + "\n")
