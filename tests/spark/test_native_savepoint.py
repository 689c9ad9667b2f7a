"""A native savepoint of a running job goes on after everything else of the job was deleted."""

import json
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

import millstream as ms
from millstream.spark.files.log_files import read_logs

pytestmark = pytest.mark.spark

ROWS = [{"user": f"u{i % 5}", "amount": i} for i in range(60)]


def job(folder):
    built = ms.Job("native", rows_per_epoch=20, parallelism=2, epoch_interval="100ms")
    source = ms.files(str(folder / "in"), format="json", watch=True)
    rows = built.source("rows", source, schema="user string, amount long")
    totals = rows.key_by("user").aggregate(total=ms.sum("amount"), n=ms.count(), emit="row", id="totals")
    totals.sink("out", ms.files(str(folder / "out"), format="json"))
    return built


def write_part(folder, part):
    text = "".join(json.dumps(row) + "\n" for row in ROWS[part * 20 : part * 20 + 20])
    (folder / "in").mkdir(exist_ok=True)
    hidden = folder / f"{part}.json"
    hidden.write_text(text)
    hidden.rename(folder / "in" / hidden.name)


def wait_for_rows(running, rows):
    deadline = time.monotonic() + 120
    while sum(epoch.rows_in for epoch in running.epochs) < rows:
        assert running.is_running or running.wait()
        assert time.monotonic() < deadline, running.epochs
        time.sleep(0.05)


def expected():
    totals, counts, found = Counter(), Counter(), Counter()
    for row in ROWS:
        totals[row["user"]] += row["amount"]
        counts[row["user"]] += 1
        found[(row["user"], totals[row["user"]], counts[row["user"]])] += 1
    return found


def test_the_restored_job_runs_on_without_the_original(spark, tmp_path):
    write_part(tmp_path, 0)
    running = job(tmp_path).start(checkpoint=tmp_path / "checkpoint", master="local[2]")
    wait_for_rows(running, 20)
    saved = Path(running.export_savepoint(tmp_path / "save points", id="s1", native=True, timeout=120))
    write_part(tmp_path, 1)
    wait_for_rows(running, 40)
    running.cancel(timeout=120)
    shutil.rmtree(tmp_path / "checkpoint")

    write_part(tmp_path, 2)
    again = job(tmp_path).start(
        checkpoint=tmp_path / "another", from_savepoint=saved, on_newer_output="truncate", master="local[2]"
    )
    wait_for_rows(again, 40)
    again.drain(timeout=120)
    written = ms.read_files(str(tmp_path / "out")).to_pylist()
    assert Counter((row["user"], row["total"], row["n"]) for row in written) == expected()

    (restored,) = (tmp_path / "another" / "spark").iterdir()
    assert min(read_logs(restored).commits) == read_epoch(saved)
    ids = [json.loads((folder / "metadata").read_text())["id"] for folder in (saved / "native/spark", restored)]
    assert ids[0] != ids[1]


def read_epoch(saved):
    return max(read_logs(saved / "native/spark").commits)
