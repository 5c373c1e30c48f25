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


def test_a_run_on_a_few_rows_loads_neither_the_compiler_nor_pandas(tmp_path: Path) -> None:
    events, queries = tmp_path / "events.csv", tmp_path / "q.motet"
    events.write_text("time,type,x\n2024-01-01 00:00:00,A,1\n2024-01-01 00:00:01,B,2\n")
    queries.write_text("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s\n")
    code = (
        "import sys; from motet.cli.app import app; "
        "app(['run', sys.argv[1], '--events', sys.argv[2], '--format', 'csv'], standalone_mode=False); "
        "print(*[name for name in ('numba', 'pandas', 'duckdb') if name in sys.modules], file=sys.stderr); "
        "import pyarrow as pa; print(pa.table({'x': [1]}).to_pandas().x[0], file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(queries), str(events)], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[1:] == ['"q",,,"2024-01-01T00:00:01",1']
    *_, loaded, value = found.stderr.splitlines()
    assert (loaded, value) == ("", "1")
