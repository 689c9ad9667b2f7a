"""Jobs between streams of NATS, run here and killed in processes of their own: nothing is lost, nothing comes twice."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter

import pytest
from tests.servers.nats_orders import JOB, ROWS, counted, expected

import millstream as ms
from millstream.checkpoint.failpoint import VARIABLE
from millstream.connectors.messaging.loop import close_loop


@pytest.fixture(autouse=True, scope="module")
def nothing_open():
    yield
    close_loop()


@pytest.fixture
def orders(nats_server):
    stream = nats_server.stream()
    nats_server.send(stream, [json.dumps(row).encode() for row in ROWS])
    return stream


def run(script, *arguments, armed=""):
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(
        command, env={**os.environ, VARIABLE: armed}, check=False, capture_output=True, text=True, timeout=120
    )


def test_a_job_between_two_streams_is_killed_and_loses_and_doubles_nothing(nats_server, orders, tmp_path):
    totals = f"totals{uuid.uuid4().hex[:12]}"
    (tmp_path / "job.py").write_text(JOB)
    arguments = (str(tmp_path), nats_server.servers, orders, totals, "here")
    for armed in ("prepared:2:kill", "durable:2:kill", "sink_sent:1:kill"):
        assert run(tmp_path / "job.py", *arguments, armed=armed).returncode == -signal.SIGKILL, armed
    done = run(tmp_path / "job.py", *arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr[-3000:]
    written = ms.read_files(str(tmp_path / "all")).to_pylist()
    assert Counter(row["place"] for row in written) == Counter(range(1, len(ROWS) + 1))
    assert counted(nats_server, totals) == expected()


_NAMED = """
import sys
import millstream as ms

folder, servers, stream = sys.argv[1:4]
job = ms.Job("named", guarantee="effectively_once", rows_per_epoch=40)
rows = job.source("rows", ms.memory([{"id": n} for n in range(200)]), schema="id long").rebalance()
rows.sink("out", ms.nats(stream, servers=servers))
job.run(checkpoint=folder + "/checkpoint", local=True)
"""


@pytest.mark.parametrize("armed", ["durable:3:kill", "sink_sent:2:kill"])
def test_named_messages_are_taken_once_within_the_window(nats_server, tmp_path, armed):
    stream = f"named{uuid.uuid4().hex[:12]}"
    (tmp_path / "job.py").write_text(_NAMED)
    killed = run(tmp_path / "job.py", str(tmp_path), nats_server.servers, stream, armed=armed)
    assert killed.returncode == -signal.SIGKILL
    done = run(tmp_path / "job.py", str(tmp_path), nats_server.servers, stream)
    assert done.returncode == 0, done.stderr[-3000:]
    found = Counter(json.loads(message.data)["id"] for message in nats_server.read(stream))
    assert found == Counter(range(200))


def test_another_run_carries_on_behind_the_last(nats_server, orders, tmp_path):
    def job():
        made = ms.Job("again")
        rows = made.source(
            "in", ms.nats(orders, servers=nats_server.servers, start="earliest", until="latest"), schema="at long"
        )
        rows.sink("out", ms.files(str(tmp_path / "out"), format="json"))
        return made

    job().run(local=True, checkpoint=tmp_path / "checkpoint", carry="position")
    nats_server.send(orders, [b'{"at": -1}', b'{"at": -2}'])
    job().run(local=True, checkpoint=tmp_path / "checkpoint", carry="position")
    found = Counter(row["at"] for row in ms.read_files(str(tmp_path / "out")).to_pylist())
    assert found == Counter([*(row["at"] for row in ROWS), -1, -2])
