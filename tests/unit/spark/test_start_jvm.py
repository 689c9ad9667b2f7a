"""A JVM that we started, with another program in its place."""

import os
import time

import pytest

from millstream.spark.start import jvm as module
from millstream.spark.start.jvm import Jvm, JvmDied


@pytest.fixture
def jvm(tmp_path):
    started = Jvm(["sleep", "300"], told_at=tmp_path / "connection", log=None, environ=dict(os.environ))
    yield started
    started.kill()


def told(tmp_path):
    secret = b"opens it"
    (tmp_path / "connection").write_bytes((4711).to_bytes(4, "big") + len(secret).to_bytes(4, "big") + secret)


def test_it_is_announced_to_pyspark(jvm, tmp_path):
    told(tmp_path)
    with jvm.announced():
        assert (os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]) == ("4711", "opens it")
    assert "PYSPARK_GATEWAY_PORT" not in os.environ


def test_one_that_has_listened_for_long_is_announced_again(jvm, tmp_path):
    told(tmp_path)
    jvm._began = time.monotonic() - 10 * module._READY_SECONDS
    with jvm.announced():
        assert os.environ["PYSPARK_GATEWAY_PORT"] == "4711"
    assert jvm.is_alive


def test_one_that_says_nothing_is_given_up(jvm):
    jvm._began = time.monotonic() - 10 * module._READY_SECONDS
    with pytest.raises(JvmDied, match="said nothing"), jvm.announced():
        pass
