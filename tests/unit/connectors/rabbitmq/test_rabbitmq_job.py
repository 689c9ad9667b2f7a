"""Jobs that read RabbitMQ and are killed: of a plain queue nothing is lost, of a stream queue nothing comes twice either."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

import millstream as ms
from millstream.checkpoint.failpoint import VARIABLE
from millstream.connectors.messaging.loop import close_loop

pytestmark = pytest.mark.brokers

JOB = """
import sys
import millstream as ms

folder, url, queue, kind = sys.argv[1:5]
begins = {"start": "earliest", "until": "latest"} if kind == "stream" else {}
guarantee = "exactly_once" if kind == "stream" else "at_least_once"
job = ms.Job("from-rabbitmq", guarantee=guarantee, rows_per_epoch=40, parallelism=2)
rows = job.source("in", ms.rabbitmq(queue, url=url, kind=kind, prefetch=120, **begins), schema="n long")
rows.sink("out", ms.files(folder + "/out", format="json"))
if __name__ == "__main__":
    job.run(checkpoint=folder + "/checkpoint", local=True)
"""
COUNT = 600


@pytest.fixture(autouse=True, scope="module")
def nothing_open():
    yield
    close_loop()


def started(folder, url, queue, kind, armed=""):
    (folder / "job.py").write_text(JOB)
    command = [sys.executable, str(folder / "job.py"), str(folder), url, queue, kind]
    environment = {**os.environ, VARIABLE: armed}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def written(folder):
    if not (folder / "out").exists():
        return Counter()
    return Counter(row["n"] for row in ms.read_files(str(folder / "out")).to_pylist())


def filled(server, *, stream):
    queue = server.queue(stream=stream)
    server.send(queue, [json.dumps({"n": number}).encode() for number in range(COUNT)])
    return queue


def test_a_plain_queue_is_read_at_least_once_over_kills(rabbitmq_server, tmp_path):
    queue = filled(rabbitmq_server, stream=False)
    for armed in ("durable:2:kill", "intake_synced:1:kill", "published:2:kill"):
        killed = started(tmp_path, rabbitmq_server.url, queue, "queue", armed)
        assert killed.wait(120) == -signal.SIGKILL, killed.stderr.read()[-3000:]
        killed.stderr.close()
    running = started(tmp_path, rabbitmq_server.url, queue, "queue")
    try:
        until = time.monotonic() + 120
        while set(written(tmp_path)) != set(range(COUNT)) or rabbitmq_server.waiting(queue):
            assert running.poll() is None, running.stderr.read()[-3000:]
            assert time.monotonic() < until, f"{COUNT - len(written(tmp_path))} rows are missing"
            time.sleep(0.1)
    finally:
        running.kill()
        running.wait()
        running.stderr.close()
    assert set(written(tmp_path)) == set(range(COUNT))


def test_a_stream_queue_is_read_exactly_once_over_kills(rabbitmq_server, tmp_path):
    queue = filled(rabbitmq_server, stream=True)
    for armed, code in (("durable:2:kill", -signal.SIGKILL), ("staged:3:kill", -signal.SIGKILL), ("", 0)):
        done = started(tmp_path, rabbitmq_server.url, queue, "stream", armed)
        assert done.wait(120) == code, done.stderr.read()[-3000:]
        done.stderr.close()
    assert written(tmp_path) == Counter(range(COUNT))


def test_a_broker_that_is_killed_and_comes_back_is_read_on(tmp_path):
    from tests.servers.rabbitmq import RabbitServer

    server = RabbitServer().start()
    try:
        queue = filled(server, stream=False)
        running = started(tmp_path, server.url, queue, "queue")
        until = time.monotonic() + 180
        while not written(tmp_path):
            assert time.monotonic() < until
            time.sleep(0.05)
        server.restart()
        while set(written(tmp_path)) != set(range(COUNT)):
            assert running.poll() is None, running.stderr.read()[-3000:]
            assert time.monotonic() < until
            time.sleep(0.1)
        running.kill()
        running.wait()
        running.stderr.close()
    finally:
        server.stop()
