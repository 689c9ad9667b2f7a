"""A run that dies anywhere between two steps of the epoch protocol resumes with no row lost or doubled."""

import datetime as dt
import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import millstream as ms
from millstream.checkpoint.failpoint import VARIABLE
from millstream.errors import CheckpointRefused, ExternalFailure

pytestmark = pytest.mark.spark

JOB = """
import sys
import millstream as ms

folder = sys.argv[1]
job = ms.Job("orders", rows_per_epoch=400, parallelism=2)
orders = job.source("orders", ms.files(folder + "/in", format="json"), schema="user string, amount long, at long")
orders = orders.event_time("at", max_delay="2s")
big = orders.filter("amount % 3 = 0")
big.sink("big", ms.files(folder + "/big", format="parquet"))
totals = orders.key_by("user").window(ms.tumbling("10s")).aggregate(total=ms.sum("amount"), n=ms.count(), id="totals")
totals.sink("totals", ms.files(folder + "/totals", format="parquet"))
per_size = totals.key_by("n").reduce(lambda a, b: {**b, "total": a["total"] + b["total"]}, id="sizes")
per_size.sink("per-size", ms.files(folder + "/sizes", format="json"))
if __name__ == "__main__":
    job.run(checkpoint=folder + "/checkpoint", master="local[2]")
"""


def write_input(folder):
    (folder / "in").mkdir(parents=True)
    rows = [{"user": f"u{i % 7}", "amount": i % 50, "at": i * 100} for i in range(2000)]
    for part in range(10):
        text = "\n".join(json.dumps(row) for row in rows[part * 200 : (part + 1) * 200])
        (folder / "in" / f"{part:02d}.json").write_text(text + "\n")
    return rows


def expected(rows):
    big = Counter((r["user"], r["amount"], r["at"]) for r in rows if r["amount"] % 3 == 0)
    totals = {}
    for r in rows:
        key = (r["user"], r["at"] // 10_000)
        total, n = totals.get(key, (0, 0))
        totals[key] = (total + r["amount"], n + 1)
    return big, Counter((user, start * 10_000, total, n) for (user, start), (total, n) in totals.items())


def check(folder, rows):
    big, totals = expected(rows)
    written = ms.read_files(str(folder / "big")).to_pylist()
    assert Counter((r["user"], r["amount"], r["at"]) for r in written) == big
    windows = ms.read_files(str(folder / "totals")).to_pylist()
    assert Counter((r["user"], start_of(r), r["total"], r["n"]) for r in windows) == totals
    # A running sum is that of the window before it and its own total, whatever the order of the windows.
    sizes = sorted(ms.read_files(str(folder / "sizes")).to_pylist(), key=lambda row: (row["n"], row["total"]))
    before = [row["total"] if row["n"] == after["n"] else 0 for row, after in itertools.pairwise(sizes)]
    own = [row["total"] - sum_before for row, sum_before in zip(sizes, [0, *before], strict=True)]
    found = Counter((r["user"], start_of(r), total, r["n"]) for r, total in zip(sizes, own, strict=True))
    assert found == totals


def start_of(row):
    """When a window starts; in JSON that is text."""
    start = row["window_start"]
    start = dt.datetime.fromisoformat(start) if isinstance(start, str) else start
    return int(start.timestamp() * 1000)


@pytest.mark.parametrize("place", ["staged", "prepared", "durable", "sink_published", "published", "before_commit_log"])
def test_a_crash_at_every_step_of_an_epoch(spark, tmp_path, failpoints, monkeypatch, place):
    rows = write_input(tmp_path)
    failpoints(f"{place}:2:raise")
    with pytest.raises(ExternalFailure, match="failpoint"):
        run_here(tmp_path)
    monkeypatch.delenv(VARIABLE)
    run_here(tmp_path)
    check(tmp_path, rows)


def run_here(folder):
    scope = {"__name__": "orders_job"}
    argv, sys.argv = sys.argv, ["job.py", str(folder)]
    try:
        exec(compile(JOB, "job.py", "exec"), scope)
    finally:
        sys.argv = argv
    return scope["job"].run(checkpoint=str(folder / "checkpoint"), master="local[2]")


def test_a_process_killed_twice_resumes(tmp_path):
    """The real thing: driver process and JVM die by SIGKILL, once before and once after the manifest is durable."""
    rows = write_input(tmp_path)
    script = tmp_path / "job.py"
    script.write_text(JOB)
    for armed, code in (("prepared:2:kill", -signal.SIGKILL), ("durable:2:kill", -signal.SIGKILL), ("", 0)):
        done = subprocess.run(
            [sys.executable, str(script), str(tmp_path)],
            env={**os.environ, VARIABLE: armed},
            check=False,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == code, done.stderr[-2000:]
    check(tmp_path, rows)


def test_a_finished_run_has_nothing_to_do(spark, tmp_path):
    rows = write_input(tmp_path)
    first = run_here(tmp_path)
    again = run_here(tmp_path)
    assert first.epochs > 3
    assert again.epochs == 0
    check(tmp_path, rows)


def test_a_changed_job_is_refused(spark, tmp_path, failpoints, monkeypatch):
    write_input(tmp_path)
    failpoints("published:1:raise")
    with pytest.raises(ExternalFailure):
        run_here(tmp_path)
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setitem(globals(), "JOB", JOB.replace('tumbling("10s")', 'tumbling("20s")'))
    with pytest.raises(CheckpointRefused, match="totals"):
        run_here(tmp_path)


def test_a_damaged_manifest_is_refused(spark, tmp_path, failpoints, monkeypatch):
    write_input(tmp_path)
    failpoints("published:1:raise")
    with pytest.raises(ExternalFailure):
        run_here(tmp_path)
    monkeypatch.delenv(VARIABLE)
    newest = sorted((tmp_path / "checkpoint" / "millstream" / "manifests").glob("*/*.json"))[-1]
    newest.write_bytes(Path(newest).read_bytes().replace(b'"epoch":', b'"epoch": '))
    newest.write_bytes(newest.read_bytes()[:-20])
    with pytest.raises(CheckpointRefused, match="damaged"):
        run_here(tmp_path)
