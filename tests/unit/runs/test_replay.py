"""Dead letters are replayed: once, through the step that failed, as if it had never done so."""

import random

import pytest
from tests.unit.runs.replay_job import ask, build, expected, total_of, totals, written


def some_rows(seed, count=60):
    draw = random.Random(seed)
    return [{"k": draw.choice("abc"), "n": draw.randrange(1, 90), "at": 1000 * place} for place in range(count)]


def run(job, place, **options):
    return job.run(local=True, checkpoint=place / "checkpoint", **options)


def mend(place):
    (place / "mended").touch()


@pytest.mark.parametrize(("seed", "timed"), [(1, True), (2, False), (3, True)])
def test_a_mended_job_gives_what_one_gives_that_never_failed(tmp_path, seed, timed):
    rows = some_rows(seed)
    job = build(tmp_path, rows, timed=timed)
    run(job, tmp_path)
    assert written(tmp_path) < expected(rows, timed=timed)
    mend(tmp_path)
    asked = ask(job, tmp_path)
    assert all(each.rows and not each.refused for each in asked.values()), asked
    run(job, tmp_path)
    assert written(tmp_path) == expected(rows, timed=timed)
    assert totals(tmp_path) == total_of(expected(rows, timed=timed))
