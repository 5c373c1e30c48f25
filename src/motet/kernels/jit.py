"""The one way kernels are compiled, so that flags and caching are decided in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile a function to machine code on first use and keep the result on disk for later processes."""
    return _compile(function, counts_references=True)


def inner(function: F) -> F:
    """A kernel that makes no arrays and gives none back: those it works on belong to who called it, so nobody counts
    references to them, which would cost more than most of what such a function does.
    """
    return _compile(function, counts_references=False)


def _compile(function: F, counts_references: bool) -> F:
    # The stubs of numba do not know its option `_nrt`, which callees would take over from callers if not told.
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": counts_references}
    return cast(F, numba.njit(**options)(function))


def on_first_compilation(notify: Callable[[], None]) -> None:
    """Call back, once, when a kernel has to be compiled because no earlier process has left it on disk."""
    event.register("numba:compile", _Once(notify))  # type: ignore[no-untyped-call]


class _Once(event.Listener):
    def __init__(self, notify: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = notify

    def on_start(self, event: event.Event) -> None:
        if self.callback is not None:
            callback, self.callback = self.callback, None
            callback()

    def on_end(self, event: event.Event) -> None:
        pass
