"""One Spark session for all tests that need one; everything else runs without a JVM."""

import pytest

import millstream as ms
from millstream.checkpoint import failpoint
from millstream.plan.deployment import Deployment


@pytest.fixture(scope="session")
def spark():
    from millstream.spark.session import open_session

    job = ms.Job("session")
    job.source("rows", ms.memory([]), schema="a long").sink("out", ms.collect("session"))
    session = open_session(job.compile(Deployment(master="local[2]")).deployment)
    yield session
    session.stop()


@pytest.fixture
def failpoints(monkeypatch):
    """Arms failpoints for one run: `failpoints("durable:1:raise")`."""

    def arm(text):
        failpoint.reset()
        monkeypatch.setenv(failpoint.VARIABLE, text)

    yield arm
    failpoint.reset()
