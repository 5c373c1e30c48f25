"""Start a Spark session that suits motet: quiet, in UTC, with workers that have the kernels loaded."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import re
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from motet.spark.java import find_java_home

DAEMON = "motet.spark.daemon"
ROWS_PER_ARROW_BATCH = 50_000
STDERR = 2
# What Java says when it cannot go on. All else that it prints comes to Python as an exception as well.
FATAL = re.compile("OutOfMemoryError|^#")
LAST_LINES = 50  # that are shown where Spark does not start
# Threads that look for idle Python processes, and how to find the factory that one belongs to.
IDLE_MONITOR, FACTORY = "Idle Worker Monitor", "org$apache$spark$api$python$PythonWorkerFactory$MonitorThread$$$outer"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def local_session(
    master: str = "local[*]",
    *,
    name: str = "motet",
    partitions: int | None = None,
    config: dict[str, str] | None = None,
) -> SparkSession:
    """Start a session on this machine (`local[n]` or `local-cluster[...]`) or on a cluster, whose nodes have motet or
    get it with the job (`spark.archives` and `spark.pyspark.python`); `config` overrides every setting made here.

    A session that already runs is returned as it is, as `SparkSession.builder` does.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    config = config or {}
    prepare_environment(master, config.get("spark.pyspark.python"))
    logging = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    settings = {
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(partitions or 2 * _count_cores(master, config)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_ARROW_BATCH),
        "spark.python.daemon.module": DAEMON,
        "spark.driver.extraJavaOptions": logging,
        # The nodes of a cluster have logs of their own.
        **({"spark.executor.extraJavaOptions": logging} if is_on_this_machine(master) else {}),
        **config,
    }
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with filter_java_output():
        session = builder.getOrCreate()
    # A local cluster whose driver just goes away fills the screen with the ends of its executors.
    atexit.register(session.stop)
    return session


def stream_session(
    master: str = "local[*]",
    packages: Sequence[str] = (),
    jars: Sequence[str] = (),
    config: dict[str, str] | None = None,
) -> SparkSession:
    """Start a session for a stream: as many state partitions as cores, each written as a change log.

    `config` overrides every setting made here.
    """
    settings = {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    if packages:
        settings["spark.jars.packages"] = ",".join(packages)
    if jars:
        settings["spark.jars"] = ",".join(jars)
    settings |= config or {}
    return local_session(master, name="motet stream", partitions=_count_cores(master, settings), config=settings)


def release_stopped_streams(session: SparkSession) -> None:
    """Drop what streams of a session that have stopped would hold in memory until the session ends.

    At each start of a stream Spark runs a Python process on the driver, with a thread that looks for idle processes.
    It has nothing to do there, but never ends, and it keeps the copy of the session that the stream had.
    """
    gc.collect()  # DataFrames that refer to themselves
    jvm = getattr(session, "_jvm", None)  # Connect has none
    if jvm is None:
        return
    with contextlib.suppress(Py4JError):  # other versions of Spark may have other threads
        for thread in jvm.java.lang.Thread.getAllStackTraces().keySet().toArray():
            if thread.getName().startswith(IDLE_MONITOR) and not getattr(thread, FACTORY)().useDaemonEnabled():
                thread.interrupt()


def is_on_this_machine(master: str) -> bool:
    """Return whether a master runs all that it runs on this machine."""
    return master.startswith("local")


def prepare_environment(master: str = "local", python: str | None = None) -> None:
    """Set what any session of this process needs: a Java, workers that find motet, and few messages.

    Args:
        master: Where tasks run.
        python: The Python of the workers, as nodes see it; by default the one that runs this.
    """
    os.environ["JAVA_HOME"] = str(find_java_home())
    # Workers take `python3` from PATH otherwise, which need not be the one that has motet.
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Executors run in folders of their own, where a relative PYTHONPATH of this process leads nowhere.
    package_root = str(Path(__file__).resolve().parents[2])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*paths, package_root]))
    if is_on_this_machine(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if os.environ.get("MOTET_DEBUG"):
        # Both are read by log4j2.properties.
        os.environ.setdefault("MOTET_SPARK_LOG", "error")
        os.environ.setdefault("MOTET_TASK_LOG", "error")
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark(\..*)?")
    warnings.filterwarnings("ignore", category=UserWarning, module=r"pyspark(\..*)?")


@contextmanager
def filter_java_output() -> Iterator[None]:
    """Let a Java that is started meanwhile write to this process, which shows what is fatal; all if it does not start.

    Spark prints stack traces when a stream is stopped, and its workers what they do.
    """
    if os.environ.get("MOTET_DEBUG"):
        yield
        return
    reading, writing = os.pipe()
    original = os.dup(STDERR)
    os.dup2(writing, STDERR)
    os.close(writing)
    last: deque[str] = deque(maxlen=LAST_LINES)
    threading.Thread(target=_show_fatal_lines, args=(reading, os.dup(original), last), daemon=True).start()
    try:
        yield
    except Exception:
        os.write(original, "".join(last).encode())
        raise
    finally:
        os.dup2(original, STDERR)
        os.close(original)


def _show_fatal_lines(source: int, target: int, last: deque[str]) -> None:
    with os.fdopen(source, errors="replace") as lines, os.fdopen(target, "w") as shown:
        for line in lines:
            last.append(line)
            if FATAL.search(line):
                shown.write(line)
                shown.flush()


def _count_cores(master: str, config: Mapping[str, str]) -> int:
    """Return how many cores tasks have: of a local master (`local[4]`, `local[*]`, `local-cluster[2,1,1024]`), or those
    that the settings ask a cluster for.
    """
    if cluster := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        return int(cluster[1]) * int(cluster[2])
    if threads := re.match(r"local\[\s*(\d+)", master):
        return int(threads[1])
    if is_on_this_machine(master):
        return 1 if master == "local" else os.cpu_count() or 1
    executors = int(config.get("spark.executor.instances", "1")) * int(config.get("spark.executor.cores", "1"))
    return int(config.get("spark.cores.max", executors)) or 1
