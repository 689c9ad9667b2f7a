"""`run_job` replaces sources and sinks, drives the clock, crashes where the script says so, and reports what happened."""

import subprocess
import sys

import pytest

import millstream as ms
from millstream.errors import InvalidStep, MillstreamError
from millstream.model.time import MIN_TIME
from millstream.testing import ABORT, ADVANCE_CLOCK, EOF, WATERMARK, run_job

ROWS = [
    {"user": "a", "amount": 1.0, "at": 1000},
    {"user": "b", "amount": 2.0, "at": 2000},
    {"user": "a", "amount": 4.0, "at": 3000},
]


def orders():
    """A job as it stands in production: it reads and writes files."""
    job = ms.Job("orders")
    rows = job.source("orders", ms.files("missing/"), schema="user string, amount double, at long").event_time("at")
    windows = rows.key_by("user").window(ms.tumbling("1m")).aggregate(total=ms.sum("amount"), id="w")
    windows.sink("totals", ms.files("totals/"))
    windows.late.sink("late", ms.files("late/"))
    return job


def totals(output):
    return sorted((row["user"], row["total"]) for row in output["totals"])


def test_sources_and_sinks_are_replaced_and_the_job_stays_as_it_is():
    job = orders()
    before = job.model
    output = run_job(job, {"orders": ROWS})
    assert totals(output) == [("a", 5.0), ("b", 2.0)]
    assert output["late"] == output.rows("late") == []
    assert job.model == before


def test_runs_share_nothing():
    job = orders()
    assert run_job(job, {"orders": ROWS}).sinks == run_job(job, {"orders": ROWS}).sinks


def test_other_connectors_may_be_inputs_and_sources_not_named_are_kept():
    job = ms.Job("kept")
    left = job.source("left", ms.memory([{"n": 1}]), schema="n long")
    right = job.source("right", ms.memory([{"n": 2}]), schema="n long")
    left.union(right).sink("out", ms.print())
    numbers = ms.datagen(fields={"n": {"kind": "sequence", "start": 10}}, rows=2)
    assert sorted(row["n"] for row in run_job(job, {"right": numbers})["out"]) == [1, 10, 11]


def test_watermarks_close_windows_and_make_rows_late():
    output = run_job(orders(), {"orders": [*ROWS, WATERMARK("1m"), ROWS[0]]})
    assert totals(output) == [("a", 5.0), ("b", 2.0)]
    assert output["late"] == [ROWS[0]]
    assert output.counts["w"].late == 1


def test_eof_ends_the_input():
    assert totals(run_job(orders(), {"orders": [ROWS[0], EOF, *ROWS[1:]]})) == [("a", 1.0)]


def test_abort_restarts_from_the_checkpoint():
    script = [ROWS[0], ABORT(), ROWS[1], ABORT(), ROWS[2]]
    for _ in range(2):  # the same script fails again when it is run again
        output = run_job(orders(), {"orders": script})
        assert output.restarts == 2
        assert totals(output) == [("a", 5.0), ("b", 2.0)]
        assert [epoch.epoch for epoch in output.epochs] == list(range(len(output.epochs)))


def test_other_failures_are_not_retried():
    job = ms.Job("failing")
    job.source("in", ms.memory([]), schema="n long").map(lambda row: 1 / row["n"], schema="n long").sink(
        "out", ms.print()
    )
    with pytest.raises(MillstreamError, match="ZeroDivisionError"):
        run_job(job, {"in": [{"n": 0}, ABORT()]})


def test_rows_per_epoch_counts_for_each_source():
    job = ms.Job("two")
    left = job.source("left", ms.memory([]), schema="n long")
    right = job.source("right", ms.memory([]), schema="n long")
    left.union(right).sink("out", ms.print())
    rows = [{"n": number} for number in range(4)]
    output = run_job(job, {"left": rows, "right": rows}, rows_per_epoch=2)
    assert [epoch.rows_in for epoch in output.epochs] == [4, 4, 0]
    assert output.epochs[-1].terminal


def test_a_checkpoint_is_left_behind_and_resumed(tmp_path):
    first = run_job(orders(), {"orders": ROWS}, checkpoint=tmp_path)
    again = run_job(orders(), {"orders": ROWS}, checkpoint=tmp_path)
    assert again.sinks == first.sinks
    assert again.epochs == ()


class Remind(ms.ProcessFunction):
    def process(self, row, ctx):
        ctx.processing_timer(ctx.now + 10_000)
        yield {"what": "row", "now": ctx.now}

    def on_timer(self, timestamp, ctx):
        yield {"what": "timer", "now": ctx.now}


def test_the_clock_stands_still_until_it_is_moved():
    job = ms.Job("clock")
    rows = job.source("in", ms.memory([]), schema="user string")
    rows.key_by("user").process(Remind, schema="what string, now long", id="r").sink("out", ms.print())
    row = {"user": "a"}
    assert [r["what"] for r in run_job(job, {"in": [row]})["out"]] == ["row"]
    moved = run_job(job, {"in": [row, ADVANCE_CLOCK("9s"), ADVANCE_CLOCK("2s")]})
    assert moved["out"] == [{"what": "row", "now": 0}, {"what": "timer", "now": 11_000}]
    later = run_job(job, {"in": [row]}, clock=lambda: 5)
    assert later["out"] == [{"what": "row", "now": 5}]


def test_a_source_that_gives_nothing_is_idle_after_a_while():
    job = ms.Job("idle")
    busy = job.source("busy", ms.memory([]), schema="at long")
    quiet = job.source("quiet", ms.memory([]), schema="at long")
    rows = busy.union(quiet).event_time("at", idle_after="15s")
    rows.key_by("at").window(ms.tumbling("1s")).aggregate(n=ms.count(), id="w").sink("out", ms.print())
    clock = [ADVANCE_CLOCK("10s"), ADVANCE_CLOCK("10s"), {"at": 9000}]
    output = run_job(job, {"busy": [{"at": 1000}, {"at": 2000}, {"at": 3000}], "quiet": clock}, rows_per_epoch=1)
    # The clock reaches 20 s in the second epoch; its watermark knows the rows of the first.
    assert [epoch.watermark for epoch in output.epochs[:3]] == [MIN_TIME, 999, 1999]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"inputs": {"order": []}}, "TEST-001"),
        ({"engine": "flink"}, "TEST-004"),
        ({"inputs": {"orders": [3]}}, "CONN-005"),
    ],
)
def test_mistakes_are_named(options, code):
    with pytest.raises(InvalidStep) as caught:
        run_job(orders(), **options)
    assert caught.value.code == code


def test_unknown_sinks_are_named():
    with pytest.raises(InvalidStep, match="totals"):
        run_job(orders(), {"orders": []})["total"]


def test_local_tests_do_not_load_spark():
    code = "import sys, millstream.testing; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
