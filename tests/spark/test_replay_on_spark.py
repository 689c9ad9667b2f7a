"""Dead letters are replayed on Spark as they are locally: into chains of every level and by key, once, whatever is killed."""

import random

import pytest
from tests.unit.runs.replay_job import ask, build, expected, total_of, totals, written

import millstream as ms

pytestmark = pytest.mark.spark


def run(job, place, **options):
    return job.run(checkpoint=place / "checkpoint", master="local[2]", **options)


@pytest.mark.parametrize("where", ["staged:1", "durable:1"])
def test_a_replay_that_is_killed_goes_on_and_is_done_once(spark, tmp_path, failpoints, where):
    draw = random.Random(where)
    rows = [{"k": draw.choice("abc"), "n": draw.randrange(1, 90), "at": 1000 * place} for place in range(60)]
    job = build(tmp_path, rows)
    run(job, tmp_path)
    assert written(tmp_path) < expected(rows)
    (tmp_path / "mended").touch()
    assert all(each.rows for each in ask(job, tmp_path).values())
    failpoints(f"{where}:raise")
    with pytest.raises(ms.MillstreamError, match="failpoint"):
        run(job, tmp_path, run_id="replaying")
    failpoints("")
    assert not any(each.rows for each in ask(job, tmp_path).values())
    run(job, tmp_path, run_id="replaying")
    run(job, tmp_path)
    assert written(tmp_path) == expected(rows)
    assert totals(tmp_path) == total_of(expected(rows))
