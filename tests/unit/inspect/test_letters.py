"""Dead letters are read back from each sink, keep rows of every type, and are refused by name where they cannot be replayed."""

import dataclasses
import datetime as dt
import decimal
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from tests.unit.runs.replay_job import ask, build, expected, total_of, totals, written

import millstream as ms
from millstream.checkpoint.failpoint import VARIABLE
from millstream.checkpoint.replay_log import ReplayLog, waiting
from millstream.errors import CheckpointRefused, InvalidStep
from millstream.inspect.checkpoint import open_view
from millstream.inspect.letters.box import letter_boxes
from millstream.inspect.letters.replaying import ask_replay

TYPES = (
    "i int, f double, s string, b binary, d date, t timestamp, z timestamp_ntz, p decimal(20,4), ok boolean, "
    "l array<long>, m map<string,binary>, r struct<a: timestamp, b: string>"
)
INSTANT = dt.datetime(2024, 5, 1, 12, 30, 1, 234567, tzinfo=dt.UTC)
VALUES = {
    "i": -7,
    "f": float("inf"),
    "s": 'a "b" \u20ac',
    "b": b"\x00\xff",
    "d": dt.date(2024, 2, 29),
    "t": INSTANT,
    "z": INSTANT.replace(tzinfo=None),
    "p": decimal.Decimal("1234567890123456.7891"),
    "ok": False,
    "l": [1, None, 2**62],
    "m": {"k": b"\x01"},
    "r": {"a": INSTANT, "b": None},
}


def run(job, place, **options):
    return job.run(local=True, checkpoint=place / "checkpoint", **options)


def box_of(job, place, step):
    with open_view(place / "checkpoint") as view:
        return next(box for box in letter_boxes(job, view) if box.node.id == step)


def replay(job, place, step):
    box = box_of(job, place, step)
    return ask_replay(box, [each.letter for each in box.told()])


@pytest.mark.parametrize("shape", ["raises", "misfits", "behind"])
def test_a_row_of_every_type_is_taken_again_as_it_was(tmp_path, shape):
    """Where a function raises, where what it returns does not fit, and where its row was made by another function."""

    def fail(row):
        if (tmp_path / "mended").exists():
            return row
        row["s"] = row["b"] = None
        if shape == "misfits":
            return {"i": "no number"}
        raise ValueError("not yet")

    empty = dict.fromkeys(VALUES)
    job = ms.Job("types", carry="state")
    stream = job.source("in", ms.memory([{"n": 0}, {"n": 1}]), schema="n long")
    stream = stream.map(lambda row: dict([VALUES, empty][row["n"]]), schema=TYPES, id="made")
    if shape != "behind":
        stream = stream.select(*VALUES, id="chosen")
    dead = ms.dead_letter(ms.files(tmp_path / "dead"))
    stream.map(fail, schema=TYPES, on_error=dead, id="fail").sink("out", ms.files(tmp_path / "out"))
    run(job, tmp_path)
    (tmp_path / "mended").touch()
    assert replay(job, tmp_path, "fail").rows == 2
    run(job, tmp_path)
    rows = ms.read_files(tmp_path / "out").to_pylist(maps_as_pydicts="strict")
    assert sorted(rows, key=lambda row: row["i"] is None) == [VALUES, empty]


def test_one_of_several_rows_that_were_made_is_not_replayed(tmp_path):
    job = ms.Job("many", carry="state")
    stream = job.source("in", ms.memory([{"n": 1}]), schema="n long")
    dead = ms.dead_letter(ms.files(tmp_path / "dead"))
    made = stream.flat_map(lambda row: [row, {"n": "two"}], schema="n long", on_error=dead, id="made")
    made.sink("out", ms.files(tmp_path / "out"))
    run(job, tmp_path)
    answer = replay(job, tmp_path, "made")
    assert answer.rows == 0
    assert "made from a good one" in answer.refused[0][1]


FOREIGN = (b"garbage", b"\xff", b"[]", b"5", b'{"x": 1}', b'{"row": 5}', b'{"row": {"n": 1}, "time": "x"}')


@pytest.mark.parametrize("raw", FOREIGN)
def test_a_letter_that_somebody_else_wrote_keeps_no_other_back(tmp_path, raw):
    job = ms.Job("foreign")
    rows = job.source("in", ms.memory([{"n": 0}]), schema="n long")
    dead = ms.dead_letter(ms.files(str(tmp_path / "dead")))
    rows.map(lambda row: {"n": 1 // row["n"]}, schema="n long", on_error=dead, id="divide").sink(
        "out", ms.collect("foreign")
    )
    run(job, tmp_path)
    box = box_of(job, tmp_path, "divide")
    (letter,) = box.letters()
    answer = ask_replay(box, [dataclasses.replace(letter, id="theirs", raw=raw), letter])
    assert (answer.rows, [id_ for id_, _ in answer.refused]) == (1, ["theirs"])


def test_a_step_with_two_streams_is_refused_by_name(tmp_path):
    class Both(ms.CoProcessFunction):
        def process_left(self, row, ctx):
            raise ValueError("no")

        def process_right(self, row, ctx):
            return ()

    job = ms.Job("two", carry="state")
    left, right = (job.source(name, ms.memory([{"k": 1}]), schema="k long").key_by("k") for name in ("a", "b"))
    dead = ms.dead_letter(ms.files(tmp_path / "dead"))
    left.connect(right).process(Both, schema="k long", on_error=dead, id="both").sink("out", ms.collect("two"))
    run(job, tmp_path)
    with pytest.raises(InvalidStep, match="which of its two streams") as caught:
        replay(job, tmp_path, "both")
    assert (caught.value.code, caught.value.step) == ("DLQ-004", "both")
    (box,) = letter_boxes(job, None)
    with pytest.raises(CheckpointRefused, match="checkpoint") as caught:
        ask_replay(box, [])
    assert caught.value.code == "DLQ-002"


def test_two_who_ask_at_once_ask_for_each_letter_once(tmp_path):
    rows = [{"k": "a", "n": 3 * place, "at": place} for place in range(1, 40)]
    job = build(tmp_path, rows)
    run(job, tmp_path)
    answers, start = [], threading.Barrier(4)

    def one():
        start.wait()
        answers.append(replay(job, tmp_path, "shape"))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    box = box_of(job, tmp_path, "shape")
    assert sum(answer.rows for answer in answers) == len(rows)
    assert Counter(box.asked(box.log.requests("shape")).values()) == {1: len(rows)}


def test_a_position_of_another_log_stands_before_the_first_request(tmp_path):
    log, other = ReplayLog(tmp_path / "a"), ReplayLog(tmp_path / "b")
    first = log.add("s", b"1", behind=None)
    assert log.add("s", b"again", behind=None) is None
    second = log.add("s", b"2", behind=first)
    stranger = other.add("s", b"x", behind=None)
    assert log.requests("s") == [first, second]
    assert waiting(log.requests("s"), None) == [first, second]
    assert waiting(log.requests("s"), first) == [second]
    assert waiting(log.requests("s"), stranger) == [first, second]
    assert log.requests("other") == []
    assert log.file("s", second).read_bytes() == b"2"


@pytest.mark.parametrize("mode", ["insert", "outbox"])
def test_letters_in_postgresql(postgres, tmp_path, mode):
    postgres.execute("DROP SCHEMA IF EXISTS public CASCADE")
    postgres.execute("CREATE SCHEMA public")
    rows = [{"k": "a", "n": n, "at": n} for n in (3, 4, 6, 9)]
    job = build(tmp_path, rows, dead=lambda step: ms.jdbc(postgres.url, table=f"dead_{step}", mode=mode))
    run(job, tmp_path)
    (tmp_path / "mended").touch()
    assert replay(job, tmp_path, "shape").rows == 3
    run(job, tmp_path)
    box = box_of(job, tmp_path, "shape")
    assert Counter(each.state for each in box.told()) == {"replayed": 3}
    if mode == "outbox":
        with pytest.raises(InvalidStep, match="outbox"):
            box.remove(lambda letter: True)
        return
    first = box.told()[0].letter.id
    assert box.remove(lambda letter: letter.id == first).rows == 1
    assert len(box.told()) == 2


def test_a_letter_that_takes_the_place_of_another_is_not_removed_for_it(postgres, tmp_path):
    """PostgreSQL gives the place of a deleted row to the next one, also between the look at the rows and their removal."""
    postgres.execute("DROP SCHEMA IF EXISTS public CASCADE")
    postgres.execute("CREATE SCHEMA public")
    rows = [{"k": "a", "n": n, "at": n} for n in (3, 4, 6, 9)]
    job = build(tmp_path, rows, dead=lambda step: ms.jdbc(postgres.url, table=f"dead_{step}", mode="insert"))
    run(job, tmp_path)
    box = box_of(job, tmp_path, "shape")
    first, *others = box.told()
    replaced = []

    def is_first(letter):
        if not replaced:
            replaced.append(replace_first(postgres))
        return letter.id == first.letter.id

    assert box.remove(is_first).rows == 1
    assert len(box.told()) == len(others) + sum(replaced)


def replace_first(postgres):
    """Whether somebody else could put another letter into the place of the first."""
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute("SET lock_timeout = '300ms'")
        try:
            other.execute("DELETE FROM dead_shape WHERE ctid = '(0,1)'")
            other.execute("VACUUM dead_shape")
            other.execute("INSERT INTO dead_shape SELECT * FROM dead_shape LIMIT 1")
        except psycopg.errors.LockNotAvailable:
            return False
    return True


@pytest.mark.kafka
def test_letters_in_a_topic_and_messages_that_are_mended(kafka, tmp_path):
    topic, source = kafka.topic(2, name="dead"), kafka.topic(1, name="in")
    kafka.send(source, [b'{"n": 3}', b'{"n": "three"}', b'{"n": 4}'])

    def job_of(schema):
        def fail(row):
            raise ValueError(f"no {row['n']}")

        job = ms.Job(f"letters-{topic}", carry="position")
        dead = ms.dead_letter(ms.kafka(topic, servers=kafka.servers))
        reading = ms.kafka(source, servers=kafka.servers, start="earliest", until="latest")
        stream = job.source("in", reading, schema=schema, on_error=dead)
        stream.map(fail, schema="n long", on_error=dead, id="fail").sink("out", ms.collect("letters"))
        return job

    run(job_of("n long"), tmp_path)
    box = box_of(job_of("n long"), tmp_path, "in")
    assert [(each.letter.raw, each.letter.origin) for each in box.told()] == [(b'{"n": "three"}', f"{source}/0@1")]
    assert "still cannot be decoded" in replay(job_of("n long"), tmp_path, "in").refused[0][1]
    assert replay(job_of("n string"), tmp_path, "in").rows == 1
    assert Counter(each.letter.error for each in box_of(job_of("n long"), tmp_path, "fail").told()) == {
        "ValueError: no 3": 1,
        "ValueError: no 4": 1,
    }
    with pytest.raises(InvalidStep, match="cannot remove rows"):
        box.remove(lambda letter: True)


SCRIPT = """
import json, sys
from tests.unit.runs.replay_job import build
build(sys.argv[1], json.loads(sys.argv[2])).run(local=True, checkpoint=sys.argv[1] + "/checkpoint", run_id=sys.argv[3])
"""


def test_a_process_that_is_killed_while_it_replays(tmp_path):
    rows = [{"k": "ab"[n % 2], "n": n, "at": n} for n in range(1, 30)]
    job = build(tmp_path, rows)
    run(job, tmp_path, run_id="first")
    (tmp_path / "mended").touch()
    ask(job, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), json.dumps(rows), "second"],
        env={**os.environ, VARIABLE: "prepared:1:kill", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    ask(job, tmp_path)
    run(job, tmp_path, run_id="second")
    assert written(tmp_path) == expected(rows)
    assert totals(tmp_path) == total_of(expected(rows))
    assert Path(tmp_path / "checkpoint" / "replays" / "log.json").exists()
