"""Peers answer the question that they are asked: on a slice, what the oracle counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

peers = pytest.importorskip("benchmarks.peers", reason="only in a checkout")

PEERS = [way for way in peers.WAYS if not way.starts_jvm]
SLOW = [way for way in peers.WAYS if way.starts_jvm]
DIFFERENT = {"chDB, sequenceCount", "Flink SQL MATCH_RECOGNIZE"}  # they ask something else, and are shown as such


def check(way: peers.Way, scenario: peers.Scenario, folder: Path) -> None:
    if not way.python.exists():
        pytest.skip("peers are not installed: make peers")
    small = peers.slices(scenario, folder, 60)
    found, why, peak = peers.asked(way, [folder for folder, _ in small.values()], 60)
    assert why == ""
    assert peak >= 0
    verdict = peers.verdict(found, [answer for _, answer in small.values()])
    expected = {"no"} if way.title in DIFFERENT else {"yes"}
    # Flink orders by milliseconds and chains rows that tie.
    assert verdict in (expected | {"not with ties"} if "Flink" in way.title else expected)


@pytest.mark.parametrize("way", PEERS, ids=lambda way: way.title)
@pytest.mark.parametrize("scenario", [peers.SCENARIOS[0], peers.SCENARIOS[3]], ids=lambda scenario: scenario.name)
def test_a_peer_is_exact_on_a_slice(way: peers.Way, scenario: peers.Scenario, tmp_path: Path) -> None:
    check(way, scenario, tmp_path)


@pytest.mark.spark
@pytest.mark.skipif(not os.environ.get("MOTET_LONG"), reason="a JVM each: MOTET_LONG=1")
@pytest.mark.parametrize("way", SLOW, ids=lambda way: way.title)
def test_a_peer_with_a_jvm_is_exact_on_a_slice(way: peers.Way, tmp_path: Path) -> None:
    check(way, peers.SCENARIOS[0], tmp_path)


def test_a_peer_that_fails_says_why(tmp_path: Path) -> None:
    way = peers.Way("none", "python_ways.py", "no such way", own_environment=False)
    small = peers.slices(peers.SCENARIOS[0], tmp_path, 60)
    found, why, _ = peers.asked(way, [folder for folder, _ in small.values()], 60)
    assert (found, why) == ([], "fails: KeyError: 'no such way'")
