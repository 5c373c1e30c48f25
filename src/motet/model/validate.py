"""Finds all that is wrong with a workload: alone, or against the columns and types of the data it will run on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from motet.errors import Diagnostic, did_you_mean
from motet.model.expression import At, Attribute, Expression, KleeneAggregate, variables, walk
from motet.model.kinds import KLEENE_FUNCTIONS, find_aggregate_misfit, find_misfits, infer_aggregate_kind, infer_kind
from motet.model.names import find_events, list_events
from motet.model.pattern import And, Neg, Not, Or, Pattern, Repeat, Seq, absences, children, events
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
from motet.model.shape import find_open_absences, repeated_names
from motet.model.span import Span
from motet.model.window import CountWindow, TimeWindow

# Columns that results have of their own.
AGGREGATE_COLUMNS = frozenset({"query", "window_start", "window_end", "time"})
MATCH_COLUMNS = frozenset({"query", "start", "end"})

_MAX_LENGTH = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DataDescription:
    """What is known of the data: kinds by column name, the types that occur, and which columns are time and type."""

    columns: Mapping[str, str] | None
    types: Collection[str] | None
    time: str
    type: str


def find_problems(
    workload: Workload,
    columns: Mapping[str, str] | None = None,
    types: Collection[str] | None = None,
    time: str = "time",
    type: str = "type",
) -> list[Diagnostic]:
    """Return every error and warning of a workload.

    `columns` gives the kind of each column of the data: integer, number, text, boolean, time or other; `types` are the
    event types that occur in it. Without them the workload is judged on its own.
    """
    data = DataDescription(columns, types, time, type)
    found = [
        *_check_duplicates(workload),
        *_check_definitions(workload, data),
        *_check_data_columns(data),
        *(problem for query in workload.queries for problem in _check_query(query, data)),
        *_check_labels(workload, data),
        *_check_types(workload, data),
    ]
    return _drop_repeated(found)


def _drop_repeated(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return a clause that many queries share is wrong in all of them, but it is one mistake."""
    seen: set[tuple[str, Span]] = set()
    kept = []
    for problem in found:
        if problem.span is not None:
            if (problem.message, problem.span) in seen:
                continue
            seen.add((problem.message, problem.span))
        kept.append(problem)
    return kept


def _check_query(query: Query, data: DataDescription) -> Iterator[Diagnostic]:
    for rule in (_check_empty_names, _check_parts, _check_absences, _check_variable_names):
        yield from rule(query)
    for rule_on_data in (_check_conditions, _check_partition, _check_returns, _check_window):
        yield from rule_on_data(query, data)


# Names and definitions


def _check_duplicates(workload: Workload) -> Iterator[Diagnostic]:
    for kind, nodes in (("query", workload.queries), ("event definition", workload.definitions)):
        seen: set[str] = set()
        for node in nodes:
            if node.name in seen:
                message = f"there is already {_with_article(kind)} called '{node.name}'"
                yield Diagnostic(message, node.span, hint="choose another name")
            seen.add(node.name)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


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
    yield from _check_columns(condition, None, data)
    yield from _check_kinds(condition, None, data)


def _check_empty_names(query: Query) -> Iterator[Diagnostic]:
    """Return a name without letters, which only Python can make."""
    variables_given = [event.variable for event in list_events(query.pattern) if event.variable is not None]
    types = [event.type for event in list_events(query.pattern)]
    if not all((query.name, *types, *variables_given, *query.partition)):
        yield Diagnostic("a name cannot be empty", query.span, query.name, "give it letters")


# Patterns


def _check_parts(query: Query) -> Iterator[Diagnostic]:
    """Find operators without parts, groups that bind nothing, and impossible repetitions."""
    if not events(query.pattern):
        hint = "a match needs at least one event outside NOT and NEG"
        yield Diagnostic("this pattern can bind no event", query.pattern.span or query.span, query.name, hint)
        return
    for part in _subpatterns(query.pattern):
        match part:
            case Seq(parts) | And(parts) | Or(parts) if not parts:
                yield Diagnostic("an operator needs at least one part", part.span, query.name, "as in SEQ(A, B)")
            case Seq(parts) | And(parts) if not events(part):
                hint = "write it without brackets, as a part of the SEQ around it"
                yield Diagnostic("this group binds no event", part.span, query.name, hint)
            case Repeat(_, low, high) if low < 0 or (high is not None and high < 1):
                message = "a repetition needs room for at least one event"
                yield Diagnostic(message, part.span, query.name, "as in A{1,3}")
            case Repeat(_, low, high) if high is not None and low > high:
                hint = f"did you mean {{{high},{low}}}?"
                yield Diagnostic(f"at least {low} cannot be more than at most {high}", part.span, query.name, hint)


def _check_absences(query: Query) -> Iterator[Diagnostic]:
    """Return where NOT and NEG may stand."""
    yield from _check_placement(query.pattern, (), query)
    for part in _subpatterns(query.pattern):
        if isinstance(part, And):
            for absence in find_open_absences(part):
                if any(absence is direct for direct in part.parts):
                    continue  # misplaced anyway
                hint = "as in AND(SEQ(A, NOT N, B), C)"
                message = "in a part of an AND, NOT needs an event that is always bound before it and one after it"
                yield Diagnostic(message, absence.span, query.name, hint)


def _check_placement(pattern: Pattern, above: tuple[Pattern, ...], query: Query) -> Iterator[Diagnostic]:
    parent = above[-1] if above else None
    match pattern:
        case Not() if parent is not None and not isinstance(parent, Seq):
            message = "NOT can only stand as a part of a SEQ"
            hint = "to forbid an event whatever the order, write NEG(E)" if isinstance(parent, And) else None
            yield Diagnostic(message, pattern.span, query.name, hint)
        case Neg() if parent is not None and not isinstance(parent, Seq | And):
            message = "NEG can only stand as a part of a SEQ or an AND"
            yield Diagnostic(message, pattern.span, query.name, "as in SEQ(A, B, NEG(N))")
        case Neg() if any(isinstance(ancestor, Or | Repeat) for ancestor in above):
            message = "NEG cannot stand under an OR or a repetition: it holds for the whole match"
            yield Diagnostic(message, pattern.span, query.name, "write it once, as in SEQ(OR(A, B)+, NEG(N))")
    if not isinstance(pattern, Not | Neg):
        for part in children(pattern):
            yield from _check_placement(part, (*above, pattern), query)


def _subpatterns(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    for part in children(pattern):
        yield from _subpatterns(part)


def _check_variable_names(query: Query) -> Iterator[Diagnostic]:
    """Return a variable names one event, and is not also the type of another."""
    seen: set[str] = set()
    all_events = list_events(query.pattern)
    for event in all_events:
        variable = event.variable
        if variable is None:
            continue
        if variable in seen:
            message = f"there are two events called '{variable}'"
            yield Diagnostic(message, event.span, query.name, "give each a variable of its own")
        elif any(other.type == variable for other in all_events if other is not event):
            message = f"'{variable}' is a variable here and also the type of another event"
            yield Diagnostic(message, event.span, query.name, "choose another variable")
        seen.add(variable)


# Conditions


def _check_conditions(query: Query, data: DataDescription) -> Iterator[Diagnostic]:
    for condition in query.conditions:
        yield from _check_event_names(condition, query)
        yield from _check_next(condition, query)
        if not variables(condition):
            yield Diagnostic("this condition is about no event", condition.span, query.name, "as in a.price > 10")
        elif infer_kind(condition, data.columns) not in ("boolean", None):
            yield Diagnostic("this is a value, not a condition", condition.span, query.name, "compare it")
        yield from _check_columns(condition, query, data)
        yield from _check_kinds(condition, query, data)


def _check_event_names(expression: Expression, query: Query) -> Iterator[Diagnostic]:
    """Return every variable of an expression must stand for one event of the pattern."""
    forbidden = _forbidden_names(query)
    for node in walk(expression):
        if not isinstance(node, Attribute | KleeneAggregate):
            continue
        if isinstance(node, KleeneAggregate):
            yield from _check_aggregate_form(node, KLEENE_FUNCTIONS, query)
        meant = find_events(query.pattern, node.variable)
        if not meant:
            if not _is_missing_event(node, query):
                yield _undefined(node.variable, query, node.span)
        elif len(meant) > 1:
            yield from _ambiguous(node.variable, query, node.span)
        elif meant[0].name in forbidden:
            if isinstance(node, KleeneAggregate):
                yield _under_not(node.function, node.variable, query, node.span)
            elif node.at != At.EACH:
                yield _under_not(node.at.upper(), node.variable, query, node.span)


def _check_next(condition: Expression, query: Query) -> Iterator[Diagnostic]:
    found = [node for node in walk(condition) if isinstance(node, Attribute) and node.at == At.NEXT]
    for node in found:
        meant = find_events(query.pattern, node.variable)
        if len(meant) == 1 and meant[0].name not in repeated_names(query.pattern) | _forbidden_names(query):
            message = f"'{node.variable}' is bound only once, so it has no NEXT"
            yield Diagnostic(message, node.span, query.name, f"repeat it in the pattern, as in {meant[0].type}+")
    if len({node.variable for node in found}) > 1:
        message = "a condition can speak of NEXT of one variable only"
        yield Diagnostic(message, condition.span, query.name, "write two conditions")


def _forbidden_names(query: Query) -> frozenset[str]:
    """Return the names of the events under NOT and NEG."""
    return frozenset(absence.event.name for absence in absences(query.pattern))


def _undefined(name: str, query: Query, span: Span | None) -> Diagnostic:
    known = {name for event in list_events(query.pattern) for name in (event.name, event.type)}
    return Diagnostic(f"the pattern has no event '{name}'", span, query.name, did_you_mean(name, known))


def _ambiguous(name: str, query: Query, span: Span | None) -> Iterator[Diagnostic]:
    if any(event.variable == name for event in list_events(query.pattern)):
        return  # a variable that is given twice is reported as such
    hint = f"give the one you mean a variable, as in {name} x, and write x here"
    yield Diagnostic(f"the pattern has several events of type '{name}'", span, query.name, hint)


def _under_not(function: str, name: str, query: Query, span: Span | None) -> Diagnostic:
    message = f"{function} of '{name}' means nothing: no match binds an event under NOT"
    return Diagnostic(message, span, query.name, f"write {name}.attribute for each such event")


def _check_columns(expression: Expression, query: Query | None, data: DataDescription) -> Iterator[Diagnostic]:
    for node in walk(expression):
        if isinstance(node, Attribute | KleeneAggregate) and node.name is not None:
            yield from _check_column(node.name, node.span, query, data)


def _check_column(name: str, span: Span | None, query: Query | None, data: DataDescription) -> Iterator[Diagnostic]:
    if data.columns is not None and name not in data.columns:
        hint = did_you_mean(name, data.columns)
        yield Diagnostic(f"the data has no column '{name}'", span, query.name if query else None, hint)


def _check_kinds(expression: Expression, query: Query | None, data: DataDescription) -> Iterator[Diagnostic]:
    for misfit in find_misfits(expression, data.columns):
        place = misfit.node.span or expression.span
        yield Diagnostic(misfit.message, place, query.name if query else None, misfit.hint, misfit.warning)


def _check_partition(query: Query, data: DataDescription) -> Iterator[Diagnostic]:
    """Return the attributes of GROUP BY and [attribute] must be columns."""
    for name in query.partition:
        yield from _check_column(name, query.find_place(name), query, data)


# Results


def _check_returns(query: Query, data: DataDescription) -> Iterator[Diagnostic]:
    if not any(not isinstance(item, GroupKey) for item in query.returns):
        yield Diagnostic("RETURN needs an aggregate, variables or *", query.span, query.name, "as in RETURN COUNT(*)")
    asks_matches = next((item for item in query.returns if _returns_matches(item, query)), None)
    for item in query.returns:
        match item:
            case Aggregate():
                yield from _check_aggregate(item, query, data)
            case Variable():
                yield from _check_returned_variable(item, query)
            case Computed(expression):
                yield from _check_computed(expression, query, data)
            case GroupKey(name) if name not in query.group_by:
                hint = did_you_mean(name, query.group_by)
                yield Diagnostic(f"'{name}' is not in GROUP BY", item.span, query.name, hint)
    if asks_matches is not None and query.aggregates:
        aggregate = query.aggregates[0]
        plain = replace(aggregate, alias=None).label
        yield Diagnostic(
            "RETURN asks for matches and for aggregates over all of them",
            aggregate.span or asks_matches.span,
            query.name,
            f"return one or the other; in brackets, ({plain}) AS {aggregate.alias or 'value'}, it is over each match",
        )


def _returns_matches(item: ReturnItem, query: Query) -> bool:
    match item:
        case AllVariables() | Computed():
            return True
        case Variable(name):
            return bool(find_events(query.pattern, name))
    return False


def _check_aggregate_form(
    item: Aggregate | KleeneAggregate, functions: Collection[str], query: Query
) -> Iterator[Diagnostic]:
    if item.function not in functions:
        hint = f"known here: {', '.join(functions)}"
        yield Diagnostic(f"the aggregate '{item.function}' cannot be used here", item.span, query.name, hint)
    elif _is_missing_event(item, query):
        message = f"{item.function}({item.variable}) does not say of which event"
        hint = f"as in {item.function}({events(query.pattern)[-1].name}.{item.variable})"
        yield Diagnostic(message, item.span, query.name, hint)
    elif item.name is None and item.function != "COUNT":
        hint = f"as in {item.function}({item.variable or 'E'}.price)"
        yield Diagnostic(f"{item.function} needs an attribute", item.span, query.name, hint)


def _is_missing_event(item: Attribute | Aggregate | KleeneAggregate, query: Query) -> bool:
    """Return whether an aggregate names a column where an event is expected: `SUM(price)`."""
    if isinstance(item, Attribute) or item.name is not None or item.function == "COUNT" or item.variable is None:
        return False
    return bool(events(query.pattern)) and not find_events(query.pattern, item.variable)


def _check_aggregate(item: Aggregate, query: Query, data: DataDescription) -> Iterator[Diagnostic]:
    yield from _check_aggregate_form(item, AGGREGATE_FUNCTIONS, query)
    if item.variable is not None:
        meant = find_events(query.pattern, item.variable)
        if not meant:
            if not _is_missing_event(item, query):
                yield _undefined(item.variable, query, item.span)
        elif not any(event in events(query.pattern) for event in meant):
            yield _under_not(item.function, item.variable, query, item.span)
    if item.name is not None:
        yield from _check_column(item.name, item.span, query, data)
    message = find_aggregate_misfit(item, data.columns)
    if message is not None:
        hint = "COUNT takes any column, MIN and MAX take texts, times and numbers"
        yield Diagnostic(message, item.span, query.name, hint)


def _check_returned_variable(item: Variable, query: Query) -> Iterator[Diagnostic]:
    meant = find_events(query.pattern, item.name)
    if len(meant) > 1:
        yield from _ambiguous(item.name, query, item.span)
    elif not meant:
        known = {*(event.name for event in events(query.pattern)), *query.group_by}
        message = f"'{item.name}' is neither an event of the pattern nor in GROUP BY"
        function = item.name.upper()
        hint = f"write {function}({'*' if function == 'COUNT' else 'E.price'})"
        if function not in AGGREGATE_FUNCTIONS:
            hint = did_you_mean(item.name, known) or "as in RETURN COUNT(*)"
        yield Diagnostic(message, item.span, query.name, hint)
    elif meant[0].name in _forbidden_names(query):
        hint = "return an event that a match binds"
        yield Diagnostic(f"no match binds '{item.name}': it is under NOT", item.span, query.name, hint)


def _check_computed(expression: Expression, query: Query, data: DataDescription) -> Iterator[Diagnostic]:
    yield from _check_event_names(expression, query)
    for node in walk(expression):
        if not isinstance(node, Attribute):
            continue
        name = node.variable
        if node.at == At.NEXT:
            hint = f"return FIRST({name}).{node.name} or LAST({name}).{node.name}"
            yield Diagnostic("NEXT can only be used in WHERE", node.span, query.name, hint)
        elif name in _forbidden_names(query):
            hint = "return an event that a match binds"
            yield Diagnostic(f"no match binds '{name}': it is under NOT", node.span, query.name, hint)
        elif node.at == At.EACH and name in repeated_names(query.pattern):
            hint = f"as in FIRST({name}).{node.name}, LAST({name}).{node.name} or (AVG({name}.{node.name}))"
            message = f"a match may bind several events to '{name}': say which one"
            yield Diagnostic(message, node.span, query.name, hint)
    yield from _check_columns(expression, query, data)
    yield from _check_kinds(expression, query, data)


@dataclass(frozen=True, slots=True)
class _ResultLabel:
    """A column of the result: what asks for it, and what it holds (None where that is not known)."""

    label: str
    meaning: str | None
    query: Query
    span: Span | None


def _check_labels(workload: Workload, data: DataDescription) -> Iterator[Diagnostic]:
    """Find columns of the result that two things would share."""
    groups = {name for query in workload.queries for name in query.group_by}
    own = frozenset().union(*(_fixed_columns(query) for query in workload.queries))
    meanings: dict[str, _ResultLabel] = {}
    for query in workload.queries:
        for name in query.group_by:
            if name in own:
                message = f"results have a column '{name}' of their own, so GROUP BY cannot add one"
                yield Diagnostic(message, query.find_place(name), query.name, "rename this column of the data")
        columns = list(_list_columns(query, data))
        counts = Counter(column.label for column in columns)
        for column in columns:
            if counts.pop(column.label, 1) > 1:
                message = f"two results of this query are called '{column.label}'"
                yield Diagnostic(message, column.span, query.name, "name one of them with AS")
            if column.label in own:
                message = f"results have a column '{column.label}' of their own"
                yield Diagnostic(message, column.span, query.name, "choose another name with AS, or another variable")
            elif column.label in groups:
                message = f"'{column.label}' is also a GROUP BY attribute, and results have one column of a name"
                yield Diagnostic(message, column.span, query.name, "choose another name with AS, or another variable")
            first = meanings.setdefault(column.label, column)
            known = first.query is not query and None not in (first.meaning, column.meaning)
            if known and first.meaning != column.meaning:
                message = f"'{column.label}' is {column.meaning} here and {first.meaning} in query {first.query.name}"
                yield Diagnostic(message, column.span, query.name, "results have one column of a name: use AS")


def _fixed_columns(query: Query) -> frozenset[str]:
    return AGGREGATE_COLUMNS if query.is_aggregate else MATCH_COLUMNS


def _list_columns(query: Query, data: DataDescription) -> Iterator[_ResultLabel]:
    """Return the columns that RETURN asks for. Events of one type without variables share theirs."""
    for item in query.returns:
        span = item.span or query.span
        match item:
            case Aggregate(function, _, name):
                kind = infer_aggregate_kind(function, name, data.columns)
                yield _ResultLabel(item.label, kind and f"an aggregate ({kind})", query, span)
            case Variable():
                yield _ResultLabel(item.label, "an event", query, span)
            case Computed(expression):
                kind = infer_kind(expression, data.columns)
                yield _ResultLabel(item.label, kind and f"a computed value ({kind})", query, span)
            case AllVariables():
                for name in dict.fromkeys(event.name for event in events(query.pattern)):
                    yield _ResultLabel(name, "an event", query, span)


# Windows


def _check_window(query: Query, data: DataDescription) -> Iterator[Diagnostic]:
    match query.window:
        case None:
            message = "without WITHIN the whole input is one window"
            yield Diagnostic(message, query.span, query.name, "add WITHIN to run on an endless stream", warning=True)
        case CountWindow(size, span=span):
            yield from _check_length(size, "WITHIN", span, query)
            yield from _check_count_window(query)
        case TimeWindow(size, slide, ticks, span=span):
            yield from _check_length(size, "WITHIN", span, query)
            if slide is not None:
                yield from _check_length(slide, "SLIDE", span, query)
                if slide > size > 0:
                    message = "SLIDE is longer than WITHIN: what happens between two windows is never seen"
                    yield Diagnostic(message, span, query.name, warning=True)
            if ticks and data.columns is not None and data.columns.get(data.time) == "time":
                message = f"this window has no unit, and '{data.time}' holds timestamps"
                yield Diagnostic(message, span, query.name, f"as in WITHIN {size} s")


def _check_length(amount: int, clause: str, span: Span | None, query: Query) -> Iterator[Diagnostic]:
    if amount <= 0:
        yield Diagnostic(f"{clause} must be more than zero", span, query.name, f"as in {clause} 10 min")
    elif amount > _MAX_LENGTH:
        hint = "leave out WITHIN for all of the input"
        yield Diagnostic(f"{clause} is too long", span, query.name, hint)


def _check_count_window(query: Query) -> Iterator[Diagnostic]:
    """Return what waits for the end of a window needs one that ends by itself."""
    for absence in absences(query.pattern):
        if isinstance(absence, Neg):
            message = "NEG needs a window of time, not of EVENTS"
            yield Diagnostic(message, absence.span, query.name, "as in WITHIN 10 min")
    for absence in find_open_absences(query.pattern):
        message = "a NOT with nothing bound before or after it needs a window of time, not of EVENTS"
        yield Diagnostic(message, absence.span, query.name, "as in WITHIN 10 min")


# The data


def _check_data_columns(data: DataDescription) -> Iterator[Diagnostic]:
    """Return the time and type columns must be there and hold times and types."""
    if data.columns is None:
        return
    for name, role, kinds in (
        (data.time, "time", ("time", "integer", "other")),
        (data.type, "type", ("text", "other")),
    ):
        kind = data.columns.get(name)
        if kind is None:
            hint = did_you_mean(name, data.columns)
            yield Diagnostic(f"the data has no column '{name}' for the {role} of events", hint=hint)
        elif kind not in kinds:
            wanted = "timestamps or whole numbers" if role == "time" else "texts"
            message = f"the {role} of events must be {wanted}: column '{name}' is {_with_article(kind)} column"
            yield Diagnostic(message, hint=f"name another column with --{role} or {role}=")


def _check_types(workload: Workload, data: DataDescription) -> Iterator[Diagnostic]:
    """Return a type that the data does not have matches nothing: said once for each place, never passed over."""
    if data.types is None:
        return
    known = {*data.types, *(definition.name for definition in workload.definitions)}
    for query in workload.queries:
        for event in list_events(query.pattern):
            if event.type not in known:
                message = f"the data has no events of type '{event.type}'"
                hint = did_you_mean(event.type, known)
                yield Diagnostic(message, event.span or query.span, query.name, hint, warning=True)
