"""What user code may raise ends a step or refuses a record, also where Python gives the exception a meaning of its own."""

import pytest

import millstream as ms
from millstream.errors import StepFailed
from millstream.testing import run_job

ROWS = [{"k": "a", "v": value, "at": value} for value in range(6)]
BAD = 3


def rows_of(job):
    return job.source("in", ms.memory([]), schema="k string, v long, at long").event_time("at")


def out_of_tags(row):
    if row["v"] == BAD:
        next(iter([]))
    return row


@pytest.mark.parametrize("bad", [{0}, {3}, {5}, {0, 1, 5}, set(range(6))])
def test_a_map_that_raises_stop_iteration_refuses_that_row(bad):
    def shaky(row):
        return next(iter([])) if row["v"] in bad else row

    job = ms.Job("stops")
    rows_of(job).map(shaky, schema="k string, v long, at long", on_error="skip", id="m").sink("o", ms.collect("o"))
    made = run_job(job, {"in": ROWS})
    assert [(row["v"], row["at"]) for row in made["o"]] == [(value, value) for value in range(6) if value not in bad]
    assert made.counts["m"].skipped == len(bad)


def test_a_stop_iteration_between_python_steps_moves_no_row():
    job = ms.Job("stops")
    first = rows_of(job).filter(lambda row: row["v"] != 1, id="f")
    first.map(out_of_tags, schema="k string, v long, at long", on_error="skip", id="m").filter(
        lambda row: True, id="g"
    ).sink("o", ms.collect("o"))
    assert [row["v"] for row in run_job(job, {"in": ROWS})["o"]] == [0, 2, 4, 5]


def test_a_stop_iteration_fails_the_step_with_its_record():
    job = ms.Job("stops")
    rows_of(job).map(out_of_tags, schema="k string, v long, at long", id="m").sink("o", ms.collect("o"))
    with pytest.raises(StepFailed, match="StopIteration") as failed:
        run_job(job, {"in": ROWS})
    assert (failed.value.code, failed.value.step) == ("RUN-001", "m")
    assert '"v": 3' in failed.value.found
