"""Sharing candidates: every run of symbols that several queries of a workload have in common (Sharon, definition 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from motet.optimizer.solvers.substrings import find_repeats
from motet.plans.sequences import PlainSequence, SequenceStep
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
        """The candidate (p, Q_p) of the paper: shared by all queries that contain p, at the first places that do not
        overlap.
        """
        chosen: list[Place] = []
        for number, offset in self.places:
            if not chosen or chosen[-1][0] != number or chosen[-1][1] + len(self.symbols) <= offset:
                chosen.append((number, offset))
        return Segment(self.symbols, tuple(chosen))


def find_candidates(sequences: Sequence[PlainSequence]) -> list[Candidate]:
    """All runs of at least two symbols that at least two queries of one kind have in common.

    Where something must be absent between two positions of a run it must be so in all queries, and positions must
    add the same to totals. Sorted by the first place, then by length. Only as slow as the output is long.
    """
    kinds: dict[tuple[object, ...], list[PlainSequence]] = {}
    for sequence in sequences:
        kinds.setdefault(sequence.kind, []).append(sequence)
    found = [candidate for alike in kinds.values() for candidate in _find_candidates_of_kind(alike)]
    return sorted(found, key=lambda candidate: (candidate.places[0], len(candidate.symbols)))


def _find_candidates_of_kind(sequences: Sequence[PlainSequence]) -> list[Candidate]:
    numbers: dict[object, int] = {}

    def number(token: object) -> int:
        return numbers.setdefault(token, len(numbers))

    # Positions and the gaps between them take turns, so a run that begins and ends with a position has odd length.
    texts = [[number(token) for token in _tokenize(sequence.steps)] for sequence in sequences]
    candidates = []
    for repeat in find_repeats(texts):
        first, begin = repeat.places[0]
        if begin % 2 or len({at for at, _ in repeat.places}) < 2:
            continue
        places = tuple(sorted((sequences[at].number, offset // 2) for at, offset in repeat.places))
        for length in range(max(repeat.shortest, 3) | 1, repeat.longest + 1, 2):
            run = sequences[first].steps[begin // 2 : (begin + length + 1) // 2]
            candidates.append(Candidate(tuple(step.symbol for step in run), places))
    return candidates


def _tokenize(steps: Sequence[SequenceStep]) -> list[object]:
    tokens: list[object] = []
    for step in steps:
        if tokens:
            tokens.append(("gap", step.absent))
        tokens.append((step.symbol, step.adds))
    return tokens
