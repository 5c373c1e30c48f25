"""The decorators of kernels: compiled functions, or plain Python where a process has only a handful of rows to run.

To load numba and compiled code takes longer than plain Python needs for a few rows, and to compile them, on a machine
that has not done so yet, takes a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

_interpreted = False
_compiled = False  # some kernel was: from then on all are


def interpret_kernels() -> None:
    """Run kernels as plain Python in this process, if none has been imported yet: the two kinds do not mix."""
    global _interpreted
    _interpreted = not _compiled


def are_kernels_interpreted() -> bool:
    """Return whether kernels run as plain Python."""
    return _interpreted


def kernel(function: F) -> F:
    """Compile a function that Python calls; see `motet.kernels.compiler`."""
    return function if _interpreted else _load_compiler().compile_kernel(function)


def inner(function: F) -> F:
    """Compile a helper of kernels; see `motet.kernels.compiler`."""
    return function if _interpreted else _load_compiler().compile_inner(function)


def _load_compiler() -> ModuleType:
    global _compiled
    _compiled = True
    from motet.kernels import compiler

    return compiler
