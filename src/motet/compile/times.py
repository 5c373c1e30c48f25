"""Turn arithmetic with times and durations into arithmetic with whole numbers, which engines compute with.

A timestamp becomes `MICROSECONDS(v.time)`, a duration a number of microseconds; where it meets a time that is a whole
number, a duration becomes a number of its units. A comparison of two events is arranged so that each side reads one of
them: `b.time - a.time < 5 min` becomes `MICROSECONDS(b.time) < MICROSECONDS(a.time) + 300000000`, which is a condition
between neighbours wherever a plain comparison would be one.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from fractions import Fraction

from motet.model.expression import (
    FLIPPED,
    Arithmetic,
    At,
    Attribute,
    Call,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    KleeneAggregate,
    Literal,
    Logical,
    Membership,
    Negative,
    map_operands,
    walk,
)
from motet.model.kinds import infer_kind, infer_result_kinds
from motet.model.query import Computed, Query, ReturnItem, Workload
from motet.schema import EventSchema

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)

Side = tuple[str, At]  # the event that a term reads


def lower_times(workload: Workload, schema: EventSchema) -> Workload:
    """Return a workload whose expressions compute with numbers where they compute with times or durations."""
    lower = _TimeLowering(schema.kinds(), schema.tick)
    return replace(
        workload,
        queries=tuple(lower.query(query) for query in workload.queries),
        definitions=tuple(
            replace(definition, condition=lower.condition(definition.condition)) for definition in workload.definitions
        ),
    )


def lower_condition(condition: Expression, schema: EventSchema) -> Expression:
    """Return a condition of events that computes with numbers where it computes with times or durations."""
    return _TimeLowering(schema.kinds(), schema.tick).condition(condition)


@dataclass(frozen=True)
class _TimeLowering:
    kinds: dict[str, str]
    tick: int | Fraction  # microseconds of a unit of whole-number times; 0 where times are timestamps

    def query(self, query: Query) -> Query:
        conditions = tuple(map(self.condition, query.conditions))
        having = query.having
        if having is not None:
            having = replace(self, kinds=infer_result_kinds(query, self.kinds)).condition(having)
        return replace(query, conditions=conditions, returns=tuple(map(self.item, query.returns)), having=having)

    def item(self, item: ReturnItem) -> ReturnItem:
        if not isinstance(item, Computed) or not _has_time_arithmetic(item.expression, self.kinds):
            return item
        kind = self._kind(item.expression)
        value = self.number(item.expression)
        function = {"duration": "DURATION", "time": "TIMESTAMP"}.get(str(kind))
        return replace(item, expression=value if function is None else Call(function, (value,), span=value.span))

    def condition(self, expression: Expression) -> Expression:
        if not _has_time_arithmetic(expression, self.kinds):
            return expression
        match expression:
            case Comparison(_, left, right):
                left, right = self._numbers(left, right)
                return _arrange(replace(expression, left=left, right=right))
            case Membership(operand, options):
                operand, *constants = self._numbers(operand, *options)
                known = tuple(each for each in constants if isinstance(each, Literal))
                return replace(expression, operand=operand, options=known)
            case IsNull(operand):
                return replace(expression, operand=self.number(operand))
        return map_operands(expression, self.condition)

    def number(self, expression: Expression) -> Expression:
        """Return the number of microseconds, or of units of whole-number times, that an expression stands for."""
        match expression:
            case Literal(dt.timedelta() as length):
                return replace(expression, value=length // MICROSECOND)
            case Literal(dt.datetime() as moment):
                instant = moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment
                return replace(expression, value=(instant - EPOCH) // MICROSECOND)
            case Attribute() | KleeneAggregate() | Call() if self._kind(expression) == "time":
                return Call("MICROSECONDS", (expression,), span=expression.span)
            case Arithmetic(_, left, right):
                left, right = self._numbers(left, right)
                return replace(expression, left=left, right=right)
            case Call(_, arguments):
                return replace(expression, arguments=tuple(self._numbers(*arguments)))
            case Comparison() | Membership() | IsNull() | Logical() | Inverse():
                return self.condition(expression)
        return map_operands(expression, self.number)

    def _kind(self, expression: Expression) -> str | None:
        return infer_kind(expression, self.kinds)

    def _numbers(self, *met: Expression) -> list[Expression]:
        """Return expressions that meet in an operation as numbers: beside a whole-number time in its units."""
        kinds = list(map(self._kind, met))
        counts = [kind == "duration" and "ticks" in kinds for kind in kinds]
        return [self._units(each) if count else self.number(each) for each, count in zip(met, counts, strict=True)]

    def _units(self, duration: Expression) -> Expression:
        """Return a duration as a number of units of whole-number times."""
        match duration:
            case Literal(dt.timedelta() as length):
                count = Fraction(length // MICROSECOND) / self.tick
                return replace(duration, value=int(count) if count.denominator == 1 else float(count))
            case Arithmetic(_, left, right) if "time" not in (self._kind(left), self._kind(right)):
                left, right = map(self._units_of_part, (left, right))
                return replace(duration, left=left, right=right)
            case Negative() | Call():
                return map_operands(duration, self._units_of_part)
        micros = self.number(duration)
        if self.tick < 1:
            return Arithmetic("*", micros, Literal(int(1 / self.tick)), span=duration.span)
        return Arithmetic("/", micros, Literal(int(self.tick)), span=duration.span)

    def _units_of_part(self, part: Expression) -> Expression:
        return self._units(part) if self._kind(part) == "duration" else self.number(part)


def _has_time_arithmetic(expression: Expression, kinds: dict[str, str]) -> bool:
    for node in walk(expression):
        match node:
            case Literal(dt.timedelta()):
                return True
            case Membership(_, options) if any(isinstance(option.value, dt.timedelta) for option in options):
                return True
            case Arithmetic() | Negative() if infer_kind(node, kinds) in ("time", "duration"):
                return True
    return False


def _arrange(comparison: Comparison) -> Comparison:
    """Return a comparison of sums with what reads the first event on the left and all else on the right.

    Nothing changes where a side is no sum, or where it takes more than two events to know.
    """
    terms = [*_list_terms(comparison.left, 1), *_list_terms(comparison.right, -1)]
    sides = [_find_side(term) for _, term in terms]
    events = list(dict.fromkeys(side for side in sides if side is not None and side != _CONSTANT))
    if None in sides or len(events) != 2:
        return comparison
    left = [(sign, term) for (sign, term), side in zip(terms, sides, strict=True) if side == events[0]]
    right = [(-sign, term) for (sign, term), side in zip(terms, sides, strict=True) if side != events[0]]
    operator = comparison.operator
    if all(sign < 0 for sign, _ in left):
        left, right = [(-sign, term) for sign, term in left], [(-sign, term) for sign, term in right]
        operator = FLIPPED[operator]
    return replace(comparison, operator=operator, left=_add(left), right=_add(right))


_CONSTANT: Side = ("", At.EACH)


def _list_terms(expression: Expression, sign: int) -> list[tuple[int, Expression]]:
    match expression:
        case Arithmetic("+", left, right):
            return [*_list_terms(left, sign), *_list_terms(right, sign)]
        case Arithmetic("-", left, right):
            return [*_list_terms(left, sign), *_list_terms(right, -sign)]
        case Negative(operand):
            return _list_terms(operand, -sign)
    return [(sign, expression)]


def _find_side(term: Expression) -> Side | None:
    """Return the one event that a term reads; None where it reads several."""
    if any(isinstance(node, KleeneAggregate) for node in walk(term)):
        return None
    read = {(node.variable, node.at) for node in walk(term) if isinstance(node, Attribute)}
    return None if len(read) > 1 else next(iter(read), _CONSTANT)


def _add(terms: list[tuple[int, Expression]]) -> Expression:
    """Return the sum of terms, one that is added first."""
    ordered = sorted(terms, key=lambda term: -term[0])
    (sign, total), *rest = ordered
    combined = total if sign > 0 else Negative(total)
    for sign, term in rest:
        combined = Arithmetic("+" if sign > 0 else "-", combined, term)
    return combined
