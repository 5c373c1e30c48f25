"""Types of the arrays that kernels work on, and times beyond all events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_TIME = np.int64(2**62)  # later than any event
MIN_TIME = np.int64(-(2**62))  # earlier than any event
