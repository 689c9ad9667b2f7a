"""Reports that nobody takes: numbered, kept within bounds, journaled, and without secrets."""

import base64
import json

import pytest

from millstream.contract.driver_protocol import LINE_BYTES, RunSpec, decode_report
from millstream.driver.service.journal import Journal
from millstream.driver.service.mask import Mask
from millstream.driver.service.reports import Reports
from millstream.driver.service.told import ReportedStates

SPEC = RunSpec(run="r", token=2, job="j", definition={}, checkpoint="/c")


@pytest.fixture
def made(tmp_path):
    def make(kept=10, file_bytes=1 << 20, mask=None):
        return Reports(SPEC, Journal(tmp_path / "journal.jsonl", file_bytes=file_bytes), mask or Mask(), kept=kept)

    return make


def seen(reports, seq=0):
    return [(each.seq, decode_report(each.line, run="r").type) for each in reports.missed(seq)]


def test_reports_are_numbered_and_replayed_from_any_number(made):
    reports = made()
    for kind in ("state", "graph", "epoch", "progress"):
        reports.report(kind, {})
    assert seen(reports) == [(1, "state"), (2, "graph"), (3, "epoch"), (4, "progress")]
    assert seen(reports, 2) == [(3, "epoch"), (4, "progress")]
    assert seen(reports, 4) == []
    assert [each.seq for each in reports.since(3, wait=0)] == [4]


def test_progress_makes_room_first_then_signs_of_life(made):
    reports = made(kept=4)
    for kind in ("graph", "progress", "alive", "dead_letters", "ack", "ack", "ack"):
        reports.report(kind, {})
    assert seen(reports) == [(4, "dead_letters"), (5, "ack"), (6, "ack"), (7, "ack")]


def test_subtasks_join(made):
    reports = made()
    for number in range(3):
        reports.report("subtasks", {"n": number})
    reports.report("epoch", {})
    assert seen(reports) == [(3, "subtasks"), (4, "epoch")]


def test_what_memory_let_go_comes_from_the_journal(made):
    reports = made(kept=3)
    for number in range(8):
        reports.report("epoch" if number % 2 else "ack", {"n": number})
    assert [number for number, _ in seen(reports)] == [2, 4, 6, 7, 8]
    assert [number for number, _ in seen(reports, 4)] == [6, 7, 8]


def test_the_journal_keeps_two_files(made, tmp_path):
    reports = made(kept=1, file_bytes=2000)
    for number in range(100):
        reports.report("epoch", {"n": number})
    sizes = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    assert len(sizes) == 2
    assert max(sizes) <= 2000
    numbers = [number for number, _ in seen(reports)]
    assert numbers == list(range(numbers[0], 101))


def test_a_journal_that_was_cut_is_read_as_far_as_it_goes(made, tmp_path):
    reports = made(kept=1)
    for _ in range(3):
        reports.report("epoch", {})
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(b'{"v":1,"seq":9')
    assert [number for number, _ in seen(reports)] == [1, 2, 3]


def test_a_report_that_is_too_long_keeps_its_short_parts(made):
    reports = made()
    line = reports.report("epoch", {"epoch": 3, "lags": {str(n): "x" * 1000 for n in range(2000)}})
    assert len(line) < LINE_BYTES
    assert json.loads(line)["body"] == {"epoch": 3, "left_out": ["lags"]}


def test_secrets_are_hidden_in_every_form(made, tmp_path):
    mask, value = Mask(), 'pa"ss wö/rd+1'
    mask.learn([value, "", "ab"])
    reports = made(mask=mask)
    line = reports.report(
        "state", {"error": f"cannot log in with {value}", "url": "x://u:pa%22ss%20w%C3%B6%2Frd%2B1@h"}
    )
    body = json.loads(line)["body"]
    assert body == {"error": "cannot log in with ***", "url": "x://u:***@h"}
    assert b"rd" not in (tmp_path / "journal.jsonl").read_bytes()


def test_nothing_comes_behind_the_result(made):
    reports = made()
    reports.report("result", {})
    assert reports.report("progress", {}) == b""
    assert seen(reports) == [(1, "result")]


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_a_secret_inside_base64_is_hidden(before):
    """Errors of workers travel so, and the JVM prints them."""
    mask, value = Mask(), "hunter2-and-more"
    mask.learn([value])
    sent = base64.b64encode(f'{before}{{"message": "no: {value}"}}'.encode())
    assert b"***" in mask.hidden(sent)
    assert b"unter2-and-mor" not in base64.b64decode(mask.hidden(sent).replace(b"***", b"----") + b"==", validate=False)


def test_a_run_that_has_ended_is_in_no_other_state(made):
    """The thread that watches may see a cancel after the run has ended of it."""
    reports = made()
    states = ReportedStates(reports)
    for state in ("INITIALIZING", "CANCELLED", "CANCELLING", "RUNNING", "FAILED"):
        states.enter(state, "why")
    told = [decode_report(each.line, run="r").body["to"] for each in reports.missed(0)]
    assert told == ["INITIALIZING", "CANCELLING", "CANCELLED"]


@pytest.mark.parametrize("secret", ["5432", "RUN", "run", "1234", "seq", "true", "null", "body"])
def test_a_secret_that_lines_are_made_of_breaks_none(made, secret):
    mask = Mask()
    mask.learn([secret])
    reports = made(mask=mask)
    body = {"to": "RUNNING", "id": "ab12345432", "done": True, "error": None, "cause": f"with {secret}"}
    told = decode_report(reports.report("state", {**body, "rows": 15432, "seen": [{f"by/{secret}": secret}]}), run="r")
    assert (told.seq, told.token) == (1, 2)
    assert told.body == {**body, "cause": "with ***", "rows": 15432, "seen": [{"by/***": "***"}]}
