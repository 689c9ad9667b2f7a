"""A machine dies with everything on it: the other one goes on with its runs. Nodes see only their own processes."""

import json
import os
import shutil
import subprocess
import time

import pytest
from tests.chaos.control.cluster import Cluster
from tests.chaos.control.jobs import ChaosJob

pytestmark = pytest.mark.chaos
LONGEST = 30.0
ON_SPARK = "MILLSTREAM_FAIL_OVER_SPARK" in os.environ
"""A JVM of its own on each machine, for the night; the local engine runs always."""


def has_namespaces():
    command = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return (
        shutil.which("unshare") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def epoch(cluster, job):
    return (cluster.row(job).progress or {}).get("epoch", -1)


@pytest.mark.parametrize("engine", ["local", "spark"] if ON_SPARK else ["local"])
def test_the_other_machine_goes_on(tmp_path, engine):
    if not has_namespaces():
        pytest.skip("no process namespaces to be had here: fail-over between machines was NOT tried")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # PostgreSQL runs as another user
    job = ChaosJob("numbers", tmp_path / "out", engine=engine)
    with Cluster(tmp_path, namespaces=True) as cluster:
        cluster.submit(job)
        cluster.until(lambda: epoch(cluster, job) > 1, 240, "it publishes")
        before, owner = cluster.row(job), cluster.owner(cluster.runs[job.name])
        owner.kill()  # the first process of its namespace: all others end with it
        killed = time.monotonic()
        cluster.until(lambda: epoch(cluster, job) > before.progress["epoch"] + 1, 240, "the other goes on")
        seconds = time.monotonic() - killed
        after = cluster.row(job)
        cluster.stop(job, "drain")
        cluster.until(lambda: cluster.row(job).status == "COMPLETED", 120, "it ends")
        assert after.node_id != before.node_id
        assert (after.token, after.retry_count) == (before.token + 1, 0)
        assert {**job.judged(), "rows": 0} == {"lost": 0, "doubled": 0, "rows": 0}
        print(json.dumps({"engine": engine, "fail-over seconds": round(seconds, 1)}))
        assert seconds <= LONGEST
