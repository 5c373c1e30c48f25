"""Takes the rates and selectivities that plans are costed with from the events at hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from motet.engine.detect.program import DetectBranch
from motet.engine.encode import Encoded
from motet.engine.expressions import holds
from motet.model.expression import At, Attribute, Expression, KleeneAggregate, attributes, variables, walk
from motet.plan.detect.cost import Rates, by_appearance
from motet.plan.detect.query import DetectQuery
from motet.template.symbols import Symbol

PAIRS = 512


def rates_of(branch: DetectBranch, encoded: Encoded, optimizer: str) -> Rates:
    """How often each symbol occurs, and how often each condition holds for random pairs of events."""
    if optimizer == "none":
        return Rates()
    sizes = np.bincount(encoded.klass, minlength=len(encoded.classes))
    counts: dict[Symbol, float] = {}
    for found, size in zip(encoded.classes, sizes, strict=True):
        for symbol in found:
            counts[symbol] = counts.get(symbol, 0.0) + float(size)
    keys = int((np.diff(encoded.offsets) > 0).sum())
    duration = float(encoded.time.max() - encoded.time.min() + 1) if len(encoded.time) else 1.0
    selectivity: dict[Expression, float] = {}
    for query in branch.queries:
        selectivity |= _selectivities(query, encoded, selectivity)
    return Rates(counts, duration, max(keys, 1), selectivity)


def _selectivities(query: DetectQuery, encoded: Encoded, known: dict[Expression, float]) -> dict[Expression, float]:
    """The share of sampled pairs that satisfy each condition of two variables."""
    found: dict[Expression, float] = {}
    for condition in query.whole:
        names = sorted(variables(condition))
        if len(names) == 2 and _is_plain(condition):
            test = by_appearance(condition)
            if test not in known:
                found[test] = _share(condition, names, query, encoded)
    return found


def _is_plain(condition: Expression) -> bool:
    return all(attribute.at is At.EACH for attribute in attributes(condition)) and not any(
        isinstance(node, KleeneAggregate) for node in walk(condition)
    )


def _share(condition: Expression, names: list[str], query: DetectQuery, encoded: Encoded) -> float:
    rng = np.random.default_rng(0)
    rows: dict[str, pa.Array] = {}
    for name in names:
        symbols = {query.symbols[p] for p in query.written.of_name(name)}
        wanted = np.array([bool(symbols & found) for found in encoded.classes], np.bool_)
        events = np.flatnonzero(wanted[encoded.klass])
        if not len(events):
            return 1.0
        rows[name] = pa.array(rng.choice(events, PAIRS))

    def column(attribute: Attribute) -> pa.Array:
        return encoded.column(attribute.name).take(rows[attribute.variable])

    return float(holds(condition, column, PAIRS).mean())
