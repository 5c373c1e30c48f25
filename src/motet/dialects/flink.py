"""Patterns of Flink's CEP library, as they stand in Java or Python: Pattern.begin("a").where(...).next("b")...

Flink says for each step what may lie between two events; motet says it once for a query. So a pattern is translated
where all of its steps agree: next is CONTIGUOUS, followedBy is SKIP TILL NEXT, followedByAny is SKIP TILL ANY.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from motet.dialects.event_types import define_type, extract_type
from motet.dialects.flink_conditions import parse_condition
from motet.dialects.translation import SourceText, Translation
from motet.model.expression import Expression, Logical, conjoin, conjuncts
from motet.model.pattern import Event, Not, Pattern, Repeat, Seq
from motet.model.query import AllVariables, EventDefinition, Policy, Query, Workload
from motet.model.validate import MATCH_COLUMNS, find_problems
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

    name: str
    start: int
    open: int
    close: int


@dataclass
class _Stage:
    """One named step of a pattern."""

    name: str
    kind: str
    call: _Call
    conditions: list[Expression] = field(default_factory=list)
    low: int = 1
    high: int | None = 1
    words: dict[str, _Call] = field(default_factory=dict)  # quantifiers and what is said of them

    @property
    def is_absent(self) -> bool:
        return self.kind.startswith("not")


def translate_flink(source: SourceText, type: str, name: str) -> Translation:
    """Translate the one pattern in a text."""
    source = replace(source, text=_PASSED.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), source.text))
    calls = list(_parse_chain(source))
    _refuse_other_patterns(source, calls[-1].close + 1)
    stages: list[_Stage] = []
    window: TimeWindow | None = None
    for call in calls:
        if call.name in STEPS:
            stages.append(_parse_stage(source, call))
        elif call.name == "within":
            window = _parse_window(source, call)
        else:
            _apply_call(source, stages[-1], call)
    policy = _find_policy(source, stages)
    for stage in stages:
        _check_quantifier(source, stage, policy)
    definitions: list[EventDefinition] = []
    conditions: list[Expression] = []
    parts: list[Pattern] = []
    for stage in stages:
        kind, others = extract_type(stage.conditions, stage.name, type)
        if kind is None:
            kind = f"{stage.name}_type"
            definitions.append(define_type(kind, stage.conditions, type))
        else:
            conditions += others
        parts.append(_build_part(stage, kind))
    key = _KEY.search(source.text)
    query = Query(
        name,
        parts[0] if len(parts) == 1 else Seq(tuple(parts)),
        (AllVariables(),),
        tuple(conditions),
        () if key is None else (_column_of_getter(key["name"]),),
        (),
        window,
        policy,
    )
    workload = Workload((query,), tuple(definitions))
    found = [problem for problem in find_problems(workload) if not problem.warning]
    if found:
        raise source.errors_at(found, calls[0].start, calls[-1].close + 1)
    return Translation(workload, NOTES)


def _parse_chain(source: SourceText) -> Iterator[_Call]:
    """Yield the calls of the chain, from begin on."""
    text = source.text
    begin = _BEGIN.search(text)
    if begin is None:
        raise source.error_at("there is no Pattern.begin(...) here", 0, hint='as in Pattern.begin("a").next("b")')
    start, opened, name = begin.start(), begin.end(), "begin"
    while True:
        close = _find_closing(source, opened)
        yield _Call(name.replace("_", "").lower(), start, opened, close)
        following = _METHOD.match(text, close + 1)
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


def _find_closing(source: SourceText, start: int) -> int:
    """Return where the bracket before `start` is closed; texts in quotes are passed over."""
    depth, quote = 1, ""
    for at in range(start, len(source.text)):
        mark = source.text[at]
        if quote:
            quote = "" if mark == quote and source.text[at - 1] != "\\" else quote
        elif mark in "\"'":
            quote = mark
        else:
            depth += {"(": 1, ")": -1}.get(mark, 0)
        if depth == 0:
            return at
    raise source.error_at("this bracket is never closed", start - 1, hint="add a )")


def _parse_stage(source: SourceText, call: _Call) -> _Stage:
    found = _TEXT.match(source.text, call.open, call.close)
    if found is None:
        message = f"{call.name} of a group of patterns is not translated: each step is named by a text"
        raise source.error_at(message, call.open, call.close, "write its steps one after another")
    rest = source.text[found.end() : call.close]
    if "AfterMatchSkipStrategy" in rest and not re.search(r"no_?[sS]kip\s*\(", rest):
        message = "an AfterMatchSkipStrategy drops matches that motet gives"
        raise source.error_at(message, found.end(), call.close, "only noSkip(), the default, means the same")
    # Results have columns of these names already, and Flink's own examples use them.
    name = f"{found['name']}_event" if found["name"] in MATCH_COLUMNS else found["name"]
    return _Stage(name, call.name, call)


def _apply_call(source: SourceText, stage: _Stage, call: _Call) -> None:
    """Apply a call to the step before it."""
    arguments = source.text[call.open : call.close]
    match call.name:
        case "where":
            stage.conditions += conjuncts(parse_condition(source, call.open, call.close, stage.name))
        case "or":
            other = parse_condition(source, call.open, call.close, stage.name)
            stage.conditions = [Logical("OR", (conjoin(stage.conditions), other))] if stage.conditions else [other]
        case "oneormore":
            stage.low, stage.high = 1, None
        case "timesormore":
            stage.low, stage.high = _parse_numbers(source, call, 1)[0], None
        case "times":
            numbers = _parse_numbers(source, call, 2)
            stage.low, stage.high = numbers[0], numbers[-1]
        case "optional":
            stage.words[call.name] = call
        case "consecutive" | "allowcombinations":
            pass
        case "greedy":
            message = "greedy() keeps the longest match only; motet gives every one"
            raise source.error_at(message, call.start, call.close + 1, "leave it out")
        case "until":
            message = "until(...) has no equal"
            raise source.error_at(message, call.start, call.close + 1, "a NOT between two parts of a SEQ may do")
        case _:
            shown = source.text[call.start : call.open - 1]
            raise source.error_at(
                f"{shown}({arguments.strip()}) is not translated",
                call.start,
                call.close + 1,
                "leave it out, and write what it asks in WHERE",
            )
    stage.words[call.name] = call


def _parse_numbers(source: SourceText, call: _Call, most: int) -> list[int]:
    numbers = [int(text) for text in re.findall(r"\d+", source.text[call.open : call.close])]
    if not 1 <= len(numbers) <= most:
        raise source.error_at(f"{call.name} takes whole numbers", call.open, call.close, "as in times(2, 4)")
    return numbers


def _find_policy(source: SourceText, stages: list[_Stage]) -> Policy:
    """Return the one policy that all steps ask for."""
    for stage in stages:
        if stage.kind == "notnext":
            message = "notNext(...) has no equal: a NOT holds for all of a gap"
            raise source.error_at(message, stage.call.start, stage.call.close + 1, "notFollowedBy(...) has one")
    asked = {POLICIES[stage.kind]: stage for stage in stages if stage.kind in POLICIES}
    if len(asked) > 1:
        stage = list(asked.values())[-1]
        message = "the steps of this pattern differ in what may lie between events; motet says it once for a query"
        raise source.error_at(
            message, stage.call.start, stage.call.close + 1, "use one of next, followedBy, followedByAny"
        )
    if asked:
        return next(iter(asked))
    repeated = {word for stage in stages for word in stage.words}
    return Policy.CONTIGUOUS if "consecutive" in repeated else Policy.SKIP_TILL_ANY


def _check_quantifier(source: SourceText, stage: _Stage, policy: Policy) -> None:
    """Check that a repeated step takes its own events by the policy of the steps."""
    looping = next((stage.words[word] for word in ("oneormore", "timesormore", "times") if word in stage.words), None)
    variable = stage.low != stage.high or "optional" in stage.words
    if policy is Policy.SKIP_TILL_NEXT and variable:
        call = looping or stage.words["optional"]
        message = "after followedBy, a step that may stop early gives matches that SKIP TILL NEXT does not"
        raise source.error_at(message, call.start, call.close + 1, "followedByAny with allowCombinations() is the same")
    if looping is None or (stage.low == stage.high == 1):
        return
    said = {word for word in ("consecutive", "allowcombinations") if word in stage.words}
    wanted = {INSIDE[policy]} - {""}
    if said != wanted:
        advice = {"allowcombinations": "add .allowCombinations()", "consecutive": "add .consecutive()"}
        hint = advice.get(INSIDE[policy], "leave out consecutive() and allowCombinations()")
        message = "inside this repetition other events may lie between than between the steps; motet has one rule"
        raise source.error_at(message, looping.start, looping.close + 1, hint)


def _build_part(stage: _Stage, kind: str) -> Pattern:
    event = Event(kind, stage.name)
    if stage.is_absent:
        return Not(event)
    part: Pattern = event if stage.low == stage.high == 1 else Repeat(event, stage.low, stage.high)
    return Repeat(part, 0, 1) if "optional" in stage.words else part


def _parse_window(source: SourceText, call: _Call) -> TimeWindow:
    found = _LENGTH.search(source.text, call.open, call.close)
    unit = "" if found is None else found["unit"].lower()
    unit = {"millis": "ms", "milli": "ms"}.get(unit, unit)
    if found is None or unit not in UNITS:
        hint = "as in within(Duration.ofMinutes(10)) or within(Time.minutes(10))"
        raise source.error_at("this length of time is not understood", call.open, call.close, hint)
    return TimeWindow(int(found["amount"]) * UNITS[unit])


def _column_of_getter(name: str) -> str:
    """Return the column of a getter."""
    getter = re.fullmatch(r"get_?([A-Za-z]\w*)", name)
    return getter[1][0].lower() + getter[1][1:] if getter else name
