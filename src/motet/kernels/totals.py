"""Totals of partial matches: small vectors of channels, and the linear steps every strategy is made of.

A total is a run of 64-bit words: the count of partial matches, further counts, minima (maxima negated), sums.
Totals lie in flat buffers, `slots` of them to a node; a slot is a pane, a window, a start, or a row of a product.
Each buffer comes as two views of the same memory, `q` for whole numbers and `g` for floats. Counts wrap at 64 bits.
*Extended* totals have further words: a floating shadow of each count and an exponent of each float, so that
magnitudes beyond 64 bits, and beyond the largest double, stay known.

Kernels take bare arrays rather than tuples of them, and loop rather than slice: either would cost reference
counting at every step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner, kernel

Words = NDArray[np.int64]
Floats = NDArray[np.float64]

NOTHING = np.int64(2**63 - 1)  # the minimum over no values

# An extended number is mantissa * RADIX**exponent. The product of two mantissas below RADIX stays within a double.
RADIX = 2.0**480
SHRINK = 2.0**-480

# A true count this near to 2**63 is told from the sign of its wrapped value; farther off, its shadow tells.
COUNT_SURE = 2.0**62
COUNT_OVER = 2.0**64

# A shadow without an exponent must stay below this; one that overflowed on the way is infinite, and sums and products
# with it stay so.
SHADOW_LIMIT = 1e300


class Layout(NamedTuple):
    """Where a total's words are: n, `ni` counts, `nm` minima, `nf` sums; extended, from word `x` on: the mantissa
    and exponent
    of n, those of each count, and the exponent of each sum."""

    words: int
    ni: int
    nm: int
    nf: int
    extended: bool
    counts: bool
    x: int


def layout_of(ni: int, nf: int, nm: int, extended: bool = False, shadowed: bool = False) -> Layout:
    """The layout of totals with these numbers of counts, sums and minima."""
    x = 1 + ni + nm + nf
    return Layout(x + (2 + 2 * ni + nf if extended else 0), ni, nm, nf, extended, shadowed, x)


def layouts_of(ni: int, nf: int, nm: int, rarely_large: bool) -> list[Layout]:
    """The layouts to try in turn until no count overflows: the cheapest first where large counts are rare."""
    plain, extended = layout_of(ni, nf, nm), layout_of(ni, nf, nm, extended=True)
    if plain.words > 1:
        return [plain, extended]
    shadowed = layout_of(0, 0, 0, shadowed=True)
    return [plain, shadowed, extended] if rarely_large else [shadowed, extended]


def pair_layouts_of(ni: int, nf: int, nm: int) -> list[tuple[Layout, Layout]]:
    """The layouts to try in turn for totals within a pane and for those of windows, which are much larger."""
    plain, extended = layout_of(ni, nf, nm), layout_of(ni, nf, nm, extended=True)
    if plain.words > 1:
        return [(plain, plain), (extended, extended)]
    shadowed = layout_of(0, 0, 0, shadowed=True)
    return [(plain, shadowed), (shadowed, shadowed), (extended, extended)]


@kernel
def new_totals(count: int, layout: Layout) -> tuple[Words, Floats]:
    """Room for totals, all empty. O(count * words)."""
    q, g = room_for_totals(count, layout)
    clear(q, g, layout, 0, count)
    return q, g


@kernel
def room_for_totals(count: int, layout: Layout) -> tuple[Words, Floats]:
    """Room for totals that will be written before they are read."""
    q = np.empty(count * layout.words, np.int64)
    return q, np.empty(count, np.float64) if layout.counts else q.view(np.float64)


@kernel
def wider_totals(q: Words, g: Floats, layout: Layout) -> tuple[Words, Floats]:
    """The same totals with room for twice as many."""
    count = q.size // layout.words
    wider, wider_g = room_for_totals(2 * count, layout)
    copy_totals(q, g, 0, wider, wider_g, 0, count, layout)
    return wider, wider_g


@inner
def copy_totals(q: Words, g: Floats, a: int, to_q: Words, to_g: Floats, b: int, count: int, layout: Layout) -> None:
    """Copy `count` totals, to the same or another buffer; where they overlap, downwards only."""
    for at in range(count * layout.words):
        to_q[b + at] = q[a + at]
    if layout.counts:
        for at in range(count):
            to_g[b + at] = g[a + at]


@inner
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


@inner
def extended_product(m1: float, e1: int, m2: float, e2: int) -> tuple[float, int]:
    """The product of two extended numbers."""
    m = m1 * m2
    e = e1 + e2
    if abs(m) >= RADIX:
        return m * SHRINK, e + 1
    if m != 0.0 and abs(m) < SHRINK and e > 0:
        return m * RADIX, e - 1
    return m, e


@inner
def add_extended(q: Words, g: Floats, at: int, exponent_at: int, m: float, e: int) -> None:
    """Add to the extended number whose mantissa and exponent are at these words."""
    m, e = extended_sum(g[at], q[exponent_at], m, e)
    g[at] = m
    q[exponent_at] = e


@inner
def add_counts(q: Words, g: Floats, a: int, b: int, count: int) -> None:
    """What `carry` is for counts alone: loops over consecutive words."""
    for s in range(count):
        q[b + s] += q[a + s]
    for s in range(count):
        g[b + s] += g[a + s]


@inner
def carry(q: Words, g: Floats, layout: Layout, a: int, b: int, count: int, wi: Words, wf: Floats) -> int:
    """Add `count` totals from word a on, joined by an event of weights wi (counts, then minima) and wf (sums), to
    those from word b on.

    Returns a negative number where a 64-bit count overflowed (never so when extended). O(count * words).
    """
    words = layout.words
    if layout.counts:
        add_counts(q, g, a, b, count)
        return 0
    bad = np.int64(0)
    if layout.extended:
        for s in range(count):
            _carry_extended(q, g, layout, a + s * words, b + s * words, 1, wi, wf)
        return 0
    ni, nm = layout.ni, layout.nm
    if ni == 1 and nm == 0 and layout.nf == 1:
        return _carry_sums(q, g, a, b, count, 1, wi[0], wf[0])
    for s in range(count):
        one, other = a + s * words, b + s * words
        new = q[one]
        if new == 0:
            continue
        total = q[other] + new
        q[other] = total
        bad |= total
        for c in range(1, 1 + ni):
            more = q[one + c] + wi[c - 1] * new
            bad |= more
            more += q[other + c]
            q[other + c] = more
            bad |= more
        for c in range(1 + ni, 1 + ni + nm):
            q[other + c] = min(q[other + c], q[one + c], wi[c - 1])
        for c in range(layout.nf):
            at = 1 + ni + nm + c
            g[other + at] += g[one + at] + wf[c] * new
    return bad


@inner
def _carry_sums(q: Words, g: Floats, a: int, b: int, count: int, n: int, wi: int, wf: float) -> int:
    """`carry_many` for totals of a count, another and a sum: without loops over channels."""
    bad = np.int64(0)
    times, weight = np.float64(n), np.float64(wi)
    for s in range(count):
        one, other = a + 3 * s, b + 3 * s
        new = q[one]
        if new == 0:
            continue
        most = np.float64(new)
        if max(times * most, times * np.float64(q[one + 1]) + weight * most) >= COUNT_SURE:
            return -1
        g[other + 2] += times * g[one + 2] + wf * most
        more = q[other + 1] + n * q[one + 1] + wi * new
        total = q[other] + n * new
        q[other + 1] = more
        q[other] = total
        bad |= total | more
    return bad


@inner
def carry_many(q: Words, g: Floats, layout: Layout, a: int, b: int, count: int, n: int, wi: Words, wf: Floats) -> int:
    """What `carry` does for each of n events at one time, whose weights taken together are wi and wf: all of them join
    the totals as they were.
    """
    words = layout.words
    times = np.float64(n)
    if layout.counts:
        for s in range(count):
            q[b + s] += n * q[a + s]
        for s in range(count):
            g[b + s] += times * g[a + s]
        return 0
    if layout.extended:
        for s in range(count):
            _carry_extended(q, g, layout, a + s * words, b + s * words, n, wi, wf)
        return 0
    bad = np.int64(0)
    ni, nm = layout.ni, layout.nm
    if ni == 1 and nm == 0 and layout.nf == 1:
        return _carry_sums(q, g, a, b, count, n, wi[0], wf[0])
    for s in range(count):
        one, other = a + s * words, b + s * words
        new = q[one]
        if new == 0:
            continue
        if times * np.float64(new) >= COUNT_SURE:
            return -1
        total = q[other] + n * new
        q[other] = total
        bad |= total
        for c in range(1, 1 + ni):
            if times * np.float64(q[one + c]) + np.float64(wi[c - 1]) * np.float64(new) >= COUNT_SURE:
                return -1
            more = q[other + c] + n * q[one + c] + wi[c - 1] * new
            q[other + c] = more
            bad |= more
        for c in range(1 + ni, 1 + ni + nm):
            q[other + c] = min(q[other + c], q[one + c], wi[c - 1])
        for c in range(layout.nf):
            at = 1 + ni + nm + c
            g[other + at] += times * g[one + at] + wf[c] * new
    return bad


@inner
def _carry_extended(q: Words, g: Floats, layout: Layout, one: int, other: int, n: int, wi: Words, wf: Floats) -> None:
    ni, nm, nf, x = layout.ni, layout.nm, layout.nf, layout.x
    m, e = g[one + x], q[one + x + 1]
    if m == 0.0:
        return
    new = q[one]
    # Channels before the count: a node may be carried to itself.
    for c in range(ni):
        at, exponent = x + 2 + 2 * c, x + 3 + 2 * c
        q[other + 1 + c] += n * q[one + 1 + c] + wi[c] * new
        own = extended_product(np.float64(n), 0, g[one + at], q[one + exponent])
        weight = extended_product(np.float64(wi[c]), 0, m, e)
        shadow = extended_sum(own[0], own[1], weight[0], weight[1])
        add_extended(q, g, other + at, other + exponent, shadow[0], shadow[1])
    for c in range(1 + ni, 1 + ni + nm):
        q[other + c] = min(q[other + c], q[one + c], wi[c - 1])
    for c in range(nf):
        at, exponent = 1 + ni + nm + c, x + 2 + 2 * ni + c
        own = extended_product(np.float64(n), 0, g[one + at], q[one + exponent])
        product = extended_product(wf[c], 0, m, e)
        total = extended_sum(own[0], own[1], product[0], product[1])
        add_extended(q, g, other + at, other + exponent, total[0], total[1])
    q[other] += n * new
    m, e = extended_product(np.float64(n), 0, m, e)
    add_extended(q, g, other + x, other + x + 1, m, e)


@inner
def clear(q: Words, g: Floats, layout: Layout, a: int, count: int) -> None:
    """Empty `count` totals from word a on."""
    for at in range(a, a + count * layout.words):
        q[at] = 0
    if layout.counts:
        for at in range(a, a + count):
            g[at] = 0.0
    if layout.nm > 0:
        for s in range(count):
            for c in range(1 + layout.ni, 1 + layout.ni + layout.nm):
                q[a + s * layout.words + c] = NOTHING


@inner
def set_one(q: Words, g: Floats, layout: Layout, a: int) -> None:
    """One empty match: what a start node holds."""
    q[a] = 1
    if layout.extended:
        g[a + layout.x] = 1.0
    elif layout.counts:
        g[a] = 1.0


@inner
def holds_any(q: Words, g: Floats, layout: Layout, a: int) -> bool:
    """Whether a total counts any match; a wrapped count of zero does not deceive it."""
    if layout.extended:
        return bool(g[a + layout.x] != 0.0)
    if layout.counts:
        return bool(g[a] != 0.0)
    return bool(q[a] != 0)


@inner
def add_total(q: Words, g: Floats, a: int, into_q: Words, into_g: Floats, b: int, layout: Layout) -> int:
    """Add one total to another, of another buffer; negative where a count left its bounds."""
    if layout.counts:
        into_q[b] += q[a]
        into_g[b] += g[a]
        return 0 if into_g[b] < SHADOW_LIMIT else -1
    ni, nm, nf, x = layout.ni, layout.nm, layout.nf, layout.x
    bad = np.int64(0)
    for c in range(1 + ni):
        into_q[b + c] += q[a + c]
        bad |= into_q[b + c]
    for c in range(1 + ni, 1 + ni + nm):
        into_q[b + c] = min(into_q[b + c], q[a + c])
    if not layout.extended:
        for c in range(1 + ni + nm, x):
            into_g[b + c] += g[a + c]
        return bad
    for c in range(1 + ni):
        at = x + 2 * c
        add_extended(into_q, into_g, b + at, b + at + 1, g[a + at], q[a + at + 1])
    for c in range(nf):
        at, exponent = 1 + ni + nm + c, x + 2 + 2 * ni + c
        add_extended(into_q, into_g, b + at, b + exponent, g[a + at], q[a + exponent])
    return 0


@inner
def add_totals(q: Words, g: Floats, a: int, count: int, into_q: Words, into_g: Floats, b: int, layout: Layout) -> int:
    """Add `count` totals that lie side by side to one of another buffer; negative where a count left its bounds."""
    if layout.counts:
        total, shadow = into_q[b], into_g[b]
        for at in range(a, a + count):
            total += q[at]
            shadow += g[at]
        into_q[b], into_g[b] = total, shadow
        return 0 if shadow < SHADOW_LIMIT else -1
    bad = np.int64(0)
    for s in range(count):
        bad |= add_total(q, g, a + s * layout.words, into_q, into_g, b, layout)
    return bad


@inner
def add_product(
    q: Words, g: Floats, a: int, r: Words, h: Floats, b: int, into_q: Words, into_g: Floats, to: int, layout: Layout
) -> int:
    """Add to the total at word `to` the product of two others: every match of one followed by every match of the other.

    Returns a negative number where a 64-bit count overflowed (never so when extended).
    """
    if layout.counts:
        if g[a] != 0.0 and h[b] != 0.0:
            into_q[to] += q[a] * r[b]
            into_g[to] += g[a] * h[b]
        return 0 if into_g[to] < SHADOW_LIMIT else -1
    if layout.extended:
        _add_product_extended(q, g, a, r, h, b, into_q, into_g, to, layout)
        return 0
    one, other = q[a], r[b]
    if one == 0 or other == 0:
        return 0
    if float(one) * float(other) >= COUNT_SURE:
        return -1
    total = into_q[to] + one * other
    into_q[to] = total
    bad = total
    ni, nm = layout.ni, layout.nm
    for c in range(1, 1 + ni):
        u, v = q[a + c], r[b + c]
        if float(one) * float(v) + float(u) * float(other) >= COUNT_SURE:
            return -1
        into_q[to + c] += one * v + u * other
        bad |= into_q[to + c]
    for c in range(1 + ni, 1 + ni + nm):
        into_q[to + c] = min(into_q[to + c], q[a + c], r[b + c])
    for c in range(1 + ni + nm, layout.x):
        into_g[to + c] += one * h[b + c] + g[a + c] * other
    return bad


@inner
def _add_product_extended(
    q: Words, g: Floats, a: int, r: Words, h: Floats, b: int, into_q: Words, into_g: Floats, to: int, layout: Layout
) -> None:
    ni, nm, nf, x = layout.ni, layout.nm, layout.nf, layout.x
    m1, e1, m2, e2 = g[a + x], q[a + x + 1], h[b + x], r[b + x + 1]
    if m1 == 0.0 or m2 == 0.0:
        return
    one, other = q[a], r[b]
    into_q[to] += one * other
    m, e = extended_product(m1, e1, m2, e2)
    add_extended(into_q, into_g, to + x, to + x + 1, m, e)
    for c in range(ni):
        at = x + 2 + 2 * c
        into_q[to + 1 + c] += one * r[b + 1 + c] + q[a + 1 + c] * other
        m, e = extended_product(m1, e1, h[b + at], r[b + at + 1])
        add_extended(into_q, into_g, to + at, to + at + 1, m, e)
        m, e = extended_product(g[a + at], q[a + at + 1], m2, e2)
        add_extended(into_q, into_g, to + at, to + at + 1, m, e)
    for c in range(1 + ni, 1 + ni + nm):
        into_q[to + c] = min(into_q[to + c], q[a + c], r[b + c])
    for c in range(nf):
        at, exponent = 1 + ni + nm + c, x + 2 + 2 * ni + c
        m, e = extended_product(m1, e1, h[b + at], r[b + exponent])
        add_extended(into_q, into_g, to + at, to + exponent, m, e)
        m, e = extended_product(g[a + at], q[a + exponent], m2, e2)
        add_extended(into_q, into_g, to + at, to + exponent, m, e)
