"""Translates patterns of Flink's CEP library.

Flink says for each step which events may be passed over before it. Where all steps say `next`, or all say `followedBy`,
a policy says the same; elsewhere the gap before each step forbids what may not be passed over: `next` forbids every
event, `followedBy` those that the step itself would take. Conditions on one event only make types of events.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from motet.dialects.exclusion import are_exclusive
from motet.dialects.flink_source import Step, parse_flink
from motet.dialects.translation import SourceText, Translation, build_sequence, define_type, extract_type, named_events
from motet.model.expression import Call, Expression, Inverse, Literal, conjoin
from motet.model.pattern import Event, Not, Pattern, Repeat
from motet.model.query import AfterMatch, AllVariables, EventDefinition, Policy, Query
from motet.model.validate import MATCH_COLUMNS
from motet.model.window import TimeWindow

NOTES = (
    "the same as Flink's pattern where no two events of a key share a time (Flink then goes by their arrival,",
    "motet lets neither follow the other) and no column that a condition reads is null (Flink's conditions then fail)",
    "or NaN (which motet takes for null)",
)
ANY_EVENT = "any_event"
MORE = "_more"

_Kinds = frozenset[str]  # names of the types that may not lie in a gap
_NONE: _Kinds = frozenset()


def translate_source(source: SourceText) -> Translation:
    """Translate the one pattern in a text."""
    found = parse_flink(source)
    return _PatternTranslator(source, found.steps).translate(found.key)


@dataclass(frozen=True, slots=True)
class _Gap:
    """The events that may not lie before a step: before its first event, and before each of its later ones."""

    first: _Kinds
    inner: _Kinds


class _PatternTranslator:
    """One pattern: a chain of steps."""

    def __init__(self, source: SourceText, steps: list[Step]) -> None:
        self.source = source
        self.steps = steps
        self.all_steps = [each for step in steps for each in ([step] if step.group is None else step.group.chain())]
        self.names = self.name_steps()
        self.variables = {f"{name}{suffix}" for name in self.names.values() for suffix in ("", MORE)}
        self.types: dict[str, Expression | None] = {}  # what defines each type; None for one of the data
        self.notes = list(NOTES)

    def name_steps(self) -> dict[int, str]:
        """Return a variable for each step: its name, unless results have a column of that name already."""
        names: dict[int, str] = {}
        for step in self.all_steps:
            if step.group is not None:
                raise step.call.error_at_call(
                    "a group within a group is not translated", "write its steps one after another"
                )
            name = f"{step.name}_event" if step.name in MATCH_COLUMNS else step.name
            if not name or name in names.values() or name.endswith(MORE):
                raise step.call.error_at_call(
                    f"a step cannot be called '{step.name}' here", "give each a name of its own"
                )
            names[id(step)] = name
        return names

    def translate(self, key: tuple[str, ...] | None) -> Translation:
        first, last = self.steps[0].call, self.steps[-1]
        window = self.find_window()
        self.check_steps(self.steps, is_group=False)
        policy = self.find_policy()
        parts = self.build_chain(self.steps, policy)
        pattern = build_sequence(parts)
        used = {event.type for event in named_events(pattern)}
        definitions = [
            EventDefinition(name, condition)
            for name, condition in self.types.items()
            if condition is not None and name in used
        ]
        partition = key or ()
        if len(partition) > 1:
            self.notes.append("and no column of the key is null")
        after = self.find_after_match()
        query = Query(self.source.name, pattern, (AllVariables(),), (), partition, (), window, policy, after)
        return self.source.finish(query, definitions, self.notes, first.start, last.call.end)

    def find_window(self) -> TimeWindow | None:
        for step in [*self.steps[:-1], *(each for each in self.all_steps if each not in self.steps)]:
            if step.within is not None:
                raise step.call.error_at_call("within is not after the last step", "say it at the end of the pattern")
        length = self.steps[-1].within
        return None if length is None else TimeWindow(length)

    def find_after_match(self) -> AfterMatch:
        """Return which matches are left out: Flink takes them in our order where each start has one match at most."""
        first = self.steps[0]
        for step in self.all_steps:
            if step.skip != "noSkip" and step is not first:
                raise step.call.error_at_call(
                    "a strategy within a group is not translated", "give it to the first step"
                )
        if first.skip == "noSkip":
            return AfterMatch.ALL
        relations = {step.relation for step in self.steps[1:]}
        inner = {step.inner for step in self.steps if step.is_repeated}
        is_linear = all(
            step.low == step.high and not step.is_optional and not step.is_not and step.group is None
            for step in self.steps
        )
        if not is_linear or not relations <= {"next", "followedBy"} or not inner <= {"next", "relaxed"}:
            message = "a skip strategy is translated only where each first event begins one match at most"
            raise first.call.error_at_call(
                message, "that is: steps by next and followedBy, none optional, each a fixed number of times"
            )
        return AfterMatch.PAST_LAST_EVENT if first.skip == "skipPastLastEvent" else AfterMatch.TO_NEXT_EVENT

    # Types of events

    def name_type(self, step: Step, without: tuple[Expression, ...] = ()) -> str:
        """Return the type of the events that a step takes, but for those that satisfy other conditions."""
        type, others = extract_type(step.conditions, step.name, self.source.type)
        is_plain = type is not None and not others and not without and type not in self.variables
        if type is not None and is_plain and self.types.setdefault(type, None) is None:
            return type
        excluded = [Inverse(Call("COALESCE", (each, Literal(False)))) for each in without]
        definition = define_type("", [*step.conditions, *excluded], self.source.type).condition
        return self.add_type(f"{self.names[id(step)]}_type", definition)

    def add_type(self, name: str, definition: Expression) -> str:
        """Return the name of a type with this definition, a new one unless there is one already."""
        for number in count(1):
            free = name if number == 1 else f"{name}_{number}"
            if free not in self.variables and self.types.setdefault(free, definition) == definition:
                return free
        raise AssertionError

    def may_be_both(self, step: Step, other: Step) -> bool:
        return not are_exclusive(step.conditions, other.conditions)

    # What has no equal

    def check_steps(self, steps: list[Step], *, is_group: bool) -> None:
        """Refuse the orders of steps that Flink's automaton takes in a way that no gap can say."""
        for at, step in enumerate(steps):
            before = steps[at - 1] if at else None
            after = steps[at + 1 :]
            if step.group is not None:
                self.check_group(step, before, after)
            if step.relation == "notNext":
                self.check_not_next(step, before, after)
            elif step.is_not:
                self.check_not_followed_by(step, before, after, is_group)
            if "greedy" in step.said and step.low != step.high:
                self.check_greedy(step, after[0] if after else None, is_group)

    def check_group(self, step: Step, before: Step | None, after: list[Step]) -> None:
        chain = step.group.chain() if step.group is not None else []
        self.check_steps(chain, is_group=True)
        head = chain[0]
        is_plain = not step.is_repeated and not step.is_optional
        if head.is_optional or head.is_repeated:
            message = "a group that begins with an optional or repeated step is not translated"
            raise step.call.error_at_call(message, "write its steps one after another")
        if step.is_repeated and step.low != step.high and after and step.inner != "next":
            message = "after a group that may end early, Flink passes over events in a way that has no equal"
            raise step.call.error_at_call(message, "put the group last, say times(n), or add consecutive()")
        last = chain[-1]
        if not (is_plain and not last.is_repeated and not last.is_optional) and after and after[0].is_not:
            raise after[0].call.error_at_call(
                "this is not translated after a group that is repeated, optional, or ends with such a step",
                "put a step between",
            )
        if before is not None and before.is_not and step.is_optional:
            raise before.call.error_at_call("this is not translated before an optional group", "put a step between")

    def check_not_next(self, step: Step, before: Step | None, after: list[Step]) -> None:
        follower = after[0] if after else None
        if follower is None or follower.relation != "next" or follower.is_optional or follower.group is not None:
            message = "notNext is translated only before a next(...) that is not optional"
            raise step.call.error_at_call(message, "notFollowedBy has an equal in more places")
        if before is None or before.is_not or before.is_repeated or before.is_optional or "greedy" in before.said:
            raise step.call.error_at_call(
                "notNext is translated only after a step that is not repeated", "put a step between"
            )
        if follower.is_repeated and self.may_be_both(follower, step):
            raise step.call.error_at_call("the repeated step after it may take what notNext forbids", "tell them apart")

    def check_not_followed_by(self, step: Step, before: Step | None, after: list[Step], is_group: bool) -> None:
        if before is None or before.is_optional or before.relation == "notNext":
            raise step.call.error_at_call(
                "notFollowedBy must come after a step that is there always", "put a step between"
            )
        if before.is_repeated and before.group is None:
            if before.low != before.high and before.high is not None and before.inner != "next":
                message = "after times(n, m) Flink forbids events in only some of the gaps; that has no equal"
                raise step.call.error_at_call(message, "say times(n) or consecutive()")
            if after and after[0].is_not:
                raise after[0].call.error_at_call(
                    "a second notFollowedBy after a repeated step has no equal", "leave one out"
                )
            if self.may_be_both(before, step):
                raise step.call.error_at_call(
                    "the repeated step before it may take what this forbids", "tell them apart"
                )
        following = [each for each in after if not each.is_not]
        if not following:
            if is_group or after or self.steps[-1].within is None or before.is_repeated or before.group is not None:
                message = "notFollowedBy at the end needs within(...), and one single step before it"
                raise step.call.error_at_call(message, "put a step after it")
            return
        optional = [each for each in following if each.is_optional]
        reached = following[
            : following.index(next((each for each in following if not each.is_optional), following[-1])) + 1
        ]
        if len(optional) == len(following) > 1:
            raise step.call.error_at_call(
                "notFollowedBy before several optional steps has no equal", "leave out one of them"
            )
        for each in reached:
            is_final = each is self.steps[-1] and not each.is_repeated and each.group is None
            target = each if each.group is None else each.group.chain()[0]
            if self.may_be_both(target, step) and not is_final:
                message = f"an event may be both {step.name} and {target.name}: Flink then drops the match"
                raise step.call.error_at_call(message, "let their conditions exclude each other")

    def check_greedy(self, step: Step, after: Step | None, is_group: bool) -> None:
        if step.inner == "any" or step.until is not None:
            raise step.said["greedy"].error_at_call(
                "greedy beside allowCombinations or until is not translated", "leave it out"
            )
        if after is None and not is_group:
            return  # nothing follows that it could keep events from
        if after is None or after.is_not or after.is_optional or after.group is not None:
            raise step.said["greedy"].error_at_call("greedy is translated only before one step that is there always")
        if after.is_repeated and self.may_be_both(step, after):
            raise step.said["greedy"].error_at_call(
                "the repeated step after it may take the same events", "tell them apart"
            )

    # Gaps

    def find_policy(self) -> Policy:
        """Return the policy that says the same as all of the steps, or the one under which gaps say it."""
        positive = [step for step in self.all_steps if not step.is_not]
        is_plain = all(step.group is None and not step.is_not and step.until is None for step in self.steps)
        repeated = [step for step in positive if step.is_repeated]
        later = [step.relation for step in self.steps[1:]]
        if (
            is_plain
            and set(later) <= {"next"}
            and all(step.inner == "next" for step in repeated)
            and (later or repeated)
        ):
            return Policy.CONTIGUOUS
        is_linear = all(step.low == step.high and not step.is_optional for step in positive)
        if (
            is_plain
            and is_linear
            and set(later) == {"followedBy"}
            and all(step.inner == "relaxed" for step in repeated)
        ):
            return Policy.SKIP_TILL_NEXT
        return Policy.SKIP_TILL_ANY

    def forbid(self, relation: str, head: Step) -> _Kinds:
        """Return what may not be passed over before a step, by what is said of it."""
        if relation == "next":
            return frozenset({self.add_type(ANY_EVENT, define_type("", (), self.source.type).condition)})
        return frozenset({self.name_type(head)}) if relation in ("followedBy", "relaxed") else _NONE

    def find_gap(self, step: Step, before: Step | None, after: Step | None) -> _Gap:
        head = step if step.group is None else step.group.chain()[0]
        first = _NONE if step.relation == "begin" else self.forbid(step.relation, head)
        inner = self.forbid(step.inner, head) if step.is_repeated else _NONE
        if before is not None and "greedy" in before.said and before.low != before.high:
            first |= {self.name_type(before)}
        if step.is_repeated and step.until is not None:
            inner |= {self.add_type(f"{self.names[id(step)]}_end", define_type("", [step.until], "").condition)}
        if step.is_repeated and after is not None and after.relation == "notFollowedBy":
            inner |= {self.name_type(after)}
        return _Gap(self.reduce(first), self.reduce(inner))

    def reduce(self, kinds: _Kinds) -> _Kinds:
        """Return the same kinds, or only the one of all events where that is among them."""
        any_event = frozenset({ANY_EVENT}) & kinds & self.types.keys()
        return any_event or kinds

    # Patterns

    def build_chain(
        self, steps: list[Step], policy: Policy, first: _Kinds | None = None, suffix: str = ""
    ) -> list[Pattern]:
        """Return the parts of a SEQ for a chain; `first` are the kinds before it where it is a group."""
        parts: list[Pattern] = []
        moved: _Kinds = _NONE  # what stands at the end of the step before already
        for at, step in enumerate(steps):
            before = steps[at - 1] if at else None
            after = steps[at + 1 :]
            if step.relation == "notNext":
                continue
            following = [each for each in after if not each.is_not]
            if step.is_not:
                if self.name_type(step) in moved:
                    continue
                # Before a last step that is optional, the gap belongs to that step: without it nothing is forbidden.
                if not following or not all(each.is_optional for each in following):
                    parts.append(Not(Event(self.name_type(step))))
                continue
            gap = self.find_gap(step, before, after[0] if after else None)
            if policy is not Policy.SKIP_TILL_ANY:
                gap = _Gap(_NONE, _NONE)
            own = (first if at == 0 and first is not None else gap.first) - moved
            moved = _NONE
            if (
                before is not None
                and before.is_not
                and before.relation == "notFollowedBy"
                and step.is_optional
                and not after
            ):
                own |= {self.name_type(each) for each in self.list_nots_before(steps, at)}
            body = self.build_body(step, before, policy, suffix)
            next_step = following[0] if following else None
            rest = self.find_rest(steps, at, policy)
            if not step.is_repeated:
                made = [*_forbid(own), *body]
            elif own == gap.inner:
                made = [self.repeat([*_forbid(own), *body], step.low, step.high)]
            elif (
                (gap.inner <= rest or ANY_EVENT in rest)
                and not step.is_optional
                and next_step is not None
                and not next_step.is_optional
            ):
                made = [*_forbid(own), self.repeat([*body, *_forbid(gap.inner)], step.low, step.high)]
                moved = gap.inner
            else:
                made = [*_forbid(own), *body, *self.build_more(step, before, policy, gap.inner, suffix)]
            if step.is_optional:
                tail: list[Pattern] = []
                if at == 0 and first is None and next_step is not None and not next_step.is_optional:
                    tail, moved = _forbid(rest), rest
                elif all(each.is_optional for each in steps[: at + 1]) and rest:
                    message = "several optional steps at the beginning are translated only before followedByAny"
                    raise step.said["optional"].error_at_call(message, "leave out all but one of them")
                made = [Repeat(build_sequence([*made, *tail]), 0, 1)]
            parts += made
        return parts

    def list_nots_before(self, steps: list[Step], at: int) -> list[Step]:
        start = at
        while start and steps[start - 1].is_not:
            start -= 1
        return steps[start:at]

    def find_rest(self, steps: list[Step], at: int, policy: Policy) -> _Kinds:
        """Return all that is forbidden between a step and the next one that takes events."""
        kinds: _Kinds = _NONE
        for place in range(at + 1, len(steps)):
            step = steps[place]
            if step.relation == "notFollowedBy":
                kinds |= {self.name_type(step)}
            elif not step.is_not:
                following = steps[place + 1] if place + 1 < len(steps) else None
                return (
                    kinds | self.find_gap(step, steps[place - 1], following).first
                    if policy is Policy.SKIP_TILL_ANY
                    else _NONE
                )
        return _NONE

    def build_body(self, step: Step, before: Step | None, policy: Policy, suffix: str) -> list[Pattern]:
        """Return the parts of one round of a step, without the gap before it."""
        if step.group is not None:
            return self.build_chain(step.group.chain(), policy, _NONE, suffix)
        without: list[Expression] = []
        if step.until is not None:
            without.append(step.until)
        if before is not None:
            excluding = before.relation == "notNext" or ("greedy" in before.said and before.low != before.high)
            if excluding and self.may_be_both(step, before):
                without.append(conjoin(before.conditions or [Literal(True)]))
        return [Event(self.name_type(step, tuple(without)), f"{self.names[id(step)]}{suffix}")]

    def build_more(self, step: Step, before: Step | None, policy: Policy, inner: _Kinds, suffix: str) -> list[Pattern]:
        """Return the rounds of a step after the first, whose gaps differ from the one before it."""
        if suffix:
            raise step.call.error_at_call("this repetition within a group that is repeated is not translated")
        high = None if step.high is None else step.high - 1
        body = self.build_body(step, before, policy, MORE)
        names = (
            step.name if step.group is None else ", ".join(each.name for each in step.group.chain() if not each.is_not)
        )
        self.notes.append(f"the later rounds of {names} have variables of their own, which end in {MORE}")
        return [self.repeat([*_forbid(inner), *body], step.low - 1, high)]

    def repeat(self, parts: list[Pattern], low: int, high: int | None) -> Pattern:
        return build_sequence(parts) if low == high == 1 else Repeat(build_sequence(parts), low, high)


def _forbid(kinds: _Kinds) -> list[Pattern]:
    return [Not(Event(kind)) for kind in sorted(kinds)]
