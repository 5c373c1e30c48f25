"""What Flink's CEP library does with a pattern: an automaton whose edges take an event, ignore it, or go on without it.

It is written from Flink's documentation and the behaviour of its automaton, quirks included: a translation must agree
with it, match by match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Condition = Callable[[Row], bool]
Match = tuple[tuple[str, int], ...]  # step and time of each event, in order


@dataclass(eq=False)
class FlinkStep:
    """One step, as the calls on it leave it; inner is how the events of a repeated step follow each other."""

    name: str
    relation: str
    condition: Condition
    low: int = 1
    high: int | None = 1
    optional: bool = False
    greedy: bool = False
    inner: str = "relaxed"
    until: Condition | None = None
    group: list[FlinkStep] | None = None


@dataclass(eq=False)
class _State:
    name: str
    kind: str = "normal"
    edges: list[tuple[str, _State, Condition]] = field(default_factory=list)

    def add(self, action: str, target: _State, condition: Condition) -> None:
        self.edges.append((action, target, condition))


def _always(_: Row) -> bool:
    return True


def _inverse(condition: Condition) -> Condition:
    return lambda row: not condition(row)


def _both(one: Condition, other: Condition) -> Condition:
    return lambda row: one(row) and other(row)


@dataclass
class _Place:
    """A step of a chain that is being compiled, the group it belongs to, and the step that Flink takes for the next."""

    chain: list[FlinkStep]
    at: int
    group: FlinkStep | None
    following: FlinkStep | None

    @property
    def step(self) -> FlinkStep:
        return self.chain[self.at]

    @property
    def is_head(self) -> bool:
        return self.group is not None and self.at == 0

    def nots(self) -> list[FlinkStep]:
        """The steps that forbid events before this one, over optional ones."""
        found = []
        at = self.at
        while at and (self.chain[at - 1].optional or self.chain[at - 1].relation == "notFollowedBy"):
            at -= 1
            if self.chain[at].relation == "notFollowedBy":
                found.append(self.chain[at])
        return found


class _Compiler:
    """Builds the automaton from the last step to the first."""

    def __init__(self, has_window: bool) -> None:
        self.has_window = has_window
        self.stops: dict[str, _State] = {}
        self.first_round: dict[int, bool] = {}

    def compile(self, chain: list[FlinkStep]) -> _State:
        sink, following = self.compile_later(chain, _State("", "final"), None, None)
        return self.convert(_Place(chain, 0, None, following), sink)

    def compile_later(
        self, chain: list[FlinkStep], sink: _State, group: FlinkStep | None, following: FlinkStep | None
    ) -> tuple[_State, FlinkStep | None]:
        for at in range(len(chain) - 1, 0, -1):
            step = chain[at]
            if step.relation == "notFollowedBy":
                if self.has_window and sink.kind == "final":
                    pending = _State(step.name, "pending")
                    pending.add("proceed", self.stop(step), step.condition)
                    pending.add("ignore", pending, _inverse(step.condition))
                    sink = pending
            elif step.relation == "notNext":
                waiting = _State(step.name)
                onward = "ignore" if sink.kind == "final" else "proceed"
                waiting.add(onward, sink, _inverse(step.condition))
                waiting.add("proceed", self.stop(step), step.condition)
                sink = waiting
            else:
                sink = self.convert(_Place(chain, at, group, following), sink)
            following = step
        return sink, following

    def stop(self, step: FlinkStep) -> _State:
        if step.name not in self.stops:
            state = _State(step.name, "stop")
            state.add("take", state, step.condition)
            self.stops[step.name] = state
        return self.stops[step.name]

    def add_stops(self, state: _State, place: _Place) -> None:
        for step in place.nots():
            state.add("proceed", self.stop(step), step.condition)

    def add_next_stop(self, state: _State, place: _Place) -> None:
        if place.following is not None and place.following.relation == "notFollowedBy":
            state.add("proceed", self.stop(place.following), place.following.condition)

    def convert(self, place: _Place, sink: _State) -> _State:
        step = place.step
        if step.high is None:
            self.first_round[id(step)] = False
            looping = self.build_loop(place, self.without_nots(place, sink))
            self.first_round[id(step)] = True
            state = self.build_times(place, looping, sink, step.low, step.low)
        elif (step.low, step.high) != (1, 1):
            state = self.build_times(place, sink, sink, step.low, step.high)
        else:
            state = self.build_single(
                place, sink, sink, step.condition, self.first_ignore(place), self.is_optional(place)
            )
        self.add_stops(state, place)
        return state

    def is_optional(self, place: _Place) -> bool:
        if place.is_head and place.group is not None:
            return self.first_round.get(id(place.group), True) and place.group.optional
        return place.step.optional

    def first_ignore(self, place: _Place) -> Condition | None:
        strategy = place.step.relation
        if place.is_head and place.group is not None:
            is_first = self.first_round.get(id(place.group), True)
            strategy = place.group.relation if is_first else place.group.inner
        return self.ignore(strategy, place.step)

    def inner_ignore(self, place: _Place) -> Condition | None:
        return self.ignore(place.group.inner if place.is_head and place.group else place.step.inner, place.step)

    def ignore(self, strategy: str, step: FlinkStep) -> Condition | None:
        match strategy:
            case "begin" | "next":
                return None
            case "followedBy" | "relaxed":
                return _inverse(step.condition)
        return _always

    def build_times(self, place: _Place, sink: _State, proceed: _State, low: int, high: int) -> _State:
        step = place.step
        self.first_round[id(step)] = False
        inner, take = self.inner_ignore(place), step.condition
        if step.until is not None:
            take = _both(take, _inverse(step.until))
            inner = None if inner is None else _both(inner, _inverse(step.until))
        if step.greedy and low != high:
            self.make_greedy(sink, take)
        last = sink
        for _ in range(low, high):
            last = self.build_single(place, last, proceed, take, inner, True)
            self.add_next_stop(last, place)
        for _ in range(low - 1):
            last = self.build_single(place, last, None, take, inner, False)
            self.add_next_stop(last, place)
        self.first_round[id(step)] = True
        return self.build_single(place, last, proceed, take, self.first_ignore(place), self.is_optional(place))

    def make_greedy(self, sink: _State, take: Condition) -> None:
        sink.edges = [(action, target, _both(condition, _inverse(take))) for action, target, condition in sink.edges]

    def build_single(
        self,
        place: _Place,
        sink: _State,
        proceed: _State | None,
        take: Condition,
        ignore: Condition | None,
        is_optional: bool,
    ) -> _State:
        if place.step.group is not None:
            head = self.build_group(place, sink)
            if is_optional and proceed is not None:
                head.add("proceed", proceed, _always)
            return head
        state = _State(place.step.name)
        target = self.without_nots(place, sink)
        state.add("take", target, take)
        if is_optional and not place.is_head and proceed is not None:
            state.add("proceed", proceed, _always)
        if ignore is not None:
            waiting = state
            if is_optional:
                waiting = _State(place.step.name)
                waiting.add("take", target, take)
                waiting.add("ignore", waiting, ignore)
                self.add_stops(waiting, place)
            state.add("ignore", waiting, ignore)
        return state

    def build_group(self, place: _Place, sink: _State) -> _State:
        group = place.step
        chain = group.group or []
        last, following = self.compile_later(chain, sink, group, place.following)
        return self.convert(_Place(chain, 0, group, following), last)

    def build_loop(self, place: _Place, sink: _State) -> _State:
        step = place.step
        if step.group is not None:
            between = _State(step.name)
            head = self.build_group(place, between)
            head.add("proceed", sink, _always)
            between.add("proceed", head, _always)
            return head
        inner, take = self.inner_ignore(place), step.condition
        if step.until is not None:
            take = _both(take, _inverse(step.until))
            inner = None if inner is None else _both(inner, _inverse(step.until))
        state = _State(step.name)
        state.add("proceed", sink, _always)
        if step.greedy:
            self.make_greedy(sink, step.condition)
        state.add("take", state, take)
        self.add_next_stop(state, place)
        if inner is not None:
            waiting = _State(step.name)
            waiting.add("take", state, take)
            waiting.add("ignore", waiting, inner)
            state.add("ignore", waiting, inner)
            self.add_next_stop(waiting, place)
        return state

    def without_nots(self, place: _Place, sink: _State) -> _State:
        """The state after an optional step that took an event: what was forbidden before it is no longer."""
        names = {step.name for step in place.nots()}
        if not names or not place.step.optional:
            return sink
        copy = _State(sink.name, sink.kind)
        for action, target, condition in sink.edges:
            if action != "proceed":
                copy.add(action, copy if target is sink else target, condition)
            elif target.kind != "stop":
                copy.add(action, self.without_nots(place, target), condition)
            elif target.name not in names:
                copy.add(action, target, condition)
        return copy


@dataclass(frozen=True)
class _Partial:
    state: _State
    match: Match


def flink_matches(chain: list[FlinkStep], rows: Sequence[Row], window: int | None) -> list[Match]:
    """Every match of a pattern, without a skip strategy, over rows in order of time."""
    start = _Compiler(window is not None).compile(chain)
    partials: list[_Partial] = []
    found: list[Match] = []
    for row in [*rows, None]:
        kept = []
        for partial in partials:
            if window is not None and (row is None or row["time"] - partial.match[0][1] >= window):
                if partial.state.kind == "pending":
                    found.append(partial.match)
            elif row is not None:
                kept += _advance(partial, row, found)
        if row is not None:
            kept += _advance(_Partial(start, ()), row, found)
        partials = kept
    return found


def skip_matches(matches: list[Match], strategy: str) -> list[Match]:
    """The matches that a skip strategy leaves, where each first event begins one at most: they are taken by start."""
    kept: list[Match] = []
    for match in sorted(matches, key=lambda match: match[0][1]):
        if strategy != "skipPastLastEvent" or not kept or match[0][1] > kept[-1][-1][1]:
            kept.append(match)
    return kept


def _advance(partial: _Partial, row: Row, found: list[Match]) -> list[_Partial]:
    """The partial matches that a row makes of one; those that are complete are added to the matches found."""
    edges: list[tuple[str, _State, _State]] = []
    waiting = [partial.state]
    while waiting:
        state = waiting.pop()
        for action, target, condition in state.edges:
            if not condition(row):
                continue
            if action == "proceed":
                waiting.append(target)
            else:
                edges.append((action, state, target))
    results = []
    for action, state, target in edges:
        if action == "ignore":
            if partial.match:
                results.append(_Partial(target, partial.match))
            continue
        match = (*partial.match, (state.name, row["time"]))
        results.append(_Partial(target, match))
        if _goes_on_to_final(target, row):
            results.append(_Partial(_State("", "final"), match))
    found += [result.match for result in results if result.state.kind == "final"]
    if any(result.state.kind == "stop" for result in results):
        return []
    return [result for result in results if result.state.kind in ("normal", "pending")]


def _goes_on_to_final(state: _State, row: Row) -> bool:
    waiting = [state]
    while waiting:
        for action, target, condition in waiting.pop().edges:
            if action == "proceed" and condition(row):
                if target.kind == "final":
                    return True
                waiting.append(target)
    return False
