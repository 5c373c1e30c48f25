"""Split the keys of a batch among threads: kernels release the GIL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import numpy as np

from motet.engine.encode import EncodedEvents, Ints

# Fewer events than this are not worth a thread.
MIN_EVENTS_PER_THREAD = 8_000

S = TypeVar("S")
R = TypeVar("R")


def cut_keys(offsets: Ints, shares: int) -> list[int]:
    """Return where shares of consecutive keys with about as many events begin, and where the last ends.

    There are at most `shares`, of which none has few events but for how keys fall.
    """
    keys, events = len(offsets) - 1, int(offsets[-1] - offsets[0])
    shares = min(shares, keys, events // MIN_EVENTS_PER_THREAD)
    if shares < 2:
        return [0, keys]
    even = np.linspace(offsets[0], offsets[-1], shares + 1)[1:-1]
    found: list[int] = np.unique([0, *np.searchsorted(offsets, even), keys]).tolist()
    return found


def slice_keys(encoded: EncodedEvents, first: int, last: int) -> EncodedEvents:
    """Return the events of the keys from `first` to before `last`, numbered from 0 as their keys are."""
    begin, end = int(encoded.offsets[first]), int(encoded.offsets[last])
    return replace(
        encoded,
        rows=encoded.rows[begin:end],
        offsets=encoded.offsets[first : last + 1] - begin,
        time=encoded.time[begin:end],
        klass=encoded.klass[begin:end],
        keys={name: values.slice(first, last - first) for name, values in encoded.keys.items()},
        enter=encoded.enter[begin:end],
        leave=encoded.leave[begin:end],
        texts={},
        _columns={},
    )


def run_in_threads(run: Callable[[S], R], shares: Sequence[S], threads: int) -> Iterator[Future[R]]:
    """Run shares in threads and yield what comes of them in their order; few results are held at a time."""
    left = iter(shares)
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(run, share) for share in islice(left, threads + 1)]
        try:
            while running:
                yield running.pop(0)
                running += [pool.submit(run, share) for share in islice(left, 1)]
        finally:
            for each in running:
                each.cancel()
