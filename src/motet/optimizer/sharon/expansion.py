"""Conflict resolution: a candidate may be shared by some of its queries only (Sharon, section VII)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from motet.optimizer.sharon.benefit import BenefitModel
from motet.optimizer.sharon.candidates import Candidate, Place
from motet.optimizer.sharon.graph import SharingOption
from motet.plans.sharing import Segment

MOST_OPTIONS = 2_000  # beyond that the plan finder would not come to an end either


def expand_candidates(
    candidates: Sequence[Candidate], benefit: BenefitModel, promising: Sequence[int], most: int = MOST_OPTIONS
) -> list[SharingOption] | None:
    """Every beneficial option of the hopeful candidates that an optimal plan might need; None if there are more than
    `most`.

    A place that pays and is in nobody's way belongs to every option: adding it makes any plan better. All others are
    taken or left in every combination.
    """
    covering = Counter(covered for number in promising for covered in _covered(candidates[number]))
    options: list[SharingOption] = []
    candidate_pairs = 0
    for number in promising:
        candidate = candidates[number]
        length, cost = len(candidate.symbols), benefit.cost(candidate)
        gains = {place: benefit.gain(place, length) for place in candidate.places}
        certain = [
            (query, offset)
            for query, offset in candidate.places
            if gains[query, offset] > 0 and all(covering[query, offset + step] == 1 for step in range(length))
        ]
        open_ = [place for place in candidate.places if place not in certain]
        candidate_pairs += 1 << len(open_)
        if candidate_pairs > 16 * most:
            return None
        for places in _enumerate_options(certain, open_, length):
            value = sum(gains[place] for place in places) - cost
            if value > 0:
                options.append(SharingOption(number, Segment(candidate.symbols, places), value))
        if len(options) > most:
            return None
    return options


def find_promising_candidates(candidates: Sequence[Candidate], benefit: BenefitModel) -> list[int]:
    """Those of which some option may be beneficial: their gains, losses left out, exceed the cost of the run."""
    return [
        number
        for number, candidate in enumerate(candidates)
        if sum(max(benefit.gain(place, len(candidate.symbols)), 0.0) for place in candidate.places)
        > benefit.cost(candidate)
    ]


def _covered(candidate: Candidate) -> list[Place]:
    return [(query, offset + step) for query, offset in candidate.places for step in range(len(candidate.symbols))]


def _enumerate_options(certain: list[Place], open_: list[Place], length: int) -> Iterator[tuple[Place, ...]]:
    """The certain places with any of the open ones, as long as none overlap and at least two queries remain."""
    for size in range(len(open_) + 1):
        for some in combinations(open_, size):
            places = tuple(sorted((*certain, *some)))
            if len({query for query, _ in places}) > 1 and not _has_overlap(places, length):
                yield places


def _has_overlap(places: tuple[Place, ...], length: int) -> bool:
    return any(one == other and first + length > second for (one, first), (other, second) in pairwise(places))
