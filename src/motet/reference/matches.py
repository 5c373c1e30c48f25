"""All matches of a written-out pattern over the events of one partition, by joining the fragments of its parts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import reduce
from typing import NamedTuple

from motet.errors import RunError
from motet.reference.positions import Absence, Alternation, Chain, Interleave, Optional, Place, Plus, Tree

# Whether events with this first and last time may belong to one match; once false, it stays so as the span grows.
Fits = Callable[[int, int], bool]

DEFAULT_LIMIT = 2_000_000


# An event that a position may bind: its index and its time.
Candidate = tuple[int, int]


class Guard(NamedTuple):
    """No event `absent` at a time strictly between these two."""

    absent: int
    after: int
    before: int


class Fragment(NamedTuple):
    """One way to read a part of a match: what it binds, the gaps it guards, and its NOTs that stand open at either end.

    Where nothing is bound, both times are 0 and the same NOTs are open on either side.
    """

    bound: frozenset[tuple[int, int]]
    first: int
    last: int
    guards: frozenset[Guard]
    opening: frozenset[int]
    closing: frozenset[int]


EMPTY: Fragment = Fragment(frozenset(), 0, 0, frozenset(), frozenset(), frozenset())


def find_matches(
    tree: Tree, candidates: Callable[[int], Iterable[Candidate]], fits: Fits, limit: int = DEFAULT_LIMIT
) -> dict[frozenset[tuple[int, int]], list[Fragment]]:
    """Find each match, a set of (position, event index) pairs, with the ways to read it, which differ in NOTs only."""
    by_match: dict[frozenset[tuple[int, int]], list[Fragment]] = {}
    for fragment in find_fragments(tree, candidates, fits, limit):
        if fragment.bound:
            by_match.setdefault(fragment.bound, []).append(fragment)
    return by_match


def find_fragments(
    tree: Tree, candidates: Callable[[int], Iterable[Candidate]], fits: Fits, limit: int
) -> set[Fragment]:
    """Find the fragments of a part, by the definition of each operator."""

    def find_below(part: Tree) -> set[Fragment]:
        return find_fragments(part, candidates, fits, limit)

    def join_lists(lefts: set[Fragment], rights: set[Fragment]) -> set[Fragment]:
        return join_in_order(lefts, rights, fits, limit)

    match tree:
        case Place(position):
            return {
                Fragment(frozenset({(position, index)}), time, time, frozenset(), frozenset(), frozenset())
                for index, time in candidates(position)
                if fits(time, time)  # a count window may be too small for the ties of one event
            }
        case Absence(absent):
            return {EMPTY._replace(opening=frozenset({absent}), closing=frozenset({absent}))}
        case Chain(parts):
            return reduce(join_lists, map(find_below, parts), {EMPTY})
        case Interleave(parts):
            return reduce(
                lambda lefts, rights: join_interleaved(lefts, rights, fits, limit), map(find_below, parts), {EMPTY}
            )
        case Alternation(parts):
            return set().union(*map(find_below, parts))
        case Plus(part):
            once = find_below(part)
            found, newest = set(once), once
            while newest:
                newest = join_lists(newest, once) - found
                found |= newest
                check_size(found, limit)
            return found
        case Optional(part):
            return find_below(part) | {EMPTY}


def join_in_order(lefts: set[Fragment], rights: set[Fragment], fits: Fits, limit: int) -> set[Fragment]:
    """Join each left fragment with each right one that begins strictly after it ends."""
    unbound = [right for right in rights if not right.bound]
    bound = sorted((right for right in rights if right.bound), key=lambda right: right.first)
    firsts = [right.first for right in bound]
    joined: set[Fragment] = set()
    for left in lefts:
        joined.update(join_unbound(left, right) for right in unbound)
        if not left.bound:
            joined.update(join_unbound(left, right) for right in bound)
        else:
            for right in bound[bisect_right(firsts, left.last) :]:
                if not fits(left.first, right.first):
                    break
                if fits(left.first, right.last):
                    joined.add(join_bound(left, right))
        check_size(joined, limit)
    return joined


def join_unbound(left: Fragment, right: Fragment) -> Fragment:
    """Join two fragments in order, one of which binds nothing: its NOTs join those that stand open beside it."""
    events = left if left.bound else right
    return Fragment(
        left.bound | right.bound,
        events.first,
        events.last,
        left.guards | right.guards,
        left.opening | right.opening if not left.bound else left.opening,
        left.closing | right.closing if not right.bound else right.closing,
    )


def join_bound(left: Fragment, right: Fragment) -> Fragment:
    """Join two fragments in order: the NOTs open between them guard the gap from one to the other."""
    between = frozenset(Guard(absent, left.last, right.first) for absent in left.closing | right.opening)
    return Fragment(
        left.bound | right.bound,
        left.first,
        right.last,
        left.guards | right.guards | between,
        left.opening,
        right.closing,
    )


def join_interleaved(lefts: set[Fragment], rights: set[Fragment], fits: Fits, limit: int) -> set[Fragment]:
    """Join each left fragment with each right one, in any order and with ties, as long as they share no event."""
    joined: set[Fragment] = set()
    for left in lefts:
        used = {index for _, index in left.bound}
        for right in rights:
            if not left.bound or not right.bound:
                # An open NOT in a part of an AND is always one of two readings, the other being without it.
                events = left if left.bound else right
                joined.add(events._replace(opening=frozenset(), closing=frozenset()))
                continue
            first, last = min(left.first, right.first), max(left.last, right.last)
            if fits(first, last) and not any(index in used for _, index in right.bound):
                guards = left.guards | right.guards
                joined.add(Fragment(left.bound | right.bound, first, last, guards, frozenset(), frozenset()))
        check_size(joined, limit)
    return joined


def check_size(found: set[Fragment], limit: int) -> None:
    """Raise an error where there are more matches, or parts of them, than the oracle can list."""
    if len(found) > limit:
        raise RunError(
            f"more than {limit:,} matches or parts of matches: the oracle lists them all. "
            "Use another engine, a smaller window or fewer events."
        )
