"""A source that has ended moves its watermark to the end of time: what is open behind it closes, and nobody finds it late."""

import pytest

import millstream as ms
from millstream.testing import ADVANCE_CLOCK, run_job

CUTS = [1, 2, 3, 100]


def ms_of(at):
    return round(at.timestamp() * 1000)


def seconds(job, name, **timing):
    timed = job.source(name, ms.memory([]), schema="k long, at long").event_time("at", id=f"{name}-time", **timing)
    return timed.key_by("k").window(ms.tumbling("1s")).aggregate(n=ms.count(), id=f"{name}-seconds").select("k", "n")


def joined_windows(**timing):
    job = ms.Job("finished")
    one, other = seconds(job, "one", **timing), seconds(job, "other", **timing)
    whole = one.union(other).key_by("k").window(ms.tumbling("2s")).aggregate(n=ms.sum("n"), id="whole")
    whole.sink("out", ms.collect("out"))
    whole.late.sink("late", ms.collect("late"))
    return job


@pytest.mark.parametrize("rows_per_epoch", CUTS)
@pytest.mark.parametrize("timing", [{}, {"interval": "1h"}, {"max_delay": "1s"}], ids=str)
def test_windows_over_windows_of_a_source_that_ended(rows_per_epoch, timing):
    scripts = {"one": [{"k": 1, "at": 0}], "other": [{"k": 1, "at": at} for at in (1, 1_500, 2_500, 6_000)]}
    output = run_job(joined_windows(**timing), scripts, rows_per_epoch=rows_per_epoch)
    assert output["late"] == []
    assert sorted((ms_of(row["window_start"]), row["n"]) for row in output["out"]) == [(0, 3), (2_000, 1), (6_000, 1)]


@pytest.mark.parametrize("rows_per_epoch", CUTS)
def test_a_join_of_window_aggregates_in_sql(rows_per_epoch):
    job = ms.Job("finished-sql")
    left, right = (job.source(name, ms.memory([]), schema="k long, at long").event_time("at") for name in "lr")
    counted = """
        (SELECT k, COUNT(*) AS n, window_start, window_end
         FROM TUMBLE(TABLE {0}, DESCRIPTOR(at), INTERVAL '1' SECOND) GROUP BY k, window_start, window_end)"""
    statement = f"""
        SELECT a.k, a.n AS n, b.n AS m FROM {counted.format("one")} a JOIN {counted.format("other")} b
        ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end"""
    job.sql(statement, one=left, other=right, id="both").sink("out", ms.collect("out"))
    scripts = {"l": [{"k": 1, "at": 0}], "r": [{"k": 1, "at": at} for at in (1, 2, 1_500, 3_000, 5_000)]}
    output = run_job(job, scripts, rows_per_epoch=rows_per_epoch)
    assert output["out"] == [{"k": 1, "n": 1, "m": 2}]


@pytest.mark.parametrize("rows_per_epoch", CUTS)
def test_windows_without_bounds_go_on_when_event_time_has_ended(rows_per_epoch):
    """Rows without event time and timers of the clock still come to them."""
    job = ms.Job("boundless")
    timed = job.source("timed", ms.memory([]), schema="k long, at long").event_time("at").select("k")
    plain = job.source("plain", ms.memory([]), schema="k long, n long").select("k", id="plain-k")
    keyed = timed.union(plain).key_by("k")
    keyed.window(ms.count_window(3)).aggregate(n=ms.count(), id="threes").sink("threes", ms.collect("o"))
    clocked = keyed.window(ms.global_window(), trigger=ms.trigger.every("10s"))
    clocked.aggregate(n=ms.count(), id="clocked").sink("clocked", ms.collect("o"))
    at_end = keyed.window(ms.global_window(), trigger=ms.trigger.event_time())
    at_end.aggregate(n=ms.count(), id="at-end").sink("at-end", ms.collect("o"))
    waits = [ADVANCE_CLOCK("4s")] * 4
    plain = [*[ADVANCE_CLOCK(0)] * 3, {"k": 1, "n": 0}, *waits, {"k": 1, "n": 1}, ADVANCE_CLOCK("1s")]
    output = run_job(job, {"timed": [{"k": 1, "at": 0}], "plain": plain}, rows_per_epoch=rows_per_epoch)
    found = {name: [row["n"] for row in output[name]] for name in ("threes", "clocked", "at-end")}
    assert found == {"threes": [3], "clocked": [2, 3], "at-end": [1, 2, 3]}
    assert len(output.epochs) <= len(plain) + 2, "no epoch is run because time has ended"
