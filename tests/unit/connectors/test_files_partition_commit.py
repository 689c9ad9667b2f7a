"""Partitions of time are marked when the watermark is far enough beyond them, once, through crashes."""

import datetime as dt

import pytest

import millstream as ms
from millstream.connectors.files.partition_commit import end_of
from millstream.errors import ExternalFailure, InvalidStep
from millstream.local.run import run
from millstream.plan.deployment import Deployment

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def ms_of(text):
    return int(dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("partition", "end"),
    [
        ({"dt": "2026-01-01", "hm": "10:30"}, "2026-01-01T10:31"),
        ({"dt": "2025-12-31", "hm": "23:59"}, "2026-01-01T00:00"),
        ({"day": "2024-02-28", "hour": "23"}, "2024-02-29T00:00"),
        ({"day": "2024-02-28", "hour": "7", "minute": "5"}, "2024-02-28T07:06"),
        ({"day": "2024-02-29"}, "2024-03-01"),
        ({"at": "2026-01-01T10:30:05"}, "2026-01-01T10:30:06"),
    ],
)
def test_the_end_of_a_partition(partition, end):
    assert end_of(partition) == ms_of(end)


@pytest.mark.parametrize("partition", [{}, {"dt": None}, {"dt": "2026-01-01", "hm": None}, {"user": "ada"}, {"n": "7"}])
def test_what_is_no_time_has_no_end(partition):
    assert end_of(partition) is None


def job_of(folder, minutes, **options):
    rows = [{"at": START + dt.timedelta(minutes=minute, seconds=30), "n": minute} for minute in minutes]
    job = ms.Job("commits", rows_per_epoch=1)
    timed = job.source("in", ms.memory(rows), schema="at timestamp, n long").event_time("at")
    cut = timed.with_columns(dt="date_format(at, 'yyyy-MM-dd')", hm="date_format(at, 'HH:mm')")
    cut.sink("out", ms.files(folder / "out", partition_by=["dt", "hm"], **options))
    return job


def marked(folder):
    return sorted(
        path.parent.name.removeprefix("hm=").replace("%3A", ":") for path in (folder / "out").rglob("_SUCCESS")
    )


def marks_by_epoch(folder, minutes, **options):
    seen = []
    deployment = (
        job_of(folder, minutes, **options).compile(Deployment(checkpoint=str(folder / "checkpoint"))).deployment
    )
    run(deployment, listener=lambda _: seen.append(marked(folder)))
    return seen


def test_a_mark_comes_with_the_epoch_whose_watermark_has_passed_the_delay(tmp_path):
    seen = marks_by_epoch(tmp_path, [0, 1, 3, 4], partition_commit="1m")
    # An epoch's watermark is that of the rows before it: behind 1:30 nothing has passed 2:00, behind 3:30 minute 1 has.
    assert seen[:4] == [[], [], [], ["00:00", "00:01"]]
    assert seen[-1] == ["00:00", "00:01", "00:03", "00:04"]


def test_a_partition_is_complete_with_its_last_instant(tmp_path):
    seen = marks_by_epoch(tmp_path, [0, 1, 1, 1], partition_commit="30s")
    # Behind 1:30 everything up to 1:29.999 has come: minute 0 has been complete for thirty seconds.
    assert seen[:3] == [[], [], ["00:00"]]


def test_without_the_option_nothing_is_marked(tmp_path):
    assert marks_by_epoch(tmp_path, [0, 5, 9])[-1] == []


def test_a_late_row_leaves_the_mark_and_is_published(tmp_path):
    seen = marks_by_epoch(tmp_path, [0, 9, 9, 0], partition_commit="1m")
    assert seen[2] == ["00:00"]
    assert ms.read_files(tmp_path / "out")["n"].to_pylist() == [0, 9, 9, 0]


@pytest.mark.parametrize("place", ["durable:3:raise", "sink_published:3:raise", "prepared:4:raise"])
def test_a_run_that_was_killed_marks_what_it_missed(tmp_path, failpoints, place):
    failpoints(place)
    with pytest.raises(ExternalFailure, match="failpoint"):
        job_of(tmp_path, [0, 1, 5, 6], partition_commit="1m").run(local=True, checkpoint=tmp_path / "checkpoint")
    failpoints("")
    job_of(tmp_path, [0, 1, 5, 6], partition_commit="1m").run(local=True, checkpoint=tmp_path / "checkpoint")
    assert marked(tmp_path) == ["00:00", "00:01", "00:05", "00:06"]
    assert sorted(ms.read_files(tmp_path / "out")["n"].to_pylist()) == [0, 1, 5, 6]


def test_a_delay_that_is_none_and_marks_without_partitions_are_refused(tmp_path):
    with pytest.raises(InvalidStep, match="wrong value"):
        job_of(tmp_path, [0], partition_commit="soon")
    job = ms.Job("commits")
    rows = job.source("in", ms.memory([{"n": 1}]), schema="n long")
    rows.sink("out", ms.files(tmp_path / "plain", partition_commit="1m"))
    with pytest.raises(InvalidStep, match="there are none"):
        job.run(local=True)
