"""What units report in a micro-batch, and one table of partial results made of all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.compile import Program
from motet.engine.encode import EncodedEvents
from motet.engine.live.key_states import KeyIndex
from motet.engine.partials import build_partials
from motet.kernels.tables import shift_queries, translate_keys
from motet.kernels.totals import Layout
from motet.plans.compiled import CompiledQuery

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Report:
    """Totals that a kernel wrote for the queries of a unit, keys by their number in the stream."""

    labels: Ints
    whole: Ints
    real: NDArray[np.float64]
    layout: Layout
    queries: Sequence[CompiledQuery]


def make_report(
    labels: Ints, whole: Ints, real: NDArray[np.float64], layout: Layout, queries: Sequence[CompiledQuery], ids: Ints
) -> list[Report]:
    """Return the report of what a kernel wrote, if it wrote anything; `ids` has the numbers of its keys."""
    if not len(labels):
        return []
    return [Report(translate_keys(labels, ids), whole, real, layout, queries)]


def build_reports(
    program: Program, reports: Iterable[Report], keys: KeyIndex, encoded: EncodedEvents
) -> list[pa.Table]:
    """Return tables of partial results, one for each layout of totals."""
    tables = []
    named = None
    for layout, group in groupby(sorted(reports, key=_layout_order), key=lambda report: report.layout):
        own = list(group)
        named = named or replace(encoded, keys=keys.columns)
        firsts = np.cumsum([0, *(len(report.queries) for report in own[:-1])]).tolist()
        labels = np.concatenate([shift_queries(r.labels, first) for r, first in zip(own, firsts, strict=True)])
        whole, real = np.concatenate([r.whole for r in own]), np.concatenate([r.real for r in own])
        queries = [compiled for report in own for compiled in report.queries]
        tables.append(build_partials(program, labels, whole, real, layout, queries, named))
    return tables


def _layout_order(report: Report) -> tuple[int, ...]:
    return tuple(map(int, report.layout))
