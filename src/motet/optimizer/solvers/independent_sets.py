"""Maximum-weight independent sets: greedily and by looking at every set, and bounds on their weight."""

from __future__ import annotations

import heapq

from motet.optimizer.solvers.graph import Deadline, IndependentSet, WeightedGraph

CHECK_EVERY = 4096  # sets between two looks at the clock


def guaranteed_weight(graph: WeightedGraph) -> float:
    """What GWMIN reaches at least: each weight over the vertex's degree plus one (Sakai et al. 2003)."""
    return sum(weight / (len(around) + 1) for weight, around in zip(graph.weights, graph.neighbours, strict=True))


def gwmin(graph: WeightedGraph) -> IndependentSet:
    """Take the vertex with the most weight per closed neighbourhood, drop its neighbours, repeat. O(E log V)."""
    degree = [len(around) for around in graph.neighbours]
    alive = [True] * len(graph)
    ranked = [(-graph.weights[v] / (degree[v] + 1), v) for v in range(len(graph))]
    heapq.heapify(ranked)
    chosen: set[int] = set()
    while ranked:
        ratio, v = heapq.heappop(ranked)
        if not alive[v] or ratio != -graph.weights[v] / (degree[v] + 1):
            continue  # gone, or ranked anew since
        chosen.add(v)
        alive[v] = False
        dropped = [u for u in graph.neighbours[v] if alive[u]]
        for u in dropped:
            alive[u] = False
        for near in {w for u in dropped for w in graph.neighbours[u] if alive[w]}:
            degree[near] -= sum(1 for u in dropped if u in graph.neighbours[near])
            heapq.heappush(ranked, (-graph.weights[near] / (degree[near] + 1), near))
    return IndependentSet(frozenset(chosen), graph.weight(chosen), sum(graph.weights), len(chosen))


def search_exhaustively(graph: WeightedGraph, deadline: Deadline | None = None) -> IndependentSet:
    """Look at every set of vertices, valid or not: the search that others are measured against. O(2^V)."""
    deadline = deadline or Deadline()
    size = len(graph)
    around = [sum(1 << u for u in near) for near in graph.neighbours]
    best, heaviest, visited = 0, 0.0, 0
    # One entry for each set under way: the next vertex to decide on, the set, its weight, and whether it is valid.
    pending: list[tuple[int, int, float, bool]] = [(0, 0, 0.0, True)]
    while pending:
        v, members, weight, valid = pending.pop()
        if v == size:
            visited += 1
            if valid and weight > heaviest:
                best, heaviest = members, weight
            if visited % CHECK_EVERY == 0 and deadline.is_over:
                break
            continue
        pending.append((v + 1, members, weight, valid))
        pending.append((v + 1, members | 1 << v, weight + graph.weights[v], valid and not members & around[v]))
    chosen = frozenset(_members_of(best))
    complete = not pending
    weight = graph.weight(chosen)
    return IndependentSet(chosen, weight, weight if complete else sum(graph.weights), visited, complete)


def clique_cover_bound(graph: WeightedGraph, vertices: range | list[int]) -> float:
    """No independent set among the vertices weighs more: it has at most one of each clique of a cover."""
    heaviest_first = sorted(vertices, key=lambda v: -graph.weights[v])
    cliques: list[set[int]] = []
    bound = 0.0
    for v in heaviest_first:
        around = graph.neighbours[v]
        home = next((clique for clique in cliques if clique <= around), None)
        if home is None:
            cliques.append({v})
            bound += graph.weights[v]
        else:
            home.add(v)
    return bound


def _members_of(members: int) -> list[int]:
    return [v for v in range(members.bit_length()) if members >> v & 1]
