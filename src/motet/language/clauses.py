"""Turns the syntax trees of RETURN, WHERE, GROUP BY, WITHIN and the policy into parts of a query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lark import Token, Tree

from motet.language.durations import EVENTS, TICKS, Length
from motet.language.expressions import is_aggregate, read_aggregate, read_expression
from motet.language.printer import expression_text
from motet.language.syntax import ClauseError, span_of
from motet.model.expression import At, Attribute
from motet.model.names import find_events
from motet.model.pattern import Pattern
from motet.model.query import AfterMatch, Aggregate, AllVariables, Computed, GroupKey, Policy, ReturnItem, Variable
from motet.model.span import Span
from motet.model.window import CountWindow, TimeWindow, Window


def read_item(tree: Tree[Token], group_by: tuple[str, ...]) -> ReturnItem:
    """Read one item of RETURN."""
    span = span_of(tree)
    if tree.data == "all_variables":
        return AllVariables(span=span)
    value = tree.children[0]
    assert isinstance(value, Tree)
    alias = str(tree.children[-1]) if tree.data == "named" else None
    if is_aggregate(value):
        return replace(read_aggregate(value), alias=alias, span=span)
    if value.data == "name":
        name = str(value.children[0])
        if alias is not None and name in group_by:
            raise ClauseError("a GROUP BY attribute keeps its name in the result", span, f"return '{name}' without AS")
        return resolve_item(name, alias, group_by, span)
    expression = read_expression(value)
    return Computed(expression, expression_text(expression) if alias is None else alias, span=span)


def resolve_item(name: str, alias: str | None, group_by: tuple[str, ...], span: Span | None = None) -> ReturnItem:
    """Resolve what a bare name in RETURN stands for: an attribute of GROUP BY, or else a variable."""
    return GroupKey(name, span=span) if alias is None and name in group_by else Variable(name, alias, span=span)


def resolve_group_keys(
    returns: tuple[ReturnItem, ...], group_by: tuple[str, ...], partition: tuple[str, ...]
) -> tuple[ReturnItem, ...]:
    """Resolve what RETURN says of partition attributes: beside aggregates, `e.attribute` is the value of the group; and
    what looks like an attribute of an event may be a field of a struct.
    """
    has_aggregate = any(isinstance(item, Aggregate) for item in returns)
    resolved: list[ReturnItem] = []
    for item in returns:
        match item:
            case Variable(name, None) if name in group_by:
                resolved.append(GroupKey(name, span=item.span))
            case Computed(Attribute(name, field) as value, alias) if (
                f"{name}.{field}" in group_by and alias == expression_text(value)
            ):
                resolved.append(GroupKey(f"{name}.{field}", span=item.span))
            case Computed(Attribute(_, name, At.EACH) as value, alias) if (
                has_aggregate and name in group_by and alias == expression_text(value)
            ):
                if GroupKey(name) not in resolved:
                    resolved.append(GroupKey(name, span=item.span))
            case Aggregate("COUNT", str() as name, str() as field, distinct=True) if f"{name}.{field}" in partition:
                resolved.append(replace(item, variable=None, name=f"{name}.{field}"))
            case _:
                resolved.append(item)
    return tuple(resolved)


def read_aggregation(tree: Tree[Token], group_by: tuple[str, ...]) -> ReturnItem:
    """Read one item of A-Seq's AGG clause, where `COUNT` alone counts the matches."""
    match tree.children:
        case [Tree(data="name", children=[function])] if str(function).upper() == "COUNT":
            return Aggregate("COUNT", span=span_of(tree))
    item = read_item(tree, group_by)
    if not isinstance(item, Aggregate):
        raise ClauseError("AGG takes aggregates", span_of(tree), "as in AGG COUNT or AGG SUM(E.price)")
    return item


def split_where(tree: Tree[Token]) -> Iterator[Tree[Token]]:
    """Yield the conditions and `[attribute]` entries that a WHERE clause joins by AND and commas."""
    if tree.data in ("where", "conjunction"):
        for part in tree.children:
            if isinstance(part, Tree):
                yield from split_where(part)
    elif tree.data == "parenthesis" and _has_entries(tree):
        inner = tree.children[1]
        assert isinstance(inner, Tree)
        yield from split_where(inner)
    else:
        yield tree


def _has_entries(tree: Tree[Token]) -> bool:
    inner = tree.children[1]
    return isinstance(inner, Tree) and inner.data in ("conjunction", "equivalence", "parenthesis")


def read_names(tree: Tree[Token]) -> dict[str, Span]:
    """Read the attributes of GROUP BY or of `[...]`, each once, with where they are written first.

    An attribute may have the fields of structs after it, and an event before it: see `drop_event`.
    """
    places: dict[str, Span] = {}
    for path in tree.children:
        if isinstance(path, Tree):
            name = ".".join(str(part) for part in path.children if isinstance(part, Token) and part.type == "NAME")
            places.setdefault(name, span_of(path))
    return places


def drop_event(name: str, pattern: Pattern) -> str:
    """Return the attribute that a name of GROUP BY or `[...]` stands for, without the event written before it.

    All events of a match agree on it, so it does not matter which event is named.
    """
    event, dot, attribute = name.partition(".")
    return attribute if dot and find_events(pattern, event) else name


def make_window(within: Length, slide: Length | None) -> Window:
    """Make the window of WITHIN and SLIDE."""
    if within.measure == EVENTS:
        if slide is not None:
            raise ClauseError("a window counted in EVENTS cannot SLIDE", slide.span, "it moves with every event")
        return CountWindow(within.amount, span=within.span)
    if slide is None:
        return TimeWindow(within.amount, None, within.measure == TICKS, span=within.span)
    if slide.measure == EVENTS:
        raise ClauseError("SLIDE cannot be counted in EVENTS", slide.span, "as in SLIDE 1 min")
    if slide.measure != within.measure:
        raise ClauseError(
            "WITHIN and SLIDE must both have a unit or both have none", slide.span, "as in WITHIN 10 min SLIDE 1 min"
        )
    return TimeWindow(within.amount, slide.amount, within.measure == TICKS, span=within.span)


def read_after_match(token: Token) -> AfterMatch:
    """Read what a token such as `AFTER MATCH SKIP TO NEXT ROW` leaves out."""
    return AfterMatch.PAST_LAST_EVENT if "past" in token.lower() else AfterMatch.TO_NEXT_EVENT


def read_policy(token: Token) -> Policy:
    """Read the policy that a token such as `skip-till-next-match` names."""
    word = token.lower()
    if word.endswith("contiguous"):
        return Policy.CONTIGUOUS
    return Policy.SKIP_TILL_NEXT if "next" in word else Policy.SKIP_TILL_ANY
