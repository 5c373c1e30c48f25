"""The multi-pattern graph: what patterns have in common, in two tables, with patterns coming and going."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.optimizer.multitree.graph import MultiPatternGraph, PatternIndex
from motet.optimizer.multitree.local_plans import subtrees, tree_bits
from motet.optimizer.multitree.patterns import KeyedPattern, Numbering, find_maximal_common
from motet.plans.detect.build import JoinSpec, JoinTree, PlanBuilder
from motet.plans.detect.partial_orders import items_of
from tests.optimizer.patterns import all_trees, parts_of, patterns_of, types

ANY = "a.x < 0 OR b.x < 0 OR c.x < 0"


def common(one: str, other: str, smallest: int = 2) -> set[str]:
    first, second = patterns_of(one, other)
    found = find_maximal_common(first, second, smallest)
    assert all(types(first, ours) == types(second, theirs) for ours, theirs in found)
    return {types(first, ours) for ours, _ in found}


def seq(letters: str, condition: str, operator: str = "SEQ") -> str:
    return f"{operator}({', '.join(f'{letter} {letter.lower()}' for letter in letters)}) WHERE {condition} WITHIN 10 s"


def test_section_4_1() -> None:
    # A condition between first and last keeps the patterns from being walked as one graph.
    one, other = seq("ABCD", "a.x < d.x"), seq("AECD", "a.x < d.x").replace("10 s", "20 s")
    assert common(one, other) == {"ACD"}
    first, second = patterns_of(one, other)
    graph = MultiPatternGraph([first, second])
    ((key, having),) = graph.sharers.items()
    assert {types(graph.patterns[n], bits) for n, found in having.items() for bits in found} == {"ACD"}
    subsets = {types(first, a | b) for a, b in combinations([1, 4, 8], 2)}
    assert subsets == {"AC", "AD", "CD"}
    assert all(1 in graph.find_containing(0, a | b) for a, b in combinations([1, 4, 8], 2))
    assert graph.shared == {0: {key}, 1: {key}}


def test_appendix_a_conditions_that_conflict_reduce_what_is_common() -> None:
    one = "AND(A a, B b, C c) WHERE a.x < 10 AND b.x < c.x WITHIN 5 s"
    other = "AND(A a, D d, C c) WHERE a.x >= 10 AND d.x < c.x WITHIN 5 s"
    assert common(one, other, smallest=1) == {"C"}
    assert common(one, other) == set()


def test_appendix_a_several_maximal_common_sub_patterns() -> None:
    one, other = seq("ABC", "a.x < 5 AND (b.x < c.x OR b.x > c.x + 9)"), seq("ACB", "a.x < 5 AND b.y < c.y")
    assert common(one, other) == {"AB", "AC"}


def test_figure_7_a_pattern_within_another() -> None:
    whole, part = patterns_of(seq("ABCD", "a.x < b.x"), seq("ABD", "a.x < b.x"))
    assert [types(whole, ours) for ours, _ in find_maximal_common(whole, part)] == ["ABD"]


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (seq("ABC", "a.x < b.x"), seq("ABD", "a.x < b.x + 1"), set()),
        (seq("ABC", "a.x < b.x"), seq("ABC", "a.x < b.x", "AND"), set()),
        ("SEQ(A a, NOT N, B b, C c) WHERE b.x < c.x", "SEQ(A a, B b, C c) WHERE b.x < c.x", {"AC", "BC"}),
        ("SEQ(A a, B+ b, C c) WHERE a.x < c.x", "SEQ(A a, D d, B+ b, C c) WHERE a.x < c.x", {"A+C"}),
        (seq("ABC", "a.x + b.x < c.x"), seq("ABC", "a.x + b.x < c.x + 1"), {"AB", "AC", "BC"}),
        ("SEQ(A u, A v, B b) WHERE u.x < b.x", "SEQ(A u, B b, A v) WHERE u.x < b.x", {"AB", "AA"}),
    ],
    ids=["constant", "operator", "absence", "loop", "test of three", "a type twice"],
)
def test_what_is_the_same_and_what_is_not(one: str, other: str, found: set[str]) -> None:
    assert common(one, other) == found


def nodes_by_part(parts: JoinSpec, tree: JoinTree) -> dict[int, object]:
    """The node of each part of a tree, as the engine would have it."""
    builder = PlanBuilder(lambda _: tree)
    return {tree_bits(each): builder._build_tree(each, parts)[0] for each in subtrees(tree)}


LETTERS = st.lists(st.sampled_from("ABC"), min_size=3, max_size=4)


@st.composite
def texts(draw: st.DrawFn) -> str:
    events = draw(LETTERS)
    shape = draw(st.sampled_from(["SEQ", "AND", "SEQ", "NOT"]))
    names = [f"{letter} v{at}" for at, letter in enumerate(events)]
    if shape == "NOT":
        names.insert(draw(st.integers(1, len(names) - 1)), "NOT N")
    pairs = draw(st.lists(st.sampled_from(list(combinations(range(len(events)), 2))), min_size=1, max_size=3))
    conditions = " AND ".join(f"v{a}.x {draw(st.sampled_from('<>'))} v{b}.x" for a, b in pairs)
    return f"{shape.replace('NOT', 'SEQ')}({', '.join(names)}) WHERE {conditions} WITHIN 5 s"


@given(one=texts(), other=texts(), rng=st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_keys_are_equal_just_where_nodes_are(one: str, other: str, rng: random.Random) -> None:
    found = parts_of(one, other)
    vocabulary = Numbering()
    made = []
    for parts in found:
        pattern = KeyedPattern(parts, vocabulary)
        for tree in rng.sample(list(all_trees(tuple(range(len(parts.items))))), 3):
            made += [(pattern.key(bits), node) for bits, node in nodes_by_part(parts, tree).items()]
    for (key, node), (other_key, other_node) in combinations(made, 2):
        assert (key == other_key) == (node == other_node)


@given(queries=st.lists(texts(), min_size=2, max_size=5))
@settings(max_examples=20)
def test_whoever_contains_a_part_is_found(queries: list[str]) -> None:
    vocabulary = Numbering()
    patterns = [KeyedPattern(parts, vocabulary) for parts in parts_of(*queries)]
    graph = MultiPatternGraph(patterns)
    for number, pattern in enumerate(patterns):
        for bits in (bits for bits in range(1, pattern.all + 1) if bits.bit_count() > 1):
            having = {
                peer
                for peer, other in enumerate(patterns)
                if any(other.key(each) == pattern.key(bits) for each in range(1, other.all + 1))
            }
            assert set(graph.find_containing(number, bits)) == having, items_of(bits)


@given(queries=st.lists(texts(), min_size=2, max_size=6, unique=True), rng=st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_patterns_come_and_go_as_if_the_rest_had_been_there_alone(queries: list[str], rng: random.Random) -> None:
    vocabulary = Numbering()
    patterns = [KeyedPattern(parts, vocabulary) for parts in parts_of(*queries)]
    graph, there = MultiPatternGraph(), dict[int, KeyedPattern]()
    for _ in range(2 * len(patterns)):
        missing = [pattern for pattern in patterns if pattern not in there.values()]
        if there and (not missing or rng.random() < 0.4):
            number = rng.choice(sorted(there))
            graph.remove(number)
            del there[number]
        else:
            pattern = rng.choice(missing)
            there[graph.add(pattern)] = pattern
        numbers = sorted(there)
        anew = MultiPatternGraph([there[number] for number in numbers])
        place = dict(zip(numbers, range(len(numbers)), strict=True))
        assert {place[number]: keys for number, keys in graph.shared.items()} == anew.shared
        assert {
            key: {place[number]: parts for number, parts in having.items()} for key, having in graph.sharers.items()
        } == anew.sharers


def test_the_index_of_a_plan_is_updated() -> None:
    first, second, third = parts_of(seq("ABC", "a.x < b.x"), seq("ABD", "a.x < b.x"), seq("ABE", "a.x < b.x"))
    index = PatternIndex()
    kept = index.update([first, second])[second]
    graph = index.graph
    assert index.update([second, third])[second] == kept
    assert index.graph is graph
    assert {pattern.spec for pattern in graph.patterns.values()} == {second, third}
    index.update([first])  # more have gone than are there
    assert [pattern.spec for pattern in index.graph.patterns.values()] == [first]
