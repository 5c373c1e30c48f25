"""`motet bench` runs the experiments of a checkout; an installed motet has none and says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import motet


def run_python(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run Python where `path` comes first in the search for packages."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=path,
        env={**os.environ, "PYTHONPATH": str(path), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )


def test_an_installed_motet_says_that_experiments_need_a_checkout(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    shutil.copytree(Path(motet.__file__).parent, installed / "motet", ignore=shutil.ignore_patterns("__pycache__"))
    outcome = run_python("-m", "motet", "bench", "--list", path=installed)
    assert outcome.returncode == 2
    assert outcome.stderr == (
        "error: experiments run from a checkout of the repository; an installed motet does not have them\n"
    )


def test_commands_do_not_load_the_experiments() -> None:
    source = Path(motet.__file__).parents[1]
    outcome = run_python("-X", "importtime", "-m", "motet", "--help", path=source)
    assert outcome.returncode == 0
    assert "motet.cli" in outcome.stderr
    assert "benchmarks" not in outcome.stderr
