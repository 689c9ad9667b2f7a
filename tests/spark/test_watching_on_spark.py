"""Watching a run on Spark: summaries, a listener that fails, and chains parted between two runs of one checkpoint."""

import pytest

import millstream as ms
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import StepFailed

pytestmark = pytest.mark.spark
ROWS = [{"k": str(n % 3), "n": n} for n in range(30)]


def counted(name, **options):
    job = ms.Job(name, rows_per_epoch=10, **options)
    rows = job.source("in", ms.memory(ROWS), schema="k string, n long")
    doubled = rows.map(lambda row: {"k": row["k"], "n": row["n"] * 2}, schema="k string, n long", id="doubled")
    sums = doubled.key_by("k").aggregate(total=ms.sum("n"), emit="row", id="sums")
    sums.filter("total >= 0", id="kept").sink("out", ms.collect(name))
    return job


@pytest.mark.parametrize("last", [False, True], ids=["on the way", "at the end"])
def test_an_error_of_the_listener_ends_the_run_behind_its_epoch(spark, tmp_path, last):
    name = f"listened-{last}"
    clear(name)
    seen = []

    def listen(summary):
        seen.append(summary.epoch)
        if summary.terminal if last else summary.epoch == 1:
            raise LookupError("nobody home")

    with pytest.raises(StepFailed, match=r"STEP-265.*LookupError: nobody home"):
        counted(name).run(master="local[2]", checkpoint=tmp_path, on_epoch=listen)
    published = len(collected(name))
    assert published == (30 if last else 20)
    told = []
    result = counted(name).run(
        master="local[2]", checkpoint=tmp_path, on_epoch=lambda summary: told.append(summary.epoch)
    )
    assert result.resumed_from == seen[-1]
    assert not set(told) & set(seen)
    assert len(collected(name)) == 30


def test_a_checkpoint_is_resumed_whichever_way_its_steps_are_fused(spark, tmp_path):
    clear("fused")

    def stop(summary):
        if summary.epoch == 0:
            raise LookupError("enough")

    with pytest.raises(StepFailed):
        counted("fused").run(master="local[2]", checkpoint=tmp_path, on_epoch=stop)
    seen = []
    counted("fused", chaining=False).run(master="local[2]", checkpoint=tmp_path, on_epoch=seen.append)
    assert {"in", "doubled", "sums", "kept", "out"} >= {vertex for summary in seen for vertex in summary.busy}
    assert {"in", "doubled", "sums", "kept", "out"} == set(seen[0].busy)
    totals = {}
    for row in ROWS:
        totals.setdefault(row["k"], []).append(sum(totals.get(row["k"], [0])[-1:]) + row["n"] * 2)
    found = {key: sorted(row["total"] for row in collected("fused") if row["k"] == key) for key in totals}
    assert found == {key: sorted(sums) for key, sums in totals.items()}
