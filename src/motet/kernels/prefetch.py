"""Ask the processor for memory that is needed soon.

What a stream keeps of its keys is larger than caches, and a micro-batch reads a little of many keys, in no order that a
processor could foresee. To ask a few keys ahead lets it fetch several at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from motet.kernels.jit import are_kernels_interpreted


def prefetch(array: np.ndarray[Any, Any], at: int) -> None:
    """Fetch the cache line at which an element begins, or a row; an index beyond the array does no harm."""


if not are_kernels_interpreted():
    from motet.kernels import compiler

    compiler.compile_prefetch(prefetch)
