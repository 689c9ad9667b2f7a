"""Secrets of a run: over the socket, into the memory of its processes, and nowhere else."""

import json
import os
from pathlib import Path

import pytest
from node_side import NodeSide, document, spec_of

from millstream.control.drivers.launch import clean_environment

CANARY = 'canary-7d/"e1 +ö'
HIDDEN = "***"
JOB = """
import logging, os, sys, urllib.parse
import millstream as ms
from millstream.model.secret import secret

class Leaky(ms.ProcessFunction):
    def process(self, row, ctx):
        value = secret("CANARY")
        assert "CANARY" not in os.environ
        print("printed", value)
        print("quoted", urllib.parse.quote(value, safe=""), repr(value), file=sys.stderr)
        os.system("echo from a child: $(cat " + __CANARY_FILE__ + ")")
        logging.getLogger("millstream.user").warning("logged %s", value)
        if row["value"] == 3 and __FAILS__:
            raise ValueError(f"cannot use {value}")
        yield {"k": 0, "length": len(value)}

job = ms.Job("leaky")
rows = job.source("r", ms.rate(10_000, rows=5)).map(lambda row: {"k": 0, "value": row["value"]}, schema="k long, value long")
rows.key_by("k").process(Leaky, schema="k long, length long").sink("out", ms.files(__OUT__, format="json"))
"""


@pytest.fixture
def node(tmp_path):
    made = NodeSide(tmp_path / "node")
    yield made
    made.close()


def started(node, tmp_path, *, fails=False, **changes):
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    aside = tmp_path / "aside"
    aside.write_text(CANARY)
    text = JOB.replace("__OUT__", repr(str(tmp_path / "node" / "out"))).replace("__FAILS__", str(fails))
    (artifact / "leaky.py").write_text(text.replace("__CANARY_FILE__", repr(str(aside))))
    definition = {"kind": "code", "entry": "leaky.py:job"}
    given = {"definition": definition, "code": str(artifact), "job": "leaky", "secret_names": ["CANARY"]}
    spec = spec_of(tmp_path / "node", **{**given, **changes})
    return node.start(spec, secrets={"CANARY": CANARY, "OTHER": "not asked for"})


def forms():
    return [form.encode() for form in (CANARY, json.dumps(CANARY)[1:-1], "canary-7d")]


def leaks(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 5
    return [str(path) for path in files if any(form in path.read_bytes() for form in forms())]


def of_process(pid):
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))


def test_a_secret_is_written_nowhere(node, tmp_path):
    started(node, tmp_path)
    node.until(lambda: node.of("hello"), "the driver")
    seen = of_process(node.identity.pid)
    result = node.await_result()
    assert result["status"] == "COMPLETED", result
    assert not any(form in seen for form in forms())
    assert leaks(tmp_path / "node") == []
    assert not [report for report in node.reports if "canary-7d" in repr(report)]
    log = node.folder.log.read_text()
    for words in ("printed ***", "quoted ***", "from a child: ***", "logged ***"):
        assert words in log


def test_a_secret_in_an_error_is_hidden_in_every_report(node, tmp_path):
    started(node, tmp_path, fails=True)
    result = node.await_result()
    assert (result["status"], HIDDEN in json.dumps(result["error"])) == ("FAILED", True)
    assert not [report for report in node.reports if "canary-7d" in repr(report)]
    assert leaks(tmp_path / "node") == []


def test_the_job_is_not_loaded_before_the_secrets_are_there(node, tmp_path):
    started(node, tmp_path, secrets_within=1.0, secret_names=["CANARY", "MISSING"])
    result = node.await_result()
    assert (result["error"]["code"], result["error"]["found"]) == ("CTL-122", "MISSING")
    assert node.of("graph") == []


def test_secrets_that_do_not_come_fail_the_run(node, tmp_path):
    written = document(tmp_path / "node", rows=5)
    node.start(spec_of(tmp_path / "node", written, secret_names=["CANARY"], secrets_within=0.5))
    result = node.await_result()
    assert (result["error"]["code"], result["retry"]) == ("CTL-121", "backoff")


def test_the_environment_of_a_driver_holds_places_and_no_secrets():
    environ = {
        "PATH": "/bin",
        "JAVA_HOME": "/java",
        "SPARK_LOCAL_DIRS": "/fast",
        "MILLSTREAM_DEBUG": "1",
        "MILLSTREAM_DATABASE": "postgresql://me:hunter2@h/db",
        "MILLSTREAM_TOKEN": "t",
        "MILLSTREAM_SECRETS": "/secrets",
        "AWS_SECRET_ACCESS_KEY": "k",
        "DATABASE_PASSWORD": "p",
        "SOMETHING": "else",
    }
    assert set(clean_environment(environ)) == {"PATH", "JAVA_HOME", "SPARK_LOCAL_DIRS", "MILLSTREAM_DEBUG"}


def test_variables_of_the_node_do_not_reach_its_drivers(node, tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "canary-7d")
    node.start(spec_of(tmp_path / "node"))
    node.await_epochs(1)
    assert b"canary-7d" not in of_process(node.identity.pid)
    assert sorted(os.listdir(f"/proc/{node.identity.pid}/fd"))[:1] == ["0"]
    assert os.readlink(f"/proc/{node.identity.pid}/fd/0") == "/dev/null"
