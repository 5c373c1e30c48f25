"""What an experiment is, and which there are."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from benchmarks import experiments
from benchmarks.measure import Measurement
from motet.errors import MotetError, did_you_mean

Value = str | int | float | Measurement | None
Row = dict[str, Value]
Size = Literal["quick", "paper"]
OURS = "motet"


@dataclass(frozen=True, slots=True)
class Setting:
    """How large an experiment is, and how often each case is measured."""

    size: Size = "quick"
    repeats: int = 3

    def pick(self, quick: Any, paper: Any) -> Any:
        """Return the one of two that suits the size."""
        return quick if self.size == "quick" else paper


@dataclass(frozen=True, slots=True)
class Claim:
    """A number that the text of a paper states and how to find ours in the rows; or one of ours alone."""

    what: str
    paper: str
    ours: Callable[[Sequence[Mapping[str, Any]]], str]


@dataclass(frozen=True, slots=True)
class Axes:
    """How rows are drawn: some columns, one line each, over another; a line of its own for each value of `by`."""

    x: str
    series: tuple[str, ...]
    unit: str
    log_x: bool = False
    log_y: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long the sizes of an experiment take with three repeats on two cores, as measured and rounded up."""

    quick: int
    paper: int


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure of a paper, or one measurement of ours.

    `needs` names modules without which it cannot run. One that is `heavy` runs only by its own name.
    """

    name: str
    paper: str
    figure: str
    measures: str
    seconds: Seconds
    run: Callable[[Setting], list[Row]]
    axes: Axes | None = None
    stated: tuple[Claim, ...] = ()
    needs: tuple[str, ...] = ()
    heavy: bool = False
    notes: tuple[str, ...] = ()


@cache
def load_experiments() -> dict[str, Experiment]:
    """Return all experiments by name, those of the papers first."""
    names = [module.name for module in pkgutil.iter_modules(experiments.__path__)]
    modules = [importlib.import_module(f"{experiments.__name__}.{name}") for name in names]
    found = [experiment for module in modules for experiment in getattr(module, "EXPERIMENTS", ())]
    twice = {one.name for one in found if sum(other.name == one.name for other in found) > 1}
    assert not twice, f"experiments of the same name: {twice}"
    return {experiment.name: experiment for experiment in sorted(found, key=lambda one: (one.paper == OURS, one.name))}


def select_experiments(names: Sequence[str]) -> list[Experiment]:
    """Return experiments by name, by the beginning of their names (`sharon`), or all that are not heavy (`all`)."""
    found: dict[str, Experiment] = {}
    for name in names:
        if name == "all":
            matching = [one for one in load_experiments().values() if not one.heavy]
        elif name in load_experiments():
            matching = [load_experiments()[name]]
        else:
            matching = [one for one in load_experiments().values() if one.name.startswith(f"{name}-") and not one.heavy]
        if not matching:
            hint = did_you_mean(name, list(load_experiments()))
            raise MotetError(f"there is no experiment {name!r}; {hint or 'motet bench --list shows them'}")
        found |= {one.name: one for one in matching}
    return list(found.values())
