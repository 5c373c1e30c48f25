"""Keep compiled kernels on disk: one file for each kernel and signature, named by all that its machine code depends on.

The name has a digest of the sources of a kernel and of all modules that it imports helpers from, of the versions of
Python and numba, of the types of its arguments, and of the processor that it was compiled for. Neither paths nor times
of files matter, so a folder of kernels can be copied, packed and unpacked, and processes that compile the same kernel
at the same time write the same file.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import hashlib
import os
import pickle
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import serialize
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult

FOLDER = "MOTET_KERNEL_CACHE"  # the variable of the environment that names a folder of kernels
PACKAGED = Path(__file__).with_name("compiled")
SUFFIX = ".kernel"
# Processors that code can be compiled for so that others run it too, best first, and what each of them adds.
BASELINES: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
        "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
        "x86-64": (),
    },
    "aarch64": {"generic": ()},
    "arm64": {"generic": ()},  # what macOS calls it
}
IMPORTED = re.compile(r"^from motet\.kernels\.(\w+) import", re.MULTILINE)

Kernel = Callable[..., object]
Target = tuple[str, str, str]  # triple, processor and features: numba's `magic_tuple`


class KernelMissing(Exception):
    """No folder has a kernel, and it is not to be compiled."""


class _Policy:
    """Whether kernels that no folder has are compiled in this process; and whether only the first folder counts, and
    code for exactly the processor that numba compiles for.
    """

    compiles = True
    exact = False


def load_only(function: Callable[[], None]) -> bool:
    """Call a function, but compile nothing: return False where it would need a kernel that no folder has."""
    _Policy.compiles = False
    try:
        function()
    except KernelMissing:
        return False
    finally:
        _Policy.compiles = True
    return True


def fill_first_folder() -> None:
    """Compile from now on all that the first folder does not have for the very processor that numba compiles for."""
    _Policy.exact = True


@cache
def list_baselines() -> list[str]:
    """Return the processors to compile for that this machine can stand in for, best first."""
    levels = BASELINES.get(platform.machine(), {})
    features = dict(llvm.get_host_cpu_features())
    names = list(levels)
    # A level has all that those after it have.
    return [
        name
        for at, name in enumerate(names)
        if all(features.get(feature) for below in names[at:] for feature in levels[below])
    ]


class KernelCache(_Cache):
    """The compiled code of one kernel, in the folders where it may be."""

    def __init__(self, function: Kernel) -> None:
        tag = sys.implementation.cache_tag
        sources = _hash_sources(Path(sys.modules[function.__module__].__file__ or ""))[:12]
        self.function = function
        self.stem = f"{function.__module__.rpartition('.')[2]}.{function.__name__}.{tag}."
        self.prefix = f"{self.stem}{sources}."

    @property
    def cache_path(self) -> str:
        """The folder that new kernels are written to."""
        return str(find_folders()[0])

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """Load the kernel for some types of arguments: compiled for this processor, or for one that it stands in for.

        Raises:
            KernelMissing: There is none, and nothing is to be compiled.
        """
        target_context.refresh()
        native: Target = target_context.codegen().magic_tuple()
        targets = [native] if _Policy.exact else [native, *((native[0], name, "") for name in list_baselines())]
        for folder in find_folders()[: 1 if _Policy.exact else None]:
            for target in targets:
                try:
                    payload = (folder / self._name(sig, target)).read_bytes()
                except OSError:
                    continue
                return CompileResult._rebuild(target_context, *pickle.loads(payload))
        if not _Policy.compiles:
            raise KernelMissing(self.function.__name__)
        return None

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        """Write a kernel to the first folder that can be written to, and remove those of other sources from there."""
        payload = serialize.dumps(data._reduce())
        for folder in find_folders():
            try:
                folder.mkdir(parents=True, exist_ok=True)
                _replace(folder / self._name(sig, data.codegen.magic_tuple()), payload)
                for old in folder.glob(f"{self.stem}*{SUFFIX}"):
                    if not old.name.startswith(self.prefix):
                        old.unlink(missing_ok=True)
            except OSError:
                continue
            return

    def _name(self, sig: Any, target: Target) -> str:
        return f"{self.prefix}{_digest(repr((str(sig), target, numba.__version__)).encode())[:24]}{SUFFIX}"

    def enable(self) -> None:
        """Do nothing: kernels are always kept."""

    def disable(self) -> None:
        """Do nothing: kernels are always kept."""

    def flush(self) -> None:
        """Do nothing: the names of files tell whether they fit."""


def find_folders() -> list[Path]:
    """Return where kernels are looked for, and written to, in this order: the folder that the environment names, that
    of the package, and one of the user.
    """
    named = os.environ.get(FOLDER)
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "motet" / "kernels"
    return [*([Path(named)] if named else []), PACKAGED, user]


@cache
def _hash_sources(file: Path) -> str:
    """Hash a module, all kernel modules that it imports, directly or not, and what says how they are compiled."""
    found = dict.fromkeys([file, Path(__file__).with_name("compiler.py")])
    waiting = list(found)
    while waiting:
        imported = {Path(__file__).with_name(f"{name}.py") for name in IMPORTED.findall(_read(waiting.pop()))}
        new = imported - {*found, Path(__file__)}
        found |= dict.fromkeys(new)
        waiting += new
    return _digest(repr(sorted(_digest(_read(each).encode()) for each in found)).encode())


@cache
def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _replace(file: Path, content: bytes) -> None:
    """Write a file at once: whoever reads it meanwhile sees all of it or none."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as target:
            target.write(content)
        Path(name).chmod(0o644)  # in images and shared folders, others than who compiled read it
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
