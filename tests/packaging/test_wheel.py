"""The wheel, installed where nothing else of motet is, runs in process and on Spark, and compiles nothing."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.standalone import clean_environment
from tests.packaging.environment import build_wheel, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_wheel_is_whole(wheel: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "twine", "check", "--strict", str(wheel)])
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"motet/py.typed", "motet/spark/log4j2.properties", "motet/language/grammar.lark"} <= names
    assert any(name.endswith(".kernel") for name in names)
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)


def test_a_wheel_without_kernels_is_pure(tmp_path: Path) -> None:
    pure = build_wheel(tmp_path, kernels=False)
    assert pure.name.endswith("-py3-none-any.whl")
    assert not any(name.endswith(".kernel") for name in zipfile.ZipFile(pure).namelist())


def test_the_demonstration_runs_from_the_wheel(wheel: Path, wheel_python: Path, tmp_path: Path) -> None:
    environment = clean_environment(HOME=str(tmp_path), PATH=f"{wheel_python.parent}:{os.environ['PATH']}")
    shown = run([str(wheel_python.parent / "motet"), "demo"], cwd=tmp_path, env=environment)
    assert "the same as above" in shown
    shipped = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".kernel")}
    assert {kernel.name for kernel in wheel_python.parents[1].rglob("*.kernel")} == shipped  # nothing was compiled
    told = run([str(wheel_python), "-c", "import motet; print(motet.__file__)"], cwd=tmp_path, env=environment)
    assert Path(told.strip()).is_relative_to(wheel_python.parents[1])


def test_types_are_known_to_users_of_the_wheel(wheel_python: Path, tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text("import motet\nreveal_type(motet.parse('RETURN COUNT(*) PATTERN A').queries)\n")
    arguments = ["--python-executable", str(wheel_python), "--no-incremental", "use.py"]
    told = run([sys.executable, "-m", "mypy", *arguments], cwd=tmp_path, env=clean_environment())
    assert "motet.model.query.Query" in told
