"""Filters instances: those that are in order, pass tests, and have nothing absent in some gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.expressions import EventScope, Stack, Values
from motet.kernels.instances import Absences, Bundles, Codes, Instances, Ints, Tests
from motet.kernels.jit import kernel
from motet.kernels.join import JoinTable, passes_tests_and_gaps


@kernel
def filter_instances(
    found: Instances,
    order: Codes,
    table: JoinTable,
    tests: Tests,
    values: Values,
    bundles: Bundles,
    absences: Absences,
    oldest: Ints,
    scope: EventScope,
    stack: Stack,
) -> NDArray[np.bool_]:
    """Which instances to keep: within the window, each pair of items in `order`, all tests, no gap filled.

    Of the table only the gaps are read. O(1) for each instance and pair, but for code and gaps.
    """
    columns, first, end, offsets = found.columns, found.first, found.end, found.offsets
    ref_first, ref_last, current = bundles.first, bundles.last, scope.current
    items, rows = columns.shape
    more = tests.table.shape[0] > 0 or table.gap.shape[0] > 0
    kept = np.zeros(rows, np.bool_)
    key = 0
    for row in range(rows):
        while offsets[key + 1] <= row:
            key += 1
        fits = first[row] >= oldest[end[row]]
        pair = 0
        while fits and pair < order.shape[0]:
            fits = ref_last[columns[order[pair, 0], row]] < ref_first[columns[order[pair, 1], row]]
            pair += 1
        if fits and more:
            for item in range(items):
                current[item] = columns[item, row]
            fits = passes_tests_and_gaps(key, table, tests, values, bundles, absences, scope, stack)
        kept[row] = fits
    return kept
