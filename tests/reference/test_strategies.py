"""The random streams and workloads cover what they should, and result tables are compared as they should."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from motet.model.expression import At, attributes, is_local, variables
from motet.model.pattern import Not, Pattern, Seq
from motet.model.query import Policy, Query, Workload
from motet.model.window import CountWindow, TimeWindow
from motet.reference import evaluate
from motet.reference.conditions import is_adjacent, sort_conditions
from motet.reference.positions import expand_pattern
from motet.reference.tables import run_table
from tests.comparison import assert_same_results
from tests.strategies import build_stream_table, detection_queries, list_operators, streams, workloads

REPEATS = {"REPEAT 0,1", "REPEAT 1,", "REPEAT 0,", "REPEAT 2,", "REPEAT 1,2", "REPEAT 2,3", "REPEAT 0,2", "REPEAT 2,2"}


def features(query: Query) -> set[str]:
    """What a query shows, in words."""
    found = list_operators(query.pattern) | {query.policy.value}
    expanded = expand_pattern(query.pattern)
    for condition in query.conditions:
        names = variables(condition)
        if not all(expanded.positions(name) for name in names):
            found.add("condition on an absent event" + ("" if len(names) == 1 else " and a bound one"))
        elif any(attribute.at is At.NEXT for attribute in attributes(condition)):
            found.add("NEXT")
        elif is_local(condition):
            found.add("local")
        else:
            found.add("adjacent" if is_adjacent(condition, expanded) else "pairwise")
    match query.window:
        case TimeWindow(size, slide) if slide is not None:
            found.add("sliding")
            found |= {"slide beyond size"} if slide > size else set()
            found |= {"size not a multiple of slide"} if size % slide else set()
        case TimeWindow():
            found.add("continuous")
        case CountWindow():
            found.add("count")
        case None:
            found.add("whole")
    found |= {"GROUP BY"} if query.group_by else set()
    found |= {"[attr]"} if query.equivalence else set()
    found |= {item.function for item in query.aggregates}
    return found | not_places(query.pattern)


def not_places(pattern: Pattern) -> set[str]:
    match pattern:
        case Seq(parts):
            at = {number for number, part in enumerate(parts) if isinstance(part, Not)}
            places = {"first": 0 in at, "last": len(parts) - 1 in at, "middle": bool(at - {0, len(parts) - 1})}
            return {f"NOT {place}" for place, is_there in places.items() if is_there}
    return set()


def test_workloads_cover_every_feature_and_often_match() -> None:
    seen: Counter[str] = Counter()
    rows: Counter[bool] = Counter()

    @settings(
        max_examples=40, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(streams(), workloads(min_queries=10, max_queries=10, detection=True))
    def look(stream: list[dict[str, Any]], workload: Workload) -> None:
        result = evaluate(workload, stream)
        for query in workload.queries:
            seen.update(features(query))
            rows[bool(result.of(query.name))] += 1
        seen.update(["null time or type"] if result.invalid_rows else [])
        seen.update(["definitions"] if workload.definitions else [])
        seen.update(["empty"] if not stream else [])

    # One long run would be made of variations of a few examples.
    for number in range(5):
        seed(number)(look)()
    wanted = REPEATS | {policy.value for policy in Policy}
    wanted |= {"SEQ", "AND", "OR", "NOT", "NEG", "NOT first", "NOT middle", "NOT last"}
    wanted |= {"local", "NEXT", "adjacent", "pairwise", "condition on an absent event"}
    wanted |= {"condition on an absent event and a bound one", "GROUP BY", "[attr]"}
    wanted |= {"sliding", "slide beyond size", "size not a multiple of slide", "continuous", "count", "whole"}
    wanted |= {"COUNT", "SUM", "AVG", "MIN", "MAX", "VAR", "STDDEV"}
    wanted |= {"null time or type", "definitions", "empty"}
    assert {feature: seen[feature] for feature in wanted if seen[feature] < 3} == {}
    assert rows[True] > sum(rows.values()) / 5


@settings(max_examples=50)
@given(workloads(max_queries=10))
def test_workloads_without_detection_have_only_conditions_the_aggregate_engine_takes(workload: Workload) -> None:
    for query in workload.queries:
        sorted_conditions = sort_conditions(query, expand_pattern(query.pattern))
        assert sorted_conditions.whole == sorted_conditions.adjacent
        assert query.is_aggregate
        assert all(len(variables(c)) == 1 for found in sorted_conditions.absent.values() for c in found)


@settings(max_examples=50)
@given(streams(), workloads(max_queries=6, detection=True))
def test_the_order_of_rows_means_nothing(stream: list[dict[str, Any]], workload: Workload) -> None:
    shuffled = sorted(stream, key=str)
    assert_same_results(
        run_table(workload, build_stream_table(shuffled)), run_table(workload, build_stream_table(stream))
    )


@settings(max_examples=50)
@given(streams(), detection_queries())
def test_policies_only_take_matches_away(stream: list[dict[str, Any]], query: Query) -> None:
    def matches(policy: Policy) -> Counter[str]:
        query_by = Query(
            "q", query.pattern, query.returns, query.conditions, query.equivalence, query.group_by, None, policy
        )
        return Counter(str(row) for row in evaluate(Workload((query_by,)), stream).rows if "match" in row)

    everything = matches(Policy.SKIP_TILL_ANY)
    assert matches(Policy.CONTIGUOUS) <= matches(Policy.SKIP_TILL_NEXT) <= everything


def results(columns: dict[str, list[Any]]) -> pa.Table:
    return pa.table({"query": ["q", "q"], "window_end": [4, 8], **columns})


def test_equal_results_in_another_order_are_the_same() -> None:
    table = results({"COUNT(*)": [1, 2], "AVG(a.x)": [0.1 + 0.2, None]})
    other = results({"COUNT(*)": [1, 2], "AVG(a.x)": [0.3, None]}).take([1, 0])
    assert_same_results(table, other)


@pytest.mark.parametrize(
    ("label", "actual", "expected"),
    [
        ("COUNT(*)", [1, 2], [1, 3]),
        ("COUNT(*)", [1, None], [1, 2]),
        ("SUM(a.x)", [1.0, 0.1 + 0.2], [1.0, 0.3]),
        ("AVG(a.x)", [1.0, 1.0], [1.0, 1.0 + 1e-8]),
    ],
)
def test_a_difference_names_the_query_and_the_row(label: str, actual: list[Any], expected: list[Any]) -> None:
    with pytest.raises(AssertionError, match=r"(?s)query q, window_end 8.*missing.*unexpected"):
        assert_same_results(results({label: actual}), results({label: expected}))


def test_a_row_too_few_or_too_many_is_a_difference() -> None:
    table = results({"COUNT(*)": [1, 1]})
    with pytest.raises(AssertionError, match="missing"):
        assert_same_results(table.slice(0, 1), table)
    with pytest.raises(AssertionError, match="unexpected"):
        assert_same_results(pa.concat_tables([table, table]), table)


def test_other_columns_are_a_difference() -> None:
    with pytest.raises(AssertionError, match="columns differ"):
        assert_same_results(results({"n": [1, 2]}), results({"n": [1.0, 2.0]}))
