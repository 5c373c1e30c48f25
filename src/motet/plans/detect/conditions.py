"""Decide where conditions are tested: by joins of items, on the steps of a loop, or on whole matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from motet.model.expression import At, Attribute, Expression, KleeneAggregate, attributes, variables, walk
from motet.model.names import rename_variables, rewrite_leaves
from motet.plans.detect.query import DetectQuery
from motet.template.alternatives import Item, Loop, item_positions
from motet.template.positions import Leaf

# What two neighbours in a loop must satisfy, by the items they are bound to.
EdgeTests = Mapping[tuple[int, int], frozenset[Expression]]


def place_item_tests(items: Sequence[Item], query: DetectQuery) -> tuple[frozenset[Expression], list[int]]:
    """Return the tests a join can make, over items by number, and the numbers of the conditions that need the whole
    match.
    """
    tests: set[Expression] = set()
    residual: list[int] = []
    for at, condition in enumerate(query.match_conditions):
        owners = {
            name: [n for n, item in enumerate(items) if item_positions(item) & query.slots[query.names[name]]]
            for name in sorted(variables(condition))
        }
        read = attributes(condition)
        if any(a.at is At.EACH and not owners[a.variable] for a in read):
            continue  # it speaks of an event that this reading does not bind
        plain = all(a.at is At.EACH for a in read) and not any(
            isinstance(node, KleeneAggregate) for node in walk(condition)
        )
        leaves = all(isinstance(items[n], Leaf) for owned in owners.values() for n in owned)
        if plain and leaves and owners:
            for chosen in product(*owners.values()):
                names = {name: str(n) for name, n in zip(owners, chosen, strict=True)}
                tests.add(rename_variables(condition, names))
        else:
            residual.append(at)
    return frozenset(tests), residual


def place_edge_tests(
    item: Item, bound: frozenset[int], query: DetectQuery, residual: list[int]
) -> dict[tuple[int, int], frozenset[Expression]]:
    """Return the conditions on NEXT that can be tested on each step of a loop, and remove them from `residual`."""
    found: dict[tuple[int, int], set[Expression]] = {}
    if not isinstance(item, Loop):
        return {}
    followers: dict[int, set[int]] = {}
    for p, q in item.follow:
        followers.setdefault(p, set()).add(q)
    for at in list(residual):
        condition = query.match_conditions[at]
        read = attributes(condition)
        names = variables(condition)
        if len(names) != 1 or any(isinstance(node, KleeneAggregate) for node in walk(condition)):
            continue
        if {a.at for a in read} != {At.EACH, At.NEXT}:
            continue
        (name,) = names
        slot = query.slots[query.names[name]] & bound
        own = {n for n, inner in enumerate(item.items) if isinstance(inner, Leaf) and inner.position in slot}
        inside = {position for n in own if isinstance(leaf := item.items[n], Leaf) for position in (leaf.position,)}
        if inside != slot or _can_return(followers, own):
            continue
        residual.remove(at)
        test = rename_variables(condition, {name: "0"})
        for p, q in item.follow:
            if p in own and q in own:
                found.setdefault((p, q), set()).add(_as_neighbours(test))
    return {edge: frozenset(tests) for edge, tests in found.items()}


def _as_neighbours(test: Expression) -> Expression:
    """Rewrite a test of an event and its NEXT as a test of two events, "0" and "1"."""

    def apart(leaf: Attribute | KleeneAggregate) -> Expression:
        assert isinstance(leaf, Attribute)
        return Attribute("1" if leaf.at is At.NEXT else "0", leaf.name)

    return rewrite_leaves(test, apart)


def _can_return(followers: Mapping[int, set[int]], own: set[int]) -> bool:
    """Return whether something else can be bound between two events of the same variable."""
    pending = [q for p in own for q in followers.get(p, ()) if q not in own]
    seen: set[int] = set()
    while pending:
        item = pending.pop()
        if item in own:
            return True
        if item not in seen:
            seen.add(item)
            pending += followers.get(item, ())
    return False
