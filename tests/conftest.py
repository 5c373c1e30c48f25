"""Settings that every test shares: how hard hypothesis looks, and how tests are spread over workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["tests.command_line", "tests.packaging.environment"]

IN_CI = bool(os.environ.get("CI"))

# A shell starts jobs in the background with SIGINT ignored, and processes that tests start and interrupt inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: the first example of a kernel pays for its compilation. In CI the same code sees the same examples; at
# the desk, and with the profile `thorough`, new ones are looked for.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=100,
    print_blob=True,
    derandomize=IN_CI,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.reuse, Phase.generate) if IN_CI else tuple(Phase),
)
settings.register_profile("nojit", settings.get_profile("default"), max_examples=15)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile("default")


class SparkOnOneWorker(LoadScopeScheduling):
    """Run all files that have tests on Spark on one worker, and any other test on whichever worker is free.

    Tests on Spark share a session, and two JVMs would fight for two cores. Groups of xdist are no help: what it adds to
    the names of grouped tests is not read by pytest 9.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return "spark" if _has_spark_tests(self.config.rootpath / file) else nodeid


@cache
def _has_spark_tests(file: Path) -> bool:
    return "pytest.mark.spark" in file.read_text()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SparkOnOneWorker:
    """Tell xdist how tests are spread over its workers."""
    return SparkOnOneWorker(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one session of all tests on Spark; commands and examples find it running."""
    from motet.spark.session import local_session

    session = local_session("local[2]", partitions=3)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _session_for_spark(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("spark")
