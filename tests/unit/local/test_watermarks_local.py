"""Watermarks over the life of a job: another strategy, other names, another parallelism, and sources that wait."""

import pytest
from evolving import ROWS, SCHEMA, forget, new_job
from stories import Ask, play

import millstream as ms
from millstream.checkpoint.savepoint import read_savepoint
from millstream.connectors.collect.sink import collected
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.plan.epoch import combined_name


@pytest.fixture(autouse=True)
def fresh():
    yield
    forget()


class NewestBefore(ms.WatermarkGenerator):
    """The newest time of all epochs but the last: remembers two values."""

    def on_epoch(self, state, newest, rows, now):
        _, last = state or (None, None)
        return (state, None) if newest is None else ([last, newest], last)


def timed(*, names=("in", "time"), uids=(None, None), parallelism=2, **timing):
    job = new_job(parallelism)
    rows = job.source(names[0], ms.memory(ROWS), schema=SCHEMA, uid=uids[0])
    rows = rows.event_time("at", id=names[1], uid=uids[1], **timing)
    made = rows.key_by("k").window(ms.tumbling("500ms")).aggregate(x=ms.sum("v"), id="bins").select("k", "x")
    made.sink("out", ms.collect("evolving/sums"))
    return job


def marks(told):
    return [epoch.watermark for epoch in told.epochs if not epoch.terminal]


def sums():
    return sorted((row["k"], row["x"]) for row in collected("evolving/sums"))


WANTED = sorted([("a", 6), ("b", 4), ("a", 14), ("b", 21), ("a", 10), ("b", 11)])
"""Values 0 to 11, a and b in turn, five to a window."""


@pytest.mark.parametrize(
    ("after", "first"),
    [
        ({"watermark": ms.watermark.ascending()}, 699),
        ({"watermark": ms.watermark.punctuated("v = 9")}, 499),
        ({"watermark": ms.watermark.none()}, 499),
        ({"watermark": NewestBefore}, 499),
        ({"max_delay": "1h"}, 499),
    ],
    ids=["ascending", "punctuated", "none", "generator", "longer delay"],
)
def test_another_strategy_goes_on_from_where_the_watermark_was(after, first, tmp_path):
    """Rows up to 700 were read in four epochs; the watermark of the fourth knew those up to 500."""
    old = play(timed(), tmp_path / "old", Ask(after=3, to=tmp_path, id="s"))
    assert marks(old) == [MIN_TIME, 99, 299, 499, 499]
    new = play(timed(parallelism=3, **after), tmp_path / "new", savepoint=old.result.savepoint)
    assert marks(new)[0] == first
    assert marks(new) == sorted(marks(new))
    assert sums() == WANTED


def test_another_strategy_goes_on_in_place(tmp_path):
    play(timed(), tmp_path, Ask(action="cancel", after=3))
    new = play(timed(watermark=ms.watermark.none()), tmp_path)
    assert new.result.resumed_from == 3
    assert set(marks(new)) == {499}
    assert sums() == WANTED


def test_a_generator_remembers_across_a_savepoint_and_new_names(tmp_path):
    straight = marks(play(timed(watermark=NewestBefore), tmp_path / "straight"))
    forget()
    old = play(timed(watermark=NewestBefore), tmp_path / "old", Ask(after=2, to=tmp_path, id="s"))
    kept = read_savepoint(old.result.savepoint).planner["partitions"]["time"]["in/0"]
    assert kept[3] == [300, 500]
    renamed = timed(names=("rows", "clock"), uids=("in", "time"), parallelism=3, watermark=NewestBefore)
    new = play(renamed, tmp_path / "new", savepoint=old.result.savepoint)
    assert straight == [MIN_TIME, MIN_TIME, 100, 300, 500, 700]
    assert (marks(old), marks(new)) == ([*straight[:3], 100], straight[3:])
    assert sums() == WANTED


def two(*, names=("left", "right"), uids=(None, None), parallelism=2):
    job = new_job(parallelism)
    scripts = (ROWS, [])
    streams = [
        job.source(f"{name}-in", ms.memory(rows), schema=SCHEMA, uid=uid and f"{uid}-in").event_time(
            "at", id=name, uid=uid
        )
        for name, uid, rows in zip(names, uids, scripts, strict=True)
    ]
    made = streams[0].union(streams[1]).key_by("k").window(ms.tumbling("500ms")).aggregate(x=ms.sum("v"), id="bins")
    made.select("k", "x").sink("out", ms.collect("evolving/sums"))
    return job


def test_steps_that_are_seen_together_keep_their_watermark_under_other_names(tmp_path):
    """The right source has ended: the window follows the left one."""
    old = play(two(), tmp_path / "old", Ask(after=6, to=tmp_path, id="s"))
    savepoint = read_savepoint(old.result.savepoint)
    assert savepoint.plan["combined"] == {combined_name(["left", "right"]): savepoint.plan["watermarks"]["left"]}
    assert savepoint.plan["watermarks"]["right"] == MAX_TIME
    assert len(collected("evolving/sums")) == 2, "the first window is closed"
    renamed = two(names=("z", "a"), uids=("left", "right"), parallelism=3)
    new = play(renamed, tmp_path / "new", savepoint=old.result.savepoint)
    assert new.result.rows_in + old.result.rows_in == len(ROWS)
    assert sums() == WANTED, "no window fires again"


def test_a_source_that_is_ahead_waits_over_a_restart(tmp_path):
    def job(parallelism=2):
        made = new_job(parallelism)
        fast = [{**row, "at": row["at"] * 10} for row in ROWS]
        aligned = {"align": "g", "max_drift": "1s"}
        slow, fast = (
            made.source(name, ms.memory(rows), schema=SCHEMA).event_time("at", id=f"{name}-time", **aligned)
            for name, rows in (("slow", ROWS), ("fast", fast))
        )
        slow.union(fast).key_by("k").aggregate(x=ms.sum("v"), emit="end", id="sums").sink(
            "out", ms.collect("evolving/sums")
        )
        return made

    def most_ahead(told):
        """How far the newest row of the fast source was ahead when it was read, at most."""
        ahead = 0
        for epoch in told.epochs:
            found = {each.partition: each.watermark for each in epoch.watermarks if "/" in each.partition}
            if len(found) == 2:
                ahead = max(ahead, found["fast/0"] - found["slow/0"])
        return ahead

    old = play(job(), tmp_path / "old", Ask(after=4, to=tmp_path, id="s"))
    new = play(job(parallelism=3), tmp_path / "new", savepoint=old.result.savepoint)
    waited = [any(each.is_paused for each in epoch.watermarks) for told in (old, new) for epoch in told.epochs]
    assert any(waited)
    assert max(most_ahead(old), most_ahead(new)) <= 1000 + 1000, "an epoch reads a row of it: a second of event time"
    assert sums() == [("a", 60), ("b", 72)]
