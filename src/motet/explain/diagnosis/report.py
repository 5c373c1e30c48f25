"""The result of a diagnosis, as a value, as text and as JSON."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from motet.explain.formatting import format_count

# What a step that leaves nothing says, by its kind.
CAUSES = {
    "input": "there are no events of this key in this range",
    "type": "there is no event for {words}",
    "local": "no event satisfies {words}",
    "key": "no key has events for all of the pattern",
    "order": "the events are there, but never {words}",
    "window": "the events come in order, but never {words}",
    "condition": "none of these matches satisfies {words}",
    "policy": "all of these matches pass over an event that {words} would not",
    "not": "each of these matches is ruled out by {words}",
    "neg": "each of these matches is ruled out by {words}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisStep:
    """What one requirement leaves of `unit` (events, keys or matches), `alive` while the query may still match."""

    kind: str  # input, type, local, key, order, window, condition, policy, not, neg
    words: str
    position: str | None = None
    left: int | float
    unit: str
    at_least: bool = False
    alive: bool


@dataclass(frozen=True)
class Explanation:
    """Why a query matches or does not: the steps, which of them failed first, and the first matches where none did."""

    query: str
    key: Mapping[str, Any]
    start: Any
    end: Any
    steps: tuple[DiagnosisStep, ...]
    not_reached: tuple[str, ...]  # requirements that were not reached
    hint: str | None
    nearest_match: Mapping[str, Any] | None  # a match of the query without the requirement that fails
    matches: tuple[Mapping[str, Any], ...]
    columns: tuple[str, ...]  # those that the query reads, time and type first

    @property
    def first_failing_step(self) -> DiagnosisStep | None:
        """Return the first step that leaves nothing, if there is one."""
        return next((step for step in self.steps if not step.alive), None)

    @property
    def match_count(self) -> int:
        """Return how many matches there are, or at least are."""
        return 0 if self.first_failing_step else int(self.steps[-1].left)

    @property
    def is_exact(self) -> bool:
        """Return whether `match_count` is exact rather than a lower bound."""
        return not self.steps[-1].at_least

    def __bool__(self) -> bool:
        """Return whether there is a match."""
        return self.first_failing_step is None

    def __str__(self) -> str:
        return render_explanation_text(self)


def render_explanation_text(explanation: Explanation) -> str:
    """Render an explanation for people."""
    return "\n".join(_format_explanation(explanation))


def render_explanation_json(explanation: Explanation) -> str:
    """Render an explanation for programs."""
    failing = explanation.first_failing_step
    return json.dumps(
        {
            "query": explanation.query,
            "key": dict(explanation.key),
            "from": explanation.start,
            "to": explanation.end,
            "found": explanation.match_count,
            "found_all": explanation.is_exact,
            "first_failing_step": failing
            and {"step": explanation.steps.index(failing), "why": _explain_failure(failing)},
            "hint": explanation.hint,
            "nearest": explanation.nearest_match,
            "steps": [asdict(step) | ({"left": None} if step.left == inf else {}) for step in explanation.steps],
            "not_reached": list(explanation.not_reached),
            "matches": list(explanation.matches),
        },
        indent=2,
        default=_to_json,
    )


def _explain_failure(step: DiagnosisStep) -> str:
    """Return why there is no match, in a sentence."""
    words = step.words.removeprefix("events of ") if step.kind == "type" else step.words
    return CAUSES[step.kind].format(words=words)


def _to_json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date | dt.datetime) else str(value)


def _format_explanation(explanation: Explanation) -> Iterator[str]:
    yield f"{_format_subject(explanation)}: {_format_verdict(explanation)}"
    yield ""
    words = [f"{step.position}: {step.words}" if step.kind == "local" else step.words for step in explanation.steps]
    width = max(map(len, words))
    for at, (text, step) in enumerate(zip(words, explanation.steps, strict=True), 1):
        yield f"  {at:>2}  {text:<{width}}  {_format_left(step)}{'' if step.alive else '   <- here'}"
    for text in explanation.not_reached:
        yield f"   .  {text:<{width}}  not reached"
    failing = explanation.first_failing_step
    if failing is not None:
        yield ""
        yield f"why: {_explain_failure(failing)}"
        if explanation.hint:
            yield f"     {explanation.hint}"
    if explanation.nearest_match is not None:
        yield from _format_match("without that", explanation.nearest_match, explanation.columns)
    for number, match in enumerate(explanation.matches, 1):
        yield from _format_match(f"match {number}", match, explanation.columns)
    if explanation.match_count > len(explanation.matches) > 0:
        yield ""
        yield f"... and {format_count(explanation.match_count - len(explanation.matches), 'more match')}"


def _format_subject(explanation: Explanation) -> str:
    bounds = (("from", explanation.start), ("to", explanation.end))
    return ", ".join(
        [
            f"query {explanation.query}",
            *(f"{name} = {value}" for name, value in explanation.key.items()),
            *(f"{word} {bound}" for word, bound in bounds if bound is not None),
        ]
    )


def _format_verdict(explanation: Explanation) -> str:
    if not explanation:
        return "no match"
    least = "" if explanation.is_exact else "at least "
    return least + format_count(explanation.match_count, "match")


def _format_left(step: DiagnosisStep) -> str:
    number = f"{step.left:,}" if isinstance(step.left, int) else f"{step.left:.3g}"
    unit = step.unit if step.left != 1 else {"matches": "match"}.get(step.unit, step.unit.removesuffix("s"))
    return f"{'at least ' if step.at_least else ''}{number} {unit}"


def _format_match(title: str, match: Mapping[str, Any], columns: tuple[str, ...]) -> Iterator[str]:
    yield ""
    yield f"{title}: {match['start']} to {match['end']}"
    width = max(map(len, match["positions"]))
    for name, bound in match["positions"].items():
        for event in bound:
            yield f"  {name:<{width}}  {'  '.join(f'{column}={event.get(column)}' for column in columns)}"
        if not bound:
            yield f"  {name:<{width}}  (none)"
