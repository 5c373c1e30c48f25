"""The command `bench`: experiments are no part of the shipped package but of a checkout of the repository."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import typer

from motet.cli.report import WRONG, say

CHECKOUT = Path(__file__).resolve().parents[3]


def load_benchmarks() -> ModuleType:
    """Return `benchmarks.command` of the checkout that motet runs from; end with status 2 where there is none."""
    if not (CHECKOUT / "benchmarks" / "command.py").is_file():
        say("error: experiments run from a checkout of the repository; an installed motet does not have them")
        raise typer.Exit(WRONG)
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    return importlib.import_module("benchmarks.command")
