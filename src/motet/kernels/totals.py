"""Totals of partial matches: vectors of channels, and the linear steps every engine is made of.

A total is a count of partial matches (`n`), further counts (`i`), sums (`f`) and minima (`m`, maxima negated). Totals live in
tables [node, slot(, channel)]; a slot is a pane, a window, a start, or a row of a product. Counts wrap at 64 bits. In *extended* tables each count
has a floating shadow and each float an exponent, so that magnitudes beyond 64 bits, and beyond the largest double, stay known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import kernel

NOTHING = np.int64(2**63 - 1)  # the minimum over no values

# An extended number is mantissa * RADIX**exponent. The product of two mantissas below RADIX stays within a double.
RADIX = 2.0**480
SHRINK = 2.0**-480

# A true count this near to 2**63 is told from the sign of its wrapped value; farther off, its shadow tells.
COUNT_SURE = 2.0**62
COUNT_OVER = 2.0**64


class Totals(NamedTuple):
    """Tables of totals; those whose name ends in m or e (mantissa, exponent) are empty unless extended."""

    n: NDArray[np.int64]
    i: NDArray[np.int64]
    f: NDArray[np.float64]
    m: NDArray[np.int64]
    nm: NDArray[np.float64]
    ne: NDArray[np.int32]
    im: NDArray[np.float64]
    ie: NDArray[np.int32]
    fe: NDArray[np.int32]


class Weights(NamedTuple):
    """What one event adds to each channel of the matches it joins."""

    i: NDArray[np.int64]
    f: NDArray[np.float64]
    m: NDArray[np.int64]


@kernel
def new_totals(nodes: int, slots: int, ni: int, nf: int, nm: int, extended: bool) -> Totals:
    """Empty totals. O(nodes * slots * channels)."""
    x = 1 if extended else 0
    return Totals(
        np.zeros((nodes, slots), np.int64),
        np.zeros((nodes, slots, ni), np.int64),
        np.zeros((nodes, slots, nf), np.float64),
        np.full((nodes, slots, nm), NOTHING, np.int64),
        np.zeros((nodes * x, slots * x), np.float64),
        np.zeros((nodes * x, slots * x), np.int32),
        np.zeros((nodes * x, slots * x, ni), np.float64),
        np.zeros((nodes * x, slots * x, ni), np.int32),
        np.zeros((nodes * x, slots * x, nf), np.int32),
    )


@kernel
def extended_sum(m1: float, e1: int, m2: float, e2: int) -> tuple[float, int]:
    """The sum of two extended numbers."""
    if m1 == 0.0:
        return m2, e2
    if m2 == 0.0:
        return m1, e1
    if e1 < e2:
        m1, e1, m2, e2 = m2, e2, m1, e1
    if e1 == e2:
        m = m1 + m2
    elif e1 == e2 + 1:
        m = m1 + m2 * SHRINK
    else:
        m = m1
    if abs(m) >= RADIX:
        return m * SHRINK, e1 + 1
    return m, e1


@kernel
def extended_product(m1: float, e1: int, m2: float, e2: int) -> tuple[float, int]:
    """The product of two extended numbers."""
    m = m1 * m2
    e = e1 + e2
    if abs(m) >= RADIX:
        return m * SHRINK, e + 1
    if m != 0.0 and abs(m) < SHRINK and e > 0:
        return m * RADIX, e - 1
    return m, e


@kernel
def carry(t: Totals, source: int, target: int, lo: int, hi: int, w: Weights, extended: bool) -> int:
    """Add the totals of one node, joined by an event of weights `w`, to another's, in slots lo..hi.

    Returns a negative number where a 64-bit count overflowed (never so when extended). O((hi - lo) * channels).
    """
    if extended:
        _carry_extended(t, source, target, lo, hi, w)
        return 0
    bad = np.int64(0)
    if w.i.size + w.f.size + w.m.size == 0:
        for s in range(lo, hi + 1):
            total = t.n[target, s] + t.n[source, s]
            t.n[target, s] = total
            bad |= total
        return bad
    for s in range(lo, hi + 1):
        new = t.n[source, s]
        if new == 0:
            continue
        total = t.n[target, s] + new
        t.n[target, s] = total
        bad |= total
        for c in range(w.i.size):
            count = t.i[source, s, c] + w.i[c] * new
            bad |= count
            count += t.i[target, s, c]
            t.i[target, s, c] = count
            bad |= count
        for c in range(w.f.size):
            t.f[target, s, c] += t.f[source, s, c] + w.f[c] * new
        for c in range(w.m.size):
            least = min(t.m[source, s, c], w.m[c])
            if least < t.m[target, s, c]:
                t.m[target, s, c] = least
    return bad


@kernel
def _carry_extended(t: Totals, source: int, target: int, lo: int, hi: int, w: Weights) -> None:
    for s in range(lo, hi + 1):
        nm, ne = t.nm[source, s], t.ne[source, s]
        if nm == 0.0:
            continue
        new = t.n[source, s]
        t.n[target, s] += new
        t.nm[target, s], t.ne[target, s] = extended_sum(t.nm[target, s], t.ne[target, s], nm, ne)
        for c in range(w.i.size):
            t.i[target, s, c] += t.i[source, s, c] + w.i[c] * new
            m, e = extended_sum(t.im[source, s, c], t.ie[source, s, c], w.i[c] * nm, ne)
            t.im[target, s, c], t.ie[target, s, c] = extended_sum(t.im[target, s, c], t.ie[target, s, c], m, e)
        for c in range(w.f.size):
            m, e = extended_product(w.f[c], 0, nm, ne)
            m, e = extended_sum(t.f[source, s, c], t.fe[source, s, c], m, e)
            t.f[target, s, c], t.fe[target, s, c] = extended_sum(t.f[target, s, c], t.fe[target, s, c], m, e)
        for c in range(w.m.size):
            least = min(t.m[source, s, c], w.m[c])
            if least < t.m[target, s, c]:
                t.m[target, s, c] = least


@kernel
def clear(t: Totals, node: int, lo: int, hi: int, extended: bool) -> None:
    """Empty a node's totals in slots lo..hi."""
    for s in range(lo, hi + 1):
        t.n[node, s] = 0
        for c in range(t.i.shape[2]):
            t.i[node, s, c] = 0
        for c in range(t.f.shape[2]):
            t.f[node, s, c] = 0.0
        for c in range(t.m.shape[2]):
            t.m[node, s, c] = NOTHING
        if extended:
            t.nm[node, s] = 0.0
            t.ne[node, s] = 0
            for c in range(t.i.shape[2]):
                t.im[node, s, c] = 0.0
                t.ie[node, s, c] = 0
            for c in range(t.f.shape[2]):
                t.fe[node, s, c] = 0


@kernel
def copy(t: Totals, source: int, target: int, lo: int, hi: int, extended: bool) -> None:
    """Make a node's totals those of another, in slots lo..hi."""
    for s in range(lo, hi + 1):
        move_slot(t, source, s, t, target, s, extended)


@kernel
def move_slot(a: Totals, node: int, s: int, b: Totals, target: int, r: int, extended: bool) -> None:
    """Write one total of a table into a place of another (or the same) table."""
    b.n[target, r] = a.n[node, s]
    for c in range(a.i.shape[2]):
        b.i[target, r, c] = a.i[node, s, c]
    for c in range(a.f.shape[2]):
        b.f[target, r, c] = a.f[node, s, c]
    for c in range(a.m.shape[2]):
        b.m[target, r, c] = a.m[node, s, c]
    if extended:
        b.nm[target, r] = a.nm[node, s]
        b.ne[target, r] = a.ne[node, s]
        for c in range(a.i.shape[2]):
            b.im[target, r, c] = a.im[node, s, c]
            b.ie[target, r, c] = a.ie[node, s, c]
        for c in range(a.f.shape[2]):
            b.fe[target, r, c] = a.fe[node, s, c]


@kernel
def set_one(t: Totals, node: int, s: int, extended: bool) -> None:
    """One empty match: what a start node holds."""
    t.n[node, s] = 1
    if extended:
        t.nm[node, s] = 1.0


@kernel
def holds_any(t: Totals, node: int, s: int, extended: bool) -> bool:
    """Whether a total counts any match; a wrapped count of zero does not deceive it."""
    if extended:
        return bool(t.nm[node, s] != 0.0)
    return bool(t.n[node, s] != 0)


@kernel
def add_product(
    a: Totals, p: int, s: int, b: Totals, q: int, r: int, into: Totals, row: int, extended: bool
) -> int:
    """Add to `into[0, row]` the product of two totals: every match of one followed by every match of the other.

    Returns a negative number where a 64-bit count overflowed (never so when extended).
    """
    if extended:
        _add_product_extended(a, p, s, b, q, r, into, row)
        return 0
    x, y = a.n[p, s], b.n[q, r]
    if x == 0 or y == 0:
        return 0
    if float(x) * float(y) >= COUNT_SURE:
        return -1
    total = into.n[0, row] + x * y
    into.n[0, row] = total
    bad = total
    for c in range(a.i.shape[2]):
        u, v = a.i[p, s, c], b.i[q, r, c]
        if float(x) * float(v) + float(u) * float(y) >= COUNT_SURE:
            return -1
        count = into.i[0, row, c] + x * v + u * y
        into.i[0, row, c] = count
        bad |= count
    for c in range(a.f.shape[2]):
        into.f[0, row, c] += x * b.f[q, r, c] + a.f[p, s, c] * y
    for c in range(a.m.shape[2]):
        into.m[0, row, c] = min(into.m[0, row, c], a.m[p, s, c], b.m[q, r, c])
    return bad


@kernel
def _add_product_extended(a: Totals, p: int, s: int, b: Totals, q: int, r: int, into: Totals, row: int) -> None:
    xm, xe, ym, ye = a.nm[p, s], a.ne[p, s], b.nm[q, r], b.ne[q, r]
    if xm == 0.0 or ym == 0.0:
        return
    x, y = a.n[p, s], b.n[q, r]
    into.n[0, row] += x * y
    m, e = extended_product(xm, xe, ym, ye)
    into.nm[0, row], into.ne[0, row] = extended_sum(into.nm[0, row], into.ne[0, row], m, e)
    for c in range(a.i.shape[2]):
        into.i[0, row, c] += x * b.i[q, r, c] + a.i[p, s, c] * y
        m, e = extended_product(xm, xe, b.im[q, r, c], b.ie[q, r, c])
        into.im[0, row, c], into.ie[0, row, c] = extended_sum(into.im[0, row, c], into.ie[0, row, c], m, e)
        m, e = extended_product(a.im[p, s, c], a.ie[p, s, c], ym, ye)
        into.im[0, row, c], into.ie[0, row, c] = extended_sum(into.im[0, row, c], into.ie[0, row, c], m, e)
    for c in range(a.f.shape[2]):
        m, e = extended_product(xm, xe, b.f[q, r, c], b.fe[q, r, c])
        into.f[0, row, c], into.fe[0, row, c] = extended_sum(into.f[0, row, c], into.fe[0, row, c], m, e)
        m, e = extended_product(a.f[p, s, c], a.fe[p, s, c], ym, ye)
        into.f[0, row, c], into.fe[0, row, c] = extended_sum(into.f[0, row, c], into.fe[0, row, c], m, e)
    for c in range(a.m.shape[2]):
        into.m[0, row, c] = min(into.m[0, row, c], a.m[p, s, c], b.m[q, r, c])
