"""Build wheels, and install them into environments of their own; all tests share one of each.

With MOTET_LONG=1 the environment has all that motet depends on, from the package index, which takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

from benchmarks.standalone import clean_environment

WHOLE = bool(os.environ.get("MOTET_LONG"))
ROOT = Path(__file__).parents[2]
KERNELS = Path(os.environ.get("MOTET_KERNEL_CACHE") or ROOT / "src" / "motet" / "kernels" / "compiled")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def wheel_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has motet from its wheel."""
    return make_environment(tmp_path_factory.mktemp("environment") / "venv", wheel, whole=WHOLE)


def build_wheel(folder: Path, *, kernels: bool = True) -> Path:
    """Build the wheel of this checkout, by default with the kernels that were compiled for it."""
    added = {"MOTET_WHEEL_KERNELS": str(KERNELS)} if kernels else {}
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)]
    run(command, env=clean_environment(**added))
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path, wheel: Path, *, whole: bool = False) -> Path:
    """Make an environment that has motet from a wheel alone, and return its Python.

    What motet depends on is installed with it if it is to be `whole`, from the package index, which takes minutes;
    otherwise it is what this Python has.
    """
    run([sys.executable, "-m", "venv", *([] if whole else ["--without-pip"]), str(folder)])
    python = folder / "bin" / "python"
    if whole:
        run([str(python), "-m", "pip", "install", "--quiet", f"{wheel}[spark]"], env=clean_environment())
        return python
    site = next((folder / "lib").glob("python*")) / "site-packages"
    # A path in such a file is not searched for such files, so the editable install of this checkout is not found.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    run([*install, str(wheel)], env=clean_environment())
    return python


def pack_environment(python: Path, archive: Path) -> Path:
    """Pack an environment as `--archives` takes it: the folder itself is not in the names."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(python.parents[1], ".")
    return archive


def run(command: list[str], **settings: object) -> str:
    """Run a command that has to succeed, and return what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, **settings)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return str(done.stdout)
