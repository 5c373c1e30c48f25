"""Turns the syntax trees of RETURN, WHERE, GROUP BY, WITHIN and the policy into parts of a query."""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token, Tree

from motet.language.durations import EVENTS, TICKS, Length
from motet.language.expressions import is_aggregate, read_aggregate, read_expression
from motet.language.printer import expression_text
from motet.language.syntax import ClauseError, span_of
from motet.model.query import Aggregate, AllVariables, Computed, GroupKey, Policy, ReturnItem, Variable
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
        return Aggregate(*read_aggregate(value), alias, span=span)
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
    """Read the attributes of GROUP BY or of `[...]`, each once, with where they are written first."""
    places: dict[str, Span] = {}
    for path in tree.children:
        if isinstance(path, Tree):
            places.setdefault(_read_plain_name(path), span_of(path))
    return places


def _read_plain_name(path: Tree[Token]) -> str:
    if len(path.children) > 1:
        hint = f"write '{path.children[-1]}': all events of a match agree on it"
        raise ClauseError("an attribute has no variable here", span_of(path), hint)
    return str(path.children[0])


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


def read_policy(token: Token) -> Policy:
    """Read the policy that a token such as `skip-till-next-match` names."""
    word = token.lower()
    if word == "contiguous":
        return Policy.CONTIGUOUS
    return Policy.SKIP_TILL_NEXT if "next" in word else Policy.SKIP_TILL_ANY
