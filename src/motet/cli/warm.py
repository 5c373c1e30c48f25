"""The command `warm`: which processor kernels are compiled for."""

from __future__ import annotations

from pathlib import Path

import typer

HOST = "host"
BASELINE = "baseline"


def warm_kernels(folder: Path | None, processor: str) -> None:
    """Compile all kernels that a folder lacks: for this processor, or for a baseline that others have too."""
    from motet.engine.warm import compile_kernels
    from motet.kernels.cache import list_baselines

    known = list_baselines()
    if processor not in (HOST, BASELINE, *known):
        offered = ", ".join((HOST, BASELINE, *known))
        raise typer.BadParameter(f"this machine cannot compile for {processor!r}: choose from {offered}")
    chosen = {HOST: None, BASELINE: next(iter(known), None)}.get(processor, processor)
    compile_kernels(folder, chosen)
