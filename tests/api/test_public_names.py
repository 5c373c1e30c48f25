"""The public interface: every name is documented, and loads nothing before it is used."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import motet

ROOT = Path(__file__).parents[2]
FUNCTIONS = [name for name in motet.__all__ if inspect.isfunction(getattr(motet, name))]


def test_every_public_name_is_on_the_page_of_the_interface() -> None:
    documented = set(re.findall(r"^::: motet\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    assert documented >= {name for name in motet.__all__ if name != "__version__"}


def test_every_public_name_can_be_loaded_and_listed() -> None:
    for name in motet.__all__:
        assert getattr(motet, name) is not None
        assert name in dir(motet)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        motet.nothing  # noqa: B018


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_documents_parameters_result_and_an_example(name: str) -> None:
    function = getattr(motet, name)
    text = inspect.getdoc(function) or ""
    parameters = [each for each in inspect.signature(function).parameters if each not in ("self",)]
    if parameters:
        arguments = text.partition("Args:")[2].partition("Returns:")[0]
        for parameter in parameters:
            assert re.search(rf"^\s+\**{parameter}:", arguments, re.MULTILINE), f"{name}: {parameter}"
    for part in ("Returns:", "Examples:"):
        assert part in text, f"{name}: {part}"


@pytest.mark.parametrize("name", [*FUNCTIONS, "Options"])
def test_examples_show_what_happens(name: str) -> None:
    if name == "stream":
        pytest.skip("its example needs a stream of Spark")
    found = getattr(motet, name)
    tests = [test for test in doctest.DocTestFinder(recurse=False).find(found, name, globs={}) if test.examples]
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in tests:
        failed, _ = runner.run(test)
        assert not failed


@pytest.mark.parametrize(
    ("command", "forbidden"),
    [
        ("import motet", ("numba", "numpy", "pandas", "pyarrow", "lark", "scipy")),
        ("import motet; motet.read; motet.Options; motet.query", ("numba", "numpy", "pandas", "pyarrow", "scipy")),
        ("import motet.cli.app", ("numba", "numpy", "pandas", "pyarrow", "lark", "scipy", "rich")),
    ],
)
def test_start_up_loads_nothing_that_is_not_needed(command: str, forbidden: tuple[str, ...]) -> None:
    code = f"import sys; {command}; print(*[name for name in {forbidden!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_check_loads_neither_kernels_nor_tables(tmp_path: Path) -> None:
    file = tmp_path / "q.motet"
    file.write_text("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s\n")
    code = (
        "import sys; from motet.cli.app import app; app(['check', sys.argv[1]], standalone_mode=False); "
        "print(*[name for name in ('numba', 'pandas', 'pyarrow', 'scipy') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == ""
