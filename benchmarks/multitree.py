"""Many patterns over stock-like events: no sharing, each remedy alone, and multi-pattern trees.

python -m benchmarks.multitree
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from motet.language import parse
from motet.model.query import Workload

# The slowest first: all are measured against it.
PLANS = ("none", "share", "reorder", "multitree-prefix", "multitree")


@dataclass(frozen=True)
class Shape:
    """A workload as in the paper's section 6: how many patterns, of how many events, within how long or how many."""

    patterns: int = 100
    size: int = 5
    minutes: int = 15
    rows: int = 0  # where windows count events: how many
    types: int = 25
    seed: int = 1


def stocks(events: int, types: int, seed: int = 7) -> pa.Table:
    """Changes of prices: some stocks trade 23 times as often as others (the paper: 2 to 47 updates a second)."""
    rng = np.random.default_rng(seed)
    weights = np.exp(np.linspace(0, np.log(23.5), types))
    kind = rng.permutation(types)[rng.choice(types, events, p=weights / weights.sum())]
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(0, events * 1_000_000, events)), pa.timestamp("us")),
            "type": pa.array([f"S{at:02}" for at in range(types)]).take(pa.array(kind)),
            "diff": pa.array(rng.normal(0, 1, events)),
        }
    )


def workload_of(shape: Shape) -> Workload:
    """Sequences, and a tenth conjunctions; half as many conditions as events, each between two of them, that hold for
    0.3 to 50 percent of pairs; one pattern in ten with a NOT, one in ten with a repetition.
    """
    rng = np.random.default_rng(shape.seed)
    # Two stocks are compared in the same way wherever they are.
    steps = rng.choice([0.0, 1.0, 2.0, 3.0, 3.8], (shape.types, shape.types), p=[0.05, 0.15, 0.25, 0.25, 0.3])
    texts = []
    for number in range(shape.patterns):
        chosen = [int(at) for at in rng.choice(shape.types, shape.size, replace=False)]
        events = [f"S{at:02} v{at}" for at in chosen]
        compared = list(chosen)
        kind = rng.random()
        if 0.1 <= kind < 0.2:
            looped = int(rng.integers(1, shape.size - 1))
            events[looped] = f"S{chosen[looped]:02}{{1,2}} v{chosen[looped]}"
            compared.remove(chosen[looped])
        elif kind < 0.1:
            events.insert(int(rng.integers(1, shape.size)), f"NOT S{rng.integers(shape.types):02}")
        pairs = [(a, b) for a in sorted(compared) for b in sorted(compared) if a < b]
        wanted = rng.choice(len(pairs), min((shape.size + 1) // 2, len(pairs)), replace=False)
        conditions = [f"v{a}.diff + {steps[a, b]} < v{b}.diff" for a, b in (pairs[at] for at in wanted)]
        window = f"{shape.rows} EVENTS" if shape.rows else f"{shape.minutes} min"
        texts.append(
            f"QUERY q{number}\nRETURN *\nPATTERN {'AND' if kind > 0.9 else 'SEQ'}({', '.join(events)})\n"
            f"WHERE {' AND '.join(conditions)}\nWITHIN {window}"
        )
    return parse("\n\n".join(texts))
