"""Whoever waits for the compiler is told so, once."""

from __future__ import annotations

import importlib
import pkgutil

import numba
import pytest

from motet import kernels
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


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="the compiler is off")
def test_what_does_not_count_references_gives_no_array_back() -> None:
    modules = [
        importlib.import_module(f"motet.kernels.{found.name}") for found in pkgutil.iter_modules(kernels.__path__)
    ]
    compiled = {one for module in modules for one in vars(module).values() if hasattr(one, "targetoptions")}
    inner = [one.py_func for one in compiled if not one.targetoptions["_nrt"]]
    assert len(inner) > 50
    of_arrays = ("NDArray", "Words", "Floats", "Labels", "Ints", "Times", "Nodes", "Flags", "Events")
    returned = {one.__name__: one.__annotations__["return"] for one in inner}
    assert [name for name, given in returned.items() if any(word in given for word in of_arrays)] == []
