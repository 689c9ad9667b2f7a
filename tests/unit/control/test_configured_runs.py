"""Runs of real drivers with settings, secrets and code of their own."""

import base64
import contextlib
import io
import json
import os
import signal
import sqlite3
import urllib.parse
import zipfile

import pytest
from sqlalchemy import select
from test_real_drivers import SmallService, bounded

from millstream.control.act import acting
from millstream.control.artifacts.folders import CodeFolders
from millstream.control.artifacts.rows import keep_artifact
from millstream.control.artifacts.store import ArtifactStore
from millstream.control.dispatcher.definitions import Submission, submit
from millstream.control.dispatcher.planning import planned_apart
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.secrets.config import ConfigEntry, set_setting
from millstream.control.secrets.key_ring import KeyRing
from millstream.control.secrets.named import set_secret
from millstream.control.settings import settings_of

CANARY = "canary/e04b 77+öß"
CODE = """
import millstream as ms
from millstream.model.secret import with_secrets
from shop.prices import times

job = ms.Job("coded", params={"factor": {"type": "int", "default": 1}}, rows_per_epoch=5, guarantee="effectively_once")
rows = job.source("rows", ms.datagen(rows=12, fields={"n": {"kind": "sequence"}}))


def write(batch, ctx):
    secret = with_secrets("${secret:SINK_TOKEN}")
    for name in ("environ", "cmdline"):
        with open(f"/proc/self/{name}", "rb") as file:
            assert secret.encode() not in file.read(), name
    length = len(secret)
    with open("OUT", "a") as file:
        file.writelines(f"{n} {length}\\n" for n in batch["m"].to_pylist())


multiplied = rows.with_columns(m="n * :factor").map(times, schema="m long")
multiplied.sink("out", ms.consumer(write, idempotent=True))
multiplied.sink("never", ms.jdbc("sqlite:///DATABASE", table="t", password_env="SINK_TOKEN"))
"""


class ConfiguredService(SmallService):
    @property
    def store(self):
        return ArtifactStore(self.folder / "artifacts")

    @property
    def ring(self):
        return KeyRing(self.folder / "keys.json")

    def submitted(self, definition, *, artifact=None, code=None):
        planned = planned_apart(definition, code=code, parallelism=None)
        with acting(self.metadata, "ada") as act:
            submit(act, Submission(planned, definition, settings_of({"engine": "local"}), artifact=artifact))
        return planned

    def set(self, job, key, value, kind="STRING", *, is_sensitive=False):
        with acting(self.metadata) as act:
            found = select(job_definition.c.id).where(job_definition.c.job_name == job)
            number = act.connection.execute(found).scalar_one()
            set_setting(act.connection, self.ring, number, ConfigEntry(key, value, kind, is_sensitive))

    def run(self, name, **options):
        with acting(self.metadata, "ada") as act:
            run = start(act, name, StartOptions(**options)).execution_id
        self.plane.wake()
        return self.until(run, lambda row: row.end_time is not None or row.error_code is not None)

    def spec(self, row):
        (path,) = self.folder.glob(f"node/runs/{row.execution_id}.*/run.json")
        return json.loads(path.read_text())


@pytest.fixture
def service(tmp_path):
    made = ConfiguredService(tmp_path)
    yield made
    for path in tmp_path.glob("node/runs/*/driver.json"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
    made.plane.stop()
    made.metadata.close()


def packed(**files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in files.items():
            file.writestr(name.replace("__", "/") + ".py", content)
    return made.getvalue()


def upload(service, content):
    with service.store.receive("code.zip") as incoming:
        incoming.write(content)
        incoming.finish()
        with acting(service.metadata) as act:
            row, _ = keep_artifact(act.connection, service.store, incoming, now=act.now, actor="ada")
    return row.sha256


def found_in_files(folder, text):
    """Files that hold a text, as it is or as programs write it down."""
    forms = {text, urllib.parse.quote(text), urllib.parse.quote(text, safe=""), json.dumps(text)[1:-1]}
    wanted = [form.encode() for form in forms] + [base64.b64encode(text.encode())]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 20
    return [str(path) for path in files if any(form in path.read_bytes() for form in wanted)]


def test_code_runs_with_its_secrets_and_parameters_and_leaves_none_behind(service, tmp_path):
    text = CODE.replace("OUT", str(tmp_path / "out.txt")).replace("DATABASE", str(tmp_path / "out.db"))
    sha256 = upload(service, packed(orders=text, shop__prices="def times(row):\n    return {'m': row['m'] + 1000}\n"))
    definition = {"kind": "code", "entry": "orders.py:job"}
    planned = service.submitted(
        definition, artifact=sha256, code=str(CodeFolders(service.store, tmp_path / "planning").folder(sha256))
    )
    assert planned.secrets == ["SINK_TOKEN"]
    with acting(service.metadata) as act:
        set_secret(act.connection, service.ring, "SINK_TOKEN", CANARY, now=act.now)
    service.set("coded", "factor", 3, "INT")
    row = service.run("coded")
    assert (row.status, row.error_message) == ("COMPLETED", None)
    expected = sorted(f"{n * 3 + 1000} {len(CANARY)}" for n in range(12))
    assert sorted((tmp_path / "out.txt").read_text().splitlines()) == expected
    with sqlite3.connect(tmp_path / "out.db") as database:
        assert len(database.execute("SELECT * FROM t").fetchall()) == 12
    spec = service.spec(row)
    assert (spec["artifact"], spec["code"]) == (sha256, str(tmp_path / "node" / "code" / sha256))
    assert found_in_files(tmp_path, CANARY) == []
    row = service.run("coded", params={"factor": 5}, carry="nothing")
    assert service.spec(row)["params"] == {"factor": 5}, "what a run is given comes first"


def test_settings_reach_the_job(service, tmp_path):
    service.submitted({"kind": "declarative", "document": bounded(tmp_path)})
    service.set("bounded", "checkpoint.retention", 2, "INT")
    service.set("bounded", "checkpoint.interval", "5ms")
    row = service.run("bounded")
    assert row.status == "COMPLETED"
    spec = service.spec(row)
    assert spec["config"] == {"checkpoint.retention": 2, "checkpoint.interval": "5ms"}
    assert len(list((tmp_path / "checkpoints" / "bounded").rglob("manifests/*/*.json"))) == 2


def test_a_setting_that_a_step_cannot_take_fails_the_run_with_its_name(service, tmp_path):
    service.submitted({"kind": "declarative", "document": bounded(tmp_path)})
    service.set("bounded", "sink.batch.size", 5, "INT")
    row = service.run("bounded")
    assert row.error_code == "CTL-314"
    assert "'o'" in row.error_message


def test_a_run_without_its_secret_does_not_begin(service, tmp_path):
    document = bounded(tmp_path)
    document["steps"][1]["to"] = {"jdbc": {"url": "postgresql://app:${secret:MISSING}@127.0.0.1:1/x", "table": "t"}}
    service.submitted({"kind": "declarative", "document": document})
    row = service.run("bounded")
    assert "CTL-306" in row.error_message
    assert "MISSING" in row.error_message
    assert list(tmp_path.glob("node/runs/*/driver.json")) == []
