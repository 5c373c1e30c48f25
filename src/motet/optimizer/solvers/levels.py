"""Independent sets level by level, each level made of the one before it, as Apriori makes item sets."""

from __future__ import annotations

from motet.optimizer.solvers.graph import Deadline, IndependentSet, WeightedGraph

CHECK_EVERY = 1024  # families between two looks at the clock
MOST_SETS = 4_000_000  # of one level in memory


def enumerate_independent_sets(
    graph: WeightedGraph, deadline: Deadline | None = None, most: int = MOST_SETS
) -> IndependentSet:
    """Every independent set, in levels of one size, only the current level in memory; the heaviest is kept.

    Sets of one size that agree on all but their last vertex are a *family*: its stem, and the last vertices as bits.
    Two of a family make a set of the next size if their last vertices are not neighbours, and every independent set
    comes from exactly one such pair. Stops at the deadline or where a level has more than `most` sets.
    """
    deadline = deadline or Deadline()
    later = [(1 << len(graph)) - (1 << v + 1) for v in range(len(graph))]
    # After v, only later vertices that are no neighbours of it.
    open_after = [later[v] & ~sum(1 << u for u in graph.neighbours[v]) for v in range(len(graph))]
    level: list[tuple[tuple[int, ...], float, int]] = [((), 0.0, (1 << len(graph)) - 1)] if len(graph) else []
    best: tuple[int, ...] = ()
    heaviest, visited, families = 0.0, 0, 0
    complete = True
    while level and complete:
        following: list[tuple[tuple[int, ...], float, int]] = []
        upcoming = 0
        for stem, weight, lasts in level:
            families += 1
            if families % CHECK_EVERY == 0 and deadline.is_over:
                complete = False
                break
            remaining = lasts
            while remaining:
                lowest = remaining & -remaining
                remaining ^= lowest
                v = lowest.bit_length() - 1
                visited += 1
                grown = weight + graph.weights[v]
                if grown > heaviest:
                    best, heaviest = (*stem, v), grown
                further = remaining & open_after[v]
                if further:
                    following.append(((*stem, v), grown, further))
                    upcoming += further.bit_count()
            if upcoming > most:
                complete = False
                break
        level = following
    weight = graph.weight(best)
    return IndependentSet(frozenset(best), weight, weight if complete else sum(graph.weights), visited, complete)
