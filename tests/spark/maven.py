"""Fetch jars from Maven Central with the local Maven, once: later runs find them in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest


def find_cache(name: str) -> Path:
    """Return the folder for jars that are used again."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "motet" / name


def fetch_jars(name: str, artifacts: Sequence[str]) -> list[Path]:
    """Return the jars of artifacts, without what they depend on; a test that cannot have them is skipped."""
    folder = find_cache(name)
    if not (folder / ".whole").exists():
        for artifact in artifacts:
            # One at a time: Spark's parent project names a mirror that need not be reachable.
            run_maven("dependency:get", "-Dtransitive=false", f"-Dartifact={artifact}")
            run_maven("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
        (folder / ".whole").touch()
    return sorted(folder.glob("*.jar"))


def run_maven(*arguments: str) -> None:
    """Run Maven, or skip the test where there is none or it cannot fetch what it is asked for."""
    if shutil.which("mvn") is None:
        pytest.skip("no Maven (mvn) to fetch jars with")
    try:
        done = subprocess.run(["mvn", "-q", "-B", *arguments], capture_output=True, text=True, timeout=1200)
    except subprocess.TimeoutExpired:
        pytest.skip("Maven Central did not answer within 4 minutes")
    if done.returncode:
        problem = next((line for line in done.stdout.splitlines() if "ERROR" in line), "it says nothing")
        pytest.skip(f"jars cannot be fetched from Maven Central: {problem[:300]}")
