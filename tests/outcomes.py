"""Runs a workload in process for all that is known of the run, not its results alone."""

from __future__ import annotations

from typing import Any

from motet.engine.local import Outcome
from motet.options import Options
from motet.pipeline import WorkloadLike, as_workload, execute, open_source, prepare


def run_for_outcome(events: Any, workload: WorkloadLike, options: Options | None = None) -> Outcome:
    """Run a workload over events in process, and return its outcome."""
    loaded, settled = as_workload(workload), options or Options()
    return execute(prepare(open_source(events, settled, loaded), loaded, settled))
