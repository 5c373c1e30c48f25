"""The one way kernels are compiled, so that flags and caching are decided in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile a function to machine code on first use and keep the result on disk for later processes."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
