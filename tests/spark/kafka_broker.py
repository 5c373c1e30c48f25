"""A Kafka broker on loopback, and Spark's connector for it, both from Maven Central."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.spark.maven import fetch_jars, find_cache, run_maven

BROKER = "org.apache.kafka:kafka_2.13:4.0.0"
# The newest that are there; the connector runs on later versions of Spark, too.
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>motet</groupId><artifactId>broker</artifactId><version>1</version>
<dependencies><dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
</dependency></dependencies></project>
"""
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
"""


def connector_jars() -> list[Path]:
    """Spark's connector and what it needs."""
    return fetch_jars("kafka/connector", CONNECTOR)


def broker_jars() -> Path:
    """A folder with the broker and all it needs."""
    folder = find_cache("kafka/broker")
    if not (folder / ".whole").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(POM.format(*BROKER.split(":")))
        run_maven("-f", str(folder / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={folder}")
        (folder / ".whole").touch()
    return folder


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def broker(folder: Path, java: str) -> Iterator[str]:
    """A broker in KRaft mode that keeps its data in a folder: its address."""
    jars = f"{broker_jars()}/*"
    port, control = free_port(), free_port()
    properties = folder / "server.properties"
    properties.write_text(PROPERTIES.format(port=port, control=control, logs=folder / "logs"))
    subprocess.run(
        [java, "-cp", jars, "kafka.tools.StorageTool", "format", "-t", "bW90ZXQtdGVzdC1icm9rZQ", "-c", str(properties)],
        check=True,
        capture_output=True,
    )
    process = subprocess.Popen(
        [java, "-Xmx384m", "-cp", jars, "kafka.Kafka", str(properties)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await_port(port, process)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 600
    while time.monotonic() < until:
        assert process.poll() is None, "the broker ended at once"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("the broker did not come up within a minute")
