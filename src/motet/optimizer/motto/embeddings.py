"""Where one query lies within another: by its items, and asking nothing that the other does not.

That covers merging (section IV-A: a substring or any subsequence of the operands), decomposition (IV-B: a sub-query of
both) and operator transformation (IV-C: what is in any order there is put in order here, by a filter).
"""

from __future__ import annotations

from collections.abc import Iterator

from motet.plans.detect.build import JoinSpec, renumber

# A pattern that repeats a type may hold another in very many ways.
MOST_EMBEDDINGS = 6


def find_embeddings(source: JoinSpec, target: JoinSpec) -> tuple[tuple[int, ...], ...]:
    """The items of a target that each item of a source may be: all that the source asks, the target asks of them."""
    if len(source.items) > len(target.items):
        return ()
    found = []
    for places in _places(source, target, ()):
        moved = renumber(source, places)
        if moved.tests <= target.tests and moved.gaps <= target.gaps:
            found.append(places)
            if len(found) == MOST_EMBEDDINGS:
                break
    return tuple(found)


def _places(source: JoinSpec, target: JoinSpec, chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All ways to place items, one after the other, in the order that the source asks for."""
    item = len(chosen)
    if item == len(source.items):
        yield chosen
        return
    for place, other in enumerate(target.items):
        if place in chosen or other != source.items[item]:
            continue
        if all(
            ((before, item) not in source.order or (at, place) in target.order)
            and ((item, before) not in source.order or (place, at) in target.order)
            for before, at in enumerate(chosen)
        ):
            yield from _places(source, target, (*chosen, place))
