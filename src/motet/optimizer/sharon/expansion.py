"""Conflict resolution: a candidate may be shared by some of its queries only (Sharon, section VII).

Its options are listed one by one for the plan finder, or are all part of one packing, which has a variable for each
place instead of one for each subset of queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise

from motet.optimizer.sharon.benefit import BenefitModel
from motet.optimizer.sharon.candidates import Candidate, Place
from motet.optimizer.sharon.graph import SharingOption, covered_positions
from motet.optimizer.solvers.packing import Offer, Packing
from motet.plans.sharing import Segment

MOST_OPTIONS = 2_000  # beyond that the plan finder would not come to an end either


def expand_candidates(
    candidates: Sequence[Candidate], benefit: BenefitModel, promising: Sequence[int], most: int = MOST_OPTIONS
) -> list[SharingOption] | None:
    """Return the beneficial options of candidates that an optimal plan might need; None if there are more than `most`.

    A place that pays and conflicts with no other candidate belongs to every option: adding it makes any plan better.
    All others are combined in every way.
    """
    covering = Counter(covered for number in promising for covered in covered_positions(candidates[number]))
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
    """Return the candidates of which some option may be beneficial: their gains, without losses, exceed the cost."""
    return [
        number
        for number, candidate in enumerate(candidates)
        if sum(max(benefit.gain(place, len(candidate.symbols)), 0.0) for place in candidate.places)
        > benefit.cost(candidate)
    ]


def _enumerate_options(certain: list[Place], open_: list[Place], length: int) -> Iterator[tuple[Place, ...]]:
    """Yield the certain places with any of the open ones that overlap with none, where at least two queries remain."""
    for size in range(len(open_) + 1):
        for some in combinations(open_, size):
            places = tuple(sorted((*certain, *some)))
            if len({query for query, _ in places}) > 1 and not _has_overlap(places, length):
                yield places


def _has_overlap(places: tuple[Place, ...], length: int) -> bool:
    return any(one == other and first + length > second for (one, first), (other, second) in pairwise(places))


def build_packing(candidates: Sequence[Candidate], benefit: BenefitModel, promising: Sequence[int]) -> Packing:
    """Build the packing that is the exact search of section VII.

    Benefits add up over places, so a candidate is a bundle of places with its cost as the price; queries are the lines.
    """
    offers = tuple(
        Offer(
            bundle,
            query,
            offset,
            offset + len(candidates[number].symbols),
            benefit.gain((query, offset), len(candidates[number].symbols)),
        )
        for bundle, number in enumerate(promising)
        for query, offset in candidates[number].places
    )
    return Packing(tuple(benefit.cost(candidates[number]) for number in promising), offers)


def options_from_packing(
    offers: Iterable[int], candidates: Sequence[Candidate], benefit: BenefitModel, promising: Sequence[int]
) -> list[SharingOption]:
    """Return the options that the chosen offers of a packing make up."""
    places = [(number, place) for number in promising for place in candidates[number].places]
    chosen: dict[int, list[Place]] = {}
    for at in sorted(offers):
        number, place = places[at]
        chosen.setdefault(number, []).append(place)
    found = []
    for number, own in chosen.items():
        candidate = candidates[number]
        gains = sum(benefit.gain(place, len(candidate.symbols)) for place in own)
        found.append(
            SharingOption(number, Segment(candidate.symbols, tuple(sorted(own))), gains - benefit.cost(candidate))
        )
    return found
