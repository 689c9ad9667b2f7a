"""Reading processes: few at once, ended when they take too long, when nobody asks, and with whoever started them."""

import os
import subprocess
import sys
import threading
import time

import pytest

from millstream.contract.stored_questions import StatePlace, StepsWanted
from millstream.control.stored.readers import StoredReaders
from millstream.errors import CheckpointRefused, ExternalFailure


@pytest.fixture
def stuck(tmp_path):
    """A checkpoint whose head nobody ever writes to the end."""
    (tmp_path / "millstream").mkdir()
    os.mkfifo(tmp_path / "millstream" / "head.json")
    return StepsWanted(place=StatePlace(path=str(tmp_path)))


@pytest.fixture
def missing(tmp_path):
    return StepsWanted(place=StatePlace(path=str(tmp_path / "nowhere")))


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def until(look, seconds=20):
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_process_is_kept_and_ends_when_nobody_asks(missing):
    now = [0.0]
    readers = StoredReaders(idle=10, monotonic=lambda: now[0])
    pids = set()
    for _ in range(3):
        with pytest.raises(CheckpointRefused) as refusal:
            readers.ask(missing)
        assert refusal.value.code == "CKPT-016"
        pids |= set(readers.pids())
    readers.tend()
    assert len(pids) == 1
    assert readers.pids() == list(pids)
    now[0] = 11.0
    readers.tend()
    assert (readers.pids(), is_gone(*pids)) == ([], True)


def test_one_that_takes_too_long_is_ended_and_the_next_question_is_answered(stuck, missing):
    readers = StoredReaders(seconds=2)
    try:
        with pytest.raises(ExternalFailure) as refusal:
            readers.ask(stuck)
        assert refusal.value.code == "CTL-141"
        assert readers.pids() == []
        with pytest.raises(CheckpointRefused):
            readers.ask(missing)
    finally:
        readers.close()


def test_too_many_are_refused_and_closing_ends_those_at_work(stuck, missing):
    readers, met = StoredReaders(at_once=2), []

    def ask():
        with pytest.raises(ExternalFailure) as refusal:
            readers.ask(stuck)
        met.append(refusal.value.code)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(readers.pids()) == 2)
    pids = readers.pids()
    with pytest.raises(ExternalFailure) as refusal:
        readers.ask(missing)
    assert refusal.value.code == "CTL-140"
    readers.close()
    for thread in threads:
        thread.join(20)
    assert met == ["CTL-142"] * 2
    assert all(map(is_gone, pids))
    with pytest.raises(ExternalFailure):
        readers.ask(missing)


def test_it_ends_with_whoever_started_it_in_the_middle_of_a_question(stuck):
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, threading, time\n"
            "from millstream.contract.stored_questions import StatePlace, StepsWanted\n"
            "from millstream.control.stored.readers import StoredReaders\n"
            "readers = StoredReaders()\n"
            f"wanted = StepsWanted(place=StatePlace(path={stuck.place.path!r}))\n"
            "threading.Thread(target=readers.ask, args=(wanted,), daemon=True).start()\n"
            "while not readers.pids(): time.sleep(0.01)\n"
            "time.sleep(1)\n"
            "print(readers.pids()[0], flush=True)\n"
            "time.sleep(60)\n",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = int(parent.stdout.readline())
    assert not is_gone(pid)
    parent.kill()
    parent.communicate()
    until(lambda: is_gone(pid))
