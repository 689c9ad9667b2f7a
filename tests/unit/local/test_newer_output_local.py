"""A restored job and output beyond its savepoint: refused, kept or removed; earlier owners publish nothing any more."""

import json
import shutil
import sqlite3
from collections import Counter

import pytest
from stories import Ask, play

import millstream as ms
from millstream.connectors.files.published import PublishedLists
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced

ROWS = [{"k": "abc"[i % 3], "v": i} for i in range(40)]


class FilesOutput:
    """A `files` sink and what its readers see."""

    def __init__(self, folder):
        self._root = folder / "out"
        self.sink = ms.files(str(self._root), format="json")

    def rows(self):
        files = [file["path"] for each in PublishedLists(self._root).new() for file in each.files]
        return Counter(line for path in files for line in (self._root / path).read_text().splitlines())

    @staticmethod
    def row(k, n, total):
        return json.dumps({"k": k, "n": n, "total": total}, separators=(",", ":"))


class OutboxOutput:
    """A `jdbc` sink in outbox form and what its view shows."""

    def __init__(self, folder):
        self._path = folder / "out.db"
        self.sink = ms.jdbc(f"sqlite:///{self._path}", table="sums", mode="outbox")

    def rows(self):
        with sqlite3.connect(self._path) as database:
            found = Counter(map(tuple, database.execute("SELECT k, n, total FROM sums_published")))
        database.close()
        return found

    @staticmethod
    def row(k, n, total):
        return (k, n, total)


@pytest.fixture(params=[FilesOutput, OutboxOutput], ids=["files", "outbox"])
def output(request, tmp_path):
    return request.param(tmp_path)


def sums(output, parallelism=2):
    job = ms.Job("sums", rows_per_epoch=4, parallelism=parallelism)
    rows = job.source("in", ms.memory(ROWS), schema="k string, v long")
    made = rows.key_by("k").aggregate(n=ms.count(), total=ms.sum("v"), emit="row", id="sums")
    made.sink("out", output.sink)
    return job


def expected(output, rows=len(ROWS)):
    totals, counts, found = Counter(), Counter(), Counter()
    for row in ROWS[:rows]:
        totals[row["k"]] += row["v"]
        counts[row["k"]] += 1
        found[output.row(row["k"], counts[row["k"]], totals[row["k"]])] += 1
    return found


@pytest.fixture
def saved(output, tmp_path):
    """A job that ran to its end, with a savepoint behind its first 20 rows."""
    told = play(sums(output), tmp_path / "old", Ask(after=3, action="savepoint", to=tmp_path, id="s"))
    assert output.rows() == expected(output)
    return told.answers[0].path


def test_newer_output_is_refused_and_nothing_has_changed(output, saved, tmp_path):
    with pytest.raises(CheckpointRefused) as caught:
        play(sums(output), tmp_path / "new", savepoint=saved)
    assert caught.value.code == "SINK-003"
    assert caught.value.step == "out"
    assert output.rows() == expected(output)
    again = play(sums(output, 3), tmp_path / "new", savepoint=saved, newer_output="truncate")
    assert again.result.ended == "finished"
    assert output.rows() == expected(output)


def test_newer_output_is_removed(output, saved, tmp_path):
    seen = []
    play(
        sums(output, 3),
        tmp_path / "new",
        listener=lambda epoch: seen.append(output.rows()),
        savepoint=saved,
        newer_output="truncate",
    )
    assert seen[0] == expected(output, 24), (
        "what followed the savepoint was gone when the first new epoch was published"
    )
    assert output.rows() == expected(output)


def test_newer_output_is_kept(output, saved, tmp_path):
    play(sums(output, 3), tmp_path / "new", savepoint=saved, newer_output="keep")
    beyond = expected(output) - expected(output, 20)
    assert output.rows() == expected(output) + beyond


def test_a_suspended_job_has_no_newer_output_until_it_is_restored(output, tmp_path):
    """A second restore from the same savepoint meets the output of the first."""
    saved = play(sums(output), tmp_path / "old", Ask(after=3, to=tmp_path)).result.savepoint
    assert output.rows() == expected(output, 16)
    play(sums(output, 3), tmp_path / "first", Ask(after=2, to=tmp_path), savepoint=saved)
    assert output.rows() == expected(output, 28)
    with pytest.raises(CheckpointRefused, match="SINK-003"):
        play(sums(output), tmp_path / "second", savepoint=saved)
    play(sums(output), tmp_path / "second", savepoint=saved, newer_output="truncate")
    assert output.rows() == expected(output)
    with pytest.raises(Fenced):
        play(sums(output, 3), tmp_path / "first")
    assert output.rows() == expected(output)


def test_the_old_job_cannot_go_on_where_it_was_suspended(output, tmp_path):
    saved = play(sums(output), tmp_path / "old", Ask(after=3, to=tmp_path)).result.savepoint
    play(sums(output, 3), tmp_path / "new", savepoint=saved)
    with pytest.raises(Fenced):
        play(sums(output), tmp_path / "old")
    assert output.rows() == expected(output)


@pytest.mark.parametrize("newer", ["truncate", "keep"])
def test_a_paused_owner_publishes_nothing_behind_the_restore(output, tmp_path, newer):
    """The old run sleeps behind an epoch; meanwhile the job is restored and runs to its end; the old run wakes up."""
    path = tmp_path / "savepoint-s"

    def asleep(epoch):
        if epoch.epoch == 5:
            play(sums(output, 3), tmp_path / "new", savepoint=path, newer_output=newer)

    with pytest.raises(Fenced):
        play(sums(output), tmp_path / "old", Ask(after=3, action="savepoint", to=tmp_path, id="s"), listener=asleep)
    beyond = expected(output, 24) - expected(output, 20) if newer == "keep" else Counter()
    assert output.rows() == expected(output) + beyond


@pytest.mark.parametrize("place", ["lineage_raised", "files_closed", "files_withdrawn", "staged", "durable"])
@pytest.mark.parametrize("newer", ["truncate", "keep"])
def test_a_crash_while_restoring_is_finished_by_the_next_start(tmp_path, failpoints, place, newer):
    output = FilesOutput(tmp_path)
    play(sums(output), tmp_path / "old", Ask(after=3, action="savepoint", to=tmp_path, id="s"))
    failpoints(f"{place}:1:raise")
    with pytest.raises(ExternalFailure, match=place):
        play(sums(output), tmp_path / "new", savepoint=tmp_path / "savepoint-s", newer_output=newer)
    failpoints("")
    # The lineage has begun: it goes on, with the flags or without.
    play(sums(output), tmp_path / "new")
    beyond = expected(output) - expected(output, 20) if newer == "keep" else Counter()
    assert output.rows() == expected(output) + beyond


def test_another_wish_about_newer_output_counts_as_long_as_nothing_is_durable(tmp_path, failpoints):
    """The restore was begun with `refuse`; the old run went on in between, so it is begun again with `truncate`."""
    output = FilesOutput(tmp_path)
    saved = play(sums(output), tmp_path / "old", Ask(after=3, to=tmp_path)).result.savepoint
    failpoints("lineage_raised:1:raise")
    with pytest.raises(ExternalFailure):
        play(sums(output), tmp_path / "new", savepoint=saved)
    failpoints("")
    play(sums(output), tmp_path / "old")
    with pytest.raises(CheckpointRefused, match="SINK-003"):
        play(sums(output), tmp_path / "new", savepoint=saved)
    play(sums(output), tmp_path / "new", savepoint=saved, newer_output="truncate")
    assert output.rows() == expected(output)


@pytest.mark.parametrize("place", ["savepoint_files:1", "savepoint_files:2", "savepoint_written:1", "durable:5"])
@pytest.mark.parametrize("action", ["suspend", "savepoint"])
def test_a_crash_while_saving_is_repeated_with_the_same_id(output, tmp_path, failpoints, place, action):
    failpoints(f"{place}:raise")
    with pytest.raises(ExternalFailure, match="failpoint"):
        play(sums(output), tmp_path / "old", Ask(after=3, action=action, to=tmp_path, id="s"))
    assert not (tmp_path / "savepoint-s" / "savepoint.json").exists()
    failpoints("")
    told = play(sums(output), tmp_path / "old", Ask(after=-1, action=action, to=tmp_path, id="s"))
    assert told.answers[0].done
    assert told.result.ended == {"suspend": "suspended", "savepoint": "finished"}[action]
    if action == "suspend":
        shutil.rmtree(tmp_path / "old")
        play(sums(output, 3), tmp_path / "new", savepoint=told.answers[0].path)
    assert output.rows() == expected(output)
