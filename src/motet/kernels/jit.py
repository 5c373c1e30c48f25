"""The decorators of kernels: compiled functions, or plain Python where a process has only a handful of rows to run.

To load numba and compiled code takes longer than plain Python needs for a few rows, and to compile them, on a machine
that has not done so yet, takes a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

_interpreted = False


def interpret_kernels() -> None:
    """Run kernels as plain Python in this process. Takes effect for kernels that are imported later: call it first."""
    global _interpreted
    _interpreted = True


def are_kernels_interpreted() -> bool:
    """Return whether kernels run as plain Python."""
    return _interpreted


def kernel(function: F) -> F:
    """Compile a function that Python calls; see `motet.kernels.compiler`."""
    if _interpreted:
        return function
    from motet.kernels.compiler import compile_kernel

    return compile_kernel(function)


def inner(function: F) -> F:
    """Compile a helper of kernels; see `motet.kernels.compiler`."""
    if _interpreted:
        return function
    from motet.kernels.compiler import compile_inner

    return compile_inner(function)
