"""Finds all that is wrong with a workload: alone, or against the columns and types of the data it will run on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

from motet.errors import Diagnostic, QueryError, did_you_mean
from motet.model.expression import At, Attribute, Expression, KleeneAggregate, Literal, attributes, variables, walk
from motet.model.kinds import KLEENE_FUNCTIONS, find_aggregate_misfit, find_misfits, infer_kind, infer_result_kinds
from motet.model.names import find_events, list_events
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq, absences, children, events, walk_pattern
from motet.model.query import (
    AGGREGATE_FUNCTIONS,
    Aggregate,
    AllVariables,
    Computed,
    EventDefinition,
    GroupKey,
    Query,
    ReturnItem,
    Variable,
    Workload,
)
from motet.model.shape import find_open_absences, find_shared_variables, repeated_names
from motet.model.span import Span
from motet.model.window import CountWindow, TimeWindow

# Columns that results have of their own.
AGGREGATE_COLUMNS = frozenset({"query", "window_start", "window_end", "time"})
MATCH_COLUMNS = frozenset({"query", "start", "end"})

_MAX_LENGTH = 2**61  # microseconds or events: added to any time, it stays below what kernels take for never
# What one query may ask for before anything is computed.
_MAX_WINDOWS = 1_000_000  # that hold an event
_MAX_POSITIONS = 1_000  # of a pattern: events that it binds, each copy of a repetition by itself
_MAX_STEPS = 30_000  # from one event of a pattern to one that may follow
_MAX_CONDITIONS = 5_000


@dataclass(frozen=True, slots=True)
class DataDescription:
    """What is known of the data: kinds by column name, the types that occur, and which columns are time and type."""

    columns: Mapping[str, str] | None
    types: Collection[str] | None
    time: str
    type: str | None  # None: events have none, or they are checked elsewhere


def find_problems(
    workload: Workload,
    columns: Mapping[str, str] | None = None,
    types: Collection[str] | None = None,
    time: str = "time",
    type: str | None = "type",
) -> list[Diagnostic]:
    """Find every error and warning of a workload.

    `columns` gives the kind of each column of the data: integer, number, text, boolean, time or other; `types` are the
    event types that occur in it. Without them the workload is judged on its own.
    """
    data = DataDescription(columns, types, time, type)
    found = [
        *_check_duplicates(workload),
        *_check_definitions(workload, data),
        *_check_data_columns(data),
        *(problem for query in workload.queries for problem in _QueryChecker(query, data).check()),
        *_check_labels(workload),
        *_check_types(workload, data),
    ]
    return _drop_repeated(found)


def check_workload(
    workload: Workload,
    columns: Mapping[str, str] | None = None,
    types: Collection[str] | None = None,
    time: str = "time",
    type: str | None = "type",
) -> tuple[Diagnostic, ...]:
    """Return the warnings of a workload. Raises QueryError with all of its errors; see `find_problems`."""
    found = find_problems(workload, columns, types, time, type)
    errors = [problem for problem in found if not problem.warning]
    if errors:
        raise QueryError(errors, workload.text, workload.origin)
    return tuple(found)


def _drop_repeated(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Drop repeated problems of one place: a clause that many queries share is wrong in all, but it is one mistake."""
    kept: dict[object, Diagnostic] = {}
    for number, problem in enumerate(found):
        kept.setdefault(number if problem.span is None else (problem.message, problem.span), problem)
    return list(kept.values())


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


# Names, definitions and data


def _check_duplicates(workload: Workload) -> Iterator[Diagnostic]:
    for kind, nodes in (("query", workload.queries), ("event definition", workload.definitions)):
        seen: set[str] = set()
        for node in nodes:
            if node.name in seen:
                message = f"there is already {_with_article(kind)} called '{node.name}'"
                yield Diagnostic(message, node.span, hint="choose another name")
            seen.add(node.name)


def _check_definitions(workload: Workload, data: DataDescription) -> Iterator[Diagnostic]:
    used = {event.type for query in workload.queries for event in list_events(query.pattern)}
    for definition in workload.definitions:
        yield from _check_definition(definition, data)
        if definition.name not in used:
            yield Diagnostic(f"no query uses the event '{definition.name}'", definition.span, warning=True)


def _check_definition(definition: EventDefinition, data: DataDescription) -> Iterator[Diagnostic]:
    condition = definition.condition
    for node in walk(condition):
        if isinstance(node, KleeneAggregate) or (isinstance(node, Attribute) and (node.variable or node.at != At.EACH)):
            message = "a definition looks at one row: it has columns, but no variables and no aggregates"
            yield Diagnostic(message, node.span, hint="as in EVENT big AS type = 'trade' AND qty > 1000")
    yield from _check_expression(condition, None, data)


def _check_expression(expression: Expression, query: str | None, data: DataDescription) -> Iterator[Diagnostic]:
    """Check that the columns an expression reads exist, and that its values are of fitting kinds."""
    for node in walk(expression):
        if isinstance(node, Attribute | KleeneAggregate) and node.name is not None:
            yield from _check_column(node.name, node.span, query, data)
    for misfit in find_misfits(expression, data.columns):
        yield Diagnostic(misfit.message, misfit.node.span or expression.span, query, misfit.hint, misfit.warning)


def _check_column(name: str, span: Span | None, query: str | None, data: DataDescription) -> Iterator[Diagnostic]:
    if data.columns is not None and name not in data.columns:
        yield Diagnostic(f"the data has no column '{name}'", span, query, did_you_mean(name, data.columns))


def _check_data_columns(data: DataDescription) -> Iterator[Diagnostic]:
    """Check that the time and type columns are there and hold times and types."""
    if data.columns is None:
        return
    for name, role, kinds in (
        (data.time, "time", ("time", "ticks", "integer", "other")),
        (data.type, "type", ("text", "integer", "boolean", "other")),
    ):
        if name is None:
            continue
        kind = data.columns.get(name)
        if kind is None:
            hint = did_you_mean(name, data.columns)
            yield Diagnostic(f"the data has no column '{name}' for the {role} of events", hint=hint)
        elif kind not in kinds:
            wanted = "timestamps or whole numbers" if role == "time" else "texts, whole numbers or booleans"
            message = f"the {role} of events must be {wanted}: column '{name}' is {_with_article(kind)} column"
            yield Diagnostic(message, hint=f"name another column with --{role} or {role}=")


def _check_types(workload: Workload, data: DataDescription) -> Iterator[Diagnostic]:
    """Warn of each place with a type that the data does not have: it matches nothing."""
    if data.types is None:
        return
    known = {*data.types, *(definition.name for definition in workload.definitions)}
    for query in workload.queries:
        for event in list_events(query.pattern):
            if event.type not in known:
                message = f"the data has no events of type '{event.type}'"
                hint = did_you_mean(event.type, known)
                yield Diagnostic(message, event.span or query.span, query.name, hint, warning=True)


# One query


class _QueryChecker:
    """Collects what is wrong with one query."""

    def __init__(self, query: Query, data: DataDescription) -> None:
        self.query = query
        self.data = data
        self.bound = events(query.pattern)
        self.all_events = list_events(query.pattern)
        self.forbidden = frozenset(absence.event.name for absence in absences(query.pattern))
        self.repeated = repeated_names(query.pattern)
        self.found: list[Diagnostic] = []

    def check(self) -> list[Diagnostic]:
        self._check_empty_names()
        self._check_size()
        self._check_parts()
        self._check_absences()
        self._check_variable_names()
        for condition in self.query.conditions:
            self._check_condition(condition)
        for name in self.query.partition:
            self.found += _check_column(name, self.query.find_place(name), self.query.name, self.data)
        self._check_returns()
        self._check_having()
        self._check_window()
        return self.found

    def _report(self, message: str, span: Span | None, hint: str | None = None, warning: bool = False) -> None:
        self.found.append(Diagnostic(message, span, self.query.name, hint, warning))

    # Patterns

    def _check_empty_names(self) -> None:
        """Find a name without letters, which only Python can make."""
        variables_given = [event.variable for event in self.all_events if event.variable is not None]
        types = [event.type for event in self.all_events]
        if not all((self.query.name, *types, *variables_given, *self.query.partition)):
            self._report("a name cannot be empty", self.query.span, "give it letters")

    def _check_size(self) -> None:
        """Find the smallest part that stands for too many events or steps, and too many conditions."""
        parts = list(reversed(list(walk_pattern(self.query.pattern))))
        large = next((part for part in parts if _count_positions(part) > _MAX_POSITIONS), None)
        if large is not None:
            hint = f"at most {_MAX_POSITIONS:,} in a pattern: A+ and A{{2,}} have no limit, and cost less"
            self._report(f"this stands for {_count_positions(large):,} events", large.span or self.query.span, hint)
        elif _count_ways(parts[-1]).steps > _MAX_STEPS:
            large = next(part for part in parts if _count_ways(part).steps > _MAX_STEPS)
            message = f"there are {_count_ways(large).steps:,} ways from one event of this to one that may follow"
            hint = f"at most {_MAX_STEPS:,} in a pattern: what is optional may be followed by all that comes after it"
            self._report(message, large.span or self.query.span, hint)
        if len(self.query.conditions) > _MAX_CONDITIONS:
            hint = f"at most {_MAX_CONDITIONS:,}: ranges and IN take less"
            self._report(f"WHERE has {len(self.query.conditions):,} conditions", self.query.span, hint)

    def _check_parts(self) -> None:
        """Find operators without parts, groups that bind nothing, and impossible repetitions."""
        pattern = self.query.pattern
        if not self.bound:
            hint = "a match needs at least one event outside NOT and NEG"
            self._report("this pattern can bind no event", pattern.span or self.query.span, hint)
            return
        for part in walk_pattern(pattern):
            match part:
                case Seq(parts) | And(parts) | Or(parts) if not parts:
                    self._report("an operator needs at least one part", part.span, "as in SEQ(A, B)")
                case Seq(parts) | And(parts) if not events(part):
                    hint = "write it without brackets, as a part of the SEQ around it"
                    self._report("this group binds no event", part.span, hint)
                case Repeat(_, low, high) if low < 0 or (high is not None and high < 1):
                    self._report("a repetition needs room for at least one event", part.span, "as in A{1,3}")
                case Repeat(_, low, high) if high is not None and low > high:
                    hint = f"did you mean {{{high},{low}}}?"
                    self._report(f"at least {low} cannot be more than at most {high}", part.span, hint)

    def _check_absences(self) -> None:
        """Check where NOT and NEG stand."""
        self._check_placement(self.query.pattern, ())
        for part in walk_pattern(self.query.pattern):
            if isinstance(part, And):
                for absence in find_open_absences(part):
                    if any(absence is direct for direct in part.parts):
                        continue  # misplaced anyway
                    message = "in a part of an AND, NOT needs an event that is always bound before it and one after it"
                    self._report(message, absence.span, "as in AND(SEQ(A, NOT N, B), C)")

    def _check_placement(self, pattern: Pattern, above: tuple[Pattern, ...]) -> None:
        parent = above[-1] if above else None
        match pattern:
            case Not() if parent is not None and not isinstance(parent, Seq):
                hint = "to forbid an event whatever the order, write NEG(E)" if isinstance(parent, And) else None
                self._report("NOT can only stand as a part of a SEQ", pattern.span, hint)
            case Neg() if parent is not None and not isinstance(parent, Seq | And):
                message = "NEG can only stand as a part of a SEQ or an AND"
                self._report(message, pattern.span, "as in SEQ(A, B, NEG(N))")
            case Neg() if any(isinstance(ancestor, Or | Repeat) for ancestor in above):
                message = "NEG cannot stand under an OR or a repetition: it holds for the whole match"
                self._report(message, pattern.span, "write it once, as in SEQ(OR(A, B)+, NEG(N))")
        if not isinstance(pattern, Not | Neg):
            for part in children(pattern):
                self._check_placement(part, (*above, pattern))

    def _check_variable_names(self) -> None:
        """Check that no match binds two events of one variable, and that it is not also the type of another."""
        for name in find_shared_variables(self.query.pattern):
            second = [event for event in self.all_events if event.variable == name][1]
            self._report(f"there are two events called '{name}'", second.span, "give each a variable of its own")
        for event in self.all_events:
            variable = event.variable
            if variable is not None and any(
                other.type == variable for other in self.all_events if other.variable != variable
            ):
                message = f"'{variable}' is a variable here and also the type of another event"
                self._report(message, event.span, "choose another variable")

    # Conditions

    def _check_condition(self, condition: Expression) -> None:
        self._check_event_names(condition, in_condition=True)
        self._check_next(condition)
        if not variables(condition):
            self._report("this condition is about no event", condition.span, "as in a.price > 10")
        elif infer_kind(condition, self.data.columns) not in ("boolean", None):
            self._report("this is a value, not a condition", condition.span, "compare it")
        self._check_unquoted(condition)
        self.found += _check_expression(condition, self.query.name, self.data)

    def _check_unquoted(self, condition: Expression) -> None:
        """Check that a bare name that was read as a text cannot be meant as an event or a column."""
        for node in walk(condition):
            match node:
                case Literal(str() as word, unquoted=True):
                    if find_events(self.query.pattern, word):
                        self._report(f"'{word}' does not say which attribute", node.span, f"as in {word}.price")
                    elif self.data.columns is not None and word in self.data.columns:
                        hint = f"write the variable first, as in E.{word}, or a text in single quotes"
                        self._report(f"'{word}' does not say which event it is about", node.span, hint)
                    else:
                        hint = f"write '{word}' in single quotes"
                        self._report(f"'{word}' is read as a text", node.span, hint, warning=True)

    def _check_event_names(self, expression: Expression, in_condition: bool) -> None:
        """Check that every variable of an expression stands for one event of the pattern.

        In a condition the name of a type speaks of all bound events of that type.
        """
        for node in walk(expression):
            if not isinstance(node, Attribute | KleeneAggregate):
                continue
            if isinstance(node, KleeneAggregate):
                self._check_aggregate_form(node, KLEENE_FUNCTIONS)
            meant = find_events(self.query.pattern, node.variable)
            if not meant:
                if not self._is_missing_event(node):
                    self._report_undefined(node.variable, node.span)
            elif self._is_ambiguous(node.variable, meant, in_condition):
                self._report_ambiguous(node.variable, node.span)
            elif meant[0].name in self.forbidden:
                if isinstance(node, KleeneAggregate):
                    self._report_under_not(node.function, node.variable, node.span)
                elif node.at != At.EACH:
                    self._report_under_not(node.at.upper(), node.variable, node.span)

    def _is_ambiguous(self, name: str, meant: Sequence[Event], in_condition: bool) -> bool:
        """Return whether a name may stand for several events where it cannot.

        In a condition the name of a type speaks of all of its events, if they are bound and have no variables.
        """
        shared = [event for event in self.all_events if event.variable == meant[0].variable]
        if meant[0].variable == name:
            return len(shared) > 1 and not self._are_bound(meant)
        if len(meant) == 1:
            return meant[0].variable is not None and len(shared) > 1
        plain = all(event.variable is None for event in meant)
        return not (in_condition and plain and self._are_bound(meant))

    def _are_bound(self, events: Sequence[Event]) -> bool:
        """Return whether none of these events stands under NOT or NEG, where another may look the same."""
        return all(any(event is other for other in self.bound) for event in events)

    def _check_next(self, condition: Expression) -> None:
        found = [node for node in walk(condition) if isinstance(node, Attribute) and node.at == At.NEXT]
        for node in found:
            meant = find_events(self.query.pattern, node.variable)
            if len(meant) == 1 and meant[0].name not in self.repeated | self.forbidden:
                message = f"'{node.variable}' is bound only once, so it has no NEXT"
                self._report(message, node.span, f"repeat it in the pattern, as in {meant[0].type}+")
        if len({node.variable for node in found}) > 1:
            self._report("a condition can speak of NEXT of one variable only", condition.span, "write two conditions")

    def _report_undefined(self, name: str, span: Span | None) -> None:
        known = {name for event in self.all_events for name in (event.name, event.type)}
        self._report(f"the pattern has no event '{name}'", span, did_you_mean(name, known))

    def _report_ambiguous(self, name: str, span: Span | None) -> None:
        if any(event.variable == name for event in self.all_events):
            return  # a variable that is given twice is reported as such
        hint = f"give the one you mean a variable, as in {name} x, and write x here"
        self._report(f"the pattern has several events of type '{name}'", span, hint)

    def _report_under_not(self, function: str, name: str, span: Span | None) -> None:
        message = f"{function} of '{name}' means nothing: no match binds an event under NOT"
        self._report(message, span, f"write {name}.attribute for each such event")

    # Results

    def _check_returns(self) -> None:
        query = self.query
        if all(isinstance(item, GroupKey) for item in query.returns):
            self._report("RETURN needs an aggregate, variables or *", query.span, "as in RETURN COUNT(*)")
        for item in query.returns:
            match item:
                case Aggregate():
                    self._check_aggregate(item)
                case Variable():
                    self._check_returned_variable(item)
                case Computed(expression):
                    self._check_computed(expression)
                case GroupKey(name) if name not in query.group_by:
                    self._report(f"'{name}' is not in GROUP BY", item.span, did_you_mean(name, query.group_by))
        asks_matches = next((item for item in query.returns if self._returns_matches(item)), None)
        if asks_matches is not None and query.aggregates:
            first = query.aggregates[0]
            over_match = f"({replace(first, alias=None).label}) AS {first.alias or 'value'}"
            self._report(
                "RETURN asks for matches and for aggregates over all of them",
                first.span or asks_matches.span,
                f"return one or the other; in brackets, {over_match}, it is over each match",
            )

    def _check_having(self) -> None:
        """Check that HAVING is a condition on columns of the query's result."""
        query, condition = self.query, self.query.having
        if condition is None:
            return
        if not query.is_aggregate:
            self._report("HAVING is for aggregates", condition.span, "conditions on single matches go into WHERE")
            return
        kinds = None if self.data.columns is None else infer_result_kinds(query, self.data.columns)
        labels = [*query.group_by, *(item.label for item in query.aggregates)]
        for column in attributes(condition):
            if column.name not in labels:
                hint = did_you_mean(column.name, labels) or f"it has {', '.join(labels)}"
                self._report(f"the result has no column '{column.name}'", column.span, hint)
        if infer_kind(condition, kinds) not in ("boolean", None):
            self._report("this is a value, not a condition", condition.span, "compare it")
        for misfit in find_misfits(condition, kinds):
            self._report(misfit.message, misfit.node.span or condition.span, misfit.hint, misfit.warning)

    def _returns_matches(self, item: ReturnItem) -> bool:
        match item:
            case AllVariables() | Computed():
                return True
            case Variable(name):
                return bool(find_events(self.query.pattern, name))
        return False

    def _check_aggregate_form(self, item: Aggregate | KleeneAggregate, functions: Collection[str]) -> None:
        function, variable = item.function, item.variable
        if function not in functions:
            hint = f"known here: {', '.join(functions)}"
            self._report(f"the aggregate '{function}' cannot be used here", item.span, hint)
        elif self._is_missing_event(item):
            hint = f"as in {function}({self.bound[-1].name}.{variable})"
            self._report(f"{function}({variable}) does not say of which event", item.span, hint)
        elif item.name is None and function != "COUNT":
            self._report(f"{function} needs an attribute", item.span, f"as in {function}({variable or 'E'}.price)")

    def _is_missing_event(self, item: Attribute | Aggregate | KleeneAggregate) -> bool:
        """Return whether an aggregate names a column where an event is expected: `SUM(price)`."""
        if isinstance(item, Attribute) or item.name is not None or item.function == "COUNT" or item.variable is None:
            return False
        return bool(self.bound) and not find_events(self.query.pattern, item.variable)

    def _check_aggregate(self, item: Aggregate) -> None:
        if item.distinct and item.variable is None:
            if item.name not in self.query.partition:
                message = f"'{item.name}' is no attribute of GROUP BY or [...], so DISTINCT must say of which event"
                event = self.bound[-1].name if self.bound else "E"
                self._report(message, item.span, f"as in COUNT(DISTINCT {event}.{item.name})")
            return
        self._check_aggregate_form(item, AGGREGATE_FUNCTIONS)
        if item.variable is not None:
            meant = find_events(self.query.pattern, item.variable)
            if not meant:
                if not self._is_missing_event(item):
                    self._report_undefined(item.variable, item.span)
            elif not any(event in self.bound for event in meant):
                self._report_under_not(item.function, item.variable, item.span)
        if item.name is not None:
            self.found += _check_column(item.name, item.span, self.query.name, self.data)
        misfit = find_aggregate_misfit(item, self.data.columns)
        if misfit is not None:
            hint = "COUNT takes any column, MIN and MAX take texts, times and numbers"
            if item.name is not None and (self.data.columns or {}).get(item.name) == "text":
                hint += f"; --column-type {item.name}=number (in Python column_types=) reads a text file's as numbers"
            self._report(misfit, item.span, hint)

    def _check_returned_variable(self, item: Variable) -> None:
        meant = find_events(self.query.pattern, item.name)
        if len(meant) > 1:
            self._report_ambiguous(item.name, item.span)
        elif not meant:
            known = {*(event.name for event in self.bound), *self.query.group_by}
            function = item.name.upper()
            hint = f"write {function}({'*' if function == 'COUNT' else 'E.price'})"
            if function not in AGGREGATE_FUNCTIONS:
                hint = did_you_mean(item.name, known) or "as in RETURN COUNT(*)"
            self._report(f"'{item.name}' is neither an event of the pattern nor in GROUP BY", item.span, hint)
        elif meant[0].name in self.forbidden:
            self._report_unbound(item.name, item.span)

    def _report_unbound(self, name: str, span: Span | None) -> None:
        self._report(f"no match binds '{name}': it is under NOT", span, "return an event that a match binds")

    def _check_computed(self, expression: Expression) -> None:
        self._check_event_names(expression, in_condition=False)
        for node in walk(expression):
            if isinstance(node, Literal) and isinstance(node.value, int) and not -(2**63) <= node.value < 2**63:
                hint = f"write {node.value}.0 for the nearest floating number"
                self._report("results have whole numbers of at most 64 bits", node.span, hint)
            if not isinstance(node, Attribute):
                continue
            name = node.variable
            if node.at == At.NEXT:
                hint = f"return FIRST({name}).{node.name} or LAST({name}).{node.name}"
                self._report("NEXT can only be used in WHERE", node.span, hint)
            elif name in self.forbidden:
                self._report_unbound(name, node.span)
            elif node.at == At.EACH and name in self.repeated:
                hint = f"as in FIRST({name}).{node.name}, LAST({name}).{node.name} or (AVG({name}.{node.name}))"
                self._report(f"a match may bind several events to '{name}': say which one", node.span, hint)
        self.found += _check_expression(expression, self.query.name, self.data)

    # Windows

    def _check_window(self) -> None:
        match self.query.window:
            case None:
                hint = "add WITHIN to run on an endless stream"
                self._report("without WITHIN the whole input is one window", self.query.span, hint, warning=True)
            case CountWindow(size, span=span):
                self._check_length(size, "WITHIN", span)
            case TimeWindow(size, slide, ticks, span=span):
                self._check_length(size, "WITHIN", span)
                if slide is not None:
                    self._check_length(slide, "SLIDE", span)
                    if size // max(slide, 1) > _MAX_WINDOWS:
                        message = f"SLIDE is too short: each event is in {size // slide:,} windows"
                        self._report(message, span, f"at most {_MAX_WINDOWS:,}: a longer SLIDE, or a shorter WITHIN")
                    if slide > size > 0:
                        message = "SLIDE is longer than WITHIN: what happens between two windows is never seen"
                        self._report(message, span, warning=True)
                data = self.data
                if ticks and data.columns is not None and data.columns.get(data.time) == "time":
                    message = f"this window has no unit, and '{data.time}' holds timestamps"
                    self._report(message, span, f"as in WITHIN {size} s")

    def _check_length(self, amount: int, clause: str, span: Span | None) -> None:
        if amount <= 0:
            self._report(f"{clause} must be more than zero", span, f"as in {clause} 10 min")
        elif amount > _MAX_LENGTH:
            self._report(f"{clause} is too long", span, "leave out WITHIN for all of the input")


def _count_positions(pattern: Pattern) -> int:
    """Count the events that a pattern has a position for, each copy that a repetition makes by itself."""
    match pattern:
        case Repeat(part, low, high):
            return _count_positions(part) * max(low if high is None else high, 1)
        case Seq(parts) | And(parts) | Or(parts):
            return sum(map(_count_positions, parts))
    return 1


class _Ways(NamedTuple):
    """How many events a part may begin and end with, whether it may be left out, and the steps between its events."""

    first: int = 0
    last: int = 0
    empty: bool = True
    steps: int = 0

    def then(self, other: _Ways) -> _Ways:
        return _Ways(
            self.first + self.empty * other.first,
            other.last + other.empty * self.last,
            self.empty and other.empty,
            self.steps + other.steps + self.last * other.first,
        )


def _count_ways(pattern: Pattern) -> _Ways:
    """Count the steps of a pattern's automaton. O(events)."""
    match pattern:
        case Event():
            return _Ways(1, 1, False)
        case Seq(parts):
            return reduce(_Ways.then, map(_count_ways, parts), _Ways())
        case Or(parts):
            found = [_count_ways(part) for part in parts]
            first, last = sum(part.first for part in found), sum(part.last for part in found)
            return _Ways(first, last, any(part.empty for part in found), sum(part.steps for part in found))
        case And(parts):
            found = [_count_ways(part) for part in parts]
            return _Ways(1, 1, all(part.empty for part in found), sum(part.steps for part in found))
        case Repeat(part, low, None):
            once = _count_ways(part)
            looped = once._replace(empty=once.empty or not low, steps=once.steps + once.last * once.first)
            return reduce(_Ways.then, [once] * (low - 1) + [looped], _Ways())
        case Repeat(part, low, high):
            once, tail = _count_ways(part), _Ways()
            for _ in range(low, high or 0):
                tail = once.then(tail)._replace(empty=True)
            return reduce(_Ways.then, [*[once] * low, tail], _Ways())
    return _Ways()


# Columns of the result


def _check_labels(workload: Workload) -> Iterator[Diagnostic]:
    """Find columns of a query's result that two things would share."""
    rename = "choose another name with AS, or another variable"
    for query in workload.queries:
        own = AGGREGATE_COLUMNS if query.is_aggregate else MATCH_COLUMNS
        for name in query.group_by:
            if name in own:
                message = f"results have a column '{name}' of their own, so GROUP BY cannot add one"
                yield Diagnostic(message, query.find_place(name), query.name, "rename this column of the data")
        labels = list(_list_labels(query))
        counts = Counter(label for label, _ in labels)
        for label, span in labels:
            if counts.pop(label, 1) > 1:
                message = f"two results of this query are called '{label}'"
                yield Diagnostic(message, span, query.name, "name one of them with AS")
            if label in own:
                yield Diagnostic(f"results have a column '{label}' of their own", span, query.name, rename)
            elif label in query.group_by:
                message = f"'{label}' is also a GROUP BY attribute, and a result has one column of a name"
                yield Diagnostic(message, span, query.name, rename)


def _list_labels(query: Query) -> Iterator[tuple[str, Span | None]]:
    """List the columns that RETURN asks for, and where. Events of one type without variables share theirs."""
    for item in query.returns:
        span = item.span or query.span
        match item:
            case Aggregate() | Variable() | Computed():
                yield item.label, span
            case AllVariables():
                for name in dict.fromkeys(event.name for event in events(query.pattern)):
                    yield name, span
