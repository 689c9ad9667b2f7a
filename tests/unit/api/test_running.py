"""`Job.start`: a job in a thread, its ends, its savepoints, and what happens when it fails."""

import threading
import time

import pytest

import millstream as ms
from millstream.connectors.collect.sink import clear, collected


def ticks(name="ticks", **options):
    job = ms.Job(name, **options)
    rows = job.source("ticks", ms.rate(1000)).with_columns(k="value % 5")
    rows.key_by("k").aggregate(n=ms.count(), id="n").sink("out", ms.collect(name))
    return job


@pytest.fixture(autouse=True)
def _clean():
    yield
    clear("ticks")


def newest():
    return sum({row["k"]: row["n"] for row in collected("ticks")}.values())


def published(running):
    """Wait for an epoch; the wait ends with the job too."""
    waiting = threading.Event()
    while not running.epochs:
        assert running.is_running
        waiting.wait(0.01)
    return running


def test_drain_publishes_all_that_was_read(tmp_path):
    running = published(ticks().start(local=True, checkpoint=tmp_path))
    result = running.drain(30)
    assert (result.ended, running.is_running) == ("drained", False)
    assert running.epochs[-1].terminal
    assert newest() == result.rows_in > 0


def test_watermarks_of_the_newest_epoch(tmp_path):
    job = ms.Job("ticks")
    rows = job.source("ticks", ms.rate(1000)).event_time("timestamp", id="time")
    rows.key_by("value").aggregate(n=ms.count(), id="n").sink("out", ms.collect("ticks"))
    running = job.start(local=True, checkpoint=tmp_path)
    waiting = threading.Event()
    while len(running.epochs) < 3:
        assert running.is_running
        waiting.wait(0.01)
    (found,) = running.watermarks()
    assert (found.step, found.partition) == ("time", "ticks/0")
    assert (found.is_holding, found.is_idle, found.is_paused) == (True, False, False)
    assert found.watermark > 0
    running.drain(30)
    assert running.watermarks() == [], "at the end of time nobody holds it back"


def test_suspend_and_restore_at_another_parallelism(tmp_path):
    first = published(ticks().start(local=True, checkpoint=tmp_path / "a")).suspend(tmp_path / "sp", timeout=30)
    assert first.ended == "suspended"
    changed = ticks(parallelism=3).start(local=True, checkpoint=tmp_path / "b", from_savepoint=first.savepoint)
    second = published(changed).drain(30)
    assert newest() == first.rows_in + second.rows_in


def test_export_goes_on_and_a_repeat_makes_no_second_one(tmp_path):
    running = published(ticks().start(local=True, checkpoint=tmp_path))
    path = running.export_savepoint(id="one", timeout=30)
    assert running.export_savepoint(id="one", timeout=30) == path
    assert running.is_running
    native = running.export_savepoint(tmp_path / "native", native=True, timeout=30)
    assert ms.read_state(native, "n").num_rows == 5
    running.cancel(30)


def test_cancel_and_resume(tmp_path):
    first = published(ticks().start(local=True, checkpoint=tmp_path)).cancel(30)
    assert first.ended == "cancelled"
    second = published(ticks().start(local=True, checkpoint=tmp_path)).drain(30)
    assert second.resumed_from == first.epochs - 1
    assert newest() == first.rows_in + second.rows_in


def test_cancel_drops_the_epoch_in_flight(tmp_path):
    """The next run does it again from the start."""
    gate, reached = tmp_path / "gate", tmp_path / "reached"

    def gated(row):
        reached.touch()
        while not gate.exists():
            time.sleep(0.01)
        return row

    def job():
        made = ms.Job("ticks", rows_per_epoch=3)
        rows = made.source("ticks", ms.rate(1000, rows=3)).map(gated, schema="timestamp timestamp, value long")
        rows.with_columns(k="value % 5").key_by("k").aggregate(n=ms.count(), id="n").sink("out", ms.collect("ticks"))
        return made

    running = job().start(local=True, checkpoint=tmp_path / "c")
    while not reached.exists():
        assert running.is_running
        time.sleep(0.01)
    pending = running.ask("cancel")
    gate.touch()
    assert pending.wait(30).done
    assert (running.wait(30).ended, running.epochs, collected("ticks")) == ("cancelled", [], [])
    assert job().run(local=True, checkpoint=tmp_path / "c").rows_in == 3
    assert newest() == 3


def test_run_takes_the_same_options(tmp_path):
    suspended = published(ticks().start(local=True, checkpoint=tmp_path / "a")).suspend(timeout=30)
    job = ms.Job("ticks")
    rows = job.source("ticks", ms.rate(1000, rows=suspended.rows_in)).with_columns(k="value % 5")
    rows.key_by("k").aggregate(n=ms.count(), id="n").sink("out", ms.collect("ticks"))
    epochs = ms.EpochPolicy(retained=3)
    result = job.run(local=True, checkpoint=tmp_path / "b", from_savepoint=suspended.savepoint, epochs=epochs)
    assert (result.ended, result.rows_in) == ("finished", 0)
    assert newest() == suspended.rows_in


def test_a_failure_is_raised_by_wait_and_by_requests(tmp_path):
    job = ms.Job("failing")
    job.source("in", ms.memory([{"n": 0}]), schema="n long").map(
        lambda row: {"n": 1 // row["n"]}, schema="n long"
    ).sink("out", ms.collect("failing"))
    running = job.start(local=True, checkpoint=tmp_path)
    with pytest.raises(ms.MillstreamError, match="RUN-001"):
        running.wait(30)
    with pytest.raises(ms.MillstreamError, match="RUN-001"):
        running.drain()


def test_requests_after_the_end_are_refused(tmp_path):
    running = published(ticks().start(local=True, checkpoint=tmp_path))
    running.drain(30)
    with pytest.raises(ms.MillstreamError, match="STEP-092"):
        running.export_savepoint()


def test_a_savepoint_needs_a_place():
    running = published(ticks().start(local=True))
    with pytest.raises(ms.MillstreamError, match="STEP-091"):
        running.suspend()
    assert running.is_running
    assert running.cancel(30).ended == "cancelled"


def test_waiting_has_an_end(tmp_path):
    running = published(ticks().start(local=True, checkpoint=tmp_path))
    with pytest.raises(TimeoutError, match="has not ended"):
        running.wait(0.05)
    running.cancel(30)


def test_an_unknown_wish_about_newer_output():
    with pytest.raises(ms.MillstreamError, match="STEP-093"):
        ticks().run(local=True, on_newer_output="drop")


def test_times_to_wait_may_be_durations(tmp_path):
    job = ms.Job("waits", epoch_interval="20ms")
    job.source("ticks", ms.rate(100)).sink("out", ms.collect("waits"))
    running = job.start(local=True, checkpoint=tmp_path)
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        running.wait("50ms")
    with pytest.raises(ms.MillstreamError, match="STEP-004"):
        running.wait("soon")
    assert running.cancel("1m").ended == "cancelled"


class Away(Exception):
    """What a listener of these tests raises."""


def counted(name, **options):
    job = ms.Job(name, rows_per_epoch=2, **options)
    rows = job.source("in", ms.memory([{"n": n} for n in range(6)]), schema="n long")
    rows.filter("n <> 3", id="kept").map(lambda row: row, schema="n long", id="same").sink("out", ms.collect("ticks"))
    return job


@pytest.mark.parametrize("way", ["run", "start"])
def test_a_listener_is_told_of_every_epoch(way):
    seen = []
    if way == "run":
        counted("told").run(local=True, on_epoch=seen.append)
    else:
        counted("told").start(local=True, on_epoch=seen.append).wait(30)
    assert [summary.epoch for summary in seen] == list(range(len(seen)))
    assert seen[-1].terminal
    assert sum(summary.counts["kept"].filtered for summary in seen if summary.counts) == 1
    assert sum(summary.counts["out"].rows_in for summary in seen if "out" in summary.counts) == 5
    assert {vertex for summary in seen for vertex in summary.busy} == {"in"}


@pytest.mark.parametrize("way", ["run", "start"])
def test_an_error_of_the_listener_ends_the_run_behind_its_epoch(tmp_path, way):
    def listen(summary):
        if summary.epoch == 1:
            raise Away("nobody home")

    with pytest.raises(ms.MillstreamError, match=r"STEP-265.*epoch 1.*stays published.*Away: nobody home") as failed:
        if way == "run":
            counted("ended").run(local=True, checkpoint=tmp_path, on_epoch=listen)
        else:
            counted("ended").start(local=True, checkpoint=tmp_path, on_epoch=listen).wait(30)
    assert isinstance(failed.value.__cause__, Away)
    assert [row["n"] for row in collected("ticks")] == [0, 1, 2]
    result = counted("ended").run(local=True, checkpoint=tmp_path)
    assert result.resumed_from == 1
    assert [row["n"] for row in collected("ticks")] == [0, 1, 2, 4, 5]


def test_an_error_of_the_listener_is_not_tolerated(tmp_path):
    def listen(summary):
        raise OSError("disk")

    with pytest.raises(ms.MillstreamError, match="STEP-265"):
        counted("once").run(
            local=True, checkpoint=tmp_path, on_epoch=listen, epochs=ms.EpochPolicy(tolerated_failures=3)
        )


def test_a_request_that_the_epoch_has_done_is_answered_although_the_listener_fails(tmp_path):
    def listen(summary):
        if summary.terminal:
            raise Away("late")

    running = published(ticks().start(local=True, checkpoint=tmp_path, on_epoch=listen))
    pending = running.ask("drain")
    assert pending.wait(30).done
    with pytest.raises(ms.MillstreamError, match="STEP-265"):
        running.wait(30)


def test_a_listener_is_a_function():
    with pytest.raises(ms.MillstreamError, match=r"STEP-266.*on_epoch is not a function"):
        counted("odd").run(local=True, on_epoch="print")
