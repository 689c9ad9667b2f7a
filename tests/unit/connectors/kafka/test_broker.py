"""The brokers that the tests of this folder use: they keep what they acknowledged, and leave nothing behind."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.servers.kafka import KafkaServer
from tests.servers.kafka_topics import KafkaTopics

pytestmark = pytest.mark.kafka

_USER = """
import sys
from tests.servers.shared_kafka import shared_kafka
print(shared_kafka().servers, flush=True)
sys.stdin.read()
"""
_OWNER = """
import sys
from tests.servers.kafka import KafkaServer
KafkaServer().launch()
print("launched", flush=True)
sys.stdin.read()
"""


def test_what_is_sent_is_read(kafka):
    topic = kafka.topic(2)
    kafka.send(topic, [b"a", b"b"], key=b"k", partition=1)
    assert [(m.partition(), m.offset(), m.value()) for m in kafka.read(topic)] == [(1, 0, b"a"), (1, 1, b"b")]


def test_a_broker_keeps_what_it_acknowledged_over_a_kill_and_answers_nothing_while_it_is_paused():
    server = KafkaServer(proxied=True).start()
    try:
        topic = server.topic()
        server.send(topic, [b"a"])
        server.restart()
        server.await_leaders(topic, 1)
        server.pause()
        assert not server.answers()
        server.resume()
        assert [message.value() for message in server.read(topic)] == [b"a"]
        assert [message.value() for message in KafkaTopics(server.proxied_servers).read(topic)] == [b"a"]
    finally:
        server.stop()
    assert not server.folder.exists()


def test_processes_of_one_run_share_a_broker_that_ends_with_the_last_of_them_even_if_that_is_killed(tmp_path):
    first, second = (_python(_USER, tmp_path) for _ in range(2))
    try:
        servers = {first.stdout.readline(), second.stdout.readline()}
        assert len(servers) == 1
        (folder,) = tmp_path.glob("ms-shared-kafka-*")
        broker = _broker_in(tmp_path)
        first.stdin.close()
        first.wait(30)
        assert folder.exists()
        assert _is_alive(broker)
    finally:
        for process in (first, second):
            process.kill()
            process.wait()
            process.stdout.close()
            process.stdin.close()
    _await(lambda: not _is_alive(broker) and not list(tmp_path.iterdir()))


def test_a_broker_of_its_own_dies_with_the_process_that_started_it(tmp_path):
    with _python(_OWNER, tmp_path) as process:
        try:
            process.stdout.readline()
            broker = _broker_in(tmp_path)
        finally:
            process.kill()
    _await(lambda: not _is_alive(broker))


def _python(program, folder):
    environment = {
        **os.environ,
        "TMPDIR": str(folder),
        "PYTEST_XDIST_TESTRUNUID": folder.name,
        "PYTHONPATH": os.getcwd(),
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, **pipes)


def _broker_in(folder):
    """The process id of the broker whose settings lie in a folder, once its program runs."""
    found = []
    _await(lambda: found.extend(_brokers_in(folder)) or found)
    return found[0]


def _brokers_in(folder):
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if words[-2:-1] and words[-2].startswith(bytes(folder)) and words[-2].endswith(b"server.properties"):
                yield int(path.parent.name)


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _await(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.02)
