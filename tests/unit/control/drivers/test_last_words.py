"""What a driver left in its folder: all that it had written down, whether or not it came to its end in order."""

import pytest

from millstream.contract.driver_protocol import DriverReport, encode_line
from millstream.contract.run_folder import DriverFolder
from millstream.control.drivers.last_words import last_words
from millstream.driver.service.journal import Journal


def report(seq, type="epoch", token=3):
    return DriverReport(type=type, run="r", token=token, seq=seq, at=1.0, body={"epoch": seq})


@pytest.fixture
def folder(tmp_path):
    folder = DriverFolder(tmp_path)
    journal = Journal(folder.journal, file_bytes=500)
    for seq in range(1, 7):
        journal.write(encode_line(report(seq)))
    journal.write(encode_line(report(7))[:-9])
    assert folder.journal.with_name("journal.jsonl.1").exists(), "it was turned"
    return folder


def numbers(*asked, **more):
    return [each.seq for each in last_words(*asked, **more)]


def test_of_one_that_was_killed_what_it_had_written_down(folder):
    whole = numbers(folder, 3, after=0, is_gone=True)
    assert whole[-1] == 6
    assert whole == list(range(whole[0], 7))
    assert numbers(folder, 3, after=4, is_gone=True) == [5, 6]
    assert numbers(folder, 3, after=6, is_gone=True) == []
    assert numbers(folder, 4, after=0, is_gone=True) == [], "another attempt's"


def test_of_one_that_lives_nothing_it_tells_itself(folder):
    assert numbers(folder, 3, after=0, is_gone=False) == []


@pytest.mark.parametrize("is_gone", [False, True])
def test_of_one_that_ended_in_order_its_result_too(folder, is_gone):
    folder.result.write_bytes(encode_line(report(7, "result")))
    assert numbers(folder, 3, after=4, is_gone=is_gone) == [5, 6, 7]
