"""Dead letters over REST: grouped, read with what may be shown of them, replayed once, removed."""

import json
import shutil

import pytest
import yaml
from sqlalchemy import select
from tests.unit.server.stored_world import StoredWorld
from tests.unit.server.stored_world import until as awaited
from tests.unit.server.test_client import Served
from typer.testing import CliRunner

from millstream.cli.main import app
from millstream.client import Client
from millstream.control.act import acting
from millstream.control.metadata.tables.access import audit
from millstream.errors import InvalidStep

BAD = 3


def until(look):
    """Every look starts a process, so they are not many."""
    return awaited(look, pause=0.5)


@pytest.fixture(scope="module")
def world(tmp_path_factory, sqlite_template):
    folder = tmp_path_factory.mktemp("letters")
    shutil.copy(sqlite_template, folder / "metadata.db")
    made = StoredWorld(folder, f"sqlite:///{folder}/metadata.db")
    yield made
    made.close()


def document(folder, name):
    """An endless stream, a few rows of which have no event time; they hold a password and much text."""
    columns = {
        "at": f"CASE WHEN value < {BAD} THEN 1700000000000000 ELSE 1700000000000 + value END",
        "password": "'hunter2-hunter2'",
        "doc": "rpad('', 5000, 'x')",
    }
    letters = {"dead_letter": {"files": {"path": str(folder / f"{name}-dead"), "format": "json"}}}
    steps = [
        {"source": "s", "from": {"rate": {"rows_per_second": 100}}},
        {"with_columns": columns},
        {"event_time": "at", "id": "time", "on_error": letters},
        {"sink": "o", "to": {"files": {"path": str(folder / f"{name}-out")}}},
    ]
    return {"job": name, "epoch_interval": "50ms", "steps": steps}


@pytest.fixture(scope="module")
def running(world):
    run = world.submit(document(world.folder, "bad"))
    until(lambda: len(world.get("/dead-letters", run=run)[1]["items"]) and world.row(run).processed_records > 50)
    return run


def group(world, **query):
    status, told = world.get("/dead-letters/groups", **query)
    assert status == 200, told
    return told["groups"][0] if told["groups"] else None


def test_groups_by_step_and_reason(world, running):
    status, told = world.get("/dead-letters/groups", role="viewer", job="bad")
    assert status == 200, told
    assert (told["job"], told["state"], told["more"], told["unreadable"]) == ("bad", "running", 0, [])
    (found,) = told["groups"]
    assert (found["step"], found["reason"], found["count"], found["new"]) == ("time", "column 'at'", BAD, BAD)
    assert found["first"] <= found["last"]
    assert group(world, run=running)["count"] == BAD
    assert world.get("/dead-letters/groups")[1]["code"] == "CTL-147"
    status, told = world.get("/dead-letters/groups", job="bad", step="nobody")
    assert (status, told["code"], told["details"]["known"]) == (422, "DLQ-001", "time")


def test_what_is_shown_of_a_letter_is_bounded_and_masked(world, running):
    items = world.get("/dead-letters", job="bad")[1]["items"]
    assert sum(each["count"] for each in items) == BAD
    assert {each["step"] for each in items} == {"time"}
    shown = [world.get(f"/dead-letters/{each['id']}")[1] for each in items]
    letters = [letter for each in shown for letter in each["letters"]]
    assert len(letters) == BAD
    for letter in letters:
        assert len(letter["record"].encode()) == 4096
        assert letter["cut"]["record"] > 5000
        assert "no event time" in letter["error"]
    whole = [each for row in items for each in world.get(f"/dead-letters/{row['id']}", whole=True)[1]["letters"]]
    assert all(each["record"].endswith('"}') and each["cut"] == {} for each in whole)
    assert "hunter2" not in str(whole)
    assert all('"password": "***"' in each["record"] for each in whole)
    status, told = world.get("/dead-letters/987654")
    assert (status, told["code"]) == (404, "REST-043")


def test_pages_of_letters_newest_first(world, running):
    status, first = world.get("/jobs/bad/dead-letters", limit=2, step="time")
    assert status == 200, first
    _, rest = world.get("/jobs/bad/dead-letters", limit=2, step="time", cursor=first["next"])
    assert (len(first["items"]), len(rest["items"]), first["total"], rest["next"]) == (2, BAD - 2, BAD, None)
    times = [each["at"] for each in first["items"] + rest["items"]]
    assert times == sorted(times, reverse=True)
    letter = first["items"][0]["id"]
    assert [each["id"] for each in world.get("/jobs/bad/dead-letters", ids=letter)[1]["items"]] == [letter]
    status, told = world.get("/jobs/bad/dead-letters", ids="ffffnobody")
    assert (status, told["code"]) == (422, "DLQ-006")


def test_who_may_what(world, running):
    assert world.get("/jobs/bad/dead-letters", role="operator")[0] == 403
    assert world.get("/dead-letters/1", role="viewer")[0] == 403
    for act in ("replay", "purge"):
        status, told = world.post(f"/dead-letters/{act}", {"job": "bad"}, role="viewer")
        assert (status, told["code"]) == (403, "REST-011")
    assert world.get("/jobs/bad/dead-letters", role="editor")[0] == 200
    with acting(world.metadata) as act:
        rows = act.connection.execute(select(audit.c.actor, audit.c.target, audit.c.action)).all()
    assert ("editor", "bad", "dead_letters.read") in rows


def test_replay_of_a_running_job_is_tried_and_done_once(world, running):
    letter = world.get("/jobs/bad/dead-letters", step="time")[1]["items"][0]["id"]
    body = {"job": "bad", "step": "time", "ids": [letter]}
    status, tried = world.post("/dead-letters/replay", {**body, "dry_run": True}, role="operator")
    assert (status, tried["replayed"], tried["before"], tried["state"]) == (200, 1, 0, "running")
    assert group(world, job="bad")["new"] == BAD
    status, opened = world.post("/dead-letters/replay", body, role="operator")
    assert status == 202
    told = world.operation(opened["operation"])
    assert (told["status"], told["result"]["replayed"], told["result"]["before"]) == ("done", 1, 0)
    # Its step refuses it again: a letter of a second attempt tells that the row went through.
    until(lambda: group(world, job="bad")["count"] == BAD + 1)
    again = world.get("/jobs/bad/dead-letters", step="time")[1]["items"][0]
    assert (again["attempt"], again["origin"].partition(",")[0]) == (2, f"attempt 2 of {letter}")
    told = world.operation(world.post("/dead-letters/replay", body)[1]["operation"])
    assert (told["result"]["replayed"], told["result"]["before"]) == (0, 1)


def test_replayed_by_names_the_operation(world, running):
    opened = world.post("/dead-letters/replay", {"run": running, "reason": "column 'at'"})[1]["operation"]
    assert world.operation(opened)["status"] == "done"
    rows = world.get("/dead-letters", job="bad")[1]["items"]
    assert {each["replayed_by"] for each in rows[-1:]} == {opened}
    with acting(world.metadata) as act:
        found = act.connection.execute(select(audit).where(audit.c.action == "dead_letters.replay")).all()
    assert found[-1].after == {"run": running, "reason": "column 'at'"}


def test_the_same_key_asks_once(world, running):
    headers = {"Idempotency-Key": "again"}
    answers = [world.app.post("/v1/dead-letters/replay", json={"job": "bad"}, headers=headers) for _ in range(2)]
    assert answers[0].json() == answers[1].json()


def test_an_act_that_cannot_be_done_says_why(world, running):
    told = world.operation(world.post("/dead-letters/replay", {"job": "bad", "step": "nobody"})[1]["operation"])
    assert (told["status"], told["error"]["code"]) == ("failed", "DLQ-001")
    status, told = world.post("/dead-letters/purge", {"job": "bad", "run": running})
    assert (status, told["code"]) == (422, "CTL-147")


def test_a_stopped_job_waits_for_its_next_run_and_what_waits_is_not_removed(world):
    run = world.submit(document(world.folder, "held"))
    until(lambda: world.get("/dead-letters", run=run)[1]["items"] and world.row(run).processed_records > 50)
    world.stopped(run, "cancel")
    told = world.operation(world.post("/dead-letters/replay", {"job": "held"})[1]["operation"])
    assert (told["status"], told["result"]["replayed"], told["result"]["state"]) == ("done", BAD, "stopped")
    assert group(world, job="held")["waiting"] == BAD
    tried = world.post("/dead-letters/purge", {"job": "held", "dry_run": True})[1]
    assert (tried["removed"], tried["waiting"]) == (0, BAD)
    later = world.start("held")
    until(lambda: group(world, job="held")["replayed"] == BAD)
    world.stopped(later, "cancel")
    tried = world.post("/dead-letters/purge", {"job": "held", "replayed": True, "dry_run": True})[1]
    assert tried["removed"] == BAD
    told = world.operation(world.post("/dead-letters/purge", {"job": "held", "replayed": True})[1]["operation"])
    assert (told["status"], told["result"]["removed"]) == ("done", BAD)
    assert group(world, job="held")["replayed"] == 0


def test_the_client(world, running):
    with Served(world.service) as served, Client(served.url, world.tokens["editor"]) as client:
        groups = client.dead_letters.groups(job="bad")
        assert groups.groups[0].step == "time"
        letters = list(client.dead_letters.read("bad", step="time"))
        assert len(letters) == groups.groups[0].count
        row = next(client.dead_letters.list(job="bad"))
        assert client.dead_letters.get(row.id).letters
        tried = client.dead_letters.try_replay(job="bad", step="time")
        assert tried.replayed + tried.before == len(letters)
        assert client.wait(client.dead_letters.replay(job="bad", step="time")).status == "done"
        assert client.dead_letters.try_purge(job="bad", older_than=3600.0).removed == 0
        assert client.wait(client.dead_letters.purge(job="bad", older_than=3600.0)).result["removed"] == 0
        with pytest.raises(InvalidStep):
            client.dead_letters.groups(job="bad", step="nobody")


def test_the_command_line_takes_a_name_where_it_takes_a_job_file(world, running, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with Served(world.service) as served:
        monkeypatch.setenv("MILLSTREAM_URL", served.url)
        monkeypatch.setenv("MILLSTREAM_TOKEN", world.tokens["editor"])

        def cli(*words, code=0):
            result = CliRunner().invoke(app, ["dlq", *words])
            assert result.exit_code == code, (result.stdout, result.stderr)
            return result.stdout

        assert "column 'at'" in cli("ls", "bad")
        (found,) = yaml.safe_load(cli("show", "bad", "time", "--limit", "1", "-o", "yaml"))
        assert "hunter2" not in found["record"]
        told = json.loads(cli("replay", "bad", "time", "--dry-run", "-o", "json"))
        assert (told["job"], told["refused"]) == ("running", 0)
        assert "letters are to be replayed" in cli("replay", "bad", "time", "--id", found["id"])
        assert cli("purge", "bad", "time", "--older-than", "7d", "--dry-run") == "0 letters would be removed\n"
        assert cli("purge", "bad", "time", "--older-than", "7d", "--yes").splitlines()[0].split() == ["removed", "0"]
        cli("show", "bad", "nobody", code=3)
