"""The random streams and workloads cover what they should, and result tables are compared as they should."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from motet.model.expression import variables
from motet.model.query import Policy, Query, Workload
from motet.reference import evaluate
from motet.reference.conditions import sort_conditions
from motet.reference.positions import expand_pattern
from motet.reference.tables import run_table
from tests.comparison import assert_same_results
from tests.strategies import FEATURES, build_stream_table, detection_queries, list_features, streams, workloads


def test_workloads_cover_every_feature_and_often_match() -> None:
    seen: Counter[str] = Counter()
    rows: Counter[bool] = Counter()

    @settings(
        max_examples=40, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(streams(), workloads(min_queries=10, max_queries=10, detection=True, skips=True))
    def look(stream: list[dict[str, Any]], workload: Workload) -> None:
        result = evaluate(workload, stream)
        for query in workload.queries:
            seen.update(list_features(query))
            rows[bool(result.of(query.name))] += 1
        seen.update(["null time or type"] if result.invalid_rows else [])
        seen.update(["definitions"] if workload.definitions else [])
        seen.update(["empty"] if not stream else [])

    # One long run would be made of variations of a few examples.
    for number in range(5):
        seed(number)(look)()
    wanted = FEATURES - {"a type of its own"} | {"null time or type", "definitions", "empty"}
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
