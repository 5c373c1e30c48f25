"""The one way kernels are compiled, so that flags and caching are decided in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile a function to machine code on first use and keep the result on disk for later processes."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def on_first_compilation(tell: Callable[[], None]) -> None:
    """Call back, once, when a kernel has to be compiled because no earlier process has left it on disk."""
    event.register("numba:compile", _Once(tell))  # type: ignore[no-untyped-call]


class _Once(event.Listener):
    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell: Callable[[], None] | None = tell

    def on_start(self, event: event.Event) -> None:
        if self.tell is not None:
            tell, self.tell = self.tell, None
            tell()

    def on_end(self, event: event.Event) -> None:
        pass
