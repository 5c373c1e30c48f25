"""Peers answer the question that they are asked: on a slice, what the oracle counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.experiments import peers

PEERS = [solution for solution in peers.SOLUTIONS if not solution.starts_jvm]
SLOW = [solution for solution in peers.SOLUTIONS if solution.starts_jvm]
DIFFERENT = {"chDB, sequenceCount", "Flink SQL MATCH_RECOGNIZE"}  # they ask something else, and are shown as such


def check(solution: peers.Solution, scenario: peers.Scenario, folder: Path) -> None:
    if not solution.python.exists():
        pytest.skip("peers are not installed: make peers")
    small = peers.write_slices(scenario, folder, 60)
    found, why, peak = peers.run_solution(solution, [folder for folder, _ in small.values()], 60)
    assert why == ""
    assert peak >= 0
    judge_answers = peers.judge_answers(found, [answer for _, answer in small.values()])
    expected = {"no"} if solution.title in DIFFERENT else {"yes"}
    # Flink orders by milliseconds and chains rows that tie.
    assert judge_answers in (expected | {"not with ties"} if "Flink" in solution.title else expected)


@pytest.mark.parametrize("solution", PEERS, ids=lambda solution: solution.title)
@pytest.mark.parametrize("scenario", [peers.SCENARIOS[0], peers.SCENARIOS[3]], ids=lambda scenario: scenario.name)
def test_a_peer_is_exact_on_a_slice(solution: peers.Solution, scenario: peers.Scenario, tmp_path: Path) -> None:
    check(solution, scenario, tmp_path)


@pytest.mark.spark
@pytest.mark.skipif(not os.environ.get("MOTET_LONG"), reason="a JVM each: MOTET_LONG=1")
@pytest.mark.parametrize("solution", SLOW, ids=lambda solution: solution.title)
def test_a_peer_with_a_jvm_is_exact_on_a_slice(solution: peers.Solution, tmp_path: Path) -> None:
    check(solution, peers.SCENARIOS[0], tmp_path)


def test_a_peer_that_fails_says_why(tmp_path: Path) -> None:
    solution = peers.Solution("none", "python_solutions.py", "no such way", own_environment=False)
    small = peers.write_slices(peers.SCENARIOS[0], tmp_path, 60)
    found, why, _ = peers.run_solution(solution, [folder for folder, _ in small.values()], 60)
    assert (found, why) == ([], "fails: KeyError: 'no such way'")
