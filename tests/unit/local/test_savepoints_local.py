"""Savepoints of a running job: taken while it goes on or as its end, once per id, and gone on from elsewhere."""

import json
import shutil

import pytest
from stories import ROWS, SCRIPT, Ask, play, published, story

import millstream as ms
from millstream.checkpoint.savepoint import dispose_savepoint, list_savepoints, read_savepoint
from millstream.checkpoint.savepoint_files import verify_savepoint
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import CheckpointRefused
from millstream.testing import run_job


@pytest.fixture(scope="module")
def straight():
    play(story("straight"), None)
    return published("straight")


def test_a_suspended_job_goes_on_elsewhere_at_another_parallelism(tmp_path, straight):
    """Timers of both kinds, expiring state, open windows and sessions, watermarks, the clock and two levels move along."""
    for after in range(12):
        name, old, new = f"moved-{after}", tmp_path / f"old-{after}", tmp_path / f"new-{after}"
        told = play(story(name), old, Ask(after=after, to=tmp_path / "savepoints", id=name))
        assert told.result.ended == "suspended"
        assert len(told.epochs) == after + 2, "the epoch that carries the savepoint is the last"
        assert told.epochs[-1].rows_in == 0
        path = told.answers[0].path
        assert path == told.result.savepoint == str(tmp_path / "savepoints" / f"savepoint-{name}")
        verify_savepoint(path)
        shutil.rmtree(old)
        again = play(story(name, parallelism=3 - after % 3), new, savepoint=path)
        assert again.result.ended == "finished"
        assert published(name) == straight, f"suspended behind epoch {after}"


def test_a_suspended_job_goes_on_in_its_own_checkpoint(tmp_path, straight):
    told = play(story("paused"), tmp_path, Ask(after=3))
    assert told.result.ended == "suspended"
    assert told.result.savepoint == str(tmp_path / "savepoints" / f"savepoint-{told.answers[0].id}")
    again = play(story("paused"), tmp_path)
    assert again.result.resumed_from == 4
    assert published("paused") == straight


def test_a_savepoint_while_the_job_runs_changes_nothing(tmp_path, straight):
    told = play(story("exported"), tmp_path, *(Ask(after=n, action="savepoint", id=f"s{n}") for n in (0, 4, 7)))
    assert told.result.ended == "finished"
    assert [answer.done for answer in told.answers] == [True] * 3
    assert published("exported") == straight
    epochs = [listed.savepoint.epoch for listed in list_savepoints(tmp_path / "savepoints")]
    assert sorted(epochs) == [1, 5, 8], "each is carried by the epoch behind the request"


def test_the_same_id_makes_one_savepoint(tmp_path):
    asks = [Ask(after=n, action="savepoint", id="daily") for n in (1, 1, 5)]
    told = play(story("repeated"), tmp_path, *asks)
    assert {(answer.done, answer.path) for answer in told.answers} == {
        (True, str(tmp_path / "savepoints" / "savepoint-daily"))
    }
    assert [each.savepoint.epoch for each in list_savepoints(tmp_path / "savepoints")] == [2]


def test_two_requests_at_once_are_served_one_after_the_other(tmp_path, straight):
    asks = [
        Ask(after=2, action="savepoint", id="one"),
        Ask(after=2, action="savepoint", id="two"),
        Ask(after=2, id="end"),
    ]
    told = play(story("queued"), tmp_path, *asks)
    assert told.result.ended == "suspended"
    assert [answer.done for answer in told.answers] == [True, True, True]
    found = {each.savepoint.id: each.savepoint.epoch for each in list_savepoints(tmp_path / "savepoints")}
    assert found == {"one": 3, "two": 4, "end": 5}
    play(story("queued"), tmp_path)
    assert published("queued") == straight


def test_a_repeated_suspend_gets_the_answer_of_the_first(tmp_path):
    told = play(story("twice"), tmp_path, Ask(after=2, id="stop"), Ask(after=2, id="stop"))
    assert [answer.done for answer in told.answers] == [True, True]
    assert len({answer.path for answer in told.answers}) == 1


def test_a_request_behind_the_end_is_answered(tmp_path):
    told = play(story("over"), tmp_path)
    late = play(story("over"), tmp_path, Ask(after=-1, action="savepoint"))
    assert told.result.ended == "finished"
    assert late.answers[0].error["code"] == "STEP-092"


def test_a_drained_job_holds_no_open_windows(tmp_path):
    """A savepoint asked for with the drain comes too late; the checkpoint of the drained job can still be saved."""
    told = play(story("drained"), tmp_path, Ask(after=3, action="drain"), Ask(after=3, id="late"))
    assert told.result.ended == "drained"
    assert [answer.done for answer in told.answers] == [True, False]


def test_a_cancelled_run_takes_no_savepoint(tmp_path, straight):
    told = play(story("cancelled"), tmp_path, Ask(after=3, action="savepoint", id="s"), Ask(after=3, action="cancel"))
    assert told.result.ended == "cancelled"
    assert [answer.done for answer in told.answers] == [False, True]
    assert list_savepoints(tmp_path / "savepoints") == []
    again = play(story("cancelled"), tmp_path, Ask(after=0, action="savepoint", id="s"))
    assert again.answers[0].done
    assert published("cancelled") == straight


def test_a_job_without_state(tmp_path):
    def job():
        made = ms.Job("stateless", rows_per_epoch=4, parallelism=2)
        made.source("in", ms.memory(ROWS), schema="k string, at long, v long").filter("v % 3 = 0").sink(
            "out", ms.collect("stateless")
        )
        return made

    told = play(job(), tmp_path / "old", Ask(after=4, to=tmp_path))
    kept = read_savepoint(told.result.savepoint)
    assert (kept.state, kept.layouts) == ({}, {})
    assert len(collected("stateless")) == 7
    play(job(), tmp_path / "new", savepoint=told.result.savepoint)
    assert [row["v"] for row in collected("stateless")] == [row["v"] for row in ROWS if row["v"] % 3 == 0]


def test_a_job_that_has_read_nothing(tmp_path, straight):
    told = play(story("unread"), tmp_path / "old", Ask(after=-1, to=tmp_path))
    kept = read_savepoint(told.result.savepoint)
    assert kept.epoch == 0
    assert set(kept.state) == {"seen", "bins", "sessions", "totals"}
    assert sum(map(kept.entries, kept.state)) == 0
    play(story("unread", parallelism=3), tmp_path / "new", savepoint=told.result.savepoint)
    assert published("unread") == straight


def test_a_run_without_a_checkpoint_saves_where_it_is_told(tmp_path, straight):
    told = play(story("homeless"), None, Ask(after=4, action="savepoint"))
    assert told.answers[0].error["code"] == "STEP-091"
    clear_story("homeless")
    saved = play(story("homeless"), None, Ask(after=4, to=tmp_path)).result.savepoint
    play(story("homeless"), None, savepoint=saved)
    assert published("homeless") == straight


def test_the_history_grows_by_a_lineage_with_every_restore(tmp_path, straight):
    saved, lineages = None, []
    for number in range(4):
        restore = {} if saved is None else {"savepoint": saved}
        told = play(
            story("history", parallelism=1 + number), tmp_path / str(number), Ask(after=2, to=tmp_path), **restore
        )
        saved = told.result.savepoint
        kept = read_savepoint(saved)
        assert kept.history == [*lineages, (kept.lineage, 3)]
        assert kept.parallelism == 1 + number
        lineages = kept.history
    play(story("history"), tmp_path / "last", savepoint=saved)
    assert len({lineage for lineage, _ in lineages}) == 4
    assert published("history") == straight


def test_files_that_were_seen_stay_seen(tmp_path):
    """The discovery log moves along: what was read is not read again, what was not is."""

    def job(parallelism):
        made = ms.Job("watched", rows_per_epoch=2, parallelism=parallelism)
        rows = made.source("in", ms.files(str(tmp_path / "in"), format="json"), schema="k string, at long, v long")
        rows.key_by("k").aggregate(n=ms.count(), total=ms.sum("v"), emit="end", id="n").sink(
            "out", ms.collect("watched")
        )
        return made

    (tmp_path / "in").mkdir()
    for number in range(0, 40, 4):
        text = "".join(json.dumps(row) + "\n" for row in ROWS[number : number + 4])
        (tmp_path / "in" / f"{99 - number}.json").write_text(text)
    told = play(job(2), tmp_path / "old", Ask(after=5, to=tmp_path))
    shutil.rmtree(tmp_path / "old")
    again = play(job(3), tmp_path / "new", Ask(after=1, to=tmp_path), savepoint=told.result.savepoint)
    last = play(job(1), tmp_path / "last", savepoint=again.result.savepoint)
    assert sum(each.result.rows_in for each in (told, again, last)) == len(ROWS)
    assert sorted((row["k"], row["n"], row["total"]) for row in collected("watched")) == [
        (k, 8, sum(row["v"] for row in ROWS if row["k"] == k)) for k in "abcde"
    ]


def test_a_restored_run_resumes_when_it_is_started_the_same_way_again(tmp_path, straight, failpoints):
    """The flag may stay in a script: it has an effect once."""
    saved = play(story("flagged"), tmp_path / "old", Ask(after=3, to=tmp_path)).result.savepoint
    for place in ("staged:1:raise", "durable:1:raise", "durable:2:raise", "published:1:raise"):
        failpoints(place)
        with pytest.raises(Exception, match="failpoint"):
            play(story("flagged"), tmp_path / "new", savepoint=saved)
    failpoints("")
    last = play(story("flagged"), tmp_path / "new", savepoint=saved)
    assert last.result.resumed_from is not None
    assert published("flagged") == straight
    assert play(story("flagged"), tmp_path / "new", savepoint=saved).epochs == []


def test_an_id_may_be_used_again_once_its_savepoint_is_disposed_of(tmp_path, straight):
    """One process restores both: what it knows of the first must not stand in for the second."""
    first = play(story("reused"), tmp_path / "1", Ask(after=3, to=tmp_path, id="s")).result.savepoint
    other = play(story("reused"), tmp_path / "2", Ask(after=2, to=tmp_path, id="t"), savepoint=first).result.savepoint
    dispose_savepoint(first)
    again = play(story("reused"), tmp_path / "3", Ask(after=1, to=tmp_path, id="s"), savepoint=other).result.savepoint
    assert again == first
    play(story("reused"), tmp_path / "4", savepoint=again)
    assert published("reused") == straight


def test_a_savepoint_of_another_job_is_refused(tmp_path):
    saved = play(story("mine"), tmp_path / "old", Ask(after=1, to=tmp_path)).result.savepoint
    with pytest.raises(CheckpointRefused) as caught:
        play(story("yours"), tmp_path / "new", savepoint=saved)
    assert caught.value.code == "CKPT-005"


def test_a_damaged_savepoint_is_refused(tmp_path):
    saved = play(story("damaged"), tmp_path / "old", Ask(after=3, to=tmp_path)).result.savepoint
    victim = next(tmp_path.glob("savepoint-*/state/bins/*.pages"))
    content = victim.read_bytes()
    victim.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    before = published("damaged")
    with pytest.raises(CheckpointRefused, match="SAVE-"):
        play(story("damaged"), tmp_path / "new", savepoint=saved)
    assert published("damaged") == before
    with pytest.raises(CheckpointRefused) as caught:
        play(story("damaged"), tmp_path / "newer", savepoint=tmp_path)
    assert caught.value.code == "SAVE-001"


def clear_story(name):
    for step in ("seen", "bins", "sessions", "totals"):
        clear(f"{name}/{step}")


def test_the_story_tells_something(straight):
    """What the tests above compare with: timers of both kinds, and state that expired before some of them."""
    timers = [row for row in run_job(story("shown"), {"in": SCRIPT})["seen.out"] if row["what"] == "timer"]
    assert {row["x"] % 1000 == 0 for row in timers} == {True, False}
    assert all(sum(rows.values()) >= 5 for rows in straight.values())
