"""Nexmark on Spark: exact through a crash, a savepoint and another parallelism; and a measured run beside hand-written Spark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from examples.nexmark.compare import difference
from examples.nexmark.data import tables
from examples.nexmark.oracle import Oracle
from examples.nexmark.queries.catalog import QUERIES

from millstream.api.running.control import RunControl
from millstream.checkpoint.failpoint import VARIABLE
from millstream.driver.run import run
from millstream.errors import ExternalFailure
from millstream.plan.deployment import Deployment
from millstream.plan.start import Start

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
EVENTS, EPOCH = 18_000, 6000
# A join that keeps both sides, windows behind windows, distinct values, ranks.
HANDFUL = ("q3", "q5", "q16", "q19")


@pytest.fixture(scope="module")
def oracle():
    with Oracle(tables(EVENTS)) as found:
        yield found


def play(query, folder, checkpoint, *, parallelism=2, suspend_after=None, **restore):
    requirements = {"rows_per_epoch": EPOCH, "parallelism": parallelism}
    job = QUERIES[query].job(EVENTS, folder / query / "out", requirements=requirements, epoch_events=EPOCH)
    control, seen = RunControl(), []

    def listener(epoch):
        seen.append(epoch)
        if len(seen) == suspend_after:
            control.ask("suspend", to=str(folder / query / "savepoints"))

    place = str(folder / query / checkpoint)
    deployment = job.compile(Deployment(checkpoint=place, master="local[2]")).deployment
    return run(deployment, listener=listener, control=control, start=Start(**restore))


def test_queries_are_exact_through_a_crash_and_another_parallelism(spark, tmp_path, oracle, failpoints, monkeypatch):
    for query in HANDFUL:
        failpoints("prepared:2:raise")
        with pytest.raises(ExternalFailure, match="failpoint"):
            play(query, tmp_path, "first")
        monkeypatch.delenv(VARIABLE)
        suspended = play(query, tmp_path, "first", suspend_after=1)
        assert suspended.ended == "suspended"
        finished = play(query, tmp_path, "second", parallelism=3, savepoint=suspended.savepoint)
        assert finished.ended == "finished"
        assert finished.rows_in > 0
        found = QUERIES[query].result(tmp_path / query / "out")
        assert (query, str(difference(oracle.answer(query), found))) == (query, "equal")


def test_a_measured_run_beside_hand_written_spark(tmp_path):
    """In processes of their own, as it is done for real."""
    out = tmp_path / "out.json"
    command = [
        sys.executable,
        "-m",
        "millstream.cli.main",
        "nexmark",
        "run",
        "--queries",
        "q2,q17",
        "--rivals",
        "spark",
    ]
    command += ["--events", "20000", "--epoch-events", "10000", "--data", str(tmp_path / "data"), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:5]] == [
        ["q2", "ours"],
        ["q2", "spark"],
        ["q17", "ours"],
        ["q17", "spark"],
    ]
    for sides in json.loads(out.read_text())["results"].values():
        for side in sides.values():
            assert side["failure"] == ""
            assert side["exactness"] == "exact"
            assert side["seconds"] > 0
            assert side["cpu"] > 0
            assert side["resident"] > 100_000_000
