"""The compose file starts what it says: its command lines are ours, its parts know each other, and they work together."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import psycopg
import pytest
import typer.main
import yaml
from scripts import promtool
from tests.servers.ports import free_ports
from tests.servers.postgres import PostgresServer

from millstream.cli.main import app
from millstream.client import Client

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
TEXT = (DEPLOY / "compose.yaml").read_text()
COMPOSE = yaml.safe_load(TEXT)
SERVICES = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "millstream"}
KEYS = {
    "build", "cap_drop", "command", "depends_on", "environment", "healthcheck", "hostname", "image", "init", "ports", "read_only",
    "restart", "secrets", "security_opt", "tmpfs", "volumes",
}  # fmt: skip
PASSWORD = "of-this-test-alone"


def parsed(words):
    """What our own command line makes of a command: the subcommand's name and its options."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    return command.make_context(command.name, list(words)).params


def mounts(service):
    return {target: source for source, target in (each.split(":")[:2] for each in service.get("volumes", ()))}


def test_there_are_two_servers_two_nodes_and_what_watches_them():
    assert set(SERVICES) == {
        *("database", "server-1", "server-2", "node-1", "node-2"),
        *("prometheus", "grafana"),
    }
    assert {name: service["command"][0] for name, service in OURS.items()} == {
        "server-1": "server", "server-2": "server", "node-1": "node", "node-2": "node",
    }  # fmt: skip


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_says_only_what_compose_knows_and_names_what_there_is(name):
    service = SERVICES[name]
    assert set(service) <= KEYS
    assert set(service["healthcheck"]) == {"test", "interval", "timeout", "retries"}
    assert service["healthcheck"]["test"][0] == "CMD"
    for other, condition in service.get("depends_on", {}).items():
        assert (other in SERVICES, condition) == (True, {"condition": "service_healthy"})
    for target, source in mounts(service).items():
        assert target.startswith("/")
        assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
    assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
    assert re.fullmatch(r"millstream|[\w/]+:[\w.-]*\d[\w.-]*", service["image"]), "a version of its own"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), "this machine alone"


def test_ports_of_the_machine_are_told_apart_and_no_volume_is_left_over():
    ports = [port.rsplit(":", 1)[0] for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(set(ports)) == len(ports)
    used = {source for service in SERVICES.values() for source in mounts(service).values()}
    assert set(COMPOSE["volumes"]) <= used
    own = [mounts(service)["/var/lib/millstream"] for service in OURS.values()]
    assert len(set(own)) == len(own), "a data folder has one process"
    assert {mounts(service)["/shared"] for service in OURS.values()} == {"shared"}


@pytest.mark.parametrize("name", OURS)
def test_command_lines_are_ours_and_lie_in_volumes(name):
    service = OURS[name]
    options = parsed(service["command"])
    assert options["database"] == "postgresql://millstream@database:5432/millstream"
    for each in ("data", "checkpoints", "artifacts", "keys"):
        assert any(str(options[each]).startswith(place) for place in mounts(service)), each
    if service["command"][0] == "node":
        assert options["host"] == service["hostname"] == name, "servers ask it by this name"
        assert f"{options['port']})" in service["healthcheck"]["test"][-1].replace(", 3)", ")")
    else:
        assert f":{options['port']}/v1/ready'" in service["healthcheck"]["test"][-1]
        assert service["ports"][0].endswith(f":{options['port']}")
        assert not options["node"]


def test_no_secret_stands_in_it():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            assert "PASSWORD" not in name or re.fullmatch(r"\$\{MILLSTREAM_DATABASE_PASSWORD:\?[^}]+\}", value)
    assert not re.search(r"://[^/\s]*:[^/\s]*@", TEXT)
    assert COMPOSE["secrets"] == {"viewer_token": {"file": "${MILLSTREAM_VIEWER_TOKEN_FILE:-./viewer.token}"}}
    assert "viewer.token" in (ROOT / ".gitignore").read_text()


def test_prometheus_and_grafana_find_their_files_and_each_other():
    prometheus = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert mounts(SERVICES["prometheus"])["/etc/prometheus"] == "./prometheus"
    assert all((DEPLOY / "prometheus" / name).exists() for name in prometheus["rule_files"])
    fixed, found = prometheus["scrape_configs"]
    assert fixed["static_configs"] == [{"targets": [f"{name}:8650" for name in ("server-1", "server-2")]}]
    assert found["http_sd_configs"][0]["url"] == "http://server-1:8650/v1/metrics/targets"
    provisioned = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioned / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (boards,) = yaml.safe_load((provisioned / "dashboards" / "millstream.yaml").read_text())["providers"]
    assert mounts(SERVICES["grafana"])[boards["options"]["path"]] == "./grafana"
    assert len(list((DEPLOY / "grafana").glob("*.json"))) == 3


def test_prometheus_takes_its_configuration():
    tool = promtool.program()
    if not tool.exists():
        pytest.skip(f"no promtool at {tool}; run `python scripts/promtool.py install`")
    command = [tool, "check", "config", "--syntax-only", DEPLOY / "prometheus" / "prometheus.yml"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_image_is_built_of_what_there_is():
    text = (DEPLOY / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.search(r"/source\[([\w,]+)\]", text)[1].split(",")) <= set(extras)
    copied = [name for line in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE) for name in line.split()]
    assert all((ROOT / name).exists() for name in copied)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in copied} <= set(ignored), "what is copied is sent to the builder"
    users = re.findall(r"^USER (\w+)$", text, re.MULTILINE)
    assert users == ["millstream"], "not as root"
    made = next(line for line in text.splitlines() if "install --directory" in line)
    assert all(place in made for place in ("/var/lib/millstream", "/shared"))


class Started:
    """The processes of the file on this machine, with a database that asks for its password."""

    def __init__(self, folder):
        self.folder, self.processes = folder, {}
        self.database = PostgresServer().start()
        with psycopg.connect(self.database.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE millstream LOGIN PASSWORD '{PASSWORD}'")
            connection.execute("CREATE DATABASE millstream OWNER millstream")
            (rules,) = connection.execute("SHOW hba_file").fetchone()
            Path(rules).write_text("host all all 127.0.0.1/32 scram-sha-256\n")
            connection.execute("SELECT pg_reload_conf()")
        self.ports = dict(zip(OURS, free_ports(len(OURS)), strict=True))

    def words(self, name, words):
        """With addresses and folders of this machine in the place of those inside containers."""
        here = {
            "@database:5432": f"@127.0.0.1:{self.database.port}",
            "/var/lib/millstream": str(self.folder / name),
            "/shared": str(self.folder / "shared"),
            "0.0.0.0": "127.0.0.1",
            f"--host={name}": "--host=127.0.0.1",
            "socket.gethostname()": "'127.0.0.1'",
            "8650": str(self.ports[name]),
            "8651": str(self.ports[name]),
        }
        for there, place in here.items():
            words = [word.replace(there, place) for word in words]
        return words

    def start(self, name):
        service = OURS[name]
        (self.folder / "shared").mkdir(exist_ok=True)
        environment = {**os.environ, "HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / f"{name}-config")}
        environment |= dict.fromkeys(service["environment"], PASSWORD)
        command = [sys.executable, "-m", "millstream.cli.main", *self.words(name, service["command"])]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        end = time.monotonic() + 60
        _, _, *check = self.words(name, service["healthcheck"]["test"])
        while subprocess.run([sys.executable, *check], capture_output=True, timeout=30).returncode:
            log = (self.folder / f"{name}.log").read_text()
            assert self.processes[name].poll() is None, log
            assert time.monotonic() < end, log
            time.sleep(0.2)

    def close(self):
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait(60)
        for path in self.folder.glob("node-*/node/runs/*/driver.json"):
            try:
                os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.database.stop()


@pytest.fixture
def started(tmp_path):
    made = Started(tmp_path)
    yield made
    made.close()


def test_the_same_commands_work_together_as_processes(started, tmp_path):
    order = sorted(OURS, key=lambda name: ("server-1" in OURS[name]["depends_on"], name))
    assert order[0] == "server-1", "the only one that waits for the database alone"
    for name in order:
        started.start(name)
    token = (tmp_path / "server-1" / "admin.token").read_text().strip()
    steps = [
        {"source": "s", "from": {"rate": {"rows_per_second": 200}}},
        {"sink": "o", "to": {"files": {"path": str(tmp_path / "out"), "format": "json"}}},
    ]
    url = {name: f"http://127.0.0.1:{started.ports[name]}" for name in ("server-1", "server-2")}
    with Client(url["server-1"], token) as first, Client(url["server-2"], token) as second:
        first.jobs.submit({"job": "rows", "epoch_interval": "100ms", "steps": steps}, settings={"engine": "local"})
        first.jobs.start("rows")
        end = time.monotonic() + 60
        while not (found := [run for run in second.jobs.runs("rows") if run.processed_records]):
            assert time.monotonic() < end
            time.sleep(0.2)
        assert len(list(second.nodes.list())) == 2
        ended = second.wait(second.runs.stop(found[0].id, "drain"))
        assert (ended.result or {})["status"] == "COMPLETED"
    assert PASSWORD not in "".join(path.read_text() for path in tmp_path.glob("*.log"))
