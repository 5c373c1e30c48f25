"""Measure the rates and selectivities that plans are costed with from events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from motet.compile import Program
from motet.compile.detect import DetectBranch
from motet.compile.stated_rates import conditions_to_measure
from motet.engine.detect.event_sample import EventSample
from motet.engine.encode import EncodedEvents, encode_branch
from motet.plans.detect.cost import Rates
from motet.plans.detect.selectivity import TypedTest
from motet.template.symbols import Symbol


def measure_rates(branch: DetectBranch, encoded: EncodedEvents) -> Rates:
    """Count the events of each symbol, and estimate how often conditions hold for events in one window."""
    return replace(count_symbols(encoded), selectivity=_selectivities(branch, encoded))


def count_symbols(encoded: EncodedEvents) -> Rates:
    """Count the events of each symbol."""
    sizes = np.bincount(encoded.klass, minlength=len(encoded.classes))
    counts: dict[Symbol, float] = {}
    for found, size in zip(encoded.classes, sizes, strict=True):
        for symbol in found:
            counts[symbol] = counts.get(symbol, 0.0) + float(size)
    keys = int((np.diff(encoded.offsets) > 0).sum())
    duration = float(encoded.time.max() - encoded.time.min() + 1) if len(encoded.time) else 1.0
    return Rates(counts, duration, max(keys, 1), events=float(len(encoded.time)))


def measure_selectivities(program: Program, table: pa.Table) -> dict[TypedTest, float]:
    """Estimate how often the conditions of all detection queries hold, each and jointly."""
    found: dict[TypedTest, float] = {}
    for branch in program.detect:
        events = table.select(branch.columns)
        encoded = encode_branch(program, branch, events)
        found |= {test: share for test, share in _selectivities(branch, encoded).items() if test not in found}
    return found


def _selectivities(branch: DetectBranch, encoded: EncodedEvents) -> dict[TypedTest, float]:
    """Estimate selectivities in the largest window of the queries."""
    spans = [query.span for query in branch.queries]
    endless = any(span.within == 0 for span in spans)
    within = max((span.within for span in spans if not span.ranked), default=0)
    rows = 0 if within else max((span.within - 1 for span in spans if span.ranked), default=0)
    sample = EventSample(encoded) if endless else EventSample(encoded, within, rows)
    shares = {test: sample.share(test) for test in dict.fromkeys(conditions_to_measure(branch))}
    return {test: share for test, share in shares.items() if share is not None}
