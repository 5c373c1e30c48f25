"""What an experiment is, and which there are."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from motet.bench import experiments
from motet.bench.measure import Measured
from motet.errors import MotetError, did_you_mean

Value = str | int | float | Measured | None
Row = dict[str, Value]
Size = Literal["quick", "paper"]
OURS = "motet"


@dataclass(frozen=True, slots=True)
class Setting:
    """How large, and how often."""

    size: Size = "quick"
    repeats: int = 3

    def pick(self, quick: Any, paper: Any) -> Any:
        """The one of two that suits the size."""
        return quick if self.size == "quick" else paper


@dataclass(frozen=True, slots=True)
class Stated:
    """A number that the text of a paper states, and where it is in our rows; or one of ours alone."""

    what: str
    paper: str
    ours: Callable[[Sequence[Mapping[str, Any]]], str]


@dataclass(frozen=True, slots=True)
class Axes:
    """How rows are drawn: these columns, one line each, over that one."""

    x: str
    series: tuple[str, ...]
    unit: str
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long the sizes of an experiment take with three repeats on two cores, as measured and rounded up."""

    quick: int
    paper: int


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure of a paper, or one measurement of ours. `needs` names modules without which it cannot run; what is
    `heavy` runs only by its own name.
    """

    name: str
    paper: str
    figure: str
    measures: str
    seconds: Seconds
    run: Callable[[Setting], list[Row]]
    axes: Axes | None = None
    stated: tuple[Stated, ...] = ()
    needs: tuple[str, ...] = ()
    heavy: bool = False
    notes: tuple[str, ...] = ()


@cache
def known() -> dict[str, Experiment]:
    """All experiments by name: of the package, and in a checkout those of its `benchmarks` folder."""
    modules = [*_modules(experiments), *_beside_the_source()]
    found = [experiment for module in modules for experiment in getattr(module, "EXPERIMENTS", ())]
    twice = {one.name for one in found if sum(other.name == one.name for other in found) > 1}
    assert not twice, f"experiments of the same name: {twice}"
    return {experiment.name: experiment for experiment in sorted(found, key=lambda one: (one.paper == OURS, one.name))}


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Experiments by name, by the beginning of their names (`sharon`), or all that are not heavy (`all`)."""
    found: dict[str, Experiment] = {}
    for name in names:
        if name == "all":
            matching = [one for one in known().values() if not one.heavy]
        elif name in known():
            matching = [known()[name]]
        else:
            matching = [one for one in known().values() if one.name.startswith(f"{name}-") and not one.heavy]
        if not matching:
            hint = did_you_mean(name, list(known()))
            raise MotetError(f"there is no experiment {name!r}; {hint or 'motet bench --list shows them'}")
        found |= {one.name: one for one in matching}
    return list(found.values())


def _modules(package: ModuleType) -> list[ModuleType]:
    return [
        importlib.import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)
    ]


def _beside_the_source() -> list[ModuleType]:
    """Packages under `benchmarks` of a checkout: they need what is no part of motet."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "benchmarks" / "peers" / "__init__.py").is_file():
        return []
    if str(root) not in sys.path:
        sys.path.append(str(root))
    return [importlib.import_module("benchmarks.peers")]
