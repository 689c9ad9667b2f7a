"""A driver that waits with a JVM: a job runs in it without starting one, unless its code changes what workers inherit."""

import os
import time
from pathlib import Path

import pytest

import millstream as ms
from millstream.contract.driver_protocol import RunSpec
from millstream.contract.run_folder import DriverFolder
from millstream.control.drivers.processes import is_alive, kill
from millstream.control.drivers.warm_pool import WarmLimits, WarmPool

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
CODE = """
import os
import millstream as ms

def told(row):
    return {"k": row["n"] % 3, "flag": os.environ.get("CHANGED_BY_THE_JOB", "no")}

@change@
job = ms.Job("coded", rows_per_epoch=20)
rows = job.source("rows", ms.datagen(rows=60, fields={"n": {"kind": "sequence"}}))
rows.map(told, schema="k long, flag string").key_by("k", "flag").aggregate(n=ms.count(), id="n").sink("out", ms.files(OUT))
"""


def until(holds, seconds=180):
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.05)
    return found


def coded(folder, change):
    folder.mkdir()
    (folder / "job.py").write_text(CODE.replace("@change@", change).replace("OUT", repr(str(folder / "out"))))
    return RunSpec(
        run=folder.name,
        token=1,
        job="coded",
        definition={"kind": "code", "entry": "job.py:job"},
        code=str(folder),
        master="local[2]",
        parallelism=2,
        checkpoint=str(folder / "checkpoint"),
        confs={"spark.sql.files.maxPartitionBytes": "1m"},
    )


def of_session(leader):
    """The command lines of its processes; those that ended and were not asked for yet have none."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if os.getsid(int(folder.name)) == leader:
                    found.append((folder / "cmdline").read_bytes())
            except OSError:
                continue
    return [each for each in found if each]


def ran(pool, folder, change):
    """The flags that workers saw, and the log of a run by the process that waits."""
    until(lambda: pool.tend() or any(each.is_ready for each in pool._processes))
    (process,) = pool._processes
    assert any(b"PythonGatewayServer" in each for each in of_session(process.identity.pid))
    spec = coded(folder, change)
    run = DriverFolder(folder / "run")
    identity, why = pool.taken(run, spec)
    assert identity is not None, why
    until(run.read_result)
    pool.has_started(spec.run)
    assert run.read_result().body["status"] == "COMPLETED", run.log.read_text()
    rows = ms.read_files(folder / "out").to_pylist()
    counted = {}
    for row in rows:
        counted[row["k"]] = max(counted.get(row["k"], 0), row["n"])
    assert counted == {0: 20, 1: 20, 2: 20}
    until(lambda: not is_alive(identity), seconds=30)
    assert of_session(identity.pid) == [], "nothing of the run is left"
    kill(identity)
    return {row["flag"] for row in rows}, run.log.read_text()


def test_a_run_needs_no_new_jvm_unless_it_changes_what_workers_inherit(tmp_path):
    pool = WarmPool(tmp_path / "warm", WarmLimits(spark=1, master="local[2]"))
    try:
        flags, log = ran(pool, tmp_path / "plain", "")
        assert flags == {"no"}
        assert "the JVM is starting" not in log
        flags, log = ran(pool, tmp_path / "changing", 'os.environ["CHANGED_BY_THE_JOB"] = "yes"')
        assert flags == {"yes"}
        assert "Spark starts anew" in log
    finally:
        pool.close()
    assert list((tmp_path / "warm").iterdir()) == []
