"""What the Gloria optimizer found: the graphs it searched, the plan, and what other plans would cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from motet.optimizer.gloria.graph import GloriaGraph
from motet.plans.sharing import TransitionPlan


@dataclass(frozen=True)
class GloriaReport:
    """A plan, how it came about, and what it costs by the cost model `costs`.

    `alternatives` are the costs of other plans by the same model, by name. `complete`: no plan costs less. `graphs` has
    one GLORIA graph for each template; weights can be put on them anew. `excluded` says of queries, by number, why they
    take no part.
    """

    variant: str
    costs: str
    plan: TransitionPlan
    weight: float
    complete: bool
    graphs: tuple[GloriaGraph, ...] = ()
    alternatives: Mapping[str, float] = field(default_factory=dict)
    equal_rates: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
    excluded: Mapping[int, str] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        return sum(graph.nodes for graph in self.graphs)

    @property
    def pruned(self) -> int:
        return sum(each.pruned for graph in self.graphs for nodes in graph.pools for each in nodes)
