"""Measuring: medians with their spread, ratios turn by turn, powers of growth, and memory of other processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.measure import (
    ChildError,
    Measurement,
    compute_ratio,
    fit_exponent,
    read_tree_cpu,
    read_tree_memory,
    run_interleaved,
    run_module,
)


def test_a_rate_keeps_the_spread_of_the_time() -> None:
    assert Measurement.of([2.0, 1.0, 4.0]).rate(8) == Measurement(4.0, 2.0, 8.0)


def test_a_ratio_is_taken_turn_by_turn() -> None:
    # The second turn was ten times as slow for both.
    assert compute_ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == Measurement(2.0, 2.0, 2.0)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_the_power_of_growth_is_found_again(power: float) -> None:
    sizes = [10.0, 100.0, 1_000.0, 5_000.0]
    assert fit_exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)


def test_cases_take_turns_after_one_round_that_does_not_count() -> None:
    order: list[str] = []
    taken = run_interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 3
    assert {name: len(times) for name, times in taken.items()} == {"a": 2, "b": 2}


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc here")  # noqa: PTH112
def test_memory_counts_what_this_process_holds() -> None:
    held = bytearray(os.urandom(1)) * (64 << 20)
    assert read_tree_memory(os.getpid()) > len(held)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc here")  # noqa: PTH112
def test_cpu_time_counts_children_that_have_ended() -> None:
    before = read_tree_cpu(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(200_000_000))"], check=True)
    assert read_tree_cpu(os.getpid()) - before > 0.2


def test_a_child_that_fails_is_told() -> None:
    with pytest.raises(ChildError, match=r"benchmarks\.child nothing quick 1 ended with status 1"):
        run_module("benchmarks.child", "nothing", "quick", 1)
