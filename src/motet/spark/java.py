"""Find a Java that Spark can run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from motet.errors import MotetError

MIN_VERSION = 17
# The long-term releases that Spark 4 is tested on come before any other.
PREFERRED = (17, 21)
HOMES = (
    ("/usr/lib/jvm", "*"),
    ("/usr/java", "*"),
    ("/opt/java", "*"),
    ("~/.sdkman/candidates/java", "*"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
    ("/opt/homebrew/opt", "openjdk*/libexec/openjdk.jdk/Contents/Home"),
    ("/usr/local/opt", "openjdk*/libexec/openjdk.jdk/Contents/Home"),
)
HOW_TO_GET_IT = (
    "Spark needs Java 17 or 21 and none was found: install one (Debian: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17; any system: conda install openjdk=17) or set JAVA_HOME."
)


def find_java_home() -> Path:
    """Return the home of the Java to run: what JAVA_HOME names if that suits, else the best one installed."""
    named = os.environ.get("JAVA_HOME")
    if named and (read_java_version(Path(named)) or 0) >= MIN_VERSION:
        return Path(named)
    found = [(version, home) for home in _find_installed() if (version := read_java_version(home) or 0) >= MIN_VERSION]
    if not found:
        raise MotetError(HOW_TO_GET_IT)
    # The first found wins among equals, and those on PATH are found first.
    return min(found, key=lambda candidate: (candidate[0] not in PREFERRED, candidate[0]))[1]


def read_java_version(home: Path) -> int | None:
    """Return the feature release (17, 21, ...) of the Java at a home; None if there is none."""
    if not (home / "bin" / "java").exists():
        return None
    release = home / "release"
    text = release.read_text(errors="replace") if release.exists() else _ask_version(home)
    version = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(version[1]) if version else None


def _ask_version(home: Path) -> str:
    try:
        return subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _find_installed() -> Iterator[Path]:
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for root, pattern in HOMES:
        yield from sorted(Path(root).expanduser().glob(pattern))
