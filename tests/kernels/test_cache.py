"""Compiled kernels are known by their content: a folder of them works wherever it is copied to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import motet
from motet.kernels.cache import find_folders

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="the compiler is off"),
]
# What a Python worker of Spark does: load kernels, then run a task.
WORKER = """
import pyarrow as pa
from motet.spark.daemon import preload
preload()
import motet
rows = pa.table({"time": [1, 2, 3], "type": ["A", "B", "B"], "k": ["p", "p", "q"]})
print(motet.run(rows, "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k").num_rows)
"""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node that has motet without kernels, and beside it a folder of them whose files have other times."""
    without = shutil.ignore_patterns("compiled", "__pycache__")
    shutil.copytree(Path(motet.__file__).parent, tmp_path / "package" / "motet", ignore=without)
    (tmp_path / "kernels").mkdir()
    for folder in find_folders():
        for kernel in folder.glob("*.kernel"):
            shutil.copyfile(kernel, tmp_path / "kernels" / kernel.name)
            os.utime(tmp_path / "kernels" / kernel.name, (1_000_000_000,) * 2)
    return tmp_path


def run_on(node: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    folders = {"PYTHONPATH": "package", "MOTET_KERNEL_CACHE": "kernels", "XDG_CACHE_HOME": "nothing"}
    environment = os.environ | {name: str(node / folder) for name, folder in folders.items()}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=node, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def test_a_copied_folder_leaves_nothing_to_compile(node: Path) -> None:
    done = run_on(node, "-c", WORKER)
    assert done.stdout == "1\n"
    assert "compiled" not in done.stderr


def test_a_worker_compiles_what_it_needs_alone_and_says_so(node: Path) -> None:
    for name in ("order._order_by_key", "after_match.take_first"):
        for kernel in (node / "kernels").glob(f"{name}.*"):
            kernel.unlink()
    assert run_on(node, "-c", WORKER).stderr == "motet: compiled _order_by_key, which no kernel cache had\n"
    (compiled,) = (node / "kernels").glob("order._order_by_key.*")
    assert compiled.stat().st_mode & 0o777 == 0o644, "another user's worker may read it"
    assert run_on(node, "-c", WORKER).stderr == "", "the next worker finds it"


def test_warming_a_copied_folder_finds_all_there(node: Path) -> None:
    assert run_on(node, "-m", "motet", "warm", "--cache", "kernels").stderr == "all kernels are there\n"


def test_only_processors_that_this_machine_can_stand_in_for_are_compiled_for() -> None:
    done = subprocess.run([sys.executable, "-m", "motet", "warm", "--cpu", "6502"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "this machine cannot compile for '6502'" in " ".join(done.stderr.replace("│", " ").split())
