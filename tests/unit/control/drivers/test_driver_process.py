"""A real driver process, seen from its node: what it reports, what may be asked of it, and how it ends."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from found import found_drivers
from node_side import NodeSide, document, spec_of

import millstream as ms
from millstream.checkpoint.lease_record import LEASE, decode_lease
from millstream.contract.run_folder import BadRunFolder
from millstream.control.drivers.launch import launch
from millstream.control.drivers.link import DriverLink
from millstream.control.drivers.logs import log_names, read_log
from millstream.control.drivers.processes import dump_stacks, is_alive, kill
from millstream.control.metrics.runs import RunFigures
from millstream.errors import InvalidStep


@pytest.fixture
def node(tmp_path):
    made = NodeSide(tmp_path)
    yield made
    made.close()


def numbers_in(tmp_path):
    return sorted(row["n"] for row in ms.read_files(str(tmp_path / "out")).to_pylist())


def test_a_bounded_job_is_reported_from_start_to_end(node, tmp_path):
    node.start(spec_of(tmp_path, document(tmp_path, rows=30, rate=10_000)))
    result = node.await_result()
    assert node.states() == ["INITIALIZING", "RUNNING", "COMPLETED"]
    assert [report.seq for report in node.reports if report.seq] == list(range(1, node.link.last_seq + 1))
    order = [report.type for report in node.reports if report.type in {"hello", "graph", "epoch", "result"}]
    assert order[:2] == ["hello", "graph"]
    assert order[-1] == "result" == node.reports[-1].type
    assert (result["ended"], result["status"], result["error"]) == ("finished", "COMPLETED", None)
    assert result["result"]["rows_out"] == 30
    assert numbers_in(tmp_path) == list(range(30))
    assert node.folder.read_result().body == result
    assert {report.token for report in node.reports} == {1}


MEASURED = """
import millstream as ms

class Measured:
    def open(self, ctx):
        self.rows, self.newest = ctx.counter("rows"), ctx.gauge("newest")
        self.sizes = ctx.histogram("sizes", buckets=[10, 20])

    def __call__(self, row):
        self.rows.add()
        self.newest.set(row["value"])
        self.sizes.observe(row["value"])
        return {"n": row["value"]}

job = ms.Job("measured", rows_per_epoch=10, epoch_interval=0)
rows = job.source("numbers", ms.rate(10_000, rows=30))
rows.map(Measured, schema="n long", id="measured").sink("out", ms.files(__OUT__, format="json"))
"""


def test_what_functions_measure_is_what_prometheus_reads(node, tmp_path):
    (tmp_path / "artifact").mkdir()
    (tmp_path / "artifact" / "measured.py").write_text(MEASURED.replace("__OUT__", repr(str(tmp_path / "out"))))
    given = {"definition": {"kind": "code", "entry": "measured.py:job"}, "code": str(tmp_path / "artifact")}
    node.start(spec_of(tmp_path, job="measured", **given))
    assert node.await_result()["status"] == "COMPLETED"
    told = RunFigures("measured", 0)
    for report in node.reports:
        told.take(report)
    of_user = [each for each in told.figures(time.time()) if each.name.startswith("user_")]
    assert {each.labels["step"] for each in of_user} == {"measured"}
    found = {(each.name, each.labels["name"]): each.value for each in of_user}
    assert (found["user_counter_total", "rows"], found["user_gauge", "newest"]) == (30, 29)
    spread = found["user_histogram", "sizes"]
    assert (spread.counts, spread.sum) == ([11, 10, 9], sum(range(30)))


def test_the_graph_and_epochs_say_what_pages_show(node, tmp_path):
    written = document(tmp_path, rows=30, rate=10_000)
    written["steps"].insert(2, {"aggregate": {"total": "sum(n)"}, "key_by": "n", "id": "sums"})
    node.start(spec_of(tmp_path, written, parallelism=3))
    assert node.await_result()["status"] == "COMPLETED"
    graph = node.of("graph")[0].body
    assert [(each["level"], each["parallelism"]) for each in graph["vertices"]] == [(0, None), (1, 3)]
    assert [step["id"] for step in graph["vertices"][1]["steps"]] == ["sums", "out"]
    assert [(each["source"], each["target"], each["policy"]) for each in graph["edges"]] == [
        ("numbers", "sums", "hash(n)")
    ]
    epoch = node.of("epoch")[0].body
    assert epoch["counts"]["numbers"]["rows_in"] == epoch["rows_in"]
    assert set(epoch["load"]) == {"vertices", "steps", "holder"}
    assert node.of("progress")[-1].body["rows_in"] == 30


@pytest.mark.parametrize(
    ("action", "ended", "status"),
    [
        ("drain", "drained", "COMPLETED"),
        ("suspend", "suspended", "SUSPENDED"),
        ("cancel", "cancelled", "CANCELLED"),
    ],
)
def test_an_endless_job_ends_as_it_is_asked(node, tmp_path, action, ended, status):
    node.start(spec_of(tmp_path))
    node.await_epochs(2)
    answer = node.ask("r1", action)
    assert answer["done"], answer
    result = node.await_result()
    assert (result["ended"], result["status"]) == (ended, status)
    assert node.states()[-1] == status
    assert [report.body["id"] for report in node.of("ack")] == ["r1"]
    assert numbers_in(tmp_path) == list(range(result["result"]["rows_out"]))


def test_a_savepoint_is_taken_once_and_the_next_run_starts_from_it(node, tmp_path):
    node.start(spec_of(tmp_path))
    node.await_epochs(2)
    path = node.ask("s1", "savepoint")["path"]
    assert Path(path).is_dir()
    node.link.request("s1", "savepoint")
    node.until(lambda: len(node.of("answer")) == 2, "the same answer again")
    assert [report.body["path"] for report in node.of("answer")] == [path, path]
    node.ask("c", "cancel")
    node.await_result()
    node.reports.clear()
    start = {"from_savepoint": path, "on_newer_output": "truncate"}
    node.start(spec_of(tmp_path, token=2, attempt=2, start=start))
    node.await_epochs(1)
    assert node.states()[:3] == ["INITIALIZING", "RESTORING", "RUNNING"]
    assert "savepoint" in node.of("state")[1].body["cause"]


def test_a_run_that_resumes_is_restored_first(node, tmp_path):
    node.start(spec_of(tmp_path))
    node.await_epochs(2)
    kill(node.identity)
    assert node.await_result() is None
    assert not node.folder.result.exists()
    node.reports.clear()
    node.start(spec_of(tmp_path, token=2, attempt=2))
    node.await_epochs(2)
    assert node.states() == ["INITIALIZING", "RESTORING", "RUNNING"]
    node.ask("d", "drain")
    assert node.await_result()["result"]["resumed_from"] >= 1
    assert numbers_in(tmp_path) == list(range(len(numbers_in(tmp_path))))


def test_a_failed_job_tells_all_of_its_error(node, tmp_path):
    written = document(tmp_path, rows=30, rate=10_000)
    written["steps"][1] = {"select": [{"n": "cast(concat('x', cast(value as string)) as int)"}]}
    node.start(spec_of(tmp_path, written))
    result = node.await_result()
    assert (result["status"], result["ended"], result["domain"], result["retry"]) == (
        "FAILED",
        "failed",
        "user",
        "never",
    )
    assert result["oom"] is False
    assert result["error"]["kind"] == "StepFailed"
    assert result["error"]["code"].startswith("RUN-")
    assert result["error"]["step"] == "numbers.select"
    assert node.of("state")[-1].body["error"] == result["error"]
    assert "Traceback" in node.log()


def test_a_definition_that_cannot_be_loaded_fails_before_it_runs(node, tmp_path):
    node.start(spec_of(tmp_path, {"job": "x", "steps": [{"nothing": 1}]}))
    result = node.await_result()
    assert (node.states(), result["error"]["code"]) == (["INITIALIZING", "FAILED"], "DECL-005")


def test_a_job_in_code_is_loaded_from_its_artifact_alone(node, tmp_path):
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    (artifact / "words.py").write_text("def loud(row):\n    return {'n': row['value'], 'word': 'LOUD'}\n")
    (artifact / "spoken.py").write_text(
        "import millstream as ms\nimport words\n"
        "job = ms.Job('spoken')\n"
        "job.source('r', ms.rate(10_000, rows=5)).map(words.loud, schema='n long, word string')"
        f".sink('out', ms.files({str(tmp_path / 'out')!r}, format='json'))\n"
    )
    code = {"code": str(artifact), "job": "spoken"}
    node.start(spec_of(tmp_path, definition={"kind": "code", "entry": "spoken.py:job"}, **code))
    assert node.await_result()["status"] == "COMPLETED"
    assert numbers_in(tmp_path) == list(range(5))
    (tmp_path / "outside.py").write_text("raise SystemExit")
    node.start(spec_of(tmp_path, definition={"kind": "code", "entry": "../outside.py:job"}, token=2, **code))
    node.reports.clear()
    assert node.await_result()["error"]["code"] == "CTL-114"


def test_a_signal_ends_the_run_as_its_job_wishes(node, tmp_path):
    node.start(spec_of(tmp_path, on_stop="suspend"))
    node.await_epochs(1)
    os.kill(node.identity.pid, signal.SIGTERM)
    result = node.await_result()
    assert (result["ended"], Path(result["result"]["savepoint"]).is_dir()) == ("suspended", True)


# The node goes and comes back.


def test_missed_reports_are_replayed_once_and_in_order(node, tmp_path):
    node.start(spec_of(tmp_path))
    node.await_epochs(2)
    node.link.close()
    seen = node.link.last_seq
    time.sleep(0.5)
    node.connect(from_seq=seen)
    node.await_epochs(8)
    numbers = [report.seq for report in node.reports if report.seq]
    assert numbers == list(range(1, len(numbers) + 1))
    epochs = [report.body["epoch"] for report in node.of("epoch")]
    assert epochs == list(range(len(epochs)))


def test_a_driver_outlives_its_node_and_is_adopted(node, tmp_path):
    node.start(spec_of(tmp_path))
    node.await_epochs(1)
    node.link.close()
    (found,) = found_drivers(node.folder.root.parent)
    assert (found.is_alive, found.result, found.spec) == (True, None, node.spec)
    assert found.identity == node.identity
    node.reports.clear()
    node.connect(from_seq=0)
    node.await_epochs(3)
    node.ask("c", "cancel")
    assert node.await_result()["status"] == "CANCELLED"
    (found,) = found_drivers(node.folder.root.parent)
    assert (found.is_alive, found.result.body["status"]) == (False, "CANCELLED")


def test_a_new_connection_takes_the_place_of_the_old(node, tmp_path):
    node.start(spec_of(tmp_path))
    node.await_epochs(1)
    first = node.link
    first.close()
    node.connect(from_seq=first.last_seq)
    node.await_epochs(4)
    assert node.link.is_connected


def test_a_node_with_another_token_is_fenced(node, tmp_path):
    node.start(spec_of(tmp_path, token=5))
    node.await_epochs(1)
    told = []
    other = DriverLink(node.folder, spec_of(tmp_path, token=4), node.identity, told.append)
    node.until(lambda: other.is_over, "the end of the other")
    assert (other.was_fenced, [report.type for report in told]) == (True, ["fenced"])
    assert (told[0].body["code"], told[0].body["found"], told[0].body["known"]) == ("CTL-104", "4", "5")
    count = len(node.of("epoch"))
    node.await_epochs(count + 2)
    assert node.link.is_connected


def test_a_silent_node_stops_publishing_and_a_renewal_lets_it_go_on(node, tmp_path):
    node.start(spec_of(tmp_path, hold_after=1.0, end_after=60.0))
    node.await_epochs(2)
    node.be_silent()
    node.until(lambda: [r for r in node.of("progress") if r.body["standing"] == "silent"], "silence")
    time.sleep(0.3)
    held = len(node.of("epoch"))
    time.sleep(1.0)
    assert len(node.of("epoch")) == held
    assert node.link.is_connected
    node.link.renewed(15_000, time.clock_gettime(time.CLOCK_BOOTTIME))
    node.await_epochs(held + 2)


def test_a_run_that_nobody_renews_ends(node, tmp_path):
    node.start(spec_of(tmp_path, hold_after=0.5, end_after=2.0), renews=False)
    result = node.await_result()
    assert (result["ended"], result["status"]) == ("cancelled", "CANCELLED")
    assert "not renewed the run for 2 s" in result["cause"]
    assert node.states()[-2:] == ["CANCELLING", "CANCELLED"]


def test_a_killed_driver_leaves_no_result(node, tmp_path):
    node.start(spec_of(tmp_path))
    node.await_epochs(1)
    os.kill(node.identity.pid, signal.SIGKILL)
    assert node.await_result() is None
    assert not is_alive(node.identity)
    assert not node.folder.result.exists()
    (found,) = found_drivers(node.folder.root.parent)
    assert (found.is_alive, found.result) == (False, None)


def test_the_checkpoint_is_taken_under_the_token_as_claim(node, tmp_path):
    node.start(spec_of(tmp_path, token=7))
    node.await_epochs(1)
    stored = (tmp_path / "checkpoint" / "millstream" / LEASE).read_bytes()
    assert decode_lease(stored).claim == 7


def test_a_second_driver_is_not_started_beside_a_live_one(node, tmp_path):
    node.start(spec_of(tmp_path))
    node.await_epochs(1)
    with pytest.raises(BadRunFolder, match="CTL-115"):
        launch(node.folder, spec_of(tmp_path, token=2))


def test_a_run_that_holds_too_much_memory_is_killed_with_its_cause(node, tmp_path):
    node.start(spec_of(tmp_path, memory_limit=20 << 20))
    result = node.await_result()
    assert (result["status"], result["oom"], result["retry"]) == ("FAILED", True, "backoff")
    assert (result["error"]["code"], "of 20 MiB" in result["error"]["found"]) == ("CTL-120", True)


def test_a_run_that_is_cancelled_before_it_begins_does_not_begin(node, tmp_path):
    node.start(spec_of(tmp_path, secret_names=["NEVER_SENT"]))
    assert node.ask("c", "cancel")["done"]
    assert node.await_result()["status"] == "CANCELLED"
    assert node.states() == ["INITIALIZING", "CANCELLING", "CANCELLED"]


# Logs, dumps and places.


def test_logs_are_read_by_offset(node, tmp_path):
    node.start(spec_of(tmp_path))
    node.await_epochs(2)
    first = read_log(node.folder, "driver.log", 0, 100)
    assert (len(first.content), first.next_offset) == (100, 100)
    more = read_log(node.folder, "driver.log", first.next_offset)
    assert b"epoch published" in first.content + more.content
    assert read_log(node.folder, "driver.log", -10).content == read_log(node.folder, "driver.log", 0).content[-10:]
    assert read_log(node.folder, "driver.log", 10**9).content.startswith(first.content[:50])
    for name in ("../run.json", "nothing.log", "", "."):
        with pytest.raises(InvalidStep, match="CTL-116"):
            read_log(node.folder, name, 0)
    assert "driver.log" in log_names(node.folder)


def test_a_dump_shows_every_thread(node, tmp_path):
    node.start(spec_of(tmp_path))
    node.await_epochs(1)
    node.link.dump("d1")
    answers = node.until(lambda: [r for r in node.of("answer") if r.body["id"] == "d1"], "the dump")
    assert "local/run.py" in answers[0].body["text"]
    assert Path(answers[0].body["path"]).read_text() == answers[0].body["text"]
    node.link.level("debug")
    node.link.ping()
    dump_stacks(node.identity)
    crash = node.folder.logs / "crash.log"
    node.until(lambda: "local/run.py" in crash.read_text(), "the dump that needs no thread")
    count = len(node.of("epoch"))
    node.await_epochs(count + 1)


def test_a_report_that_cannot_be_taken_comes_again(node, tmp_path):
    told, failures = [], iter([True, False, True, True, False])

    def take(report):
        if report.type in {"graph", "result"} and next(failures, False):
            raise OSError("the database is away")
        told.append(report)

    spec = spec_of(tmp_path, document(tmp_path, rows=30, rate=10))  # it outlives what is refused of its first reports
    node.start(spec)
    node.link.close()
    link = node.link = DriverLink(node.folder, spec, node.identity, take)
    node.until(lambda: link.is_over, "the end")
    assert [report.seq for report in told if report.seq] == list(range(1, link.last_seq + 1))
    assert told[-1].type == "result"


def test_what_an_ended_driver_told_nobody_stands_in_its_journal(node, tmp_path):
    node.start(spec_of(tmp_path, document(tmp_path, rows=30, rate=10_000)))
    node.await_result()
    whole, told, failures = node.reports, [], iter([True, False, True])

    def take(report):
        if next(failures, False):
            raise OSError("the database is away")
        told.append(report)

    first = next(report for report in whole if report.type == "epoch")
    link = node.link = DriverLink(node.folder, node.spec, node.identity, take, from_seq=first.seq - 1)
    node.until(lambda: link.is_over, "the end")
    kept = [each for each in whole if each.type in {"state", "epoch", "answer", "result"} and each.seq >= first.seq]
    assert told == kept
    assert {"epoch", "result"} <= {each.type for each in told}


def test_nobody_else_may_look_into_the_folder(node, tmp_path):
    node.start(spec_of(tmp_path))
    node.await_epochs(1)
    assert oct(node.folder.root.stat().st_mode)[-3:] == "700"
    for path in (node.folder.spec, node.folder.socket, node.folder.identity, node.folder.journal, node.folder.log):
        assert oct(path.stat().st_mode)[-3:] == "600", path


def test_a_folder_may_lie_deep(tmp_path):
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    made = NodeSide(deep)
    try:
        assert len(str(made.folder.socket)) > 200
        made.start(spec_of(tmp_path, document(tmp_path, rows=5, rate=10_000)))
        assert made.await_result()["status"] == "COMPLETED"
    finally:
        made.close()


def test_the_journal_holds_what_must_not_be_missed(node, tmp_path):
    node.start(spec_of(tmp_path, document(tmp_path, rows=30, rate=10_000)))
    node.await_result()
    lines = [json.loads(line) for line in node.folder.journal.read_text().splitlines()]
    assert {line["type"] for line in lines} == {"state", "epoch", "result"}
    told = [report for report in node.reports if report.type in {"state", "epoch", "result"}]
    assert [line["seq"] for line in lines] == [report.seq for report in told]
