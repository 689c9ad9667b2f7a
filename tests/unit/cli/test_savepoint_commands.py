"""`millstream savepoint`: of running and stopped jobs, restored at another parallelism, and everything that looks at one."""

import json
import subprocess
import sys

import msgspec
import pytest

import millstream as ms
from millstream.checkpoint.lease_record import LEASE, decode_lease, encode_lease
from millstream.checkpoint.owner import ProcessIdentity
from millstream.checkpoint.savepoint import read_savepoint
from millstream.checkpoint.stores.local import LocalStore


def newest(folder):
    return {row["k"]: row["n"] for row in ms.read_files(folder).to_pylist()}


@pytest.fixture
def stopped(ticks, tmp_path):
    """The checkpoint of a job that was suspended; its savepoint is `tmp_path / "sp/savepoint-end"`."""
    result = ticks().suspend(tmp_path / "sp", id="end", timeout=30)
    assert result.ended == "suspended"
    return tmp_path / "checkpoint"


def test_a_running_job_goes_on(cli, ticks, tmp_path):
    running = ticks()
    first = json.loads(cli("savepoint", "create", tmp_path / "checkpoint", "--id", "one", "--json").stdout)
    again = json.loads(cli("savepoint", "create", tmp_path / "checkpoint", "--id", "one", "--json").stdout)
    assert first == again == {"id": "one", "savepoint": str(tmp_path / "checkpoint/savepoints/savepoint-one")}
    assert running.is_running
    assert read_savepoint(first["savepoint"]).kind == "canonical"


def test_a_stopped_job_gives_the_savepoint_that_it_gave_at_its_end(cli, stopped, tmp_path):
    result = cli("savepoint", "create", stopped, "--id", "off")
    assert result.stdout == f"savepoint {stopped}/savepoints/savepoint-off\n"
    a, b = (read_savepoint(path) for path in (tmp_path / "sp/savepoint-end", stopped / "savepoints/savepoint-off"))
    assert (a.epoch, a.history, a.plan, a.layouts) == (b.epoch, b.history, b.plan, b.layouts)
    assert cli("state", "diff", tmp_path / "sp/savepoint-end", stopped / "savepoints/savepoint-off").exit_code == 0
    assert cli("savepoint", "create", stopped, "--id", "off").exit_code == 0


def test_a_native_savepoint_of_a_stopped_job_is_restored(cli, stopped, ticks_file, tmp_path):
    assert cli("savepoint", "create", stopped, "--id", "off", "--native").exit_code == 0
    before = newest(tmp_path / "out")
    options = ["--checkpoint", tmp_path / "other", "--from-savepoint", stopped / "savepoints/savepoint-off"]
    assert _drained(cli, ticks_file(), *options, checkpoint=tmp_path / "other")["ended"] == "drained"
    assert all(newest(tmp_path / "out")[key] >= count for key, count in before.items())


def test_a_savepoint_is_restored_at_another_parallelism(cli, stopped, ticks_file, tmp_path):
    before = newest(tmp_path / "out")
    file, options = ticks_file(3), ["--from-savepoint", tmp_path / "sp/savepoint-end"]
    report = cli("savepoint", "verify", tmp_path / "sp/savepoint-end", "--job", file)
    assert report.exit_code == 0, report.stdout
    assert "can be restored" in report.stdout
    result = _drained(cli, file, "--checkpoint", tmp_path / "other", *options, checkpoint=tmp_path / "other")
    assert result["resumed_from"] is None
    assert sum(newest(tmp_path / "out").values()) == sum(before.values()) + result["rows_in"]


def _drained(cli, file, *options, checkpoint):
    """Run a job file in a process of its own until its first epoch is published, drain it, and give its result."""
    command = [sys.executable, "-m", "millstream.cli.main", "run", file, "--local", "-o", "json", *options]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline())["type"] == "epoch"
        assert cli("drain", checkpoint).exit_code == 0
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return json.loads(output.splitlines()[-1])


def test_a_checkpoint_whose_run_broke_off_is_refused(cli, ticks, tmp_path):
    running = ticks()
    checkpoint = tmp_path / "checkpoint"
    running.cancel(30)
    store = LocalStore(checkpoint / "millstream")
    stored = store.read(LEASE)
    gone = ProcessIdentity(host="elsewhere", pid=1)
    silent = msgspec.structs.replace(
        decode_lease(stored), is_released=False, is_settled=False, process=gone, renewed_at=0.0
    )
    assert store.swap(LEASE, stored, encode_lease(silent))
    result = cli("savepoint", "create", checkpoint)
    assert (result.exit_code, "CKPT-018" in result.stderr) == (5, True)


def test_list_inspect_and_diff(cli, stopped, tmp_path):
    assert cli("savepoint", "create", stopped, "--to", tmp_path / "sp", "--id", "other").exit_code == 0
    (tmp_path / "sp" / "broken").mkdir()
    (tmp_path / "sp" / "broken" / "savepoint.json").write_text("{")
    listed = [json.loads(line) for line in cli("savepoint", "list", tmp_path / "sp", "--json").stdout.splitlines()]
    assert [each.get("id") for each in listed] == ["end", "other", None]
    assert listed[2]["problem"]["code"] == "SAVE-003"
    assert listed[0]["keys"] == 7
    assert "UNREADABLE" in cli("savepoint", "list", tmp_path / "sp").stdout
    text = cli("savepoint", "inspect", tmp_path / "sp/savepoint-end").stdout
    assert "n: aggregate by (k long), 7 keys" in text
    assert json.loads(cli("savepoint", "inspect", tmp_path / "sp/savepoint-end", "--json").stdout)["id"] == "end"
    difference = cli("savepoint", "diff", tmp_path / "sp/savepoint-end", tmp_path / "sp/savepoint-other", "--json")
    assert json.loads(difference.stdout)["general"] == {}


def test_a_checkpoint_lists_the_savepoints_it_keeps(cli, stopped):
    assert cli("savepoint", "create", stopped, "--id", "kept").exit_code == 0
    listed = [json.loads(line) for line in cli("savepoint", "list", stopped, "--json").stdout.splitlines()]
    assert [each["id"] for each in listed] == ["kept"]


def test_verify_finds_damage(cli, stopped, tmp_path):
    assert cli("savepoint", "verify", tmp_path / "sp/savepoint-end").stdout.startswith("sound: ")
    file = next((tmp_path / "sp/savepoint-end/state").rglob("*.pages"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    result = cli("savepoint", "verify", tmp_path / "sp/savepoint-end")
    assert (result.exit_code, "SAVE-005" in result.stderr or "SAVE-004" in result.stderr) == (5, True)


def test_verify_names_the_state_that_no_step_takes(cli, stopped, ticks_file, tmp_path):
    file = ticks_file()
    file.write_text(file.read_text().replace('id="n"', 'id="m"'))
    result = cli("savepoint", "verify", tmp_path / "sp/savepoint-end", "--job", file, "--json")
    assert result.exit_code == 5
    lines = {(line["kind"], line["uid"]): line["level"] for line in json.loads(result.stdout)["lines"]}
    assert lines["state", "m"] == "new"
    assert lines["state", "n"] == "dropped"
    allowed = cli("savepoint", "verify", tmp_path / "sp/savepoint-end", "--job", file, "--allow-dropped-state")
    assert (allowed.exit_code, "can be restored" in allowed.stdout) == (0, True)


def test_dispose(cli, stopped, tmp_path):
    assert cli("savepoint", "dispose", tmp_path / "sp/savepoint-end").exit_code == 0
    assert not (tmp_path / "sp/savepoint-end").exists()
    result = cli("savepoint", "dispose", tmp_path)
    assert (result.exit_code, "SAVE-001" in result.stderr) == (5, True)
