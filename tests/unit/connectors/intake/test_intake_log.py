import errno

import pytest

from millstream.checkpoint import failpoint
from millstream.connectors.intake.files import (
    ORIGIN,
    LogPlace,
    entries_between,
    file_names,
    place_of,
    spans_between,
)
from millstream.connectors.intake.log import IntakeLog, ReceivedEntry, delete_behind
from millstream.errors import CheckpointRefused


def received(*numbers):
    return [ReceivedEntry(f"body {number}".encode(), 1, number) for number in numbers]


def numbers(entries):
    return [entry.note for entry in entries]


@pytest.fixture
def owner(tmp_path):
    opened = []

    def begin(token, start=ORIGIN, *, rest=False, file_bytes=1 << 20):
        log = IntakeLog(tmp_path, token, file_bytes=file_bytes)
        opened.append(log)
        return log, log.adopt(start, rest=rest)

    yield begin
    for log in opened:
        log.close()


def test_what_is_appended_lies_between_its_places(tmp_path, owner):
    log, _ = owner(1)
    first = log.append(received(0, 1))
    second = log.append(received(2))
    assert numbers(entries_between(tmp_path, ORIGIN, second[-1].place)) == [0, 1, 2]
    assert numbers(entries_between(tmp_path, first[0].place, first[1].place)) == [1]
    assert entries_between(tmp_path, first[0].place, first[0].place) == []
    assert entries_between(tmp_path, ORIGIN, second[-1].place) == [*first, *second]


def test_a_long_log_goes_on_in_further_files(tmp_path, owner):
    log, _ = owner(1, file_bytes=1)
    logged = [entry for number in range(4) for entry in log.append(received(number))]
    assert file_names(tmp_path) == [f"intake-000001-00000{number}" for number in range(4)]
    assert numbers(entries_between(tmp_path, ORIGIN, logged[-1].place)) == [0, 1, 2, 3]
    assert numbers(entries_between(tmp_path, logged[0].place, logged[2].place)) == [1, 2]


def test_a_successor_lets_go_what_no_plan_names(tmp_path, owner):
    old, _ = owner(1)
    planned = old.append(received(0, 1))[-1].place
    old.append(received(2, 3))
    new, taken = owner(2, planned)
    last = new.append(received(20))[-1].place
    assert taken == []
    assert numbers(entries_between(tmp_path, ORIGIN, last)) == [0, 1, 20]
    assert numbers(entries_between(tmp_path, planned, last)) == [20]


def test_a_successor_may_go_on_behind_what_was_received(tmp_path, owner):
    old, _ = owner(1, file_bytes=1)
    planned = old.append(received(0, 1))[0].place
    old.append(received(2, 3))
    new, taken = owner(2, planned, rest=True)
    last = new.append(received(4))[-1].place
    assert numbers(taken) == [1, 2, 3]
    assert numbers(entries_between(tmp_path, planned, last)) == [1, 2, 3, 4]
    third, taken = owner(3, planned, rest=True)
    assert numbers(taken) == [1, 2, 3, 4]
    assert numbers(entries_between(tmp_path, planned, third.append(received(5))[-1].place)) == [1, 2, 3, 4, 5]


def test_of_two_that_went_on_from_one_place_the_newer_counts(tmp_path, owner):
    first, _ = owner(1)
    start = first.append(received(0))[-1].place
    second, _ = owner(2, start)
    second.append(received(20))
    third, _ = owner(3, start)
    third.append(received(30, 31))
    _, taken = owner(4, start, rest=True)
    assert numbers(taken) == [30, 31]


def test_a_torn_end_is_cut(tmp_path, owner):
    old, _ = owner(1)
    planned = old.append(received(0))[-1].place
    whole = old.append(received(1))[-1].place
    old.append(received(2))
    old.close()
    path = tmp_path / whole.file
    path.write_bytes(path.read_bytes()[:-3])
    new, taken = owner(2, planned, rest=True)
    assert numbers(taken) == [1]
    assert numbers(entries_between(tmp_path, planned, new.append(received(3))[-1].place)) == [1, 3]


def test_a_file_whose_first_frame_is_torn_is_none(tmp_path, owner):
    old, _ = owner(1)
    planned = old.append(received(0))[-1].place
    (tmp_path / "intake-000001-000001").write_bytes(b"msIN")
    new, taken = owner(2, planned, rest=True)
    assert taken == []
    assert numbers(entries_between(tmp_path, ORIGIN, new.append(received(1))[-1].place)) == [0, 1]


def test_what_an_owner_writes_that_was_replaced_belongs_to_nothing(tmp_path, owner):
    old, _ = owner(1)
    first = old.append(received(0))[-1].place
    new, _ = owner(2, first, rest=True)
    last = new.append(received(1))[-1].place
    old.append(received(10))
    assert numbers(entries_between(tmp_path, ORIGIN, last)) == [0, 1]
    assert numbers(owner(3, first, rest=True)[1]) == [1]


def test_an_owner_that_opens_twice_does_not_write_over_itself(tmp_path, owner):
    first, _ = owner(1)
    place = first.append(received(0))[-1].place
    second, _ = owner(1, place)
    assert numbers(entries_between(tmp_path, ORIGIN, second.append(received(1))[-1].place)) == [0, 1]


def test_a_failed_append_leaves_nothing_that_counts(tmp_path, owner, monkeypatch):
    log, _ = owner(1)
    log.append(received(0))
    failpoint.reset()
    monkeypatch.setenv("MILLSTREAM_FAILPOINTS", "intake_written:1:enospc")
    with pytest.raises(OSError) as full:
        log.append(received(1))
    assert full.value.errno == errno.ENOSPC
    monkeypatch.delenv("MILLSTREAM_FAILPOINTS")
    assert numbers(entries_between(tmp_path, ORIGIN, log.append(received(1))[-1].place)) == [0, 1]


def test_files_before_a_place_are_deleted(tmp_path, owner):
    log, _ = owner(1, file_bytes=1)
    logged = [entry for number in range(4) for entry in log.append(received(number))]
    delete_behind(tmp_path, logged[2].place)
    delete_behind(tmp_path, logged[2].place)
    assert file_names(tmp_path) == ["intake-000001-000002", "intake-000001-000003"]
    assert numbers(entries_between(tmp_path, logged[2].place, logged[3].place)) == [3]
    delete_behind(tmp_path, ORIGIN)
    assert len(file_names(tmp_path)) == 2


def test_a_place_of_another_checkpoint_is_where_the_first_file_goes_on(tmp_path, owner):
    before = LogPlace("intake-000007-000003", 4711)
    log, taken = owner(9, before, rest=True)
    assert taken == []
    assert numbers(entries_between(tmp_path, before, log.append(received(0))[-1].place)) == [0]


def test_a_lost_file_is_refused(tmp_path, owner):
    log, _ = owner(1, file_bytes=1)
    logged = [entry for number in range(3) for entry in log.append(received(number))]
    (tmp_path / logged[1].file).unlink()
    with pytest.raises(CheckpointRefused) as refused:
        entries_between(tmp_path, logged[0].place, logged[2].place)
    assert refused.value.code == "INTAKE-002"
    assert "intake-000001-000001" in refused.value.message


def test_a_damaged_file_is_refused(tmp_path, owner):
    log, _ = owner(1)
    last = log.append(received(0, 1))[-1].place
    path = tmp_path / last.file
    path.write_bytes(path.read_bytes().replace(b'"note":1', b'"note":8'))
    with pytest.raises(CheckpointRefused) as refused:
        entries_between(tmp_path, ORIGIN, last)
    assert refused.value.code == "INTAKE-002"


def test_a_place_behind_the_one_a_successor_took_over_at_is_refused(tmp_path, owner):
    old, _ = owner(1)
    first, second = old.append(received(0, 1))
    new, _ = owner(2, first.place)
    last = new.append(received(20))[-1].place
    with pytest.raises(CheckpointRefused):
        spans_between(tmp_path, second.place, last)


@pytest.mark.parametrize("stored", [["../secret", 0], ["intake-000001-000000", -1], ["/etc/passwd", 1], ["a", "b"]])
def test_no_stored_name_becomes_a_path_unchecked(stored):
    with pytest.raises(CheckpointRefused) as refused:
        place_of(stored)
    assert refused.value.code == "INTAKE-001"
