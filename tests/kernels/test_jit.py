"""How kernels are compiled."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from operator import attrgetter

import numba
import pytest

from motet import kernels
from motet.kernels.compiler import KERNELS, on_each_compilation, on_first_compilation

with_compiler = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="the compiler is off")


@with_compiler
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


@with_compiler
def test_compilation_is_told_of_kernels_alone() -> None:
    told: list[str] = []
    on_each_compilation(told.append)

    @numba.njit
    def function(x: int) -> int:
        return x + 1

    @numba.njit
    def kernel(x: int) -> int:
        return function(x) + 1

    KERNELS.append(kernel)
    assert kernel(1) == 3
    assert told == ["kernel"]
    KERNELS.remove(kernel)


@with_compiler
def test_warming_reaches_every_kernel() -> None:
    """What is missing there is compiled by a worker, or by the user who asks first."""
    code = """if True:
        from motet.engine.warm import _PARTS
        from motet.kernels.compiler import KERNELS
        for part in _PARTS:
            part()
        print(*(kernel.__name__ for kernel in KERNELS if not kernel.signatures))
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def compiled_functions() -> dict[str, object]:
    modules = [
        importlib.import_module(f"motet.kernels.{found.name}") for found in pkgutil.iter_modules(kernels.__path__)
    ]
    return {one.__name__: one for module in modules for one in vars(module).values() if hasattr(one, "targetoptions")}


@with_compiler
def test_kernels_return_no_arrays() -> None:
    functions = compiled_functions()
    assert len(functions) > 100
    returned = {name: one.py_func.__annotations__["return"] for name, one in functions.items()}
    of_arrays = ("Ints", "Floats", "Flags", "Totals", "Events")
    assert [name for name, given in returned.items() if any(word in given for word in of_arrays)] == []


@with_compiler
def test_kernels_have_few_arguments_and_say_what_they_do() -> None:
    for name, function in compiled_functions().items():
        assert len(inspect.signature(function.py_func).parameters) <= 10, name
        assert name.startswith("_") or function.py_func.__doc__, name


@with_compiler
def test_every_kernel_states_its_complexity_or_who_does() -> None:
    compiled_functions()  # imports every module of kernels
    silent = []
    for one in KERNELS:
        function = one.py_func
        if not function.__module__.startswith("motet."):  # baselines, which other tests import
            continue
        module = sys.modules[function.__module__]
        references = re.findall(r"`([\w.]+)`", function.__doc__ or "")
        callers = [attrgetter(name)(module) for name in references if hasattr(module, name.split(".")[0])]
        if not any("O(" in (each.__doc__ or "") for each in [function, *callers]):
            silent.append(f"{module.__name__}.{function.__name__}")
    assert silent == []


def test_plain_kernels_never_join_compiled_ones() -> None:
    import motet.kernels.tables  # noqa: F401
    from motet.kernels.jit import are_kernels_interpreted, interpret_kernels

    interpret_kernels()
    assert not are_kernels_interpreted()
