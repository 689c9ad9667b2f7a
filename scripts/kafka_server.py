"""Gets a real Kafka broker (its jars, by coordinates and pinned sums) and runs it on this machine.

`python scripts/kafka_server.py install` fetches it into the virtual environment, `path` says where it is, `run FOLDER` starts one
broker on port 9092 that keeps its records in a folder, until Ctrl-C. It needs Java, which Spark needs too.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

VERSION = "4.3.1"
JARS = Path(__file__).with_name("kafka_jars.txt")
_CLUSTER = "bWlsbHN0cmVhbS10ZXN0cw"
_ARCHIVE = "kafka.jsa"
# One node, small buffers, and a session that ends soon, so that a broker which was killed comes back within seconds.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "auto.create.topics.enable": "false",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
}


def home() -> Path:
    """Where the broker is or would be."""
    return Path(sys.prefix) / "servers" / f"kafka-{VERSION}"


def install() -> Path:
    """Fetch the broker, unless it is there."""
    target = home()
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="kafka-") as folder:
            made = Path(folder) / target.name
            made.mkdir()
            fetch(JARS, made / "libs", Path(folder))
            _format(made)
            # Whoever installs at the same time was as careful.
            if not target.exists():
                made.rename(target)
    if not (target / _ARCHIVE).exists():
        _archive_classes(target)
    return target


def _wanted(listed: Path) -> Iterator[tuple[str, str, str, str]]:
    for line in listed.read_text().splitlines():
        if not line.startswith("#"):
            coordinates, digest = line.split()
            group, name, version = coordinates.split(":")
            yield group, name, version, digest


def fetch(listed: Path, libs: Path, scratch: Path) -> None:
    """All jars that a file lists, through Ivy, which comes with Spark; one that is missing or differs fails."""
    jars = list(_wanted(listed))
    depend = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="false" conf="default->master"/>'
        for group, name, version, _ in jars
    )
    module = scratch / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="millstream" module="broker"/><configurations>'
        f'<conf name="default"/></configurations><dependencies>{depend}</dependencies></ivy-module>'
    )
    ivy = ["java", "-jar", str(_ivy()), "-error", "-cache", str(scratch / "cache"), "-ivy", str(module)]
    subprocess.run(
        [*ivy, "-retrieve", f"{libs}/[artifact]-[revision].[ext]"], check=True, stdout=subprocess.DEVNULL, timeout=600
    )
    for _, name, version, digest in jars:
        jar = libs / f"{name}-{version}.jar"
        found = hashlib.sha256(jar.read_bytes()).hexdigest()
        if found != digest:
            msg = f"{jar.name} has the SHA-256 {found}, not {digest} as {listed.name} says: not installed"
            raise SystemExit(msg)


def fetched(listed: Path, target: Path) -> Path:
    """A folder with all jars that a file lists, fetched unless it is there."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}-") as folder:
            fetch(listed, Path(folder) / "libs", Path(folder))
            (Path(folder) / "libs").rename(target)
    return target


def _ivy() -> Path:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        msg = "pyspark is not installed; make setup does it"
        raise SystemExit(msg)
    return next((Path(spark.origin).parent / "jars").glob("ivy-*.jar"))


def _format(made: Path) -> None:
    """Formatted storage, kept as a template: copying two small files takes no JVM."""
    settings = made / "format.properties"
    settings.write_text(properties(made / "template", {"PLAINTEXT": 9092, "CONTROLLER": 9093}))
    tool = [*_java(made), "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
    subprocess.run(tool, check=True, stdout=subprocess.DEVNULL, timeout=120)
    settings.unlink()


def _archive_classes(target: Path) -> None:
    """Run the broker once and keep its loaded classes: each later start is about a second shorter."""
    part = target / f"{_ARCHIVE}.{os.getpid()}"
    ports = _free_ports()
    with tempfile.TemporaryDirectory() as folder:
        settings = prepare(Path(folder), ports)
        java = [*_java(target)[:1], f"-XX:ArchiveClassesAtExit={part}", *_java(target)[1:]]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([*java, "kafka.Kafka", str(settings)], **silent) as broker:
            _wait_for(ports["PLAINTEXT"], broker)
            broker.send_signal(signal.SIGTERM)
            broker.wait(120)
    if part.exists():
        part.replace(target / _ARCHIVE)


def _free_ports() -> dict[str, int]:
    with socket.socket() as first, socket.socket() as second:
        for probe in (first, second):
            probe.bind(("127.0.0.1", 0))
        return {"PLAINTEXT": first.getsockname()[1], "CONTROLLER": second.getsockname()[1]}


def _wait_for(port: int, broker: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and broker.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return


def _java(folder: Path) -> list[str]:
    # The archive of classes holds for one class path only: names in a fixed order.
    jars = ":".join(str(jar) for jar in sorted((folder / "libs").glob("*.jar")))
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars]


def properties(data: Path, ports: Mapping[str, int], extra: Mapping[str, str] | None = None) -> str:
    """The settings of one broker.

    Args:
        data: where it keeps its records.
        ports: by listener, PLAINTEXT, CONTROLLER and possibly PROXY; the port behind PROXY is told to clients as FRONT.
        extra: settings that are added or replace ours.
    """
    listening = {name: port for name, port in ports.items() if name != "FRONT"}
    told = {name: port for name, port in listening.items() if name != "CONTROLLER"}
    if "FRONT" in ports:
        told["PROXY"] = ports["FRONT"]
    settings = {
        **_SETTINGS,
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listening.items()),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in told.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listening),
        "log.dirs": str(data),
        **(extra or {}),
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def prepare(folder: Path, ports: Mapping[str, int], extra: Mapping[str, str] | None = None) -> Path:
    """Formatted storage in a folder, unless it is there, and the file of settings beside it, which is returned."""
    data = folder / "data"
    if not data.exists():
        shutil.copytree(home() / "template", data)
    settings = folder / "server.properties"
    settings.write_text(properties(data, ports, extra))
    return settings


def command(settings: Path) -> list[str]:
    """The command that runs a broker whose folder is prepared."""
    archive = home() / _ARCHIVE
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    java, *rest = _java(home())
    return [java, *shared, *rest, "kafka.Kafka", str(settings)]


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["install", "path", "run"])
    parser.add_argument("folder", nargs="?", type=Path, help="where `run` keeps the records")
    arguments = parser.parse_args()
    if arguments.action == "path":
        sys.stdout.write(f"{home()}\n")
        return
    sys.stdout.write(f"{install()}\n")
    if arguments.action == "run":
        if arguments.folder is None:
            parser.error("run needs a folder")
        arguments.folder.mkdir(parents=True, exist_ok=True)
        sys.stdout.write("bootstrap servers: 127.0.0.1:9092\n")
        sys.stdout.flush()
        start = command(prepare(arguments.folder.absolute(), {"PLAINTEXT": 9092, "CONTROLLER": 9093}))
        os.execvp(start[0], start)  # signals go to the broker itself


if __name__ == "__main__":
    main()
