"""Lays out a graph in layers from left to right (Sugiyama's method), vertices as near to neighbours as order allows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeVar

SWEEPS = 8
ACROSS = 26.0  # between layers
BETWEEN = 14.0  # between vertices of a layer
SLIM = 6.0  # between an arrow that passes and its neighbours

Key = TypeVar("Key", bound=Hashable)
Point = tuple[float, float]
Size = tuple[float, float]


@dataclass(frozen=True)
class GraphLayout:
    """The centres of vertices, the points that each arc passes, and the size of it all."""

    centres: list[Point]
    routes: list[list[Point]]
    width: float
    height: float


def place_in_layers(sizes: Sequence[Size], arcs: Sequence[tuple[int, int]], drops: Sequence[float] = ()) -> GraphLayout:
    """Place vertices 0, 1, ... of some sizes.

    An arc that leads back goes from the left side of its vertex to the right side of the other. An arc from a vertex
    to itself has no points: the caller draws it. `drops` says how far below its middle arcs meet a vertex.
    """
    if not sizes:
        return GraphLayout([], [], 0.0, 0.0)
    back = _find_back_arcs(len(sizes), arcs)
    forward = {
        at: (target, source) if at in back else (source, target)
        for at, (source, target) in enumerate(arcs)
        if source != target
    }
    layer = _assign_layers(len(sizes), list(forward.values()))
    # Arcs over several layers go through points that are placed like vertices.
    heights = [height for _, height in sizes]
    chains: dict[int, list[int]] = {}
    links: list[tuple[int, int]] = []
    for at, (source, target) in forward.items():
        chain = [source]
        for between in range(layer[source] + 1, layer[target]):
            chain.append(len(heights))
            heights.append(0.0)
            layer.append(between)
        chain.append(target)
        chains[at] = chain
        links += pairwise(chain)
    columns = _order_layers(layer, links)
    vertical = _assign_heights(columns, links, heights, len(sizes))
    lowest = min(y - heights[v] / 2 for v, y in vertical.items())
    widths = [max((sizes[v][0] for v in column if v < len(sizes)), default=0.0) for column in columns]
    lefts = [sum(widths[:at]) + ACROSS * at for at in range(len(columns))]
    centre = {
        v: (lefts[at] + widths[at] / 2, vertical[v] - lowest) for at, column in enumerate(columns) for v in column
    }
    routes: list[list[Point]] = [[] for _ in arcs]
    for at, chain in chains.items():
        first, last = chain[0], chain[-1]
        (x0, y0), (x1, y1) = centre[first], centre[last]
        if drops:
            y0, y1 = y0 + drops[first], y1 + drops[last]
        # Through a layer an arc goes level, so that it stays between the vertices there.
        inner = [(lefts[layer[v]] + across, centre[v][1]) for v in chain[1:-1] for across in (0.0, widths[layer[v]])]
        route = [(x0 + sizes[first][0] / 2, y0), (lefts[layer[first]] + widths[layer[first]], y0)]
        route += [*inner, (lefts[layer[last]], y1), (x1 - sizes[last][0] / 2, y1)]
        route = [point for point, _ in groupby(route)]
        routes[at] = route[::-1] if at in back else route
    height = max(centre[v][1] + heights[v] / 2 for v in centre)
    return GraphLayout([centre[v] for v in range(len(sizes))], routes, lefts[-1] + widths[-1], height)


def _find_back_arcs(size: int, arcs: Sequence[tuple[int, int]]) -> set[int]:
    """Return the arcs that lead back, by depth-first search from vertices without incoming arcs."""
    leaving: list[list[int]] = [[] for _ in range(size)]
    entered = [False] * size
    for at, (source, target) in enumerate(arcs):
        if source != target:
            leaving[source].append(at)
            entered[target] = True
    state = [0] * size  # 1 while a vertex is being walked from, 2 after
    back: set[int] = set()
    for root in sorted(range(size), key=lambda v: entered[v]):
        if state[root]:
            continue
        state[root] = 1
        walk = [(root, iter(leaving[root]))]
        while walk:
            vertex, rest = walk[-1]
            for at in rest:
                target = arcs[at][1]
                if state[target] == 1:
                    back.add(at)
                elif state[target] == 0:
                    state[target] = 1
                    walk.append((target, iter(leaving[target])))
                    break
            else:
                state[vertex] = 2
                walk.pop()
    return back


def _assign_layers(size: int, arcs: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each vertex: after all that lead to it."""
    leaving: list[list[int]] = [[] for _ in range(size)]
    missing = [0] * size
    for source, target in arcs:
        leaving[source].append(target)
        missing[target] += 1
    layer = [0] * size
    ready = [v for v in range(size) if not missing[v]]
    for vertex in ready:
        for target in leaving[vertex]:
            layer[target] = max(layer[target], layer[vertex] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return layer


def index_neighbours(links: Iterable[tuple[Key, Key]]) -> tuple[dict[Key, list[Key]], dict[Key, list[Key]]]:
    """Return the vertices before and after each vertex."""
    before: dict[Key, list[Key]] = {}
    after: dict[Key, list[Key]] = {}
    for source, target in links:
        before.setdefault(target, []).append(source)
        after.setdefault(source, []).append(target)
    return before, after


def _sweep(layers: int, links: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Mapping[int, list[int]]]]:
    """Yield each layer with the neighbours to align it to: forth by those before it, back by those after it."""
    before, after = index_neighbours(links)
    for sweep in range(SWEEPS):
        if sweep % 2 == 0:
            yield from ((at, before) for at in range(layers))
        else:
            yield from ((at, after) for at in reversed(range(layers)))


def _mean_place(vertex: int, near: Mapping[int, list[int]], place: Mapping[int, float]) -> float:
    """Return the mean place of the neighbours of a vertex, its own where it has none."""
    neighbours = near.get(vertex, [vertex])
    return sum(place[neighbour] for neighbour in neighbours) / len(neighbours)


def _order_layers(layer: Sequence[int], links: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Order the vertices of each layer so that few arcs cross: by the mean of their neighbours, in sweeps."""
    columns: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for vertex in _list_depth_first(len(layer), *index_neighbours(links)):
        columns[layer[vertex]].append(vertex)
    place: dict[int, float] = {v: at for column in columns for at, v in enumerate(column)}
    for at, near in _sweep(len(columns), links):
        wanted = {v: _mean_place(v, near, place) for v in columns[at]}
        columns[at].sort(key=wanted.__getitem__)
        place.update({v: rank for rank, v in enumerate(columns[at])})
    return columns


def _list_depth_first(size: int, before: Mapping[int, list[int]], after: Mapping[int, list[int]]) -> list[int]:
    """Return the vertices in depth-first order, so that those of one path are adjacent."""
    seen: dict[int, None] = {}
    for root in range(size):
        pending = [root] if root not in before else []
        while pending:
            vertex = pending.pop()
            if vertex not in seen:
                seen[vertex] = None
                pending += reversed(after.get(vertex, []))
    return list(seen)


def _assign_heights(
    columns: Sequence[Sequence[int]], links: Sequence[tuple[int, int]], heights: Sequence[float], real: int
) -> dict[int, float]:
    """Return how far down each vertex is: near its neighbours, none over another."""
    gaps = [_stack_tightly(column, heights, real) for column in columns]
    y: dict[int, float] = {}
    for column, apart in zip(columns, gaps, strict=True):
        y |= zip(column, apart, strict=True)
    for at, near in _sweep(len(columns), links):
        wanted = [_mean_place(v, near, y) for v in columns[at]]
        y |= zip(columns[at], _separate(wanted, gaps[at]), strict=True)
    return y


def _stack_tightly(column: Sequence[int], heights: Sequence[float], real: int) -> list[float]:
    """Return where the vertices of a layer are if they stand as close as allowed."""
    found = [0.0]
    for above, vertex in pairwise(column):
        room = BETWEEN if vertex < real and above < real else SLIM
        found.append(found[-1] + (heights[above] + heights[vertex]) / 2 + room)
    return found


def _separate(wanted: Sequence[float], least: Sequence[float]) -> list[float]:
    """Return the places nearest to the wanted ones (by squares) that are at least as far apart as `least`.

    Neighbours that want to be too close are pooled.
    """
    pools: list[tuple[float, int]] = []  # mean of wanted less least, and how many
    for want, place in zip(wanted, least, strict=True):
        mean, count = want - place, 1
        while pools and pools[-1][0] > mean:
            other, size = pools.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        pools.append((mean, count))
    shifts = [mean for mean, count in pools for _ in range(count)]
    return [shift + place for shift, place in zip(shifts, least, strict=True)]
