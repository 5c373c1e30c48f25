"""Totals of partial matches: small vectors of channels, and the linear steps every strategy is made of.

A total is a run of 64-bit words: the count of partial matches, further counts, minima (maxima negated), sums. Counts
wrap at 64 bits. *Extended* totals have further words, a floating shadow of each count and an exponent of each float,
so that magnitudes beyond 64 bits, and beyond the largest double, stay known.

Helpers loop rather than slice: a slice would cost more than what is done with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import Floats, Ints
from motet.kernels.jit import inner

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
    """Where a total's words are: a count, `ni` further counts, `nm` minima, `nf` sums.

    Extended totals have from word `x` on the mantissa and exponent of the count, those of each further count, and the
    exponent of each sum. Totals with shadows are one count each, with a float beside it.
    """

    words: int
    ni: int
    nm: int
    nf: int
    extended: bool
    has_shadows: bool
    x: int


class Totals(NamedTuple):
    """A buffer of totals, `slots` of them to a row: total number s of row r is number r * slots + s of the buffer.

    A slot is a pane, a window, a start, or a row of a product. `ints` and `floats` are two views of the same memory;
    where the layout has shadows, `floats` are these, one to a total.
    """

    ints: Ints
    floats: Floats
    layout: Layout
    slots: int


class ChannelWeights(NamedTuple):
    """What an event adds to each channel: `ints` to counts, then minima, `floats` to sums."""

    ints: Ints
    floats: Floats


def make_layout(ni: int, nf: int, nm: int, extended: bool = False, shadowed: bool = False) -> Layout:
    """Return the layout of totals with these numbers of counts, sums and minima."""
    x = 1 + ni + nm + nf
    return Layout(x + (2 + 2 * ni + nf if extended else 0), ni, nm, nf, extended, shadowed, x)


def list_layouts(ni: int, nf: int, nm: int, rarely_large: bool) -> list[Layout]:
    """List the layouts to try in turn until no count overflows: the cheapest first where large counts are rare."""
    plain, extended = make_layout(ni, nf, nm), make_layout(ni, nf, nm, extended=True)
    if plain.words > 1:
        return [plain, extended]
    shadowed = make_layout(0, 0, 0, shadowed=True)
    return [plain, shadowed, extended] if rarely_large else [shadowed, extended]


def list_pair_layouts(ni: int, nf: int, nm: int) -> list[tuple[Layout, Layout]]:
    """List the layouts to try in turn for totals within a pane and for those of windows, which are much larger."""
    plain, extended = make_layout(ni, nf, nm), make_layout(ni, nf, nm, extended=True)
    if plain.words > 1:
        return [(plain, plain), (extended, extended)]
    shadowed = make_layout(0, 0, 0, shadowed=True)
    return [(plain, shadowed), (shadowed, shadowed), (extended, extended)]


def create_totals(rows: int, slots: int, layout: Layout) -> Totals:
    """Create totals, all empty. O(rows * slots * words)."""
    count = rows * slots
    ints = np.zeros(count * layout.words, np.int64)
    if layout.nm > 0:
        ints.reshape(count, layout.words)[:, 1 + layout.ni : 1 + layout.ni + layout.nm] = NO_MINIMUM
    return _view_totals(ints, slots, layout)


def allocate_totals(rows: int, slots: int, layout: Layout) -> Totals:
    """Create totals that will be written before they are read."""
    return _view_totals(np.empty(rows * slots * layout.words, np.int64), slots, layout)


def _view_totals(ints: Ints, slots: int, layout: Layout) -> Totals:
    floats = np.zeros(ints.size, np.float64) if layout.has_shadows else ints.view(np.float64)
    return Totals(ints, floats, layout, slots)


def grow_totals(totals: Totals) -> Totals:
    """Copy totals to a buffer of twice the size."""
    wider = allocate_totals(2 * (totals.ints.size // totals.layout.words), 1, totals.layout)
    wider.ints[: totals.ints.size] = totals.ints
    if totals.layout.has_shadows:
        wider.floats[: totals.floats.size] = totals.floats
    return wider._replace(slots=totals.slots)


def create_weights(layout: Layout) -> ChannelWeights:
    """Create the weights of no event at all: what propagates totals unchanged."""
    ints = np.zeros(layout.ni + layout.nm, np.int64)
    ints[layout.ni :] = NO_MINIMUM
    return ChannelWeights(ints, np.zeros(layout.nf, np.float64))


@inner
def copy_totals(source: Totals, a: int, target: Totals, b: int, count: int) -> None:
    """Copy `count` totals from number a on to number b on; within one buffer, downwards only."""
    words = source.layout.words
    for at in range(count * words):
        target.ints[b * words + at] = source.ints[a * words + at]
    if source.layout.has_shadows:
        for at in range(count):
            target.floats[b + at] = source.floats[a + at]


@inner
def sum_extended(m1: float, e1: int, m2: float, e2: int) -> tuple[float, int]:
    """Add two extended numbers, each a mantissa and an exponent."""
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
    """Multiply two extended numbers."""
    m = m1 * m2
    e = e1 + e2
    if abs(m) >= RADIX:
        return m * SHRINK, e + 1
    if m != 0.0 and abs(m) < SHRINK and e > 0:
        return m * RADIX, e - 1
    return m, e


@inner
def _add_extended(totals: Totals, at: int, exponent_at: int, m: float, e: int) -> None:
    """Add to the extended number whose mantissa and exponent are at these words."""
    m, e = sum_extended(totals.floats[at], totals.ints[exponent_at], m, e)
    totals.floats[at] = m
    totals.ints[exponent_at] = e


@inner
def _add_term(totals: Totals, at: int, exponent_at: int, m1: float, e1: int, m2: float, e2: int) -> None:
    """Add the product of two extended numbers to the one whose mantissa and exponent are at these words."""
    m, total = m1 * m2, totals.floats[at]
    if e1 == 0 and e2 == 0 and totals.ints[exponent_at] == 0 and abs(m) + abs(total) < RADIX:
        totals.floats[at] = total + m  # nearly all: no exponent is needed
        return
    m, e = multiply_extended(m1, e1, m2, e2)
    _add_extended(totals, at, exponent_at, m, e)


@inner
def add_counts(totals: Totals, a: int, b: int, count: int, n: int) -> None:
    """Do what `propagate` does for counts with shadows: loops over consecutive words."""
    ints, floats = totals.ints, totals.floats
    if n == 1:
        for s in range(count):
            ints[b + s] += ints[a + s]
        for s in range(count):
            floats[b + s] += floats[a + s]
    else:
        times = np.float64(n)
        for s in range(count):
            ints[b + s] += n * ints[a + s]
        for s in range(count):
            floats[b + s] += times * floats[a + s]


@inner
def propagate(totals: Totals, a: int, b: int, count: int, n: int, weights: ChannelWeights) -> int:
    """Let n events of one time, alike, extend the matches of `count` totals from number a on: add what they become to
    the totals from number b on.

    `weights` are those of all n events taken together. Returns a negative number where a 64-bit count overflowed (never
    so when extended). O(count * words).
    """
    layout = totals.layout
    if layout.has_shadows:
        add_counts(totals, a, b, count, n)
        return 0
    words = layout.words
    if layout.extended:
        if layout.ni == 1 and layout.nm == 0 and layout.nf == 1:
            _propagate_extended_sums(totals, a, b, count, n, weights)
            return 0
        for s in range(count):
            _propagate_extended(totals, (a + s) * words, (b + s) * words, n, weights)
        return 0
    if words == 1:
        return _propagate_counts(totals.ints, a, b, count, n)
    if layout.ni == 1 and layout.nm == 0 and layout.nf == 1:
        return _propagate_sums(totals, a, b, count, n, weights.ints[0], weights.floats[0])
    return _propagate_channels(totals, a * words, b * words, count, n, weights)


@inner
def propagate_count_words(totals: Totals, a: int, b: int, count: int, n: int) -> int:
    """Do what `propagate` does where totals have channels, all of them empty here: only counts are added.

    Not for extended totals. O(count).
    """
    ints, words = totals.ints, totals.layout.words
    bad = np.int64(0)
    one, other = a * words, b * words
    for _ in range(count):
        new = n * ints[one]
        if n > 1 and np.float64(n) * np.float64(ints[one]) >= COUNT_SURE:
            return -1
        total = ints[other] + new
        ints[other] = total
        bad |= total
        one += words
        other += words
    return bad


@inner
def begin_channels(totals: Totals, a: int, b: int, count: int, weights: ChannelWeights) -> int:
    """Add to the channels of totals from number b on what events add to the counts from number a on, whose channels are
    all empty: only those are touched to which the events add anything.

    Returns a negative number where a 64-bit count overflowed. Not for extended totals. O(count * channels with a
    weight).
    """
    ints, floats, layout = totals.ints, totals.floats, totals.layout
    ni, nm, words = layout.ni, layout.nm, layout.words
    bad = np.int64(0)
    for c in range(ni):
        weight = weights.ints[c]
        if weight == 0:
            continue
        for s in range(count):
            new, at = ints[(a + s) * words], (b + s) * words + 1 + c
            if np.float64(weight) * np.float64(new) >= COUNT_SURE:
                return -1
            ints[at] += weight * new
            bad |= ints[at]
    for c in range(ni, ni + nm):
        weight = weights.ints[c]
        if weight == NO_MINIMUM:
            continue
        for s in range(count):
            at = (b + s) * words + 1 + c
            if ints[(a + s) * words] != 0:
                ints[at] = min(ints[at], weight)
    for c in range(layout.nf):
        value = weights.floats[c]
        if value == 0.0:
            continue
        for s in range(count):
            new = ints[(a + s) * words]
            if new != 0:
                floats[(b + s) * words + 1 + ni + nm + c] += value * new
    return bad


@inner
def _propagate_counts(ints: Ints, a: int, b: int, count: int, n: int) -> int:
    """Propagate counts without shadows."""
    bad = np.int64(0)
    if n == 1:
        for s in range(count):
            total = ints[b + s] + ints[a + s]
            ints[b + s] = total
            bad |= total
        return bad
    for s in range(count):
        if np.float64(n) * np.float64(ints[a + s]) >= COUNT_SURE:
            return -1
        total = ints[b + s] + n * ints[a + s]
        ints[b + s] = total
        bad |= total
    return bad


@inner
def _propagate_channels(totals: Totals, a: int, b: int, count: int, n: int, weights: ChannelWeights) -> int:
    """Propagate totals of any channels, from and to these words."""
    ints, floats, layout = totals.ints, totals.floats, totals.layout
    ni, nm, words = layout.ni, layout.nm, layout.words
    times = np.float64(n)
    bad = np.int64(0)
    for s in range(count):
        one, other = a + s * words, b + s * words
        new = ints[one]
        if new == 0:
            continue
        if n > 1 and times * np.float64(new) >= COUNT_SURE:
            return -1
        total = ints[other] + n * new
        ints[other] = total
        bad |= total
        for c in range(1, 1 + ni):
            if times * np.float64(ints[one + c]) + np.float64(weights.ints[c - 1]) * np.float64(new) >= COUNT_SURE:
                return -1
            more = ints[other + c] + n * ints[one + c] + weights.ints[c - 1] * new
            ints[other + c] = more
            bad |= more
        for c in range(1 + ni, 1 + ni + nm):
            ints[other + c] = min(ints[other + c], ints[one + c], weights.ints[c - 1])
        for c in range(layout.nf):
            at = 1 + ni + nm + c
            floats[other + at] += times * floats[one + at] + weights.floats[c] * new
    return bad


@inner
def _propagate_sums(totals: Totals, a: int, b: int, count: int, n: int, wi: int, wf: float) -> int:
    """Propagate totals of a count, another and a sum: without loops over channels."""
    ints, floats = totals.ints, totals.floats
    bad = np.int64(0)
    times, weight = np.float64(n), np.float64(wi)
    for s in range(count):
        one, other = 3 * (a + s), 3 * (b + s)
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
def _propagate_extended_sums(totals: Totals, a: int, b: int, count: int, n: int, weights: ChannelWeights) -> None:
    """Propagate extended totals of a count, another and a sum: without exponents where none is needed, as for nearly
    all.
    """
    ints, floats = totals.ints, totals.floats
    times, wi, wf = np.float64(n), np.float64(weights.ints[0]), weights.floats[0]
    for s in range(count):
        one, other = 8 * (a + s), 8 * (b + s)
        m = floats[one + 3]
        if m == 0.0:
            continue
        exponents = ints[one + 4] | ints[one + 6] | ints[one + 7] | ints[other + 4] | ints[other + 6] | ints[other + 7]
        new, more = floats[other + 3] + times * m, floats[other + 5] + (times * floats[one + 5] + wi * m)
        own, added, before = times * floats[one + 2], wf * m, floats[other + 2]
        if exponents != 0 or not new + more + abs(own) + abs(added) + abs(before) < RADIX:
            _propagate_extended(totals, one, other, n, weights)
            continue
        floats[other + 2], floats[other + 3], floats[other + 5] = before + (own + added), new, more
        ints[other + 1] += n * ints[one + 1] + weights.ints[0] * ints[one]
        ints[other] += n * ints[one]


@inner
def _propagate_extended(totals: Totals, one: int, other: int, n: int, weights: ChannelWeights) -> None:
    """Propagate an extended total from and to these words."""
    ints, floats, layout = totals.ints, totals.floats, totals.layout
    ni, nm, nf, x = layout.ni, layout.nm, layout.nf, layout.x
    m, e = floats[one + x], ints[one + x + 1]
    if m == 0.0:
        return
    new = ints[one]
    times = np.float64(n)
    # Channels before the count: a node may be propagated to itself.
    for c in range(ni):
        at, exponent = x + 2 + 2 * c, x + 3 + 2 * c
        ints[other + 1 + c] += n * ints[one + 1 + c] + weights.ints[c] * new
        _add_scaled(totals, one, other, at, exponent, times, np.float64(weights.ints[c]), m, e)
    for c in range(1 + ni, 1 + ni + nm):
        ints[other + c] = min(ints[other + c], ints[one + c], weights.ints[c - 1])
    for c in range(nf):
        _add_scaled(totals, one, other, 1 + ni + nm + c, x + 2 + 2 * ni + c, times, weights.floats[c], m, e)
    ints[other] += n * new
    _add_term(totals, other + x, other + x + 1, times, 0, m, e)


@inner
def _add_scaled(
    totals: Totals, one: int, other: int, at: int, exponent: int, times: float, weight: float, m: float, e: int
) -> None:
    """Add to an extended channel of one total `times` that of another, and `weight` times the other's count m, e."""
    value, e1, e3 = totals.floats[one + at], totals.ints[one + exponent], totals.ints[other + exponent]
    m1, m2, m3 = times * value, weight * m, totals.floats[other + at]
    if e == 0 and e1 == 0 and e3 == 0 and abs(m1) + abs(m2) + abs(m3) < RADIX:  # nearly all: no exponent is needed
        totals.floats[other + at] = m3 + (m1 + m2)
        return
    m1, e1 = multiply_extended(times, 0, value, e1)
    m2, e2 = multiply_extended(weight, 0, m, e)
    m3, e3 = sum_extended(m1, e1, m2, e2)
    _add_extended(totals, other + at, other + exponent, m3, e3)


@inner
def clear_totals(totals: Totals, first: int, count: int) -> None:
    """Empty `count` totals from number `first` on."""
    layout = totals.layout
    words = layout.words
    for at in range(first * words, (first + count) * words):
        totals.ints[at] = 0
    if layout.has_shadows:
        for at in range(first, first + count):
            totals.floats[at] = 0.0
    if layout.nm > 0:
        for s in range(first, first + count):
            for c in range(1 + layout.ni, 1 + layout.ni + layout.nm):
                totals.ints[s * words + c] = NO_MINIMUM


@inner
def set_empty_match(totals: Totals, at: int) -> None:
    """Let an empty total count one empty match: what a start node holds."""
    layout = totals.layout
    totals.ints[at * layout.words] = 1
    if layout.extended:
        totals.floats[at * layout.words + layout.x] = 1.0
    elif layout.has_shadows:
        totals.floats[at] = 1.0


@inner
def has_matches(totals: Totals, at: int) -> bool:
    """Return whether a total counts any match; a wrapped count of zero does not deceive it."""
    layout = totals.layout
    if layout.extended:
        return bool(totals.floats[at * layout.words + layout.x] != 0.0)
    if layout.has_shadows:
        return bool(totals.floats[at] != 0.0)
    return bool(totals.ints[at * layout.words] != 0)


@inner
def add_total(source: Totals, a: int, target: Totals, b: int) -> int:
    """Add one total to another, of another buffer; negative where a count left its bounds."""
    ints, floats, layout = source.ints, source.floats, source.layout
    if layout.has_shadows:
        target.ints[b] += ints[a]
        target.floats[b] += floats[a]
        return 0 if target.floats[b] < SHADOW_LIMIT else -1
    ni, nm, nf, x = layout.ni, layout.nm, layout.nf, layout.x
    a, b = a * layout.words, b * layout.words
    bad = np.int64(0)
    for c in range(1 + ni):
        target.ints[b + c] += ints[a + c]
        bad |= target.ints[b + c]
    for c in range(1 + ni, 1 + ni + nm):
        target.ints[b + c] = min(target.ints[b + c], ints[a + c])
    if not layout.extended:
        for c in range(1 + ni + nm, x):
            target.floats[b + c] += floats[a + c]
        return bad
    for c in range(1 + ni):
        at = x + 2 * c
        _add_extended(target, b + at, b + at + 1, floats[a + at], ints[a + at + 1])
    for c in range(nf):
        at, exponent = 1 + ni + nm + c, x + 2 + 2 * ni + c
        _add_extended(target, b + at, b + exponent, floats[a + at], ints[a + exponent])
    return 0


@inner
def add_totals(source: Totals, a: int, count: int, target: Totals, b: int) -> int:
    """Add `count` totals that lie side by side to one of another buffer; negative where a count left its bounds."""
    if source.layout.has_shadows:
        total, shadow = target.ints[b], target.floats[b]
        for at in range(a, a + count):
            total += source.ints[at]
            shadow += source.floats[at]
        target.ints[b], target.floats[b] = total, shadow
        return 0 if shadow < SHADOW_LIMIT else -1
    bad = np.int64(0)
    for s in range(count):
        bad |= add_total(source, a + s, target, b)
    return bad


@inner
def add_product(left: Totals, a: int, right: Totals, b: int, target: Totals, to: int) -> int:
    """Add to a total the product of two others: every match of one followed by every match of the other.

    Returns a negative number where a 64-bit count overflowed (never so when extended). Layouts are those of the target.
    """
    layout = target.layout
    if layout.has_shadows:
        if left.floats[a] != 0.0 and right.floats[b] != 0.0:
            target.ints[to] += left.ints[a] * right.ints[b]
            target.floats[to] += left.floats[a] * right.floats[b]
        return 0 if target.floats[to] < SHADOW_LIMIT else -1
    a, b, to = a * layout.words, b * layout.words, to * layout.words
    if layout.extended:
        _add_product_extended(left, a, right, b, target, to)
        return 0
    one, other = left.ints[a], right.ints[b]
    if one == 0 or other == 0:
        return 0
    if float(one) * float(other) >= COUNT_SURE:
        return -1
    total = target.ints[to] + one * other
    target.ints[to] = total
    bad = total
    ni, nm = layout.ni, layout.nm
    for c in range(1, 1 + ni):
        u, v = left.ints[a + c], right.ints[b + c]
        if float(one) * float(v) + float(u) * float(other) >= COUNT_SURE:
            return -1
        target.ints[to + c] += one * v + u * other
        bad |= target.ints[to + c]
    for c in range(1 + ni, 1 + ni + nm):
        target.ints[to + c] = min(target.ints[to + c], left.ints[a + c], right.ints[b + c])
    for c in range(1 + ni + nm, layout.x):
        target.floats[to + c] += one * right.floats[b + c] + left.floats[a + c] * other
    return bad


@inner
def _add_product_extended(left: Totals, a: int, right: Totals, b: int, target: Totals, to: int) -> None:
    """Add the product of the extended totals at these words."""
    layout = target.layout
    ni, nm, nf, x = layout.ni, layout.nm, layout.nf, layout.x
    m1, e1, m2, e2 = left.floats[a + x], left.ints[a + x + 1], right.floats[b + x], right.ints[b + x + 1]
    if m1 == 0.0 or m2 == 0.0:
        return
    one, other = left.ints[a], right.ints[b]
    target.ints[to] += one * other
    _add_term(target, to + x, to + x + 1, m1, e1, m2, e2)
    for c in range(1 + ni, 1 + ni + nm):
        target.ints[to + c] = min(target.ints[to + c], left.ints[a + c], right.ints[b + c])
    for c in range(ni):
        target.ints[to + 1 + c] += one * right.ints[b + 1 + c] + left.ints[a + 1 + c] * other
    for c in range(ni + nf):
        at, exponent = x + 2 + 2 * c, x + 3 + 2 * c
        if c >= ni:
            at, exponent = 1 + nm + c, x + 2 + ni + c
        _add_term(target, to + at, to + exponent, m1, e1, right.floats[b + at], right.ints[b + exponent])
        _add_term(target, to + at, to + exponent, left.floats[a + at], left.ints[a + exponent], m2, e2)
