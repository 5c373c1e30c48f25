"""All options of all candidates as one packing: a variable for each place, not for each subset of queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from motet.optimizer.sharon.benefit import BenefitModel
from motet.optimizer.sharon.candidates import Candidate, Place
from motet.optimizer.sharon.graph import SharingOption
from motet.optimizer.solvers.packing import Offer, Packing
from motet.plans.sharing import Segment


def build_packing(candidates: Sequence[Candidate], benefit: BenefitModel, promising: Sequence[int]) -> Packing:
    """The search of section VII, exactly: benefits add up over places, so a candidate is a bundle of places with the
    cost of its run as the price, and queries are the lines.
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
    taken: Iterable[int], candidates: Sequence[Candidate], benefit: BenefitModel, promising: Sequence[int]
) -> list[SharingOption]:
    """The offers taken, as the options they make up."""
    places = [(number, place) for number in promising for place in candidates[number].places]
    chosen: dict[int, list[Place]] = {}
    for at in sorted(taken):
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


def relaxation_bound(candidates: Sequence[Candidate], benefit: BenefitModel, promising: Sequence[int]) -> float:
    """No plan scores more: each query takes its best places that do not overlap, each place with its even part of the
    run's cost.

    With fewer places in use than there are, the parts add up to less than the cost, never to more.
    """
    worth: dict[int, list[tuple[int, int, float]]] = {}
    for number in promising:
        candidate = candidates[number]
        length, part = len(candidate.symbols), benefit.cost(candidate) / len(candidate.places)
        for query, offset in candidate.places:
            value = benefit.gain((query, offset), length) - part
            if value > 0:
                worth.setdefault(query, []).append((offset + length, offset, value))
    return sum(map(_heaviest_schedule, worth.values()))


def _heaviest_schedule(intervals: list[tuple[int, int, float]]) -> float:
    """The most that intervals (end, begin, value) bring of which none overlap."""
    best = [0.0] * (max(end for end, _, _ in intervals) + 1)
    by_end: dict[int, list[tuple[int, float]]] = {}
    for end, begin, value in intervals:
        by_end.setdefault(end, []).append((begin, value))
    for end in range(1, len(best)):
        best[end] = max([best[end - 1], *(best[begin] + value for begin, value in by_end.get(end, ()))])
    return best[-1]
