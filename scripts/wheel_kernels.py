"""Put compiled kernels into the wheel, as a hook of the build, where MOTET_WHEEL_KERNELS names a folder of them.

Such a wheel is for one version of Python and one platform. Without the variable the wheel is pure Python, and kernels
are compiled where it is installed.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LINUX = "manylinux_2_28"  # as numba's own wheels, without which kernels are of no use


class KernelsHook(BuildHookInterface[Any]):
    """Add the folder, and the tag that says where its kernels run."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Prepare a wheel, not an editable install."""
        folder = os.environ.get("MOTET_WHEEL_KERNELS")
        if version == "editable" or not folder:
            return
        kernels = sorted(Path(folder).resolve().glob("*.kernel"))
        if not kernels:
            raise SystemExit(f"no kernels in {folder}: motet warm --cache {folder}")
        build_data["force_include"] |= {str(kernel): f"motet/kernels/compiled/{kernel.name}" for kernel in kernels}
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_").replace("linux", LINUX)
        build_data |= {"pure_python": False, "tag": f"{python}-{python}-{platform}"}
