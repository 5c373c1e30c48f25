"""The optimizers by name: the protocol that all of them implement, what each plans, and how to add one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from motet.errors import OptionError
from motet.optimizer.joins import JoinPlan
from motet.plans.compiled import CompiledQuery
from motet.plans.detect.build import JoinSpec
from motet.plans.detect.cost import Rates
from motet.plans.sharing import Sharing
from motet.statistics.model import Statistics

Query = TypeVar("Query", contravariant=True)
Known = TypeVar("Known", contravariant=True)
Plan = TypeVar("Plan")


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How many seconds an optimizer may search (None: no limit), and the cost model it goes by.

    `runs` is how often the plan will be run over as many events as it is made for: what it serves pays for the search.
    """

    seconds: float | None = 10.0
    costs: str = "calibrated"
    runs: float = 1.0


class Optimizer(Protocol[Query, Known, Plan]):
    """Plans what queries compute together, by what is `known` of the data.

    There are two kinds. One plans what aggregate queries share: from `CompiledQuery` and `Statistics` to a
    `SharingReport`. The other plans joins: from `JoinSpec` and `Rates` to a `JoinPlan`.
    """

    searches: ClassVar[bool] = True  # takes the time that it is given

    def plan_by_counts(self, queries: Sequence[Query], known: Known, options: SearchOptions) -> Plan | None:
        """Return a plan where what is known from counts alone says that no more is worth while, else None."""
        return None

    uses_statistics: bool = True

    def optimize(self, queries: Sequence[Query], known: Known, options: SearchOptions) -> Plan:
        """Return the best plan that is found in the time given."""

    def reweigh(self, plan: Plan, queries: Sequence[Query], known: Known, options: SearchOptions) -> Plan:
        """Return a plan for the same queries after the data has changed; it may start from the present plan."""
        return self.optimize(queries, known, options)

    def extend(self, plan: Plan, queries: Sequence[Query], known: Known) -> Plan | None:
        """Return the present plan for other queries, or None where all of them have to be planned again."""
        return None


class SharingReport(Protocol):
    """What an optimizer of aggregate queries found.

    `family` says how the report is shown (`motet.explain`), `variant` is the optimizer's name.
    """

    @property
    def family(self) -> str: ...

    @property
    def variant(self) -> str: ...

    @property
    def plan(self) -> Sharing: ...


SharingOptimizer = Optimizer[CompiledQuery, Statistics | None, SharingReport]
JoinOptimizer = Optimizer[JoinSpec, Rates, JoinPlan]


@dataclass(frozen=True)
class RegisteredOptimizer:
    """An optimizer under the name that `--optimizer` gives it.

    `sharing` plans what aggregate queries share; without it the engine compares its own plans. `joins` plans the joins
    of detection queries; without it they are left to `auto`. `by_statistics`: the data is profiled to plan by it.
    """

    name: str
    description: str
    sharing: SharingOptimizer | None
    joins: JoinOptimizer | None
    by_statistics: bool


AUTO = "auto"
_OPTIMIZERS: dict[str, RegisteredOptimizer] = {}


def register(
    name: str,
    description: str,
    sharing: SharingOptimizer | None = None,
    joins: JoinOptimizer | None = None,
    *,
    by_statistics: bool = True,
) -> None:
    """Make an optimizer known under a name; see `RegisteredOptimizer`."""
    _OPTIMIZERS[name] = RegisteredOptimizer(name, description, sharing, joins, by_statistics)


def optimizer_names() -> tuple[str, ...]:
    """Return the names of all optimizers."""
    return tuple(_OPTIMIZERS)


def get_optimizer(name: str) -> RegisteredOptimizer:
    """Return the optimizer with a name. Raises `OptionError` where there is none."""
    if name not in _OPTIMIZERS:
        raise OptionError(f"optimizer is {name!r}: use one of {', '.join(_OPTIMIZERS)}")
    return _OPTIMIZERS[name]


def is_sharing_optimizer(name: str) -> bool:
    """Return whether a plan's name is that of an optimizer which plans what aggregate queries share."""
    return name in _OPTIMIZERS and _OPTIMIZERS[name].sharing is not None


def get_join_optimizer(name: str) -> JoinOptimizer:
    """Return the optimizer that plans joins under a name: `auto` for those that plan aggregate queries only."""
    found = get_optimizer(name).joins or get_optimizer(AUTO).joins
    assert found is not None
    return found


def plan_trees(specs: Sequence[JoinSpec], optimizer: str, rates: Rates, options: SearchOptions) -> JoinPlan:
    """Return the join trees that an optimizer chooses."""
    return get_join_optimizer(optimizer).optimize(specs, rates, options)


def replan_trees(
    plan: JoinPlan, specs: Sequence[JoinSpec], optimizer: str, rates: Rates, search: SearchOptions
) -> JoinPlan:
    """Return the join trees that an optimizer chooses for some rates, given the present ones."""
    return get_join_optimizer(optimizer).reweigh(plan, specs, rates, search)


def extend_plan(plan: JoinPlan, specs: Sequence[JoinSpec], rates: Rates) -> JoinPlan | None:
    """Return join trees for other patterns of which those that stay keep theirs, where the plan's optimizer can."""
    return get_join_optimizer(plan.method).extend(plan, specs, rates)


def estimate_alternatives(specs: Sequence[JoinSpec], rates: Rates) -> dict[str, float]:
    """Return what the plans of the optimizers that do not search would cost, by name."""
    return {
        name: each.joins.optimize(specs, rates, SearchOptions(0.0)).cost
        for name, each in _OPTIMIZERS.items()
        if each.joins is not None and not each.joins.searches
    }
