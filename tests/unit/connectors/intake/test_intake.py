import asyncio
import threading
import time

import pytest

from millstream.checkpoint import failpoint
from millstream.connectors.intake import log
from millstream.connectors.intake.files import ORIGIN, file_names
from millstream.connectors.intake.intake import Intake
from millstream.connectors.intake.log import ReceivedEntry
from millstream.connectors.intake.reading import parts_of, read_parts
from millstream.errors import CheckpointRefused, ExternalFailure, InvalidStep

SECONDS = 20


class Scripted:
    """Receives what a test hands it, one thing after the other, in the order of the log."""

    def __init__(self, *script):
        self.script = list(script)
        self.waiting = None
        self.at = threading.Semaphore(0)
        self.answers = []
        self.stopped = threading.Event()

    def run(self, intake, waiting):
        self.waiting = [entry.note for entry in waiting]
        self.at.release()
        for action in self.script[len(waiting) :]:
            if not intake.wait_for_room():
                return
            if isinstance(action, ExternalFailure):
                self.answers.append(intake.fail(action))
            elif isinstance(action, BaseException):
                raise action
            else:
                intake.put(ReceivedEntry(f"body {action}".encode() * 10, 1, action))
            self.at.release()

    def stop(self):
        self.stopped.set()

    def has_done(self, actions):
        return all(self.at.acquire(timeout=SECONDS) for _ in range(actions))


@pytest.fixture
def opened(tmp_path):
    intakes = []

    def begin(receiver, start=ORIGIN, *, token=1, rest=True, ahead=1 << 20, file_bytes=1 << 20):
        intake = Intake(tmp_path, token, ahead_bytes=ahead, takes_rest=rest, file_bytes=file_bytes)
        intakes.append(intake)
        if receiver is not None:
            intake.begin(start, receiver)
        return intake

    yield begin
    for intake in intakes:
        intake.close()


def durable(intake, start, count):
    """What is durable behind a place, once there is so much."""
    with intake._changed:
        assert intake._changed.wait_for(lambda: len(intake._logged) - intake._index[start] >= count, SECONDS)
    return intake.after(start)


def notes(entries):
    return [entry.note for entry in entries]


def test_what_is_received_is_there_when_it_is_durable(tmp_path, opened):
    intake = opened(Scripted(1, 2, 3))
    entries = durable(intake, ORIGIN, 3)
    assert notes(entries) == [1, 2, 3]
    assert notes(intake.after(entries[1].place)) == [3]
    assert notes(intake.between(entries[0].place, entries[2].place)) == [2, 3]
    read = list(read_parts(tmp_path, parts_of(entries)))
    assert [body for _, body in read] == [f"body {number}".encode() * 10 for number in (1, 2, 3)]
    assert [entry for entry, _ in read] == entries


def test_what_waits_behind_an_epoch_is_told_without_what_it_admits(opened):
    intake = opened(Scripted(1, 2, 3), ahead=5000)
    entries = durable(intake, ORIGIN, 3)
    sizes = [entry.bytes for entry in entries]
    assert intake.ahead(()) == (sum(sizes), 5000)
    assert intake.ahead(entries[:2]) == (sizes[2], 5000)
    intake.after(entries[1].place)
    assert intake.ahead(entries[2:]) == (0, 5000)


def test_neighbours_are_one_part_and_others_are_not(opened):
    entries = durable(opened(Scripted(1, 2, 3, 4)), ORIGIN, 4)
    assert len(parts_of(entries)) == 1
    assert [part[1:] for part in parts_of(entries[::2])] == [[entry.start, entry.end] for entry in entries[::2]]


def test_the_thread_stops_where_it_is_too_far_ahead(opened):
    largest, seen, position = [], [], ORIGIN

    class Watched(Scripted):
        def run(self, intake, waiting):
            for action in self.script:
                assert intake.wait_for_room()
                largest.append(intake._waiting_bytes)
                intake.put(ReceivedEntry(bytes(100), 1, action))

    intake = opened(Watched(*range(50)), ahead=300)
    while len(seen) < 50:
        entries = durable(intake, position, 1)[:1]
        seen += notes(entries)
        position = entries[0].place
    assert seen == list(range(50))
    assert 0 < max(largest) < 300


def test_one_thing_larger_than_all_that_may_wait_is_received(opened):
    intake = opened(Scripted(1, 2), ahead=1)
    first = durable(intake, ORIGIN, 1)
    intake.after(first[0].place)
    assert notes(durable(intake, first[0].place, 1)) == [2]


def test_a_successor_goes_on_behind_what_is_durable(opened):
    first = opened(Scripted(*range(4)))
    entries = durable(first, ORIGIN, 4)
    first.close()
    receiver = Scripted(*range(1, 7))
    second = opened(receiver, entries[0].place, token=2)
    assert notes(durable(second, entries[0].place, 6)) == [1, 2, 3, 4, 5, 6]
    assert receiver.waiting == [1, 2, 3]


def test_a_successor_of_a_broker_that_sends_again_begins_with_nothing(opened):
    first = opened(Scripted(*range(4)))
    entries = durable(first, ORIGIN, 4)
    first.close()
    receiver = Scripted(1, 2)
    second = opened(receiver, entries[0].place, token=2, rest=False)
    assert notes(durable(second, entries[0].place, 2)) == [1, 2]
    assert receiver.waiting == []


def test_a_plan_of_an_earlier_owner_is_read_before_anything_is_received(opened):
    first = opened(Scripted(*range(4)))
    entries = durable(first, ORIGIN, 4)
    first.close()
    second = opened(None, token=2)
    assert second.between(ORIGIN, entries[2].place) == entries[:3]


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
def test_whatever_ends_the_thread_is_told(opened, problem):
    """Else those who wait for what it brings would wait for ever."""
    receiver = Scripted({"n": 1}, problem)
    intake = opened(receiver)
    assert receiver.has_done(2)
    until = time.monotonic() + SECONDS
    with pytest.raises(type(problem)):
        while time.monotonic() < until:
            intake.raise_failure()


def test_an_error_of_the_thread_is_raised_again_and_again(opened):
    receiver = Scripted(1, InvalidStep("no such page", code="HTTP-010"))
    intake = opened(receiver)
    assert receiver.has_done(2)
    intake._threads[1].join(SECONDS)
    assert notes(durable(intake, ORIGIN, 1)) == [1]
    for _ in range(2):
        with pytest.raises(InvalidStep):
            intake.raise_failure()


def test_an_outside_that_was_away_is_told_once_and_tried_again(opened):
    receiver = Scripted(1, ExternalFailure("away"), 2)
    intake = opened(receiver)
    durable(intake, ORIGIN, 1)
    with intake._changed:
        assert intake._changed.wait_for(lambda: intake._failure, SECONDS)
    with pytest.raises(ExternalFailure):
        intake.raise_failure()
    intake.raise_failure()
    assert notes(durable(intake, ORIGIN, 2)) == [1, 2]
    assert receiver.answers == [True]


def test_a_full_disk_is_raised_and_stays(opened, monkeypatch):
    failpoint.reset()
    monkeypatch.setenv("MILLSTREAM_FAILPOINTS", "intake_written:1:enospc")
    intake = opened(Scripted(1))
    intake._threads[0].join(SECONDS)
    for _ in range(2):
        with pytest.raises(OSError):
            intake.raise_failure()


def test_files_go_one_epoch_after_they_were_acknowledged(tmp_path, opened):
    intake = opened(Scripted(*range(5)), file_bytes=1)
    durable(intake, ORIGIN, 5)
    position = ORIGIN
    left = []
    while entries := intake.after(position)[:1]:
        position = entries[0].place
        intake.acknowledge(position)
        intake.acknowledge(position)
        left.append(len(file_names(tmp_path)))
    files = len(left)
    assert left[:2] == [left[0], left[0]]
    assert len(file_names(tmp_path)) <= 2 < files
    assert intake.after(position) == []


def test_what_was_published_last_can_be_read_again(tmp_path, opened):
    first = opened(Scripted(*range(5)), file_bytes=1)
    places = [entry.place for entry in durable(first, ORIGIN, 5)]
    for place in places[:4]:
        first.after(place)
        first.acknowledge(place)
    first.close()
    second = opened(None, token=2, file_bytes=1)
    second.acknowledge(places[3])
    assert notes(second.between(places[2], places[3])) == [3]


def test_an_unknown_place_is_refused(opened):
    intake = opened(Scripted(1))
    entry = durable(intake, ORIGIN, 1)[0]
    with pytest.raises(CheckpointRefused) as refused:
        intake.after(entry.place._replace(offset=entry.end + 1))
    assert refused.value.code == "INTAKE-003"


def test_closing_ends_a_thread_that_waits_for_room(opened):
    receiver = Scripted(*range(50))
    intake = opened(receiver, ahead=1)
    assert receiver.has_done(2)
    intake.close()
    assert receiver.stopped.is_set()
    assert not any(thread.is_alive() for thread in intake._threads)


def test_closing_ends_a_thread_that_waits_to_tell_a_failure(opened):
    receiver = Scripted(ExternalFailure("away"))
    intake = opened(receiver)
    with intake._changed:
        assert intake._changed.wait_for(lambda: intake._failure, SECONDS)
    intake.close()
    assert receiver.answers == [False]
    assert not any(thread.is_alive() for thread in intake._threads)


def test_waiting_ends_when_the_intake_is_closed(opened):
    intake = opened(None)
    assert intake.wait(0)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(intake.wait(600)))
    thread.start()
    intake.close()
    thread.join(SECONDS)
    assert answers == [False]


class Quick:
    """Receives many things, one every half a millisecond, and then waits for the end."""

    def __init__(self, count):
        self.count, self.is_done, self.stopped = count, threading.Event(), threading.Event()

    def run(self, intake, waiting):
        for number in range(len(waiting), self.count):
            intake.put(ReceivedEntry(b"x", 1, number))
            time.sleep(0.0005)
        self.is_done.set()
        self.stopped.wait(SECONDS)

    def stop(self):
        self.stopped.set()


def test_what_comes_quickly_is_made_durable_in_groups(opened, monkeypatch):
    synced = []
    monkeypatch.setattr(log.os, "fsync", synced.append)
    quick = Quick(200)
    began = time.monotonic()
    intake = opened(quick)
    assert notes(durable(intake, ORIGIN, 200)) == list(range(200))
    # The file, its folder, and a group each ten milliseconds.
    assert len(synced) <= 5 + (time.monotonic() - began) / 0.01


def test_what_came_before_the_close_is_durable(opened):
    for token in (1, 2, 3):
        quick = Quick(100 * token)
        intake = opened(quick, token=token)
        assert quick.is_done.wait(SECONDS)
        intake.close()
    last = opened(Scripted(), token=4)
    assert notes(durable(last, ORIGIN, 300)) == list(range(300))


def test_a_changed_file_is_refused_by_a_reader(tmp_path, opened):
    entries = durable(opened(Scripted(1)), ORIGIN, 1)
    path = tmp_path / entries[0].file
    path.write_bytes(path.read_bytes().replace(b"body 1", b"body 7", 1))
    with pytest.raises(CheckpointRefused) as refused:
        list(read_parts(tmp_path, parts_of(entries)))
    assert refused.value.code == "INTAKE-004"
    path.unlink()
    with pytest.raises(CheckpointRefused):
        list(read_parts(tmp_path, parts_of(entries)))
