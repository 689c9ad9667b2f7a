"""`millstream dlq`: the dead letters of a job are listed, shown, replayed and removed, whatever sink they lie in."""

import json
import sqlite3
import time
from pathlib import Path

import pytest

import millstream as ms
from millstream.api.jobfile.target import load

JOB = """
from pathlib import Path

import millstream as ms

HERE = Path(__file__).parent
DEAD = {
    "files": ms.files(HERE / "dead", format="parquet"),
    "jdbc": ms.jdbc(f"sqlite:///{HERE}/dead.db", table="letters"),
    "print": ms.print(),
}[(HERE / "kind").read_text()]


def parse(row):
    if row["text"] == "never":
        raise KeyError("never")
    if not row["text"].isdigit() and not (HERE / "mended").exists():
        raise ValueError(f"no number: {row['text']}")
    return {"n": int(row["text"]) if row["text"].isdigit() else len(row["text"])}


job = ms.Job("lines")
lines = job.source("lines", ms.files(HERE / "in", format="json", watch=True), schema="text string not null",
                   on_error=ms.dead_letter(DEAD))
lines.map(parse, schema="n long", on_error=ms.dead_letter(DEAD), id="parse").sink("out", ms.files(HERE / "out"))
"""
LINES = ['{"text": "1"}', '{"text": "two"}', '{"text": "never"}', '{"text": "two"}', "broken", '{"text": "three"}']


@pytest.fixture(params=["files", "jdbc"])
def place(request, tmp_path):
    (tmp_path / "kind").write_text(request.param)
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(LINES) + "\n")
    return tmp_path


def numbers(place):
    """What is published; the job may be about to publish its first epoch."""
    if not (place / "out" / "_millstream").exists():
        return []
    return sorted(row["n"] for row in ms.read_files(place / "out").to_pylist())


class running:
    """The job runs in a thread while a block is at work; at its end it is cancelled."""

    def __init__(self, place):
        self._place = place

    def __enter__(self):
        self._run = load(str(self._place / "job.py")).start(local=True, checkpoint=self._place / "checkpoint")
        return self

    def until(self, holds):
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.05)

    def __exit__(self, *_):
        self._run.cancel()


def dlq(cli, place, command, *arguments, fails=False):
    """The objects a command prints as JSON."""
    checkpoint = () if command == "purge" and "--checkpoint" in arguments else ("--checkpoint", place / "checkpoint")
    result = cli("dlq", command, place / "job.py", *arguments, *checkpoint, "-o", "json")
    if fails:
        return result
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def by_step(cli, place):
    return {each["step"]: each for each in dlq(cli, place, "ls")}


def test_letters_are_listed_shown_replayed_by_a_running_job_and_removed(cli, place):
    with running(place) as job:
        job.until(lambda: numbers(place) == [1])
    found = by_step(cli, place)
    assert (found["parse"]["letters"], found["parse"]["new"]) == (4, 4)
    assert found["parse"]["errors"] == {"ValueError": 3, "KeyError": 1}
    assert found["lines"]["letters"] == 1
    assert list(found["lines"]["origins"]) == [str(place / "in" / "1.json")]
    shown = dlq(cli, place, "show", "parse", "--error", "two")
    assert {(each["record"], each["state"], each["attempt"]) for each in shown} == {('{"text": "two"}', "new", 1)}
    assert len(shown) == 2
    (place / "mended").touch()
    with running(place) as job:
        assert dlq(cli, place, "replay", "parse")[0] == {"replayed": 4, "before": 0, "refused": [], "job": "running"}
        job.until(lambda: numbers(place) == [1, 3, 3, 5])
        assert dlq(cli, place, "replay", "parse", "--error", "ValueError")[0]["before"] == 3
        job.until(lambda: by_step(cli, place)["parse"]["letters"] == 5)
    found = by_step(cli, place)["parse"]
    assert (found["new"], found["waiting"], found["replayed"]) == (1, 0, 4)
    (again,) = dlq(cli, place, "show", "parse", "--limit", "1")
    assert (again["attempt"], again["state"], again["record"]) == (2, "new", '{"text": "never"}')
    removed = dlq(cli, place, "purge", "parse", "--replayed", "--yes")
    assert removed[0]["removed"] == 4
    assert [each["id"] for each in dlq(cli, place, "show", "parse")] == [again["id"]]
    assert numbers(place) == [1, 3, 3, 5]
    with running(place) as job:
        (place / "in" / "2.json").write_text('{"text": "7"}\n')
        job.until(lambda: numbers(place) == [1, 3, 3, 5, 7])


def test_a_stopped_job_replays_at_its_next_start_and_single_letters_by_id(cli, place):
    with running(place) as job:
        job.until(lambda: numbers(place) == [1])
    (place / "mended").touch()
    (three,) = dlq(cli, place, "show", "parse", "--error", "three")
    for more in (["--dry-run"], []):
        asked = dlq(cli, place, "replay", "parse", "--id", three["id"][:8], *more)
        assert asked == [{"replayed": 1, "before": 0, "refused": [], "job": "stopped"}]
    assert by_step(cli, place)["parse"]["waiting"] == 1
    with running(place) as job:
        job.until(lambda: numbers(place) == [1, 5])
    unknown = dlq(cli, place, "replay", "parse", "--id", "zzz", fails=True)
    assert unknown.exit_code != 0
    assert "DLQ-006" in unknown.output


def test_a_record_of_a_source_is_decoded_again(cli, place):
    with running(place) as job:
        job.until(lambda: numbers(place) == [1])
    (asked,) = dlq(cli, place, "replay", "lines")
    assert asked["replayed"] == 0
    assert "still cannot be decoded" in asked["refused"][0]["reason"]
    # Whoever mends the record in its sink replays what is mended.
    if (place / "kind").read_text() == "jdbc":
        with sqlite3.connect(place / "dead.db") as database:
            database.execute("UPDATE letters SET record = '{\"text\": \"9\"}', raw = NULL WHERE step = 'lines'")
        database.close()
        assert dlq(cli, place, "replay", "lines")[0]["replayed"] == 1
        with running(place) as job:
            job.until(lambda: numbers(place) == [1, 9])


def test_what_cannot_be_done_is_refused_by_name(cli, tmp_path):
    (tmp_path / "kind").write_text("print")
    (tmp_path / "job.py").write_text(JOB)
    for arguments, code in [
        (("ls",), "DLQ-003"),
        (("show", "nothing"), "DLQ-001"),
        (("purge", "parse", "--yes"), "DLQ-003"),
    ]:
        result = cli("dlq", arguments[0], tmp_path / "job.py", *arguments[1:])
        assert result.exit_code != 0
        assert code in result.output, result.output


def test_purging_asks_first_and_removes_only_what_is_old_enough(cli, place):
    with running(place) as job:
        job.until(lambda: numbers(place) == [1])
        (place / "in" / "2.json").write_text('{"text": "8"}\n')
        job.until(lambda: numbers(place) == [1, 8])
    job_file = str(place / "job.py")
    assert cli("dlq", "purge", job_file, "parse").exit_code != 0
    assert by_step(cli, place)["parse"]["letters"] == 4
    assert dlq(cli, place, "purge", "parse", "--older-than", "1h", "--yes")[0]["removed"] == 0
    assert dlq(cli, place, "purge", "parse", "--yes")[0]["removed"] == 4
    assert by_step(cli, place)["parse"]["letters"] == 0


def test_letters_of_earlier_versions_are_listed_and_replayed_from_their_record(cli, tmp_path):
    (tmp_path / "kind").write_text("jdbc")
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"text": "1"}\n{"text": "x"}\n')
    with running(tmp_path) as job:
        job.until(lambda: numbers(tmp_path) == [1])
    with sqlite3.connect(tmp_path / "dead.db") as database:
        database.execute("CREATE TABLE old AS SELECT step, error, record, at FROM letters")
        database.execute("INSERT INTO old SELECT step, error, '{\"other\": 1}', at FROM letters")
    database.close()
    job_file = tmp_path / "job.py"
    job_file.write_text(JOB.replace('table="letters"', 'table="old"'))
    (tmp_path / "mended").touch()
    assert by_step(cli, tmp_path)["parse"]["letters"] == 2
    (asked,) = dlq(cli, tmp_path, "replay", "parse")
    assert asked["replayed"] == 1
    assert "other columns" in asked["refused"][0]["reason"]
    job_file.write_text(JOB)
    with running(tmp_path) as job:
        job.until(lambda: numbers(tmp_path) == [1, 1])
    assert Path(tmp_path / "checkpoint" / "replays").exists()
