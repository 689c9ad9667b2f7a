"""Positions and what is decided from them, without a server."""

import json

import pytest

from millstream.connectors.postgres_cdc.positions import (
    BEGIN,
    CdcPosition,
    SeenBy,
    WaitingChanges,
    end_of_epoch,
    lsn_number,
    lsn_text,
    position_of,
    stretch_between,
    stretch_of,
)

SEEN = SeenBy("100:110:102,105", 5000)


def at(lsn, **given):
    return CdcPosition(phase="stream", lsn=lsn, oid=7, **given)


@pytest.mark.parametrize(
    "position",
    [BEGIN, CdcPosition(phase="snapshot", rows=12), at(3), at(2**40 + 5, seen=SEEN), at(9, quiet_from=4)],
)
def test_a_position_comes_back_from_a_log(position):
    assert position_of(json.loads(json.dumps(position.to_json()))) == position


def test_places_are_written_as_the_server_writes_them():
    assert lsn_text(0x16B3748) == "0/16B3748"
    assert lsn_number("1A/16B3748") == (0x1A << 32) + 0x16B3748


@pytest.mark.parametrize(
    ("xid", "is_shown"), [(99, True), (100, True), (101, True), (102, False), (104, True), (105, False), (110, False)]
)
def test_which_transactions_a_copy_shows(xid, is_shown):
    assert SEEN.shows(xid) == is_shown


def test_numbers_of_transactions_begin_again():
    behind = 3 * 2**32
    seen = SeenBy(f"{behind - 5}:{behind + 5}:{behind + 2}", 0)
    assert seen.shows(2**32 - 6), "long before"
    assert seen.shows(2**32 - 4), "committed meanwhile"
    assert seen.shows(1)
    assert not seen.shows(2), "still open then"
    assert not seen.shows(6)


def test_a_snapshot_without_open_transactions():
    assert SeenBy("100:100:", 0).shows(99)
    assert not SeenBy("100:100:", 0).shows(100)


def test_what_a_copy_shows_is_forgotten_behind_it():
    assert at(10, seen=SEEN).read_to(4999).seen == SEEN
    assert at(10, seen=SEEN).read_to(5000).seen is None


def test_what_lies_between_two_positions():
    stretch = stretch_between(at(10, seen=SEEN), at(20))
    assert stretch == (10, 20, 7, SEEN)
    assert stretch_of(json.loads(json.dumps(stretch.to_json()))) == stretch
    assert stretch_between(at(10), at(10)) is None


def test_a_quiet_stretch_is_not_read_unless_more_lies_before_it():
    quiet = at(10).read_to(30, is_quiet=True)
    assert stretch_between(at(10), quiet) is None
    assert stretch_between(at(5), quiet) == (5, 30, 7, None)
    assert stretch_between(quiet, quiet.read_to(40)) == (30, 40, 7, None)


@pytest.mark.parametrize(
    ("waiting", "credit", "most_bytes", "end"),
    [
        (WaitingChanges(upto=900, changes=5, end=300, is_complete=True), 5, None, 900),  # all of it
        (WaitingChanges(upto=900, changes=5, end=300, is_complete=False), 10, None, 500),  # 40 bytes each
        (WaitingChanges(upto=900, changes=5, end=300, is_complete=False), 100, None, 900),
        (WaitingChanges(upto=900, changes=5, end=300, is_complete=False), 2, None, 300),  # a transaction is not cut
        (WaitingChanges(upto=900, changes=5, end=300, is_complete=True), 2, None, 300),
        (WaitingChanges(upto=900, changes=5, end=300, is_complete=False), 20, 250, 350),
    ],
)
def test_how_far_an_epoch_reads(waiting, credit, most_bytes, end):
    assert end_of_epoch(100, waiting, credit, most_bytes) == end
