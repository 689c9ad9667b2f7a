"""A network that swallows everything: nobody is told, so whoever waits for an answer has to give up by himself."""

import contextlib
import json
import os
import signal
import time

import pytest
from tests.servers.proxy import Proxy
from tests.unit.control.conftest import new_database
from tests.unit.control.test_real_drivers import SmallService, endless

from millstream.control.act import acting
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.plane import ControlPlane, NodeOptions, RunningNode
from millstream.errors import ExternalFailure


@pytest.fixture
def url(postgres):
    return new_database(postgres)


@pytest.fixture
def proxy(postgres):
    made = Proxy(postgres.port)
    yield made
    made.close()


@pytest.fixture
def patient(url, postgres, proxy):
    """The database behind the network, with one second for an answer."""
    opened = Metadata(url.replace(f":{postgres.port}/", f":{proxy.port}/"), patience=1.0)
    migrate.upgrade(opened)
    yield opened
    opened.close()


def seconds_of(work):
    began = time.monotonic()
    work()
    return time.monotonic() - began


def look(metadata):
    with acting(metadata):
        pass


def test_a_connection_that_is_swallowed_is_replaced(patient, proxy):
    """Within the same act: the look at a pooled connection finds out, and a new one is made."""
    look(patient)
    proxy.swallow()
    assert 0.9 < seconds_of(lambda: look(patient)) < 5


def test_an_answer_that_does_not_come_is_an_error_in_time(patient, proxy):
    def ask():
        with pytest.raises(ExternalFailure, match="wait timeout expired"), patient.begin() as connection:
            patient.now(connection)
            proxy.swallow()
            patient.now(connection)

    assert 0.9 < seconds_of(ask) < 5
    look(patient)


def test_a_database_that_nobody_can_reach_is_an_error_in_time(patient, proxy):
    look(patient)
    proxy.swallow(newcomers=True)

    def ask():
        with pytest.raises(ExternalFailure, match="CTL-002"):
            look(patient)

    assert seconds_of(ask) < 10
    proxy.open_up()
    look(patient)


def test_the_server_gives_up_too(patient):
    """What nobody waits for any more holds no locks."""
    with pytest.raises(ExternalFailure, match="timeout"), patient.begin() as connection:
        connection.exec_driver_sql("SELECT pg_sleep(10)")
    with patient.begin() as connection:
        told = connection.exec_driver_sql("SELECT current_setting('idle_in_transaction_session_timeout')").scalar_one()
    assert told == "10s"


class DistantService(SmallService):
    """Node and dispatcher reach their database over a network."""

    def __init__(self, folder, url):
        self.folder, self.metadata = folder, Metadata(url)
        migrate.upgrade(self.metadata)
        self.through = None

    def start_through(self, url):
        self.through = Metadata(url)
        options = NodeOptions(*(self.folder / name for name in ("node", "checkpoints", "artifacts", "keys.json")))
        self.plane = ControlPlane(self.through, RunningNode(self.through, options))
        self.plane.start()

    def close(self):
        for path in self.folder.glob("node/runs/*/driver.json"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
        self.plane.stop()
        self.through.close()
        self.metadata.close()


@pytest.fixture
def service(tmp_path, url, postgres, proxy):
    made = DistantService(tmp_path, url)
    made.start_through(url.replace(f":{postgres.port}/", f":{proxy.port}/"))
    yield made
    made.close()


def shown(folder):
    return sum(1 for path in (folder / "out").rglob("*") if path.is_file())


def test_connections_that_are_swallowed_cost_no_run(service, proxy, tmp_path):
    """New ones get through: the lease is renewed in time, and the driver never holds still."""
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.processed_records > 100)
    proxy.swallow()
    time.sleep(17)
    before = shown(tmp_path)
    time.sleep(1)
    assert shown(tmp_path) > before
    row = service.until(run, lambda row: row.status == "RUNNING")
    assert (row.attempt, row.token) == (1, 1)


def test_a_driver_holds_still_while_nobody_can_renew(service, proxy, tmp_path):
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.processed_records > 100)
    proxy.swallow(newcomers=True)
    time.sleep(11)
    before = shown(tmp_path)
    time.sleep(2)
    assert shown(tmp_path) == before, "nothing is published without a node that holds the run"
    proxy.open_up()
    records = service.row(run).processed_records
    row = service.until(run, lambda row: row.processed_records > records)
    assert (row.attempt, row.token, row.status) == (1, 1, "RUNNING")
