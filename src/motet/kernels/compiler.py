"""Compile kernels: the one place that decides flags and caching.

Numba optimises each function together with all that it calls, and makes machine code of it, then does the same again
for every caller. With helpers of helpers this is most of the time that compiling takes. Helpers of kernels are
therefore handed on to their callers as they are, and optimised once, within the kernel.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils, event, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import lower_builtin, type_callable

from motet.kernels.cache import KernelCache

F = TypeVar("F", bound=Callable[..., object])

KERNELS: list[object] = []  # all that were imported


def compile_kernel(function: F) -> F:
    """Compile a function that Python calls, and keep the machine code on disk for later processes.

    A kernel makes no arrays and returns none. Those it works on belong to its caller, so no references to them are
    counted, which would cost more than most of what a kernel does.
    """
    compiled: Any = _compile(function, pipeline_class=_KernelCompiler)
    if hasattr(compiled, "_cache"):  # not where the compiler is off
        compiled._cache = KernelCache(function)
    KERNELS.append(compiled)
    return cast(F, compiled)


def compile_inner(function: F) -> F:
    """Compile a helper of kernels. It makes no arrays, returns none, raises nothing, and Python cannot call it."""
    compiled = _compile(function, no_cpython_wrapper=True, pipeline_class=_InnerCompiler)
    if hasattr(compiled, "_compiler"):  # not where the compiler is off
        _widen_arguments(compiled._compiler)
    return compiled


def _compile(function: F, **options: Any) -> F:
    # `_nrt`: whether references to arrays are counted.
    common: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
    return cast(F, numba.njit(**common, **options)(function))


def _widen_arguments(compiler: Any) -> None:
    """Compile a helper once for all kinds of ints, and not again for each constant that it is called with."""
    fold = compiler.fold_argument_types

    def fold_and_widen(args: Any, kws: Any) -> tuple[Any, Any]:
        signature, folded = fold(args, kws)
        return signature, tuple(_widen(kind) for kind in folded)

    compiler.fold_argument_types = fold_and_widen


def _widen(kind: Any) -> Any:
    return types.int64 if isinstance(kind, types.Integer) else types.unliteral(kind)


class _KernelLibrary(JITCodeLibrary):
    """The code of a kernel and its helpers, which are its own: they may be changed or dropped where it helps."""

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage.name == "linkonce_odr" and not function.is_declaration:
                function.linkage = "internal"
        super()._optimize_final_module()


class _KernelCompiler(Compiler):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.library = _KernelLibrary(self.state.targetctx.codegen(), "kernel")
        self.state.library.enable_object_caching()


class _InnerLibrary(JITCodeLibrary):
    """The code of a helper: neither optimised nor made machine code of, for the kernels that link it in do both."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> _NoEnvironments:
        return _NoEnvironments()


class _NoEnvironments:
    """Stands for the code generator where a helper would note its environment, which only exceptions need."""

    def set_env(self, name: str, environment: object) -> None:
        pass


class _InnerCompiler(Compiler):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.library = _InnerLibrary(self.state.targetctx.codegen(), "inner")


def compile_prefetch(function: Callable[..., None]) -> None:
    """Make a function of an array and an index, which does nothing in Python, the processor's prefetch in kernels."""

    @type_callable(function)
    def type_prefetch(context: Any) -> Any:
        return lambda array, at: types.none

    def lower_prefetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        at = context.cast(builder, arguments[1], signature.args[1], types.intp)
        strides = cgutils.unpack_tuple(builder, array.strides, signature.args[0].ndim)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.gep(builder.bitcast(array.data, byte), [builder.mul(at, strides[0])])
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # To be read, to be kept in all caches, as data.
        builder.call(prefetch, [place, word(0), word(3), word(1)])
        return context.get_dummy_value()

    lower_builtin(function, types.Array, types.Integer)(lower_prefetch)


def on_first_compilation(callback: Callable[[], None]) -> None:
    """Call back, once, when a kernel has to be compiled because no earlier process has left it on disk."""
    event.register("numba:compile", _Listener(callback, lambda _: None))


def on_each_compilation(callback: Callable[[str], object]) -> None:
    """Call back with its name whenever a kernel has been compiled."""

    def call_for_kernels(ended: event.Event) -> None:
        if (dispatcher := ended.data["dispatcher"]) in KERNELS:
            callback(dispatcher.py_func.__name__)

    event.register("numba:compile", _Listener(None, call_for_kernels))


class _Listener(event.Listener):
    def __init__(self, on_first: Callable[[], None] | None, on_each: Callable[[event.Event], None]) -> None:
        self.on_first = on_first
        self.on_each = on_each

    def on_start(self, event: event.Event) -> None:
        if self.on_first is not None:
            callback, self.on_first = self.on_first, None
            callback()

    def on_end(self, event: event.Event) -> None:
        self.on_each(event)
