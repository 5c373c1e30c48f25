"""What `motet bench` does: run experiments, show them, and write them as JSON and charts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from motet.bench.chart import check_chart, draw
from motet.bench.measure import ChildError
from motet.bench.registry import Setting, chosen, known
from motet.bench.run import run
from motet.bench.show import listing, show
from motet.cli.report import say
from motet.errors import RunError


def list_experiments(names: Sequence[str]) -> None:
    """Show which there are."""
    listing(chosen(names) if names else list(known().values()))


def bench(names: Sequence[str], setting: Setting, json_target: Path | None, chart_target: Path | None) -> None:
    """Run experiments one by one; one that fails does not keep the others from running."""
    experiments = chosen(names)
    several = len(experiments) > 1
    if chart_target is not None:
        check_chart(chart_target / "chart.html" if several else chart_target)
    failed = []
    for experiment in experiments:
        say(f"{experiment.name}: perhaps {experiment.seconds} s" if setting.size == "quick" else experiment.name)
        try:
            result = run(experiment, setting)
        except ChildError as error:
            say(f"error: {error}")
            failed.append(experiment.name)
            continue
        show(result)
        if json_target is not None:
            write(json_target / f"{experiment.name}.json" if several else json_target, result.as_json())
        if chart_target is not None and not draw(
            result, chart_target / f"{experiment.name}.html" if several else chart_target
        ):
            say(f"{experiment.name} is a table: no chart of it")
    if failed:
        raise RunError(f"failed: {', '.join(failed)}")


def write(target: Path, found: object) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=2) + "\n")
