"""A Spark cluster of processes of their own: a master and workers, from the pyspark distribution, without motet."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from motet.spark.java import find_java_home

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS = 600.0
STOP_SECONDS = 300.0


def clean_environment(**added: str) -> dict[str, str]:
    """Return the variables of this process without those by which a Python or a Spark would find this checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK", "PYSPARK", "PYTHON", "MOTET", "VIRTUAL_ENV", "XDG_CACHE"))
    }
    return kept | added


@dataclass
class Cluster:
    """A running cluster. What executors print is in `logs`."""

    url: str
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def logs(self) -> str:
        """All that executors have written to standard error."""
        files = sorted(self.folder.glob("work-*/app-*/*/stderr"))
        return "\n".join(file.read_text(errors="replace") for file in files)

    def start_worker(self, cores: int = 1, memory: str = "1g") -> None:
        """Start a worker more."""
        folder = self.folder / f"work-{len(self.workers)}"
        arguments = ["--cores", str(cores), "--memory", memory, "--work-dir", str(folder), "--host", "127.0.0.1"]
        worker = "org.apache.spark.deploy.worker.Worker"
        self.workers.append(self.stack.enter_context(_start(worker, *arguments, "--webui-port", "0", self.url)))

    def find_executors(self) -> list[int]:
        """Return the ids of the processes that run tasks."""
        return [child for worker in self.workers if worker.poll() is None for child in list_children(worker.pid)]

    def kill_executor(self) -> None:
        """Kill an executor; its worker starts another."""
        os.kill(self.find_executors()[0], signal.SIGKILL)

    def kill_worker(self) -> None:
        """Kill a worker with its executors."""
        worker = next(each for each in self.workers if each.poll() is None)
        executors = list_children(worker.pid)
        worker.kill()
        for executor in executors:
            os.kill(executor, signal.SIGKILL)
        worker.wait()


@contextmanager
def start_cluster(folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """Start a master and workers on the loopback interface."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    with _start("org.apache.spark.deploy.master.Master", *arguments) as master, ExitStack() as stack:
        until = time.monotonic() + START_SECONDS
        while not is_open(port):
            assert master.poll() is None, "the master ended at once"
            assert time.monotonic() < until, "the master did not come up"
            time.sleep(0.1)
        cluster = Cluster(f"spark://127.0.0.1:{port}", folder, stack=stack)
        for _ in range(workers):
            cluster.start_worker(cores, memory)
        yield cluster


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def list_children(parent: int) -> list[int]:
    """Return the ids of the processes that one has started, by what the system says of all."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(after_name[1]) == parent:
            found.append(int(stat.parent.name))
    return found


@contextmanager
def _start(name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    java = str(find_java_home())
    environment = clean_environment(JAVA_HOME=java, SPARK_LOCAL_IP="127.0.0.1", SPARK_DAEMON_MEMORY="256m")
    process = subprocess.Popen(
        [str(SPARK_HOME / "bin" / "spark-class"), name, *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            children = list_children(process.pid)
            process.terminate()
            process.wait(STOP_SECONDS)
            for child in children:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
