"""Takes the rates and selectivities that plans are costed with from the events at hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from motet.engine.detect.known import conditions_of
from motet.engine.detect.program import DetectBranch
from motet.engine.detect.sample import Sample
from motet.engine.encode import Encoded, encode
from motet.engine.program import Program
from motet.plan.detect.cost import Rates
from motet.plan.detect.selectivity import Measured
from motet.template.symbols import Symbol


def rates_of(branch: DetectBranch, encoded: Encoded) -> Rates:
    """How often each symbol occurs, and how often conditions hold for events that lie in a window together."""
    return replace(counted(encoded), selectivity=_selectivities(branch, encoded))


def counted(encoded: Encoded) -> Rates:
    """How often each symbol occurs."""
    sizes = np.bincount(encoded.klass, minlength=len(encoded.classes))
    counts: dict[Symbol, float] = {}
    for found, size in zip(encoded.classes, sizes, strict=True):
        for symbol in found:
            counts[symbol] = counts.get(symbol, 0.0) + float(size)
    keys = int((np.diff(encoded.offsets) > 0).sum())
    duration = float(encoded.time.max() - encoded.time.min() + 1) if len(encoded.time) else 1.0
    return Rates(counts, duration, max(keys, 1), events=float(len(encoded.time)))


def selectivities(program: Program, table: pa.Table) -> dict[Measured, float]:
    """How often the conditions of all queries that detect hold, each and together, for events in any order of time."""
    found: dict[Measured, float] = {}
    for branch in program.detect:
        events = table.select(branch.columns)
        encoded = encode(events, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)
        found |= {test: share for test, share in _selectivities(branch, encoded).items() if test not in found}
    return found


def _selectivities(branch: DetectBranch, encoded: Encoded) -> dict[Measured, float]:
    """Shares in the largest window that a query has."""
    spans = [query.span for query in branch.queries]
    endless = any(span.within == 0 for span in spans)
    within = max((span.within for span in spans if not span.ranked), default=0)
    rows = 0 if within else max((span.within - 1 for span in spans if span.ranked), default=0)
    sample = Sample(encoded) if endless else Sample(encoded, within, rows)
    shares = {test: sample.share(test) for test in dict.fromkeys(conditions_of(branch))}
    return {test: share for test, share in shares.items() if share is not None}
