"""Sharon's executor (Poppe et al., ICDE 2018, section III): A-Seq's counters, with shared segments by a plan.

The counts of a segment are kept once for each of its START events, whichever queries share it; what a query has before
and after its segments are parts of its own. Parts are combined by snapshots as in chop-connect (`a_seq`), which is what
the paper's equation 5 prices. A query without segments runs by itself: the non-shared method.

Costs: equations 2 to 7 of the paper; see `a_seq`.
"""

from __future__ import annotations

from benchmarks.baselines.a_seq import ASeq, Part
from benchmarks.baselines.prepared import PreparedEvents
from motet.plans.sharing import SharingPlan


def run_plan(prepared: PreparedEvents, plan: SharingPlan) -> ASeq:
    """Run queries by the shared method, as a plan says."""
    return ASeq(prepared, chop_queries(prepared, plan))


def chop_queries(prepared: PreparedEvents, plan: SharingPlan) -> list[list[Part]]:
    """Return the parts of each query: its segments, one tree for each, and the rest, a tree for each stretch."""
    trees = len(plan.segments)
    parts: list[list[Part]] = []
    for number, line in zip(prepared.numbers, prepared.lines, strict=True):
        segments = sorted(
            (offset, tree, len(segment.symbols))
            for tree, segment in enumerate(plan.segments)
            for query, offset in segment.places
            if query == number
        )
        own: list[Part] = []
        at = 0
        for offset, tree, length in [*segments, (len(line.symbols), -1, 0)]:
            if at < offset:
                own.append((trees, at, offset))
                trees += 1
            if length:
                own.append((tree, offset, offset + length))
            at = offset + length
        parts.append(own)
    # Numbers without a part, such as those of segments of other queries, are left out.
    used = {tree: at for at, tree in enumerate(sorted({tree for own in parts for tree, _, _ in own}))}
    return [[(used[tree], a, b) for tree, a, b in own] for own in parts]
