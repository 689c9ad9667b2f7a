"""`drain`, `suspend` and `cancel` from another process: the answer, repeats, and what is said when nothing runs."""

import json

import pytest

import millstream as ms


def head_of(checkpoint):
    return json.loads((checkpoint / "millstream" / "head.json").read_bytes())["content"]


def total(folder):
    """How many rows the newest result of every key stands for."""
    return sum({row["k"]: row["n"] for row in ms.read_files(folder).to_pylist()}.values())


def test_drain_completes_the_job(cli, ticks, tmp_path):
    running = ticks()
    result = cli("drain", tmp_path / "checkpoint")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("drained: everything that was read is published")
    ended = running.wait(30)
    assert ended.ended == "drained"
    assert total(tmp_path / "out") == ended.rows_in
    assert "verdict: complete" in cli("doctor", tmp_path / "checkpoint").stdout


def test_cancel_ends_now_and_the_job_resumes(cli, ticks, tmp_path):
    first = ticks()
    assert json.loads(cli("cancel", tmp_path / "checkpoint", "--json").stdout)["action"] == "cancel"
    assert first.wait(30).ended == "cancelled"
    second = ticks()
    assert second.drain(30).resumed_from == len(first.epochs) - 1
    assert total(tmp_path / "out") == first.wait().rows_in + second.wait().rows_in


@pytest.mark.parametrize("form", [[], ["--native"]])
def test_suspend_leaves_a_savepoint_and_a_repeat_gives_the_same_answer(cli, ticks, tmp_path, form):
    running = ticks()
    command = ["suspend", tmp_path / "checkpoint", "--to", tmp_path / "sp", "--id", "nightly", "--json", *form]
    first = json.loads(cli(*command).stdout)
    assert running.wait(30).ended == "suspended"
    assert first == {"id": "nightly", "action": "suspend", "savepoint": str(tmp_path / "sp" / "savepoint-nightly")}
    assert json.loads(cli(*command).stdout) == first
    assert cli("savepoint", "verify", first["savepoint"]).exit_code == 0
    resumed = ticks()
    assert resumed.drain(30).resumed_from is not None
    assert total(tmp_path / "out") == running.wait().rows_in + resumed.wait().rows_in


@pytest.mark.parametrize("command", ["drain", "suspend", "cancel"])
def test_nothing_runs(cli, ticks, tmp_path, command):
    assert "CKPT-016" in cli(command, tmp_path / "checkpoint").stderr
    assert not (tmp_path / "checkpoint").exists()
    ticks().cancel(30)
    result = cli(command, tmp_path / "checkpoint")
    assert (result.exit_code, "CLI-007" in result.stderr) == (5, True)


def test_a_request_that_is_not_answered_is_taken_back(cli, ticks, tmp_path, monkeypatch):
    running = ticks()
    monkeypatch.setattr("millstream.jobmaster.requests.RequestBox.taken", lambda box: [])
    result = cli("cancel", tmp_path / "checkpoint", "--timeout", "300ms")
    assert (result.exit_code, "CLI-008" in result.stderr) == (4, True)
    assert list((tmp_path / "checkpoint" / "millstream" / "requests").glob("*.json")) == []
    assert running.is_running


def test_a_savepoint_that_cannot_be_taken_leaves_the_job_running(cli, ticks, tmp_path):
    running = ticks()
    place = tmp_path / "sp" / "savepoint-a"
    assert cli("savepoint", "create", tmp_path / "checkpoint", "--to", tmp_path / "sp", "--id", "a").exit_code == 0
    place.rename(tmp_path / "sp" / "savepoint-b")
    result = cli("suspend", tmp_path / "checkpoint", "--to", tmp_path / "sp", "--id", "b")
    assert (result.exit_code, "SAVE-006" in result.stderr) == (5, True)
    assert running.is_running
