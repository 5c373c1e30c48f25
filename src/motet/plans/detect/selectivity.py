"""Name the conditions whose selectivity plans need, alone and jointly, and guess it where it is not known."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from motet.model import expression as ex
from motet.model.names import rename_variables
from motet.plans.detect.build import JoinSpec, sort_texts
from motet.plans.detect.nodes import LeafNode
from motet.plans.detect.partial_orders import Bits, bits_of
from motet.template.symbols import Symbol

# A test over variables "0", "1", ... and the symbol of each.
TypedTest = tuple[ex.Expression, tuple[Symbol, ...]]
# Of a pattern whose conditions connect very many sets of its items, so many sets are looked at, small ones first.
MOST_GROUPS = 128
CACHE_SIZE = 1 << 14  # what tests are called is asked for again and again


def make_typed_test(test: ex.Expression, symbols: Mapping[str, Symbol]) -> TypedTest:
    """Assign numbers to the variables of a test, in the order it names them, and list the symbol of each."""
    numbered, names = _number_variables(test)
    return numbered, tuple(symbols[name] for name in names)


@lru_cache(maxsize=CACHE_SIZE)
def _number_variables(test: ex.Expression) -> tuple[ex.Expression, tuple[str, ...]]:
    """Return a test with numbers for its variables, and those variables."""
    names = tuple(dict.fromkeys(attribute.variable for attribute in ex.attributes(test)))
    return rename_variables(test, {name: str(at) for at, name in enumerate(names)}), names


def make_joint_test(tests: Sequence[ex.Expression], symbols: Mapping[str, Symbol]) -> TypedTest:
    """Combine tests into one, the same in whatever order they are given."""
    ordered = sorted(tests, key=lambda test: _sort_key(test, *(symbols[name] for name in sorted(ex.variables(test)))))
    return make_typed_test(ex.conjoin(ordered), symbols)


@lru_cache(maxsize=CACHE_SIZE)
def _sort_key(test: ex.Expression, *symbols: Symbol) -> tuple[str, str]:
    """Return a sort key for a test that does not depend on the names of its variables."""
    return repr(make_typed_test(test, dict(zip(sorted(ex.variables(test)), symbols, strict=True)))), repr(test)


def symbols_of(spec: JoinSpec) -> dict[str, Symbol]:
    """Map the items that are single events, by their name in tests, to their symbols."""
    return {str(at): item.symbol for at, item in enumerate(spec.items) if isinstance(item, LeafNode)}


def list_tests_to_measure(spec: JoinSpec) -> Iterator[TypedTest]:
    """Yield the tests of two events whose selectivity may be needed: each alone, and jointly for items they connect."""
    symbols = symbols_of(spec)
    tests = [(bits_of(map(int, ex.variables(test))), test) for test in sort_texts(spec.tests)]
    pairs = [(bits, test) for bits, test in tests if bits.bit_count() == 2]
    for group in group_connected([bits for bits, _ in pairs], MOST_GROUPS):
        inside = [test for bits, test in pairs if not bits & ~group]
        if all(name in symbols for test in inside for name in ex.variables(test)):
            yield make_joint_test(inside, symbols)


def group_connected(pairs: Collection[Bits], most: int) -> list[Bits]:
    """Return the sets of items that pairs connect, small ones first, at most `most`."""
    found = dict.fromkeys(pairs)
    layer = list(found)
    while layer and len(found) < most:
        larger = dict.fromkeys(group | pair for group in layer for pair in pairs if group & pair and pair & ~group)
        layer = [group for group in larger if group not in found]
        found |= dict.fromkeys(layer)
    return list(found)[:most]


def group_overlapping(used: Sequence[Bits]) -> list[list[int]]:
    """Group sets of items that have items in common; return the numbers of each group."""
    groups: list[tuple[Bits, list[int]]] = []
    for number, bits in enumerate(used):
        apart = [group for group in groups if not group[0] & bits]
        joined = [group for group in groups if group[0] & bits]
        for items, _ in joined:
            bits |= items
        groups = [*apart, (bits, [*(n for _, numbers in joined for n in numbers), number])]
    return [sorted(numbers) for _, numbers in groups]


def is_equi_join(test: ex.Expression) -> bool:
    """Return whether a test compares two attributes for equality, so that a join can look up what satisfies it."""
    return (
        isinstance(test, ex.Comparison)
        and test.operator == "="
        and isinstance(test.left, ex.Attribute)
        and isinstance(test.right, ex.Attribute)
    )


def guess_selectivity(test: ex.Expression) -> float:
    """Guess the share of events that satisfy a condition of which nothing is known."""
    match test:
        case ex.Comparison("="):
            return 0.1
        case ex.Comparison("!="):
            return 0.9
        case ex.Comparison():
            return 0.4
        case ex.Logical("AND", parts):
            return math.prod(map(guess_selectivity, parts))
        case ex.Logical(_, parts):
            return 1 - math.prod(1 - guess_selectivity(part) for part in parts)
        case ex.Inverse(operand):
            return 1 - guess_selectivity(operand)
        case ex.IsNull(_, negated):
            return 0.9 if negated else 0.1
        case ex.Membership(_, options, negated):
            share = min(0.1 * len(options), 0.9)
            return 1 - share if negated else share
        case ex.Like(_, _, negated):
            return 0.8 if negated else 0.2
    return 0.5
