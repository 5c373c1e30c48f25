"""Sharing candidates: the patterns (runs of symbols) that several queries have in common (Sharon, definition 3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from motet.plans.sequences import PlainSequence
from motet.plans.sharing import Segment
from motet.template.symbols import Symbol

Place = tuple[int, int]


@dataclass(frozen=True)
class Candidate:
    """A pattern p and every place (number of a query, offset) where it occurs; two places of one query may overlap."""

    symbols: tuple[Symbol, ...]
    places: tuple[Place, ...]

    @property
    def queries(self) -> tuple[int, ...]:
        return tuple(sorted({number for number, _ in self.places}))

    @cached_property
    def full_segment(self) -> Segment:
        """The candidate (p, Q_p) of the paper: all queries with p share it, at the first places that do not overlap."""
        chosen: list[Place] = []
        for number, offset in self.places:
            if not chosen or chosen[-1][0] != number or chosen[-1][1] + len(self.symbols) <= offset:
                chosen.append((number, offset))
        return Segment(self.symbols, tuple(chosen))


def find_candidates(sequences: Sequence[PlainSequence]) -> list[Candidate]:
    """Return the runs of at least two symbols that at least two queries of one kind have in common.

    What must be absent between two positions must be so in all queries, and positions must add the same to totals.
    Candidates are sorted by the first place, then by length. O(places of all candidates): places of equal runs are
    grouped, and only groups of two queries or more are looked at for longer runs.
    """
    by_number = {sequence.number: sequence.steps for sequence in sequences}
    runs: dict[Hashable, list[Place]] = {}
    for sequence in sequences:
        for offset, step in enumerate(sequence.steps):
            runs.setdefault((sequence.kind, step.symbol, step.adds), []).append((sequence.number, offset))
    candidates = []
    pending = [(1, places) for places in runs.values()]
    while pending:
        length, places = pending.pop()
        longer: dict[Hashable, list[Place]] = {}
        for number, offset in places:
            if offset + length < len(by_number[number]):
                step = by_number[number][offset + length]
                longer.setdefault((step.absent, step.symbol, step.adds), []).append((number, offset))
        for shared in longer.values():
            if len({number for number, _ in shared}) > 1:
                number, offset = shared[0]
                symbols = tuple(step.symbol for step in by_number[number][offset : offset + length + 1])
                candidates.append(Candidate(symbols, tuple(sorted(shared))))
                pending.append((length + 1, shared))
    return sorted(candidates, key=lambda candidate: (candidate.places[0], len(candidate.symbols)))
