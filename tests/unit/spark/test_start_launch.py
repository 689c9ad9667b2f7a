"""Which launch serves whom; no JVM is started: a launch is a stand-in here."""

import os

import pytest

from millstream.plan.deployment import Deployment, MemoryBudget
from millstream.spark.start import launch


class StandIn(launch.Launch):
    def __init__(self, settings, wishes, *, quiet, log=None):
        self.settings, self.wishes, self._noting = settings, wishes, None
        self.is_claimed, self.is_closed, self.farewell, self.entry = False, False, None, None
        self._environ = dict(os.environ)

    def close(self):
        self.is_closed = True


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    monkeypatch.setattr(launch, "Launch", StandIn)
    monkeypatch.setattr(launch, "why_not", lambda master, wishes: None if master.startswith("local") else "elsewhere")
    monkeypatch.setattr(launch._OfThisProcess, "launch", None)
    monkeypatch.setattr(launch._OfThisProcess, "pid", None)


LOCAL = Deployment(master="local[2]")
LARGE = Deployment(master="local[2]", memory=MemoryBudget(driver_mb=4096))
CLUSTER = Deployment(master="spark://host:7077")


def test_what_was_started_early_is_used():
    early = launch.start_early(LOCAL, claims=False)
    assert launch.start_early(LOCAL) is early
    assert launch.start_early(LOCAL) is early


def test_what_a_job_file_puts_into_the_environment_reaches_the_workers(monkeypatch):
    early = launch.start_early(LOCAL, claims=False)
    monkeypatch.setenv("PASSWORD_OF_THE_JOB", "x")
    later = launch.start_early(LOCAL)
    assert early.is_closed
    assert later is not early
    monkeypatch.setenv("PASSWORD_OF_THE_JOB", "y")
    assert launch.start_early(LOCAL) is later, "a run counts on it"


def test_a_run_that_starts_meanwhile_does_not_end_what_another_counts_on():
    first = launch.start_early(LOCAL)
    assert launch.start_early(LARGE) is first
    assert not first.is_closed


def test_a_cluster_is_not_given_the_jvm_of_a_local_run():
    first = launch.start_early(LOCAL)
    assert launch.start_early(CLUSTER) is None
    assert not first.is_closed
    assert launch.start_early(LOCAL) is first


def test_options_that_cannot_be_read_are_left_to_the_launcher(caplog):
    odd = Deployment(master="local[2]", confs=(("spark.driver.extraJavaOptions", "-Da='b"),))
    assert launch.start_early(odd) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_copy_of_the_process_leaves_the_launch_alone(monkeypatch):
    first = launch.start_early(LOCAL)
    monkeypatch.setattr(launch._OfThisProcess, "pid", -1)
    launch.close()
    assert not first.is_closed
    assert launch.start_early(LARGE) is not first
    assert not first.is_closed
