"""What CI runs ends with the status of its tests, and says loudly where those in a browser were left out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.environment import ROOT

LEFT_OUT = "THE TESTS OF PAGES IN A BROWSER WERE LEFT OUT"
INSTALL = """echo "apt-get $@"
[ "$1" = update ] || for name in chromium chromedriver; do cp "$0" "${0%/*}/$name"; done"""


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder with the few commands that there are."""
    for name in ("bash", "dirname", "tail", "env", "cp"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    add_command(tmp_path / "id", "echo 0")
    add_command(tmp_path / "make", 'echo "make $1"; exit ${STATUS:-0}')
    return tmp_path


def add_command(file: Path, script: str) -> None:
    file.write_text(f"#!/usr/bin/env bash\n{script}\n")
    file.chmod(0o755)


def run_ci(commands: Path, **environment: str) -> tuple[int, str]:
    told = subprocess.run(
        [ROOT / ".ci" / "run"], capture_output=True, text=True, env={"PATH": str(commands), **environment}
    )
    return told.returncode, told.stdout


def test_without_a_browser_it_says_so_last(commands: Path) -> None:
    status, said = run_ci(commands)
    assert (status, said.splitlines()[0]) == (0, "make test")
    assert LEFT_OUT in said.splitlines()[-1]


def test_the_status_is_that_of_the_tests(commands: Path) -> None:
    assert run_ci(commands, STATUS="3")[0] == 3


def test_a_browser_is_installed_where_that_is_permitted(commands: Path) -> None:
    add_command(commands / "apt-get", INSTALL)
    status, said = run_ci(commands)
    assert (status, LEFT_OUT in said) == (0, False)
    assert "apt-get install -q -y --no-install-recommends chromium chromium-driver\nmake test\n" in said


def test_a_browser_may_be_named(commands: Path) -> None:
    assert run_ci(commands, MOTET_CHROMIUM="/a", MOTET_CHROMEDRIVER="/b") == (0, "make test\n")
