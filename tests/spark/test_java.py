"""The Java that Spark is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.errors import MotetError
from motet.spark import java


def install(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    (home / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only Javas are those installed below this folder."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_find_installed", lambda: iter(sorted(tmp_path.iterdir())))
    return tmp_path


def test_the_version_is_read_from_old_and_new_releases(tmp_path: Path) -> None:
    assert java.read_java_version(install(tmp_path / "a", "1.8.0_392")) == 8
    assert java.read_java_version(install(tmp_path / "b", "17.0.15")) == 17
    assert java.read_java_version(install(tmp_path / "c", "25")) == 25
    assert java.read_java_version(tmp_path / "nothing") is None


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    program.chmod(0o755)
    assert java.read_java_version(tmp_path) == 21


def test_a_release_that_spark_is_tested_on_comes_before_a_newer_one(machine: Path) -> None:
    install(machine / "a-jdk-25", "25.0.1")
    install(machine / "b-jdk-11", "11.0.2")
    assert java.find_java_home() == machine / "a-jdk-25"
    wanted = install(machine / "c-jdk-21", "21.0.2")
    assert java.find_java_home() == wanted


def test_java_home_decides_where_it_will_do(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = install(machine / "jdk-17", "17.0.1")
    named = install(machine / "jdk-25", "25.0.1")
    monkeypatch.setenv("JAVA_HOME", str(named))
    assert java.find_java_home() == named
    monkeypatch.setenv("JAVA_HOME", str(install(machine / "jdk-8", "1.8.0_1")))
    assert java.find_java_home() == found


def test_without_java_the_message_is_one_line_that_says_how_to_get_it(machine: Path) -> None:
    install(machine / "jdk-11", "11.0.2")
    with pytest.raises(MotetError) as raised:
        java.find_java_home()
    assert "install" in str(raised.value)
    assert "\n" not in str(raised.value)
