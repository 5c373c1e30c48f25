"""Patterns of Flink's CEP library, as they stand in Java or Python: Pattern.begin("a").where(...).next("b")...

Flink says for each step what may lie between two events; motet says it once for a query. So a pattern is translated
where all of its steps agree: next is CONTIGUOUS, followedBy is SKIP TILL NEXT, followedByAny is SKIP TILL ANY.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from motet.dialects.flink_conditions import parse_condition
from motet.dialects.translation import SourceText, Translation, assign_type, build_sequence
from motet.model.expression import Expression, Logical, conjoin, conjuncts
from motet.model.pattern import Event, Not, Pattern, Repeat
from motet.model.query import AllVariables, EventDefinition, Policy, Query
from motet.model.validate import MATCH_COLUMNS
from motet.model.window import UNITS, TimeWindow

_BEGIN = re.compile(r"\bPattern\s*\.\s*(?:<[^>]*>\s*)?begin\s*\(")
_KEY = re.compile(r"\.\s*key_?[bB]y\s*\(\s*(?:\(?\w+\)?\s*->|lambda\s+\w+\s*:)?\s*(?:\w+\s*[:]{2}|\w+\.)?(?P<name>\w+)")
_METHOD = re.compile(r"\s*\.\s*(?P<name>\w+)\s*\(")
# Texts in quotes stay; comments and the marks of lines that go on become blanks, so that places stay what they are.
_PASSED = re.compile(
    r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|//[^\n]*|/\*.*?\*/|\#[^\n]*|\\(?=\s*\n)""", re.DOTALL
)
_MORE = re.compile(r"\.\s*(?:next|followed_?[bB]y(?:_?[aA]ny)?|not_?[nN]ext|not_?[fF]ollowed_?[bB]y|within)\s*\(")
_TEXT = re.compile(r"""\s*["'](?P<name>[^"']*)["']""")
_LENGTH = re.compile(r"\b(?:Time|Duration)\s*\.\s*(?:of_?)?(?P<unit>[A-Za-z]+)\s*\(\s*(?P<amount>\d+)\s*\)")

POLICIES = {"next": Policy.CONTIGUOUS, "followedby": Policy.SKIP_TILL_NEXT, "followedbyany": Policy.SKIP_TILL_ANY}
STEPS = (*POLICIES, "begin", "notnext", "notfollowedby")
# What a repeated step must say so that its own events are taken as the steps are.
INSIDE = {Policy.SKIP_TILL_ANY: "allowcombinations", Policy.CONTIGUOUS: "consecutive", Policy.SKIP_TILL_NEXT: ""}

NOTES = (
    "the same as Flink's pattern, without AfterMatchSkipStrategy, where no two events of a key share a time",
    "(Flink then goes by their arrival, motet lets neither follow the other)",
)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the chain: its name in lower case without underscores, and where its arguments are."""

    source: SourceText
    name: str
    start: int
    open: int
    close: int

    @property
    def arguments(self) -> str:
        return self.source.text[self.open : self.close]

    def error_at_call(self, message: str, hint: str) -> Exception:
        return self.source.error_at(message, self.start, self.close + 1, hint)

    def error_at_arguments(self, message: str, hint: str, start: int | None = None) -> Exception:
        return self.source.error_at(message, self.open if start is None else start, self.close, hint)


@dataclass
class _Step:
    """One named step of a pattern; `quantifiers` are the calls that say how often it comes."""

    name: str
    call: _Call
    conditions: list[Expression] = field(default_factory=list)
    low: int = 1
    high: int | None = 1
    quantifiers: dict[str, _Call] = field(default_factory=dict)


def translate_source(source: SourceText) -> Translation:
    """Translate the one pattern in a text."""
    source = replace(source, text=_PASSED.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), source.text))
    calls = list(_parse_chain(source))
    _refuse_other_patterns(source, calls[-1].close + 1)
    steps: list[_Step] = []
    window: TimeWindow | None = None
    for call in calls:
        if call.name in STEPS:
            steps.append(_parse_step(call))
        elif call.name == "within":
            window = _parse_window(call)
        else:
            _apply_call(steps[-1], call)
    policy = _find_policy(steps)
    definitions: list[EventDefinition] = []
    conditions: list[Expression] = []
    parts: list[Pattern] = []
    for step in steps:
        _check_quantifier(step, policy)
    for step in steps:
        type, others, defined = assign_type(step.name, step.conditions, source, f"{step.name}_type")
        conditions += others
        definitions += defined
        parts.append(_build_part(step, type))
    key = _KEY.search(source.text)
    partition = () if key is None else (_column_of_getter(key["name"]),)
    returns = (AllVariables(),)
    query = Query(source.name, build_sequence(parts), returns, tuple(conditions), partition, (), window, policy)
    return source.finish(query, definitions, NOTES, calls[0].start, calls[-1].close + 1)


def _parse_chain(source: SourceText) -> Iterator[_Call]:
    """Yield the calls of the chain, from begin on."""
    begin = _BEGIN.search(source.text)
    if begin is None:
        raise source.error_at("there is no Pattern.begin(...) here", 0, hint='as in Pattern.begin("a").next("b")')
    start, opened, name = begin.start(), begin.end(), "begin"
    while True:
        close = source.find_closing(opened)
        yield _Call(source, name.replace("_", "").lower(), start, opened, close)
        following = _METHOD.match(source.text, close + 1)
        if following is None:
            return
        start, opened, name = following.start("name"), following.end(), following["name"]


def _refuse_other_patterns(source: SourceText, end: int) -> None:
    """Refuse parts of a pattern outside the chain: nothing may be left out."""
    other = _BEGIN.search(source.text, end)
    if other is not None:
        raise source.error_at("there is a second pattern here", other.start(), other.end(), "translate one at a time")
    more = _MORE.search(source.text, end)
    if more is not None:
        message = "the pattern goes on here, in another statement"
        raise source.error_at(message, more.start(), more.end(), "write it as one chain of calls")


def _parse_step(call: _Call) -> _Step:
    found = _TEXT.match(call.source.text, call.open, call.close)
    if found is None:
        message = f"{call.name} of a group of patterns is not translated: each step is named by a text"
        raise call.error_at_arguments(message, "write its steps one after another")
    rest = call.source.text[found.end() : call.close]
    if "AfterMatchSkipStrategy" in rest and not re.search(r"no_?[sS]kip\s*\(", rest):
        message = "an AfterMatchSkipStrategy drops matches that motet gives"
        raise call.error_at_arguments(message, "only noSkip(), the default, means the same", found.end())
    # Results have columns of these names already, and Flink's own examples use them.
    name = f"{found['name']}_event" if found["name"] in MATCH_COLUMNS else found["name"]
    return _Step(name, call)


def _apply_call(step: _Step, call: _Call) -> None:
    """Apply a call to the step before it."""
    match call.name:
        case "where":
            step.conditions += conjuncts(parse_condition(call.source, call.open, call.close, step.name))
        case "or":
            other = parse_condition(call.source, call.open, call.close, step.name)
            step.conditions = [Logical("OR", (conjoin(step.conditions), other))] if step.conditions else [other]
        case "oneormore":
            step.low, step.high = 1, None
        case "timesormore":
            step.low, step.high = _parse_numbers(call, 1)[0], None
        case "times":
            numbers = _parse_numbers(call, 2)
            step.low, step.high = numbers[0], numbers[-1]
        case "optional" | "consecutive" | "allowcombinations":
            pass
        case "greedy":
            raise call.error_at_call("greedy() keeps the longest match only; motet gives every one", "leave it out")
        case "until":
            raise call.error_at_call("until(...) has no equal", "a NOT between two parts of a SEQ may do")
        case _:
            shown = f"{call.source.text[call.start : call.open - 1]}({call.arguments.strip()})"
            raise call.error_at_call(f"{shown} is not translated", "leave it out, and write what it asks in WHERE")
    step.quantifiers[call.name] = call


def _parse_numbers(call: _Call, most: int) -> list[int]:
    numbers = [int(text) for text in re.findall(r"\d+", call.arguments)]
    if not 1 <= len(numbers) <= most:
        raise call.error_at_arguments(f"{call.name} takes whole numbers", "as in times(2, 4)")
    return numbers


def _find_policy(steps: list[_Step]) -> Policy:
    """Return the one policy that all steps ask for."""
    for step in steps:
        if step.call.name == "notnext":
            message = "notNext(...) has no equal: a NOT holds for all of a gap"
            raise step.call.error_at_call(message, "notFollowedBy(...) has one")
    asked = {POLICIES[step.call.name]: step for step in steps if step.call.name in POLICIES}
    if len(asked) > 1:
        message = "the steps of this pattern differ in what may lie between events; motet says it once for a query"
        last = list(asked.values())[-1]
        raise last.call.error_at_call(message, "use one of next, followedBy, followedByAny")
    if asked:
        return next(iter(asked))
    return Policy.CONTIGUOUS if any("consecutive" in step.quantifiers for step in steps) else Policy.SKIP_TILL_ANY


def _check_quantifier(step: _Step, policy: Policy) -> None:
    """Check that a repeated step takes its own events by the policy of the steps."""
    said = step.quantifiers
    looping = next((said[word] for word in ("oneormore", "timesormore", "times") if word in said), None)
    if policy is Policy.SKIP_TILL_NEXT and (step.low != step.high or "optional" in said):
        call = looping or said["optional"]
        message = "after followedBy, a step that may stop early gives matches that SKIP TILL NEXT does not"
        raise call.error_at_call(message, "followedByAny with allowCombinations() is the same")
    if looping is None or (step.low == step.high == 1):
        return
    if {word for word in ("consecutive", "allowcombinations") if word in said} != {INSIDE[policy]} - {""}:
        advice = {"allowcombinations": "add .allowCombinations()", "consecutive": "add .consecutive()"}
        hint = advice.get(INSIDE[policy], "leave out consecutive() and allowCombinations()")
        message = "inside this repetition other events may lie between than between the steps; motet has one rule"
        raise looping.error_at_call(message, hint)


def _build_part(step: _Step, type: str) -> Pattern:
    event = Event(type, step.name)
    if step.call.name.startswith("not"):
        return Not(event)
    part: Pattern = event if step.low == step.high == 1 else Repeat(event, step.low, step.high)
    return Repeat(part, 0, 1) if "optional" in step.quantifiers else part


def _parse_window(call: _Call) -> TimeWindow:
    found = _LENGTH.search(call.source.text, call.open, call.close)
    unit = "" if found is None else found["unit"].lower()
    unit = {"millis": "ms", "milli": "ms"}.get(unit, unit)
    if found is None or unit not in UNITS:
        hint = "as in within(Duration.ofMinutes(10)) or within(Time.minutes(10))"
        raise call.error_at_arguments("this length of time is not understood", hint)
    return TimeWindow(int(found["amount"]) * UNITS[unit])


def _column_of_getter(name: str) -> str:
    """Return the column of a getter."""
    getter = re.fullmatch(r"get_?([A-Za-z]\w*)", name)
    return getter[1][0].lower() + getter[1][1:] if getter else name
