"""The reader process and whoever asks it, without Spark: stand-ins answer, and the real one refuses what it cannot read."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from millstream.checkpoint.manifest import EpochManifest
from millstream.driver import reader_client, reader_process
from millstream.driver.reader_client import TIMEOUT, KeptReader
from millstream.driver.reader_lines import LevelWanted, PageRead, answer_in, error_in, failed_by, line_of, request_in
from millstream.errors import CheckpointRefused, ExternalFailure, MillstreamError

MANIFEST = EpochManifest(
    job="j",
    lineage="l",
    epoch=3,
    token=1,
    kind="periodic",
    guarantee="exactly_once",
    requirements={"key_groups": 128},
    fingerprint="f",
    fingerprint_steps={},
    parallelism=2,
    depth=1,
    engine="spark",
    digest="d",
    plan={"positions": [1, {"a": None}]},
    planner={},
    history=[("earlier", 4)],
    created_at="",
)
REQUEST = LevelWanted(folder="/nowhere", manifest=MANIFEST, level=1)
STAND_IN = """
import json, os, pathlib, sys, time
begun = pathlib.Path(sys.argv[1])
begun.write_text((begun.read_text() if begun.exists() else "") + f"{os.getpid()} ")
starts = len(begun.read_text().split())
for number, line in enumerate(sys.stdin):
    request = json.loads(line)
    BODY
    print(json.dumps({"line": "page", "subtask": 0, "page": f"a/{number}", "content": "YWJj"}))
    print(json.dumps({"line": "page", "subtask": 1, "page": f"b/{number}", "content": ""}))
    print(json.dumps({"line": "end", "pages": 2}), flush=True)
"""


@pytest.fixture
def reader(monkeypatch, tmp_path):
    """Readers whose process runs a few lines before it answers."""
    made = []

    def build(body="pass"):
        script = STAND_IN.replace("BODY", body)
        command = [sys.executable, "-c", script, str(tmp_path / "begun")]
        monkeypatch.setattr(reader_process, "_command", lambda: command)
        made.append(KeptReader())
        return made[-1]

    yield build
    for each in made:
        each.close()


def read(reader):
    file = io.BytesIO()
    reader.read(REQUEST, file)
    return [answer_in(line) for line in file.getvalue().splitlines()]


def starts(tmp_path):
    return len((tmp_path / "begun").read_text().split())


def test_a_request_travels_whole():
    assert request_in(line_of(REQUEST)) == REQUEST
    assert json.loads(line_of(REQUEST))["manifest"]["job"] == "j"
    page = PageRead(subtask=1, page="a/1", content=b"\0\xff")
    assert answer_in(line_of(page)) == page
    assert json.loads(line_of(page))["content"] == "AP8="


def test_two_requests_are_served_by_one_process(reader, tmp_path):
    kept = reader()
    assert [page.page for page in read(kept)] == ["a/0", "b/0"]
    assert [page.page for page in read(kept)] == ["a/1", "b/1"]
    assert starts(tmp_path) == 1


def test_a_reader_that_was_killed_is_replaced(reader, tmp_path):
    kept = reader()
    read(kept)
    os.kill(kept.pid, signal.SIGKILL)
    assert [page.page for page in read(kept)] == ["a/0", "b/0"]
    assert starts(tmp_path) == 2


def test_one_that_dies_half_way_is_asked_again_and_nothing_is_given_twice(reader, tmp_path):
    half = '{"line": "page", "subtask": 0, "page": "half", "content": ""}'
    kept = reader(f"(print('{half}', flush=True), os._exit(3)) if starts == 1 else None")
    assert [page.page for page in read(kept)] == ["a/0", "b/0"]
    assert starts(tmp_path) == 2


def test_one_that_dies_every_time_is_given_up(reader, tmp_path):
    with pytest.raises(ExternalFailure, match=r"SPARK-007.*ended twice.*exit code 3.*\.log"):
        read(reader("os._exit(3)"))
    assert starts(tmp_path) == 2


def test_one_that_says_nothing_is_ended(reader, monkeypatch):
    monkeypatch.setenv(TIMEOUT, "200ms")
    kept = reader("time.sleep(100) if number == 0 and starts == 1 else None")
    with pytest.raises(ExternalFailure, match=rf"SPARK-006.*said nothing for 0.2 s.*{TIMEOUT}=30m"):
        read(kept)
    monkeypatch.delenv(TIMEOUT)
    assert len(read(kept)) == 2


def test_a_timeout_that_is_none_is_refused(reader, monkeypatch):
    monkeypatch.setenv(TIMEOUT, "soon")
    with pytest.raises(MillstreamError, match=rf"{TIMEOUT} is not a duration"):
        read(reader())


def test_an_error_keeps_its_class_and_fields_and_the_reader_stays(reader, tmp_path):
    error = CheckpointRefused("not there", code="CKPT-055", found=7, known="epochs 1 to 2", hint="name another")
    line = line_of(failed_by(error, "how it came about")).decode().strip()
    kept = reader(f"if number == 0:\n        print({line!r}, flush=True)\n        continue")
    with pytest.raises(CheckpointRefused) as refused:
        read(kept)
    assert refused.value.fields() == error.fields()
    assert refused.value.__cause__ is None
    assert len(read(kept)) == 2
    assert starts(tmp_path) == 1


def test_how_an_error_came_about_is_shown_to_those_who_debug(monkeypatch):
    monkeypatch.setenv("MILLSTREAM_DEBUG", "1")
    error = error_in(failed_by(ValueError("odd"), "line 7 of reading"))
    assert type(error) is MillstreamError
    assert "ValueError: odd" in str(error)
    assert "line 7 of reading" in str(error.__cause__)


def test_a_class_of_another_version_is_still_an_error():
    failure = failed_by(OSError("gone"), "")
    assert type(error_in(failure)) is ExternalFailure
    assert type(error_in(type(failure)(kind="redacted", fields=failure.fields, account=""))) is MillstreamError


class Full(io.BytesIO):
    def write(self, content):
        raise OSError(28, "No space left on device")


def test_an_answer_that_could_not_be_kept_is_not_taken_for_the_next_one(reader, tmp_path):
    kept = reader()
    with pytest.raises(OSError, match="No space"):
        kept.read(REQUEST, Full())
    assert [page.page for page in read(kept)] == ["a/0", "b/0"]
    assert starts(tmp_path) == 2


def test_threads_share_it_one_after_the_other(reader, tmp_path):
    kept, answers = reader("time.sleep(0.01)"), []
    threads = [threading.Thread(target=lambda: answers.append(read(kept))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(page.page for pages in answers for page in pages) == sorted(
        f"{s}/{n}" for s in "ab" for n in range(8)
    )
    assert starts(tmp_path) == 1


def test_a_copy_of_this_process_has_a_reader_of_its_own(reader, tmp_path):
    kept = reader()
    read(kept)
    pid = os.fork()
    if pid == 0:  # as `os.register_at_fork` has it
        kept.forget()
        good = [page.page for page in read(kept)] == ["a/0", "b/0"]
        kept.close()
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [page.page for page in read(kept)] == ["a/1", "b/1"]
    assert starts(tmp_path) == 2


def test_pages_are_given_subtask_by_subtask_and_readings_may_be_nested(reader, monkeypatch):
    monkeypatch.setattr(reader_client, "READER", reader())
    first = reader_client.read_by_reader(Path("/nowhere"), MANIFEST, 1)
    subtask, pages = next(first)
    assert (subtask, dict.fromkeys(pages), pages.get("a/0")) == (0, {"a/0": None}, b"abc")
    assert [subtask for subtask, _ in reader_client.read_by_reader(Path("/nowhere"), MANIFEST, 1)] == [0, 1]
    assert [subtask for subtask, _ in first] == [1]


@contextlib.contextmanager
def real_reader(*words):
    command = [sys.executable, "-P", "-m", "millstream.driver.reader", *words]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **streams) as process:
        yield process


def test_the_process_answers_lines_it_cannot_read_and_ends_with_its_input():
    with real_reader() as process:
        for line in (b"nonsense\n", b'{"level": 1}\n'):
            process.stdin.write(line)
            process.stdin.flush()
            assert error_in(answer_in(process.stdout.readline())).code == "MS-000"
        process.stdin.close()
        assert process.wait(20) == 0
        assert process.stdout.read() == b""


def test_the_process_ends_when_its_parent_is_not_there():
    with real_reader("1" if os.getpid() != 1 else "2") as process:
        assert process.wait(20) == 0


def test_ctrl_c_is_left_to_the_parent():
    with real_reader() as process:
        process.stdin.write(b"nonsense\n")
        process.stdin.flush()
        process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.1)
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(20) == 0
