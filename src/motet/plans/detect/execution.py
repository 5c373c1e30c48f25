"""What was executed for the queries of a detection branch: the nodes that found their matches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from motet.plans.detect.build import PlannedQuery, list_nodes
from motet.plans.detect.nodes import LeafNode, Node, inputs
from motet.plans.execution import Execution, SharedPart
from motet.statistics.model import format_symbol


@dataclass(frozen=True)
class JoinStructure:
    """A graph of nodes that find partial matches, equal ones once for all queries."""

    planned: Sequence[PlannedQuery]

    def content(self) -> object:
        number = {node: at for at, node in enumerate(list_nodes(self.planned))}
        nodes = [(type(node).__name__, [number[each] for each in inputs(node)], _list_symbols(node)) for node in number]
        return nodes, [[number[root] for root in each.roots] for each in self.planned]

    def find_shared(self) -> Iterable[SharedPart]:
        """Find the nodes that several queries read, events of one symbol aside."""
        readers: dict[Node, list[str]] = {}
        for each in self.planned:
            for node in each.nodes:
                if not isinstance(node, LeafNode):
                    readers.setdefault(node, []).append(each.query.query.name)
        shared = {node: names for node, names in readers.items() if len(names) > 1}
        return [SharedPart(", ".join(_list_symbols(node)), tuple(names)) for node, names in shared.items()]


def describe_join_run(planned: Sequence[PlannedQuery]) -> Execution:
    """Describe a run of the nodes that find the matches of some queries."""
    return Execution("joins", tuple(each.query.query.name for each in planned), JoinStructure(tuple(planned)))


def _list_symbols(node: Node) -> list[str]:
    if isinstance(node, LeafNode):
        return [format_symbol(node.symbol)]
    return [symbol for each in inputs(node) for symbol in _list_symbols(each)]
