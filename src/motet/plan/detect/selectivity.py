"""How often conditions hold: which of a pattern have to be known together, what they are called, and guesses."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from motet.model.expression import (
    Attribute,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    Like,
    Logical,
    Membership,
    attributes,
    variables,
)
from motet.model.names import renamed
from motet.plan.detect.build import Parts
from motet.plan.detect.nodes import LeafNode
from motet.plan.detect.spans import Bits, bits_of
from motet.template.symbols import Symbol

# A test over variables "0", "1", ... and the symbol of each.
Measured = tuple[Expression, tuple[Symbol, ...]]
# Of a pattern whose conditions connect very many sets of its items, so many sets are looked at, small ones first.
MOST_GROUPS = 128
KEPT = 1 << 14  # what tests are called is asked for again and again


def measured_test(test: Expression, symbols: Mapping[str, Symbol]) -> Measured:
    """A test whatever its variables are called: they are numbered as it speaks of them, each with its symbol."""
    numbered, names = _numbered(test)
    return numbered, tuple(symbols[name] for name in names)


@lru_cache(maxsize=KEPT)
def _numbered(test: Expression) -> tuple[Expression, tuple[str, ...]]:
    """A test with numbers for its variables, and these."""
    names = tuple(dict.fromkeys(attribute.variable for attribute in attributes(test)))
    return renamed(test, {name: str(at) for at, name in enumerate(names)}), names


def measured_together(tests: Sequence[Expression], symbols: Mapping[str, Symbol]) -> Measured:
    """Some tests as one, the same in whatever order they are given."""
    if len(tests) == 1:
        return measured_test(tests[0], symbols)
    ordered = sorted(tests, key=lambda test: _place(test, *(symbols[name] for name in sorted(variables(test)))))
    return measured_test(Logical("AND", tuple(ordered)), symbols)


@lru_cache(maxsize=KEPT)
def _place(test: Expression, *symbols: Symbol) -> tuple[str, str]:
    """Where a test stands among others: by what it asks of which events first, whatever they are called."""
    return repr(measured_test(test, dict(zip(sorted(variables(test)), symbols, strict=True)))), repr(test)


def symbols_of(parts: Parts) -> dict[str, Symbol]:
    """The symbols of those items that are events, by what tests call them."""
    return {str(at): item.symbol for at, item in enumerate(parts.items) if isinstance(item, LeafNode)}


def asked_of(parts: Parts) -> Iterator[Measured]:
    """All that may have to be known of the tests of a pattern between two events: how often each holds, and how often
    all hold within every set of items that they connect.
    """
    symbols = symbols_of(parts)
    tests = [(bits_of(map(int, variables(test))), test) for test in sorted(parts.tests, key=repr)]
    pairs = [(bits, test) for bits, test in tests if bits.bit_count() == 2]
    for group in connected([bits for bits, _ in pairs], MOST_GROUPS):
        inside = [test for bits, test in pairs if not bits & ~group]
        if all(name in symbols for test in inside for name in variables(test)):
            yield measured_together(inside, symbols)


def connected(pairs: Collection[Bits], most: int) -> list[Bits]:
    """Sets of items that pairs connect, small ones first, up to a number."""
    found = dict.fromkeys(pairs)
    layer = list(found)
    while layer and len(found) < most:
        larger = dict.fromkeys(group | pair for group in layer for pair in pairs if group & pair and pair & ~group)
        layer = [group for group in larger if group not in found]
        found |= dict.fromkeys(layer)
    return list(found)[:most]


def grouped(used: Sequence[Bits]) -> list[list[int]]:
    """The numbers of sets of items, put together where they have items in common."""
    groups: list[tuple[Bits, list[int]]] = []
    for number, bits in enumerate(used):
        apart = [group for group in groups if not group[0] & bits]
        joined = [group for group in groups if group[0] & bits]
        for items, _ in joined:
            bits |= items
        groups = [*apart, (bits, [*(n for _, numbers in joined for n in numbers), number])]
    return [sorted(numbers) for _, numbers in groups]


def is_equality(test: Expression) -> bool:
    """Whether a join can look up what satisfies a test."""
    return (
        isinstance(test, Comparison)
        and test.operator == "="
        and isinstance(test.left, Attribute)
        and isinstance(test.right, Attribute)
    )


def guess(test: Expression) -> float:
    """The share of events that satisfy a condition of which nothing is known."""
    match test:
        case Comparison("="):
            return 0.1
        case Comparison("!="):
            return 0.9
        case Comparison():
            return 0.4
        case Logical("AND", parts):
            return math.prod(map(guess, parts))
        case Logical(_, parts):
            return 1 - math.prod(1 - guess(part) for part in parts)
        case Inverse(operand):
            return 1 - guess(operand)
        case IsNull(_, negated):
            return 0.9 if negated else 0.1
        case Membership(_, options, negated):
            share = min(0.1 * len(options), 0.9)
            return 1 - share if negated else share
        case Like(_, _, negated):
            return 0.8 if negated else 0.2
    return 0.5
