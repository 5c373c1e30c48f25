"""Whoever waits for the compiler is told so, once."""

from __future__ import annotations

import numba
import pytest

from motet.kernels.jit import on_first_compilation


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="the compiler is off")
def test_compilation_is_told_once() -> None:
    told: list[str] = []
    on_first_compilation(lambda: told.append("now"))

    @numba.njit
    def one(x: int) -> int:
        return x + 1

    @numba.njit
    def two(x: int) -> int:
        return x + 2

    assert (one(1), two(1), one(2)) == (2, 3, 3)
    assert told == ["now"]
