"""What all solvers share: deadlines, the gap to a bound, and connected components."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


class Deadline:
    """A moment after which a search returns the best solution it has; without `seconds` it never comes."""

    def __init__(self, seconds: float | None = None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """Seconds that remain; infinite where there is no deadline."""
        return float("inf") if self._end is None else max(self._end - time.monotonic(), 0.0)

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


NEVER = Deadline()


def relative_gap(value: float, bound: float) -> float:
    """Return how far a value may be from the optimum, as a share of its upper bound."""
    return max(bound - value, 0.0) / bound if bound > 0 else 0.0


def find_components(nodes: Iterable[Node], neighbours: Callable[[Node], Iterable[Node]]) -> list[list[Node]]:
    """Return the connected components of an undirected graph, each in the order of `nodes`.

    O(V + E), where `neighbours` lists the neighbours of a node; those that are not among `nodes` are ignored.
    """
    order = {node: at for at, node in enumerate(nodes)}
    seen: set[Node] = set()
    components = []
    for start in order:
        if start in seen:
            continue
        seen.add(start)
        component, pending = [], [start]
        while pending:
            node = pending.pop()
            component.append(node)
            for other in neighbours(node):
                if other in order and other not in seen:
                    seen.add(other)
                    pending.append(other)
        components.append(sorted(component, key=order.__getitem__))
    return components
