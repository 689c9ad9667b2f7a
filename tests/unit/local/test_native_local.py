"""Native savepoints of the local engine: a copy of its files, for the very same plan."""

import shutil
from pathlib import Path

import msgspec
import pytest
from stories import Ask, play, published, story

import millstream as ms
from millstream.checkpoint.savepoint import RECORD, encode_savepoint, read_savepoint
from millstream.checkpoint.savepoint_files import verify_savepoint
from millstream.errors import CheckpointRefused, ExternalFailure


@pytest.fixture(scope="module")
def straight():
    play(story("native-straight"), None)
    return published("native-straight")


@pytest.mark.parametrize("after", [0, 4, 9])
def test_the_copy_goes_on_without_the_original(tmp_path, straight, after):
    name = f"native-{after}"
    told = play(story(name), tmp_path / "old", Ask(after=after, to=tmp_path, form="native"))
    assert told.result.ended == "suspended"
    assert len(told.epochs) == after + 1, "a copy needs no epoch of its own"
    verify_savepoint(told.result.savepoint)
    shutil.rmtree(tmp_path / "old")
    again = play(story(name), tmp_path / "new", savepoint=told.result.savepoint)
    assert again.epochs[0].epoch == after + 1
    assert published(name) == straight
    assert play(story(name), tmp_path / "new", savepoint=told.result.savepoint).epochs == []


def test_a_copy_while_the_job_runs_changes_nothing(tmp_path, straight):
    told = play(story("copied"), tmp_path / "old", Ask(after=4, action="savepoint", to=tmp_path, form="native", id="s"))
    assert told.result.ended == "finished"
    assert read_savepoint(told.answers[0].path).epoch == 4
    assert published("copied") == straight
    with pytest.raises(CheckpointRefused, match="SINK-003"):
        play(story("copied"), tmp_path / "new", savepoint=told.answers[0].path)
    play(story("copied"), tmp_path / "new", savepoint=told.answers[0].path, newer_output="truncate")
    assert published("copied") == straight


def test_savepoints_of_both_forms_follow_each_other(tmp_path, straight):
    first = play(story("mixed"), tmp_path / "1", Ask(after=2, to=tmp_path, form="native")).result.savepoint
    second = play(story("mixed"), tmp_path / "2", Ask(after=2, to=tmp_path), savepoint=first).result.savepoint
    third = play(
        story("mixed", parallelism=3), tmp_path / "3", Ask(after=2, to=tmp_path, form="native"), savepoint=second
    )
    kept = read_savepoint(third.result.savepoint)
    assert [epoch for _, epoch in kept.history] == [2, 6, 2]
    play(story("mixed", parallelism=3), tmp_path / "4", savepoint=third.result.savepoint)
    assert published("mixed") == straight


@pytest.mark.parametrize("place", ["lineage_raised", "savepoint_files", "staged", "durable"])
def test_a_crash_while_restoring_is_finished_by_the_next_start(tmp_path, straight, failpoints, place):
    name = f"native-{place}"
    saved = play(story(name), tmp_path / "old", Ask(after=4, to=tmp_path, form="native")).result.savepoint
    failpoints(f"{place}:1:raise")
    try:
        play(story(name), tmp_path / "new", savepoint=saved)
    except ExternalFailure:
        pass
    else:
        assert place == "savepoint_files", "only taking a savepoint passes this place"
    failpoints("")
    play(story(name), tmp_path / "new", savepoint=saved)
    assert published(name) == straight


@pytest.mark.parametrize("place", ["savepoint_files", "savepoint_written"])
def test_a_copy_that_fails_is_answered_and_the_job_goes_on(tmp_path, straight, failpoints, place):
    name = f"native-failed-{place}"
    failpoints(f"{place}:1:raise")
    asks = [Ask(after=n, action="savepoint", to=tmp_path, form="native", id="s") for n in (2, 4)]
    told = play(story(name), tmp_path / "old", *asks)
    assert [answer.done for answer in told.answers] == [False, True]
    assert told.answers[0].error["code"] == "TEST-FAILPOINT"
    assert read_savepoint(told.answers[1].path).epoch == 4
    assert published(name) == straight


def test_another_plan_parallelism_or_engine_is_refused(tmp_path):
    saved = play(story("bound"), tmp_path / "old", Ask(after=2, to=tmp_path, form="native")).result.savepoint
    other = story("bound")
    other.source("more", ms.memory([]), schema="n long").sink("more.out", ms.collect("bound/more"))
    before = published("bound")
    for job in (story("bound", parallelism=3), other):
        with pytest.raises(
            CheckpointRefused, match="a native savepoint is restored by the plan, parallelism and engine"
        ):
            play(job, tmp_path / "new", savepoint=saved)
    record = msgspec.structs.replace(read_savepoint(saved), engine="spark")
    (Path(saved) / RECORD).write_bytes(encode_savepoint(record))
    with pytest.raises(CheckpointRefused) as caught:
        play(story("bound"), tmp_path / "new", savepoint=saved)
    assert "spark" in caught.value.known
    assert published("bound") == before
    assert not (tmp_path / "new" / "local").exists()


def test_a_copy_needs_an_epoch_and_a_checkpoint(tmp_path):
    told = play(story("early"), tmp_path / "old", Ask(after=-1, action="savepoint", to=tmp_path, form="native"))
    assert told.answers[0].error["code"] == "RUN-012"
    homeless = play(story("early"), None, Ask(after=3, action="savepoint", to=tmp_path, form="native"))
    assert homeless.answers[0].error["code"] == "RUN-013"


def test_a_run_without_a_checkpoint_has_no_place_for_the_files(tmp_path):
    told = play(story("homeless"), tmp_path / "old", Ask(after=2, to=tmp_path, form="native"))
    with pytest.raises(CheckpointRefused, match="CKPT-063"):
        play(story("homeless"), None, savepoint=told.result.savepoint)
