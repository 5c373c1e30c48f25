"""Totals of partial matches: small vectors of channels, and the linear steps every strategy is made of.

A total is a run of 64-bit words: the count of partial matches, further counts, minima (maxima negated), sums.
Totals lie in flat buffers, `slots` of them to a node; a slot is a pane, a window, a start, or a row of a product.
Each buffer comes as two views of the same memory, `ints` and `floats`. Counts wrap at 64 bits.
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

NO_MINIMUM = np.int64(2**63 - 1)  # the minimum over no values

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
    has_shadows: bool
    x: int


def make_layout(ni: int, nf: int, nm: int, extended: bool = False, shadowed: bool = False) -> Layout:
    """The layout of totals with these numbers of counts, sums and minima."""
    x = 1 + ni + nm + nf
    return Layout(x + (2 + 2 * ni + nf if extended else 0), ni, nm, nf, extended, shadowed, x)


def list_layouts(ni: int, nf: int, nm: int, rarely_large: bool) -> list[Layout]:
    """The layouts to try in turn until no count overflows: the cheapest first where large counts are rare."""
    plain, extended = make_layout(ni, nf, nm), make_layout(ni, nf, nm, extended=True)
    if plain.words > 1:
        return [plain, extended]
    shadowed = make_layout(0, 0, 0, shadowed=True)
    return [plain, shadowed, extended] if rarely_large else [shadowed, extended]


def list_pair_layouts(ni: int, nf: int, nm: int) -> list[tuple[Layout, Layout]]:
    """The layouts to try in turn for totals within a pane and for those of windows, which are much larger."""
    plain, extended = make_layout(ni, nf, nm), make_layout(ni, nf, nm, extended=True)
    if plain.words > 1:
        return [(plain, plain), (extended, extended)]
    shadowed = make_layout(0, 0, 0, shadowed=True)
    return [(plain, shadowed), (shadowed, shadowed), (extended, extended)]


@kernel
def create_totals(count: int, layout: Layout) -> tuple[Words, Floats]:
    """Room for totals, all empty. O(count * words)."""
    ints, floats = allocate_totals(count, layout)
    clear_totals(ints, floats, layout, 0, count)
    return ints, floats


@kernel
def allocate_totals(count: int, layout: Layout) -> tuple[Words, Floats]:
    """Room for totals that will be written before they are read."""
    ints = np.empty(count * layout.words, np.int64)
    return ints, np.empty(count, np.float64) if layout.has_shadows else ints.view(np.float64)


@kernel
def grow_totals(ints: Words, floats: Floats, layout: Layout) -> tuple[Words, Floats]:
    """The same totals with room for twice as many."""
    count = ints.size // layout.words
    wider, wider_floats = allocate_totals(2 * count, layout)
    copy_totals(ints, floats, 0, wider, wider_floats, 0, count, layout)
    return wider, wider_floats


@inner
def copy_totals(
    ints: Words, floats: Floats, a: int, to_q: Words, to_g: Floats, b: int, count: int, layout: Layout
) -> None:
    """Copy `count` totals, to the same or another buffer; where they overlap, downwards only."""
    for at in range(count * layout.words):
        to_q[b + at] = ints[a + at]
    if layout.has_shadows:
        for at in range(count):
            to_g[b + at] = floats[a + at]


@inner
def sum_extended(m1: float, e1: int, m2: float, e2: int) -> tuple[float, int]:
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
def multiply_extended(m1: float, e1: int, m2: float, e2: int) -> tuple[float, int]:
    """The product of two extended numbers."""
    m = m1 * m2
    e = e1 + e2
    if abs(m) >= RADIX:
        return m * SHRINK, e + 1
    if m != 0.0 and abs(m) < SHRINK and e > 0:
        return m * RADIX, e - 1
    return m, e


@inner
def add_extended(ints: Words, floats: Floats, at: int, exponent_at: int, m: float, e: int) -> None:
    """Add to the extended number whose mantissa and exponent are at these words."""
    m, e = sum_extended(floats[at], ints[exponent_at], m, e)
    floats[at] = m
    ints[exponent_at] = e


@inner
def add_counts(ints: Words, floats: Floats, a: int, b: int, count: int) -> None:
    """What `propagate` is for counts alone: loops over consecutive words."""
    for s in range(count):
        ints[b + s] += ints[a + s]
    for s in range(count):
        floats[b + s] += floats[a + s]


@inner
def propagate(ints: Words, floats: Floats, layout: Layout, a: int, b: int, count: int, wi: Words, wf: Floats) -> int:
    """Add `count` totals from word a on, joined by an event of weights wi (counts, then minima) and wf (sums), to
    those from word b on.

    Returns a negative number where a 64-bit count overflowed (never so when extended). O(count * words).
    """
    words = layout.words
    if layout.has_shadows:
        add_counts(ints, floats, a, b, count)
        return 0
    bad = np.int64(0)
    if layout.extended:
        for s in range(count):
            _propagate_extended(ints, floats, layout, a + s * words, b + s * words, 1, wi, wf)
        return 0
    ni, nm = layout.ni, layout.nm
    if ni == 1 and nm == 0 and layout.nf == 1:
        return _propagate_sums(ints, floats, a, b, count, 1, wi[0], wf[0])
    for s in range(count):
        one, other = a + s * words, b + s * words
        new = ints[one]
        if new == 0:
            continue
        total = ints[other] + new
        ints[other] = total
        bad |= total
        for c in range(1, 1 + ni):
            more = ints[one + c] + wi[c - 1] * new
            bad |= more
            more += ints[other + c]
            ints[other + c] = more
            bad |= more
        for c in range(1 + ni, 1 + ni + nm):
            ints[other + c] = min(ints[other + c], ints[one + c], wi[c - 1])
        for c in range(layout.nf):
            at = 1 + ni + nm + c
            floats[other + at] += floats[one + at] + wf[c] * new
    return bad


@inner
def _propagate_sums(ints: Words, floats: Floats, a: int, b: int, count: int, n: int, wi: int, wf: float) -> int:
    """`propagate_many` for totals of a count, another and a sum: without loops over channels."""
    bad = np.int64(0)
    times, weight = np.float64(n), np.float64(wi)
    for s in range(count):
        one, other = a + 3 * s, b + 3 * s
        new = ints[one]
        if new == 0:
            continue
        most = np.float64(new)
        if max(times * most, times * np.float64(ints[one + 1]) + weight * most) >= COUNT_SURE:
            return -1
        floats[other + 2] += times * floats[one + 2] + wf * most
        more = ints[other + 1] + n * ints[one + 1] + wi * new
        total = ints[other] + n * new
        ints[other + 1] = more
        ints[other] = total
        bad |= total | more
    return bad


@inner
def propagate_many(
    ints: Words, floats: Floats, layout: Layout, a: int, b: int, count: int, n: int, wi: Words, wf: Floats
) -> int:
    """Do what `propagate` does for each of n events at one time, whose weights taken together are wi and wf: all of
    them join the totals as they were.
    """
    words = layout.words
    times = np.float64(n)
    if layout.has_shadows:
        for s in range(count):
            ints[b + s] += n * ints[a + s]
        for s in range(count):
            floats[b + s] += times * floats[a + s]
        return 0
    if layout.extended:
        for s in range(count):
            _propagate_extended(ints, floats, layout, a + s * words, b + s * words, n, wi, wf)
        return 0
    bad = np.int64(0)
    ni, nm = layout.ni, layout.nm
    if ni == 1 and nm == 0 and layout.nf == 1:
        return _propagate_sums(ints, floats, a, b, count, n, wi[0], wf[0])
    for s in range(count):
        one, other = a + s * words, b + s * words
        new = ints[one]
        if new == 0:
            continue
        if times * np.float64(new) >= COUNT_SURE:
            return -1
        total = ints[other] + n * new
        ints[other] = total
        bad |= total
        for c in range(1, 1 + ni):
            if times * np.float64(ints[one + c]) + np.float64(wi[c - 1]) * np.float64(new) >= COUNT_SURE:
                return -1
            more = ints[other + c] + n * ints[one + c] + wi[c - 1] * new
            ints[other + c] = more
            bad |= more
        for c in range(1 + ni, 1 + ni + nm):
            ints[other + c] = min(ints[other + c], ints[one + c], wi[c - 1])
        for c in range(layout.nf):
            at = 1 + ni + nm + c
            floats[other + at] += times * floats[one + at] + wf[c] * new
    return bad


@inner
def _propagate_extended(
    ints: Words, floats: Floats, layout: Layout, one: int, other: int, n: int, wi: Words, wf: Floats
) -> None:
    ni, nm, nf, x = layout.ni, layout.nm, layout.nf, layout.x
    m, e = floats[one + x], ints[one + x + 1]
    if m == 0.0:
        return
    new = ints[one]
    # Channels before the count: a node may be carried to itself.
    for c in range(ni):
        at, exponent = x + 2 + 2 * c, x + 3 + 2 * c
        ints[other + 1 + c] += n * ints[one + 1 + c] + wi[c] * new
        own = multiply_extended(np.float64(n), 0, floats[one + at], ints[one + exponent])
        weight = multiply_extended(np.float64(wi[c]), 0, m, e)
        shadow = sum_extended(own[0], own[1], weight[0], weight[1])
        add_extended(ints, floats, other + at, other + exponent, shadow[0], shadow[1])
    for c in range(1 + ni, 1 + ni + nm):
        ints[other + c] = min(ints[other + c], ints[one + c], wi[c - 1])
    for c in range(nf):
        at, exponent = 1 + ni + nm + c, x + 2 + 2 * ni + c
        own = multiply_extended(np.float64(n), 0, floats[one + at], ints[one + exponent])
        product = multiply_extended(wf[c], 0, m, e)
        total = sum_extended(own[0], own[1], product[0], product[1])
        add_extended(ints, floats, other + at, other + exponent, total[0], total[1])
    ints[other] += n * new
    m, e = multiply_extended(np.float64(n), 0, m, e)
    add_extended(ints, floats, other + x, other + x + 1, m, e)


@inner
def clear_totals(ints: Words, floats: Floats, layout: Layout, a: int, count: int) -> None:
    """Empty `count` totals from word a on."""
    for at in range(a, a + count * layout.words):
        ints[at] = 0
    if layout.has_shadows:
        for at in range(a, a + count):
            floats[at] = 0.0
    if layout.nm > 0:
        for s in range(count):
            for c in range(1 + layout.ni, 1 + layout.ni + layout.nm):
                ints[a + s * layout.words + c] = NO_MINIMUM


@inner
def set_empty_match(ints: Words, floats: Floats, layout: Layout, a: int) -> None:
    """One empty match: what a start node holds."""
    ints[a] = 1
    if layout.extended:
        floats[a + layout.x] = 1.0
    elif layout.has_shadows:
        floats[a] = 1.0


@inner
def has_matches(ints: Words, floats: Floats, layout: Layout, a: int) -> bool:
    """Whether a total counts any match; a wrapped count of zero does not deceive it."""
    if layout.extended:
        return bool(floats[a + layout.x] != 0.0)
    if layout.has_shadows:
        return bool(floats[a] != 0.0)
    return bool(ints[a] != 0)


@inner
def add_total(ints: Words, floats: Floats, a: int, into_q: Words, into_floats: Floats, b: int, layout: Layout) -> int:
    """Add one total to another, of another buffer; negative where a count left its bounds."""
    if layout.has_shadows:
        into_q[b] += ints[a]
        into_floats[b] += floats[a]
        return 0 if into_floats[b] < SHADOW_LIMIT else -1
    ni, nm, nf, x = layout.ni, layout.nm, layout.nf, layout.x
    bad = np.int64(0)
    for c in range(1 + ni):
        into_q[b + c] += ints[a + c]
        bad |= into_q[b + c]
    for c in range(1 + ni, 1 + ni + nm):
        into_q[b + c] = min(into_q[b + c], ints[a + c])
    if not layout.extended:
        for c in range(1 + ni + nm, x):
            into_floats[b + c] += floats[a + c]
        return bad
    for c in range(1 + ni):
        at = x + 2 * c
        add_extended(into_q, into_floats, b + at, b + at + 1, floats[a + at], ints[a + at + 1])
    for c in range(nf):
        at, exponent = 1 + ni + nm + c, x + 2 + 2 * ni + c
        add_extended(into_q, into_floats, b + at, b + exponent, floats[a + at], ints[a + exponent])
    return 0


@inner
def add_totals(
    ints: Words, floats: Floats, a: int, count: int, into_q: Words, into_floats: Floats, b: int, layout: Layout
) -> int:
    """Add `count` totals that lie side by side to one of another buffer; negative where a count left its bounds."""
    if layout.has_shadows:
        total, shadow = into_q[b], into_floats[b]
        for at in range(a, a + count):
            total += ints[at]
            shadow += floats[at]
        into_q[b], into_floats[b] = total, shadow
        return 0 if shadow < SHADOW_LIMIT else -1
    bad = np.int64(0)
    for s in range(count):
        bad |= add_total(ints, floats, a + s * layout.words, into_q, into_floats, b, layout)
    return bad


@inner
def add_product(
    ints: Words,
    floats: Floats,
    a: int,
    r: Words,
    h: Floats,
    b: int,
    into_q: Words,
    into_floats: Floats,
    to: int,
    layout: Layout,
) -> int:
    """Add to the total at word `to` the product of two others: every match of one followed by every match of the other.

    Returns a negative number where a 64-bit count overflowed (never so when extended).
    """
    if layout.has_shadows:
        if floats[a] != 0.0 and h[b] != 0.0:
            into_q[to] += ints[a] * r[b]
            into_floats[to] += floats[a] * h[b]
        return 0 if into_floats[to] < SHADOW_LIMIT else -1
    if layout.extended:
        _add_product_extended(ints, floats, a, r, h, b, into_q, into_floats, to, layout)
        return 0
    one, other = ints[a], r[b]
    if one == 0 or other == 0:
        return 0
    if float(one) * float(other) >= COUNT_SURE:
        return -1
    total = into_q[to] + one * other
    into_q[to] = total
    bad = total
    ni, nm = layout.ni, layout.nm
    for c in range(1, 1 + ni):
        u, v = ints[a + c], r[b + c]
        if float(one) * float(v) + float(u) * float(other) >= COUNT_SURE:
            return -1
        into_q[to + c] += one * v + u * other
        bad |= into_q[to + c]
    for c in range(1 + ni, 1 + ni + nm):
        into_q[to + c] = min(into_q[to + c], ints[a + c], r[b + c])
    for c in range(1 + ni + nm, layout.x):
        into_floats[to + c] += one * h[b + c] + floats[a + c] * other
    return bad


@inner
def _add_product_extended(
    ints: Words,
    floats: Floats,
    a: int,
    r: Words,
    h: Floats,
    b: int,
    into_q: Words,
    into_floats: Floats,
    to: int,
    layout: Layout,
) -> None:
    ni, nm, nf, x = layout.ni, layout.nm, layout.nf, layout.x
    m1, e1, m2, e2 = floats[a + x], ints[a + x + 1], h[b + x], r[b + x + 1]
    if m1 == 0.0 or m2 == 0.0:
        return
    one, other = ints[a], r[b]
    into_q[to] += one * other
    m, e = multiply_extended(m1, e1, m2, e2)
    add_extended(into_q, into_floats, to + x, to + x + 1, m, e)
    for c in range(ni):
        at = x + 2 + 2 * c
        into_q[to + 1 + c] += one * r[b + 1 + c] + ints[a + 1 + c] * other
        m, e = multiply_extended(m1, e1, h[b + at], r[b + at + 1])
        add_extended(into_q, into_floats, to + at, to + at + 1, m, e)
        m, e = multiply_extended(floats[a + at], ints[a + at + 1], m2, e2)
        add_extended(into_q, into_floats, to + at, to + at + 1, m, e)
    for c in range(1 + ni, 1 + ni + nm):
        into_q[to + c] = min(into_q[to + c], ints[a + c], r[b + c])
    for c in range(nf):
        at, exponent = 1 + ni + nm + c, x + 2 + 2 * ni + c
        m, e = multiply_extended(m1, e1, h[b + at], r[b + exponent])
        add_extended(into_q, into_floats, to + at, to + exponent, m, e)
        m, e = multiply_extended(floats[a + at], ints[a + exponent], m2, e2)
        add_extended(into_q, into_floats, to + at, to + exponent, m, e)
