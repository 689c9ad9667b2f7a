"""Log lines of a run: an event each, with the same fields, on both engines and on the command line."""

import json
import logging
import re

import pytest

import millstream as ms
from millstream.api.running.run_log import CONTEXT, Fields
from millstream.errors import MillstreamError
from millstream.plan.deployment import EpochPolicy


def job_of(name="logged", rows=4, **options):
    job = ms.Job(name, rows_per_epoch=2, **options)
    numbers = job.source("numbers", ms.datagen(rows=rows, fields={"n": {"kind": "sequence"}}))
    numbers.key_by("n").aggregate(c=ms.count(), id="c").sink("out", ms.collect(name))
    return job


@pytest.fixture
def lines(caplog):
    """What was logged: event and fields."""
    caplog.set_level(logging.INFO, logger="millstream")
    return lambda: [(record.event, vars(record)) for record in caplog.records if hasattr(record, "event")]


def events(lines):
    return [event for event, _ in lines()]


def test_a_line_for_each_start_epoch_and_end(tmp_path, lines):
    job_of().run(local=True, checkpoint=tmp_path)
    assert events(lines) == ["run started", "epoch published", "epoch published", "epoch published", "run ended"]
    known = {name: {fields[name] for _, fields in lines()} for name in CONTEXT}
    assert (known["job"], known["token"], len(known["run"]), len(known["lineage"])) == ({"logged"}, {1}, 1, 1)
    assert [fields["epoch"] for _, fields in lines()] == [None, 0, 1, 2, 2]
    assert [fields["rows_in"] for event, fields in lines() if event == "epoch published"] == [2, 2, 0]
    last = lines()[-1][1]
    assert (last["ended"], last["rows_in"], last["levelname"]) == ("finished", 4, "INFO")


def test_a_run_that_resumes_says_from_where(tmp_path, lines):
    job_of().run(local=True, checkpoint=tmp_path)
    first = {fields["run"] for _, fields in lines()}
    job_of().run(local=True, checkpoint=tmp_path)
    started = [fields for event, fields in lines() if event == "run started"]
    assert [(fields["resumed_from"], fields["epoch"], fields["token"]) for fields in started] == [
        (None, None, 1),
        (2, 2, 2),
    ]
    assert started[1]["run"] not in first


def test_a_restart_names_its_reason_and_the_run_stays_the_same(tmp_path, lines, failpoints):
    failpoints("durable:2:raise")
    job_of().run(local=True, checkpoint=tmp_path, epochs=EpochPolicy(tolerated_failures=2))
    (restart,) = [fields for event, fields in lines() if event == "run restarts"]
    assert (restart["name"], restart["levelname"], restart["domain"]) == ("millstream.recovery", "WARNING", "external")
    assert (restart["in_a_row"], restart["tolerated"], restart["code"]) == (1, 2, "TEST-FAILPOINT")
    assert len({fields["run"] for _, fields in lines()}) == 1
    assert [fields["token"] for event, fields in lines() if event == "run started"] == [1, 2]


def test_a_failure_is_an_error_with_its_code(lines):
    job = ms.Job("broken")
    rows = job.source("rows", ms.memory([{"n": 1}]), schema="n long")
    rows.filter(lambda row: row["none"], id="bad").sink("out", ms.collect("broken"))
    with pytest.raises(MillstreamError):
        job.run(local=True)
    event, fields = lines()[-1]
    assert (event, fields["levelname"], fields["code"], fields["step"]) == ("run failed", "ERROR", "RUN-001", "bad")
    assert fields["domain"] == "user"


def test_savepoints_are_told(tmp_path, lines):
    job = ms.Job("endless", epoch_interval="20ms")
    job.source("ticks", ms.rate(500)).sink("out", ms.collect("endless"))
    running = job.start(local=True, checkpoint=tmp_path)
    path = running.export_savepoint(id="one")
    running.suspend(id="two", native=True)
    taken = [fields for event, fields in lines() if event == "savepoint taken"]
    assert [(fields["id"], fields["form"]) for fields in taken] == [("one", "canonical"), ("two", "native")]
    assert taken[0]["path"] == path
    assert json.loads((tmp_path / "savepoints/savepoint-one/savepoint.json").read_text())
    assert all(fields["epoch"] is not None for fields in taken)
    assert lines()[-1][1]["ended"] == "suspended"


def test_a_takeover_names_the_owner_before(tmp_path, lines, failpoints, monkeypatch):
    # An owner that does not give the lease back, as after a kill.
    def left(lease, *, settled=False):
        lease._ended.set()
        lease._thread.join()

    monkeypatch.setattr("millstream.checkpoint.lease.Lease.release", left)
    failpoints("durable:2:raise")
    with pytest.raises(MillstreamError):
        job_of().run(local=True, checkpoint=tmp_path, epochs=EpochPolicy(lease_term=200))
    monkeypatch.undo()
    job_of().run(local=True, checkpoint=tmp_path)
    (taken,) = [fields for event, fields in lines() if event == "checkpoint taken over"]
    assert (taken["from_token"], taken["token"], taken["name"]) == (1, 2, "millstream.recovery")
    assert taken["levelname"] == "WARNING", "its process lives, so it may still run"
    assert re.fullmatch(r"\d+ on .+", taken["owner"])


def test_fields_as_text():
    fields = Fields(job="a", epoch=3, lag=None, seconds=0.25, error='it "broke" here', empty="")
    assert str(fields) == 'job=a epoch=3 seconds=0.250 error="it "broke" here" empty=""'


def test_the_message_holds_the_fields(caplog):
    caplog.set_level(logging.INFO, logger="millstream")
    job_of("plain").run(local=True)
    assert re.match(r"run started job=plain run=\w{12} lineage=\S+ token=1 engine=local ", caplog.messages[0])
    assert {record.msg for record in caplog.records} == {"run started %s", "epoch published %s", "run ended %s"}
