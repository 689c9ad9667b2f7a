"""What the benchmark of latency says of PyFlink, with sides that are not run."""

import io
import json
import urllib.request

import numpy as np
import pytest
from benchmarks.connectors import flink_install, flink_kafka, latency
from benchmarks.connectors.bench import Bench
from benchmarks.connectors.latency import Visible
from examples.nexmark.rivals import pyflink_install
from rich.console import Console
from scripts import kafka_server

SECONDS = {"ours": 1.0, "spark": 2.0, "pyflink": 0.5}


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, Console(file=io.StringIO(), width=170), scale=1, seconds=60)


@pytest.fixture
def started(monkeypatch):
    """The sides that were started, each with what it was told."""
    sides = {}

    def measured(bench, module, side, rate, **more):
        sides[module, side] = more
        return Visible(np.full(1000, SECONDS[side]), period=1.25)

    monkeypatch.setattr(latency, "_measured", measured)
    return sides


@pytest.fixture
def has_pyflink(monkeypatch, tmp_path):
    monkeypatch.setattr(pyflink_install, "PYTHON", tmp_path / "python")
    monkeypatch.setattr(pyflink_install, "FOLDER", tmp_path)
    monkeypatch.setattr(pyflink_install, "_python_steps", list)


def printed(bench):
    return bench.console.file.getvalue()


def test_pyflink_stands_beside_with_the_period_of_its_checkpoints(bench, started, has_pyflink, tmp_path):
    jar = tmp_path / flink_install._TARGET / "connector.jar"
    jar.parent.mkdir()
    jar.touch()
    lines = latency.measure(bench)
    assert [(line.ours, line.rival, line.rival_name, line.target) for line in lines] == [
        (1.0, 2.0, "Structured Streaming", "<= 1"),
        (1.0, 2.0, "Structured Streaming", "<= 1"),
        (1.0, 0.5, "PyFlink, a checkpoint every 1.25 s", ""),
        (1.0, 0.5, "PyFlink, a checkpoint every 1.25 s", ""),
    ]
    assert list(started) == [("latency", "ours"), ("latency", "spark"), ("flink_kafka", "pyflink")]
    assert started["flink_kafka", "pyflink"] == {"python": tmp_path / "python", "jars": (str(jar),)}
    assert printed(bench) == ""


def test_where_pyflink_cannot_be_installed_it_is_left_out_loudly(bench, started, monkeypatch):
    monkeypatch.setattr(pyflink_install, "_python_steps", lambda: [(False, ["no-such-program", "install"])])
    lines = latency.measure(bench)
    assert [line.rival_name for line in lines] == ["Structured Streaming"] * 2
    assert list(started) == [("latency", "ours"), ("latency", "spark")]
    assert "PyFlink is left out. PYFLINK IS NOT INSTALLED: no-such-program install: " in printed(bench)


def test_where_its_connector_cannot_be_fetched_it_is_left_out_loudly(bench, started, has_pyflink, monkeypatch):
    def fetch(listed, libs, scratch):
        raise SystemExit("the sum of [a jar] differs")

    monkeypatch.setattr(kafka_server, "fetch", fetch)
    assert len(latency.measure(bench)) == 2
    assert "PYFLINK HAS NO KAFKA CONNECTOR: the sum of [a jar] differs" in printed(bench)
    assert not (pyflink_install.FOLDER / flink_install._TARGET).exists()


def test_its_epochs_are_the_completed_checkpoints(monkeypatch):
    kept = {"end_to_end_duration": 120, "latest_ack_timestamp": 7_500}
    history = [
        {"id": 3, "status": "IN_PROGRESS", "end_to_end_duration": 5, "latest_ack_timestamp": -1},
        {"id": 2, "status": "COMPLETED", **kept},
        {"id": 1, "status": "FAILED", **kept},
    ]
    answer = io.BytesIO(json.dumps({"history": history}).encode())
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: answer)
    assert flink_kafka._completed("http://127.0.0.1:1/jobs/a") == {2: (1, 0.12, 7.5)}
