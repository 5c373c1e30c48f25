"""Takes the rates and selectivities that plans are costed with from the events at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from motet.engine.detect.program import DetectBranch
from motet.engine.encode import Encoded, encode
from motet.engine.expressions import holds
from motet.engine.program import Program
from motet.model.expression import At, Attribute, Expression, KleeneAggregate, attributes, variables, walk
from motet.plan.detect.cost import Measured, Rates, measured_test
from motet.plan.detect.query import DetectQuery
from motet.template.symbols import Symbol

PAIRS = 512


def rates_of(branch: DetectBranch, encoded: Encoded) -> Rates:
    """How often each symbol occurs, and how often each condition holds for random pairs of events."""
    selectivity: dict[Measured, float] = {}
    for query in branch.queries:
        selectivity |= _selectivities(query, encoded, selectivity)
    return replace(counted(encoded), selectivity=selectivity)


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
    """How often the conditions of all queries that detect hold, for pairs of events in any order of time."""
    found: dict[Measured, float] = {}
    for branch in program.detect:
        events = table.select(branch.columns)
        encoded = encode(events, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)
        for query in branch.queries:
            found |= _selectivities(query, encoded, found)
    return found


def _selectivities(query: DetectQuery, encoded: Encoded, known: dict[Measured, float]) -> dict[Measured, float]:
    """The share of sampled pairs that satisfy each condition of two variables."""
    found: dict[Measured, float] = {}
    for condition in query.whole:
        names = sorted(variables(condition))
        if len(names) == 2 and _is_plain(condition):
            symbols = {name: query.symbols[query.written.of_name(name)[0]] for name in names}
            test = measured_test(condition, symbols)
            if test not in known:
                found[test] = _share(condition, symbols, encoded)
    return found


def _is_plain(condition: Expression) -> bool:
    return all(attribute.at is At.EACH for attribute in attributes(condition)) and not any(
        isinstance(node, KleeneAggregate) for node in walk(condition)
    )


def _share(condition: Expression, symbols: Mapping[str, Symbol], encoded: Encoded) -> float:
    rng = np.random.default_rng(0)
    rows: dict[str, pa.Array] = {}
    for name, symbol in symbols.items():
        wanted = np.array([symbol in found for found in encoded.classes], np.bool_)
        events = np.flatnonzero(wanted[encoded.klass])
        if not len(events):
            return 1.0
        rows[name] = pa.array(rng.choice(events, PAIRS))

    def column(attribute: Attribute) -> pa.Array:
        return encoded.column(attribute.name).take(rows[attribute.variable])

    return float(holds(condition, column, PAIRS).mean())
