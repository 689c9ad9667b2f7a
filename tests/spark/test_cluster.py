"""A job on a real standalone master with two workers on other addresses; each run is a process with a context of its own."""

import json
import subprocess
import sys

import pytest
from tests.servers.spark_cluster import SparkCluster

from millstream.plan.deployment import Deployment
from millstream.spark.start.confs import context_confs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
_JOB = """
import json, sys
import millstream as ms
from millstream.errors import MillstreamError

job = ms.Job("cluster", rows_per_epoch=500)
rows = job.source("rows", ms.datagen(rows=1_000, fields={"n": {"kind": "sequence"}}))
counts = rows.with_columns(digit="n % 10").key_by("digit").aggregate(n=ms.count(), total=ms.sum("n"), id="counts", emit="end")
counts.sink("out", ms.files("out", format="json"))
confs = tuple(tuple(pair) for pair in json.loads(sys.argv[2]))
try:
    job.run(master=sys.argv[1], checkpoint="checkpoint", confs=(("spark.executor.memory", "512m"), *confs))
except MillstreamError as problem:
    print(json.dumps({"code": problem.code, "message": problem.message, "found": problem.found, "hint": problem.hint}))
else:
    print(json.dumps(ms.read_files("out").to_pylist()))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def ran(master, folder, confs=()):
    command = [sys.executable, "-c", _JOB, master, json.dumps(confs)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_job_runs_on_workers_of_other_hosts(cluster, tmp_path):
    rows = ran(cluster.url, tmp_path)
    assert sorted((row["digit"], row["n"], row["total"]) for row in rows) == [
        (digit, 100, sum(range(digit, 1000, 10))) for digit in range(10)
    ]


def test_a_run_without_an_executor_says_so(cluster, tmp_path):
    """The workers have not the memory that the executors want."""
    confs = [("spark.executor.memory", "9g"), ("spark.millstream.executorTimeout", "5s")]
    problem = ran(cluster.url, tmp_path, confs)
    assert problem["code"] == "SPARK-005"
    assert cluster.url in problem["found"]
    assert "spark.driver.host" in problem["hint"]


def test_the_driver_gives_the_address_on_the_way_to_the_master(cluster):
    confs = context_confs(Deployment(master=cluster.url), debug=False)
    host = cluster.url.removeprefix("spark://").split(":")[0]
    assert confs["spark.driver.host"] == confs["spark.driver.bindAddress"] == host
