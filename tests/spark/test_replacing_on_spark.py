"""On Spark a run that replaces is seen at its end, also when it was interrupted in between."""

import json
import sqlite3

import pytest

import millstream as ms

pytestmark = pytest.mark.spark


def test_runs_replace_each_other_and_one_is_interrupted(tmp_path, failpoints):
    def added(name, numbers):
        (tmp_path / "in").mkdir(exist_ok=True)
        text = "".join(json.dumps({"id": n, "k": n % 2}) + "\n" for n in numbers)
        (tmp_path / "in" / name).write_text(text)

    def run(**options):
        job = ms.Job("whole", rows_per_epoch=5, parallelism=2, carry="nothing")
        rows = job.source("in", ms.files(tmp_path / "in", format="json"), schema="id long, k long")
        rows.sink("all", ms.files(tmp_path / "all", write="replace"))
        counted = rows.key_by("k").aggregate(n=ms.count(), emit="end", id="n")
        counted.sink("counts", ms.jdbc(f"sqlite:///{tmp_path}/out.db", table="counts", write="replace"))
        return job.run(checkpoint=tmp_path / "c", master="local[2]", run_id="one", **options)

    def seen():
        with sqlite3.connect(tmp_path / "out.db") as database:
            counts = dict(database.execute("SELECT k, n FROM counts").fetchall())
        return sorted(ms.read_files(tmp_path / "all").to_pydict().get("id", [])), counts

    added("1.json", range(6))
    added("2.json", range(6, 10))
    views = []
    failpoints("published:2:raise")
    with pytest.raises(ms.MillstreamError, match="failpoint"):
        run(on_epoch=lambda _: views.append(seen()))
    failpoints("")
    assert views == [([], {})] * len(views)
    assert run().run == 1
    assert seen() == (list(range(10)), {0: 5, 1: 5})
