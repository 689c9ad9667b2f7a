"""What SIGTERM and Ctrl-C do to a run, with real signals; the job is then resumed and compared with a run nobody stopped."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

import millstream as ms
from millstream.api.jobfile.load import load_job
from millstream.errors import InvalidPlan, InvalidStep
from millstream.plan.deployment import Deployment
from millstream.plan.serialize import from_json, to_json

MAIN = [sys.executable, "-m", "millstream.cli.main"]
JOB = """
import pathlib
import time
import millstream as ms

HERE = pathlib.Path(__file__).parent


def gated(row):
    # Half of the input is read before anyone may stop the job.
    if row["n"] >= 200:
        (HERE / "half").touch()
        while not (HERE / "gate").exists():
            time.sleep(0.01)
    return row


job = ms.Job("halves", rows_per_epoch=40, epoch_interval=0, OPTIONS)
rows = job.source("rows", ms.datagen(rows=400, fields={"n": {"kind": "sequence"}}))
rows = rows.map(gated, schema="n long", id="gated").with_columns(at="n * 100", k="n % 3")
windows = rows.event_time("at", id="time").key_by("k").window(ms.tumbling("7s"))
windows.aggregate(total=ms.sum("n"), id="sums").sink("out", ms.files(HERE / "out"))

if __name__ == "__main__":
    result = job.run(local=True, checkpoint=HERE / "checkpoint")
    print(result.ended)
"""


def written(folder, options=""):
    folder.mkdir(exist_ok=True)
    path = folder / "halves.py"
    path.write_text(JOB.replace("OPTIONS", options))
    return path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the job publishes when it is left alone."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "gate").touch()
    done = subprocess.run([sys.executable, str(written(folder))], capture_output=True, text=True, timeout=120)
    assert done.stdout == "finished\n", done.stderr
    return published(folder)


def published(folder):
    return Counter(tuple(sorted(row.items())) for row in ms.read_files(folder / "out").to_pylist())


@contextlib.contextmanager
def half_way(folder, command):
    """A process in the middle of its job; it goes on when `gate` is there."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Whoever runs the tests in the background may have switched Ctrl-C off, for every child too.
    with subprocess.Popen(
        command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **streams
    ) as process:
        try:
            deadline = time.monotonic() + 60
            while not (folder / "half").exists():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline, "the job did not come half way"
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


def stopped(folder, *options, number=signal.SIGTERM, job=""):
    """Run by the command, stop it half way; its exit code, its result and its lines on stderr."""
    command = [*MAIN, "run", str(written(folder, job)), "--local", "-o", "json"]
    with half_way(folder, [*command, "--checkpoint", str(folder / "checkpoint"), *options]) as process:
        process.send_signal(number)
        said = process.stderr.readline()
        (folder / "gate").touch()
        output, errors = process.communicate(timeout=60)
    return process.returncode, json.loads(output.splitlines()[-1]), [said.strip(), *errors.splitlines()]


def resumed(folder):
    command = [*MAIN, "run", str(folder / "halves.py"), "--local", "-o", "json", "--checkpoint"]
    done = subprocess.run([*command, str(folder / "checkpoint")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_and_the_same_command_goes_on(tmp_path, undisturbed, number):
    code, result, (first, last) = stopped(tmp_path, number=number)
    assert (code, result["ended"]) == (130, "cancelled")
    assert first.startswith("cancelling: what is not durable yet is done again")
    assert last.startswith("cancelled; resume with the same command: millstream run")
    assert f"millstream drain {tmp_path}/checkpoint" in last
    assert "--on-stop drain" in last
    assert "complete;" not in last
    assert sum(published(tmp_path).values()) < sum(undisturbed.values())
    assert resumed(tmp_path)["ended"] == "finished"
    assert published(tmp_path) == undisturbed


@pytest.mark.parametrize("where", ["command", "job"])
def test_a_signal_may_suspend(tmp_path, undisturbed, where):
    options, job = (["--on-stop", "suspend"], "") if where == "command" else ([], "on_stop='suspend'")
    code, result, (first, last) = stopped(tmp_path, *options, job=job)
    assert (code, result["ended"]) == (0, "suspended")
    assert first.startswith("suspending: taking a savepoint")
    assert f"suspended: savepoint {result['savepoint']}; resume with the same command" in last
    assert sum(published(tmp_path).values()) < sum(undisturbed.values())
    assert resumed(tmp_path)["ended"] == "finished"
    assert published(tmp_path) == undisturbed


def test_a_signal_may_drain_and_the_command_has_the_last_word(tmp_path, undisturbed):
    code, result, (first, last) = stopped(tmp_path, "--on-stop", "drain", job="on_stop='suspend'")
    assert (code, result["ended"]) == (0, "drained")
    assert first.startswith("draining: reading no more")
    assert last.startswith("drained: everything that was read is published, the job is complete")
    assert published(tmp_path) != undisturbed, "windows were closed early"
    assert resumed(tmp_path)["epochs"] == 0


def test_a_savepoint_that_cannot_be_written_does_not_keep_a_service_from_ending(tmp_path, undisturbed):
    in_the_way = tmp_path / "checkpoint" / "savepoints"
    in_the_way.parent.mkdir()
    in_the_way.write_text("not a folder")
    code, _, lines = stopped(tmp_path, "--on-stop", "suspend", "--tolerate-failures", "5")
    assert (code, lines[1][:15]) == (4, "error [RUN-014]")
    in_the_way.unlink()
    resumed(tmp_path)
    assert published(tmp_path) == undisturbed


def test_without_a_place_for_a_savepoint_a_run_is_cancelled(tmp_path):
    command = [*MAIN, "run", str(written(tmp_path, "on_stop='suspend'")), "--local", "-o", "json"]
    with half_way(tmp_path, command) as process:
        process.send_signal(signal.SIGTERM)
        assert process.stderr.readline().startswith("suspending")
        (tmp_path / "gate").touch()
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, json.loads(output.splitlines()[-1])["ended"]) == (130, "cancelled")
    assert "suspend could not be done, so the run does cancel: a savepoint needs a place" in errors
    assert errors.splitlines()[-1].startswith("cancelled; nothing is kept without --checkpoint DIR")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_a_program_that_runs_a_job_is_stopped_too(tmp_path, undisturbed, number, code):
    with half_way(tmp_path, [sys.executable, str(written(tmp_path))]) as process:
        process.send_signal(number)
        assert process.stderr.readline().startswith("cancelling")
        (tmp_path / "gate").touch()
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (code, ""), errors
    assert resumed(tmp_path)["resumed_from"] is not None
    assert published(tmp_path) == undisturbed


def test_a_program_gets_the_result_of_a_run_that_was_drained(tmp_path):
    path = written(tmp_path, "on_stop='drain'")
    with half_way(tmp_path, [sys.executable, str(path)]) as process:
        process.send_signal(signal.SIGTERM)
        assert process.stderr.readline().startswith("draining")
        (tmp_path / "gate").touch()
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "drained\n"), errors


def test_a_handler_of_the_program_stays_in_force():
    heard = []

    def noted(row):
        if row["n"] == 3:
            signal.raise_signal(signal.SIGTERM)
        return row

    job = ms.Job("own-handler")
    rows = job.source("rows", ms.datagen(rows=5, fields={"n": {"kind": "sequence"}}))
    rows.map(noted, schema="n long").sink("out", ms.collect("own-handler"))
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("mine"))
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        assert job.run(local=True).ended == "finished"
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == ["mine"]
    assert signal.getsignal(signal.SIGINT) is interrupt


FILE = """
job: small
on_stop: drain
steps:
  - source: rows
    from: {memory: {rows: []}}
    schema: n long
  - sink: out
    to: {collect: {name: small}}
"""


def small(**options):
    job = ms.Job("small", **options)
    job.source("rows", ms.memory([]), schema="n long").sink("out", ms.collect("small"))
    return job


def test_it_is_not_part_of_the_fingerprint():
    prints = {small(on_stop=way).compile().partitioned.fingerprint.whole for way in ("cancel", "suspend", "drain")}
    assert len(prints) == 1


def test_job_files_and_stored_plans_keep_it():
    job = load_job(FILE)
    assert job.compile().deployment.on_stop == "drain"
    assert ms.Job.from_json(job.to_json()).compile().deployment.on_stop == "drain"
    chosen = small(on_stop="drain").compile(Deployment(on_stop="cancel"))
    assert from_json(to_json(chosen)).deployment.on_stop == "cancel"
    assert from_json(to_json(small(on_stop="suspend").compile())).deployment.on_stop == "suspend"


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InvalidStep, match=r"RUN-020.*'later'.*cancel, drain, suspend"):
        small(on_stop="later")
    with pytest.raises(InvalidStep, match="RUN-020"):
        small().run(local=True, on_stop="now")
    with pytest.raises(InvalidPlan, match="RUN-021"):
        small().run(local=True, on_stop="suspend")
