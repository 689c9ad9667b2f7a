"""The step that holds a job back is named: a slow map inside its chain, a slow sink with what publishing takes."""

import time

import pytest

import millstream as ms
from millstream.connectors.collect.sink import CollectCommitter, CollectWriter


def epochs_of(job):
    seen = []
    job.run(local=True, on_epoch=seen.append)
    return seen


def chained(step, **options):
    job = ms.Job("loads", rows_per_epoch=20, parallelism=1, **options)
    rows = job.source("rows", ms.memory([{"n": n} for n in range(20)]), schema="n long")
    made = rows.filter("n >= 0", id="kept").map(lambda row: row, schema="n long", id="plain")
    made.map(step, schema="n long", id="step").key_by("n").aggregate(c=ms.count(), id="sums").sink(
        "out", ms.collect("loads")
    )
    return job


def test_a_slow_function_is_named_inside_its_chain():
    def slow(row):
        time.sleep(0.01)
        return row

    (first, *_) = epochs_of(chained(slow))
    holder = first.load.holder
    assert (holder.step, holder.kind, holder.vertex) == ("step", "map", "rows")
    assert holder.seconds >= 0.2
    assert 0.2 < holder.share <= 1.0
    assert "map 'step'" in str(holder)
    assert first.load.steps["plain"] < holder.seconds / 2


@pytest.mark.parametrize("call", ["write", "publish", "prepare", "finish"])
def test_a_slow_sink_is_named_whatever_it_takes_its_time_for(monkeypatch, call):
    owner = CollectWriter if call in ("write", "finish") else CollectCommitter
    plain = getattr(owner, call)

    def slow(self, *given):
        time.sleep(0.3)
        return plain(self, *given)

    monkeypatch.setattr(owner, call, slow)
    (first, *_) = epochs_of(chained(lambda row: row))
    assert (first.load.holder.step, first.load.holder.kind) == ("out", "sink")


def test_vertices_wait_for_what_runs_before_and_behind_them():
    def slow(row):
        time.sleep(0.01)
        return row

    (first, *_) = epochs_of(chained(slow))
    before, behind = first.load.vertices["rows"], first.load.vertices["sums"]
    assert before.busy >= 0.2
    assert behind.idle >= 0.2, "it waited for the level before it"
    assert before.idle < behind.idle
    assert before.blocked >= behind.blocked
    for vertex in (before, behind):
        assert vertex.busy + vertex.idle + vertex.blocked == pytest.approx(first.seconds, rel=0.01)
    assert (before.rows_in, behind.rows_in) == (20, 20)
    assert before.bytes_in > 0
    assert before.bytes_out == behind.bytes_in > 0
    assert behind.bytes_out > 0


def test_an_epoch_that_took_no_time_anywhere_names_nobody(monkeypatch):
    monkeypatch.setattr("millstream.jobmaster.loads._NOTABLE", 2.0)
    (first, *_) = epochs_of(chained(lambda row: row))
    assert first.load.holder is None
    assert set(first.load.steps) >= {"rows", "kept", "plain", "step", "sums", "out"}


def test_the_size_of_an_epoch_is_its_state_and_what_it_staged(tmp_path):
    seen = []
    chained(lambda row: row).run(local=True, checkpoint=tmp_path / "c", on_epoch=seen.append)
    folder, size = tmp_path / "c" / "local", []
    for path in sorted(folder.glob("*/state-*")):
        size.append(path.stat().st_size)
    staged = [each.load.vertices["sums"].bytes_out for each in seen]
    assert [each.size for each in seen] == [stored + rows for stored, rows in zip(size, staged, strict=True)]
    assert min(size) > 0


def test_without_files_of_its_own_the_pages_count_that_tasks_wrote():
    (first, *_) = epochs_of(chained(lambda row: row))
    assert first.size > first.load.vertices["sums"].bytes_out > 0
    assert (first.shuffled, first.jvm) == (None, None)
