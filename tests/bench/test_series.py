"""Many experiments in a row: how far they are, and that neither one that fails nor an interruption loses the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import command
from benchmarks.measure import ChildError
from benchmarks.registry import Experiment, Seconds, Setting
from benchmarks.run import Result
from motet.errors import RunError
from tests.command_line import Motet

QUICK = Setting("quick", 1)


def experiment(name: str, quick: int, paper: int) -> Experiment:
    return Experiment(name, "motet", "", "nothing", Seconds(quick, paper), lambda setting: [])


SOME = [experiment("a", 10, 60), experiment("b", 20, 70), experiment("c", 30, 80)]


def measured(name: str) -> Result:
    return Result(name, "motet", "", "nothing", "quick", 1, [{"n": 1}], [], [], 1.0, 1.0, 9.0, "2026-01-02", {})


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> dict[str, BaseException]:
    """What experiments raise rather than give a result."""
    raised: dict[str, BaseException] = {}

    def run(one: Experiment, setting: Setting) -> Result:
        if one.name in raised:
            raise raised[one.name]
        return measured(one.name)

    monkeypatch.setattr(command, "run_experiment", run)
    monkeypatch.setattr(command, "select_experiments", lambda names: SOME)
    return raised


def test_how_far_it_is_goes_by_stated_times_and_by_how_true_they_were() -> None:
    assert command.describe_progress(SOME, 0, QUICK, 0.0) == "a: 1 of 3, about 60 s left"
    assert command.describe_progress(SOME, 2, QUICK, 60.0) == "c: 3 of 3, about 60 s left", (
        "twice as slow as stated so far"
    )
    assert command.describe_progress(SOME[:1], 0, Setting("paper"), 0.0) == "a: about 60 s"


def test_what_fails_is_told_at_the_end_and_loses_no_other(
    outcomes: dict[str, BaseException], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes["a"] = ChildError("ended with status 1")
    outcomes["b"] = KeyError("online")
    with pytest.raises(RunError, match=r"2 of 3 failed\n  a: ended with status 1\n  b: KeyError: 'online'"):
        command.run_experiments(["all"], QUICK, tmp_path, None)
    assert {file.name for file in tmp_path.iterdir()} == {"c.json"}
    assert "1 of 3 in 0 s" in capsys.readouterr().err


def test_an_interruption_leaves_what_is_over(
    outcomes: dict[str, BaseException], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes["c"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        command.run_experiments(["all"], QUICK, tmp_path, None)
    assert {file.name for file in tmp_path.iterdir()} == {"a.json", "b.json"}
    assert "stopped in c: 2 experiments of 3 done" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupted_command_ends_the_process_of_its_experiment(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "motet", "bench", "sharon-12b", "--json", str(tmp_path / "result.json")]
    paths = os.pathsep.join(path for path in sys.path if path)
    # A session of its own, and only the parent is told: whoever interrupts by hand tells both.
    with subprocess.Popen(
        command, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": paths}, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 600
        while not children(process.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        (child,) = children(process.pid)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 130
    assert not Path(f"/proc/{child}").exists()


def children(process: int) -> list[int]:
    """Processes that another started."""
    file = Path(f"/proc/{process}/task/{process}/children")
    if not file.exists():
        pytest.skip("no such /proc here")
    return [int(found) for found in file.read_text().split()]


def test_the_list_states_times(motet: Motet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load_experiments", lambda: {"a": SOME[0]})
    outcome = motet("bench", "--list")
    assert "10 s │  60 s" in outcome.stdout
