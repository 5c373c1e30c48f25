"""What growth costs: CPU times of alternatives measured beside each other, of which tests compare ratios."""

from __future__ import annotations

import time
from collections.abc import Callable


def measure_cpu_times(*actions: Callable[[], object], rounds: int = 5) -> list[float]:
    """Give the least CPU time of each action, in turn so that all meet the same conditions."""
    best = [float("inf")] * len(actions)
    for _ in range(rounds):
        for at, act in enumerate(actions):
            began = time.process_time()
            act()
            best[at] = min(best[at], time.process_time() - began)
    return best
