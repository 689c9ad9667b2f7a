"""Savepoints of real runs over HTTP: what is known of them, whether they are sound, what fits them, how two differ."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import insert, update
from tests.unit.server.real import RealService, counting
from tests.unit.server.world import NOON

from millstream.control.act import acting
from millstream.control.dispatcher.verifying import verify_asked
from millstream.control.metadata.tables.access import operation
from millstream.control.metadata.tables.jobs import job_version
from millstream.control.metadata.tables.nodes import node
from millstream.control.metadata.tables.runs import savepoint


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A service with two savepoints of one run, the second native, and a job that was stopped behind them."""
    folder = tmp_path_factory.mktemp("saved")
    service = RealService(folder)
    service.submitted(counting(folder))
    run = service.started("counts")
    service.until(run, lambda seen: seen["processed_records"] > 50)
    for form in ("canonical", "native"):
        ended = service.done(
            service.client.post(f"/v1/runs/{run}/stop", json={"mode": "export_savepoint", "form": form})
        )
        assert ended["status"] == "done", ended
        seen = service.until(run, lambda _: True)["processed_records"]
        service.until(run, lambda now, seen=seen: now["processed_records"] > seen)
    service.done(service.client.post(f"/v1/runs/{run}/stop", json={"mode": "cancel"}))
    yield service
    service.close()


@pytest.fixture
def client(saved):
    return saved.be("admin")


def both(client):
    *_, native, canonical = client.get("/v1/savepoints?job=counts").json()["items"]
    return canonical, native


def verified(saved, client, number, **body):
    return saved.done(client.post(f"/v1/savepoints/{number}/verify", json=body))


def test_all_is_known_of_a_savepoint(client):
    canonical, native = both(client)
    assert (canonical["format"], native["format"]) == ("canonical", "native")
    shown = client.get(f"/v1/savepoints/{canonical['id']}").json()
    assert shown["epoch"] < native["epoch"]
    assert shown["lineage"] == native["lineage"]
    assert shown["fingerprint"] == client.get("/v1/jobs/counts").json()["fingerprint"]
    assert (shown["job_version"], shown["status"]) == (1, "READY")
    assert 0 < shown["age"] < 300
    files = [each for each in Path(shown["path"]).rglob("*") if each.is_file() and each.name != "savepoint.json"]
    assert shown["size"] == sum(each.stat().st_size for each in files) > 0


def test_a_record_and_the_difference_of_two(saved, client):
    canonical, native = both(client)
    record = saved.be("viewer").get(f"/v1/savepoints/{canonical['id']}/record").json()
    assert (record["id"], record["epoch"]) == (canonical["trigger_id"], canonical["epoch"])
    answer = client.get("/v1/savepoints/diff", params={"a": canonical["id"], "b": native["id"]})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["general"]["epoch"] == [canonical["epoch"], native["epoch"]]
    assert told["general"]["kind"] == ["canonical", "native"]
    assert [(each["uid"], each["presence"]) for each in told["steps"]] == [("n", "both")]
    assert told["steps"][0]["entries"][0] == 7
    assert list(told["sources"]) == ["s"]
    same = client.get("/v1/savepoints/diff", params={"a": native["id"], "b": native["id"]}).json()
    assert (same["general"], same["sources"]) == ({}, {})


def test_a_sound_savepoint(saved, client):
    canonical, native = both(client)
    for each in (canonical, native):
        ended = verified(saved, client, each["id"])
        assert ended["status"] == "done", ended
        assert ended["result"]["bytes"] == each["size"]
        assert ended["result"]["files"] > 0
        assert "compatibility" not in ended["result"]
        assert (ended["kind"], ended["target"]) == ("verify", f"savepoint:{each['id']}")


def verdicts(saved, client, number, **body):
    ended = verified(saved, client, number, **body)
    assert ended["status"] == "done", ended
    told = ended["result"]["compatibility"]
    return told, {(each["kind"], each["uid"]): each["level"] for each in told["lines"]}


def test_whether_a_job_fits(saved, client, tmp_path):
    canonical, native = both(client)
    told, lines = verdicts(saved, client, canonical["id"], job="counts")
    assert (told["is_same_plan"], told["is_restorable"], told["obstacle"]) == (True, True, None)
    assert (told["job"], told["version"]) == ("counts", 1)
    assert lines == {("state", "n"): "identical", ("source", "s"): "identical", ("sink", "o"): "identical"}
    changed = counting(tmp_path, kind="sum(value)")
    etag = client.get("/v1/jobs/counts").headers["etag"]
    body = {"dag_definition": changed, "settings": {"engine": "local"}}
    assert client.put("/v1/jobs/counts", json=body, headers={"If-Match": etag}).status_code == 200
    told, lines = verdicts(saved, client, canonical["id"], job="counts", version=2)
    assert (told["version"], told["is_restorable"], lines["state", "n"]) == (2, False, "incompatible")
    assert told["obstacle"]
    (line,) = [each for each in told["lines"] if each["kind"] == "state"]
    assert line["details"]
    told, _ = verdicts(saved, client, canonical["id"], job="counts", version=1, parallelism=3)
    assert (told["parallelism"], told["is_restorable"]) == (3, True)
    told, _ = verdicts(saved, client, native["id"], job="counts", version=1, parallelism=3)
    assert told["is_restorable"] is False


def test_what_is_dropped_may_be_allowed(saved, client, tmp_path):
    canonical, _ = both(client)
    changed = counting(tmp_path)
    changed["steps"] = [{**step, "id": "m"} if "aggregate" in step else step for step in changed["steps"]]
    etag = client.get("/v1/jobs/counts").headers["etag"]
    body = {"dag_definition": changed, "settings": {"engine": "local"}}
    version = client.put("/v1/jobs/counts", json=body, headers={"If-Match": etag}).json()["version"]
    told, lines = verdicts(saved, client, canonical["id"], job="counts", version=version)
    assert (lines["state", "n"], lines["state", "m"], told["is_restorable"]) == ("dropped", "new", False)
    told, _ = verdicts(saved, client, canonical["id"], job="counts", version=version, allow_dropped_state=True)
    assert told["is_restorable"] is True


def test_a_start_says_what_the_verdict_said(saved, client):
    canonical, native = both(client)
    for chosen, options, fits in (
        (native, {"parallelism": 3}, False),
        (canonical, {"parallelism": 3}, True),
    ):
        told, _ = verdicts(saved, client, chosen["id"], job="counts", version=1, **options)
        assert told["is_restorable"] is fits
        run = saved.started("counts", from_savepoint=chosen["path"], version=1, on_newer_output="keep", **options)
        seen = saved.until(run, lambda seen: seen["processed_records"] > 0 or seen["status"] == "DEAD")
        assert (seen["status"] != "DEAD") is fits, seen
        if fits:
            saved.done(client.post(f"/v1/runs/{run}/stop", json={"mode": "cancel"}))


def test_a_savepoint_of_another_job(saved, client, tmp_path):
    saved.submitted(counting(tmp_path, "other"))
    told, lines = verdicts(saved, client, both(client)[0]["id"], job="other")
    assert (told["is_restorable"], lines["state", "n"]) == (False, "identical")
    assert "another job, 'counts'" in told["obstacle"]


def test_versions_of_the_time_before_are_compiled_again(saved, client):
    with acting(saved.metadata) as act:
        matching = job_version.c.job_id == 1, job_version.c.version == 1
        act.connection.execute(update(job_version).where(*matching).values(plan={}))
    told, lines = verdicts(saved, client, both(client)[0]["id"], job="counts", version=1)
    assert (told["is_restorable"], lines["state", "n"]) == (True, "identical")


def copied(saved, client, name, **values):
    """A row of a savepoint, with files of its own."""
    canonical, _ = both(client)
    place = saved.folder / name
    shutil.copytree(canonical["path"], place)
    row = {"job_id": 1, "trigger_id": name, "format": "canonical", "path": str(place), "status": "READY"}
    with acting(saved.metadata) as act:
        added = insert(savepoint).values(**{**row, "create_time": act.now, **values}).returning(savepoint.c.id)
        return place, act.connection.execute(added).scalar_one()


def test_a_damaged_one(saved, client):
    place, number = copied(saved, client, "damaged")
    (page, *_) = place.rglob("*.pages")
    content = bytearray(page.read_bytes())
    content[len(content) // 2] ^= 1
    page.write_bytes(content)
    ended = verified(saved, client, number)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "SAVE-005")
    page.unlink()
    assert verified(saved, client, number)["error"]["code"] == "SAVE-004"
    (place / "savepoint.json").write_text("{}")
    assert verified(saved, client, number)["error"]["code"] in ("SAVE-002", "SAVE-003")
    answer = client.get(f"/v1/savepoints/{number}/record")
    assert (answer.status_code, answer.json()["code"][:5]) == (404, "SAVE-")
    shutil.rmtree(place)
    answer = client.get(f"/v1/savepoints/{number}/record")
    assert (answer.status_code, answer.json()["code"]) == (404, "CTL-056")


def test_one_whose_files_nobody_sees(saved, client):
    place, number = copied(saved, client, "away")
    shutil.rmtree(place)
    asked = client.post(f"/v1/savepoints/{number}/verify", json={}).json()["operation"]
    assert verify_asked(saved.metadata) == 0  # another process may see them
    assert client.get(f"/v1/operations/{asked}").json()["status"] == "pending"
    with acting(saved.metadata) as act:
        act.connection.execute(update(operation).where(operation.c.id == asked).values(create_time=NOON))
    assert saved.ended(asked)["error"]["code"] == "SAVE-001"


def test_one_that_was_disposed_of(saved, client):
    _place, number = copied(saved, client, "disposed", status="DISPOSED")
    for answer in (
        client.post(f"/v1/savepoints/{number}/verify", json={}),
        client.get(f"/v1/savepoints/{number}/record"),
        client.get(f"/v1/savepoints/diff?a={number}&b={number}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "REST-033")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"job": "nothing"}, 404, "CTL-024"),
        ({"job": "counts", "version": 99}, 404, "CTL-025"),
        ({"version": 1}, 422, "REST-040"),
        ({"job": "counts", "parallelism": 0}, 422, "REST-006"),
        ({"path": "/etc"}, 422, "REST-006"),
    ],
)
def test_what_is_refused(client, body, status, code):
    answer = client.post(f"/v1/savepoints/{both(client)[0]['id']}/verify", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    "path", ["/etc/passwd/record", "../1/record", "0/record", "diff", "diff?a=1", "diff?a=/etc&b=1"]
)
def test_only_numbers_name_savepoints(client, path):
    assert client.get(f"/v1/savepoints/{path}").status_code in (404, 422)


def test_who_may(saved):
    viewer = saved.be("viewer")
    assert viewer.get("/v1/savepoints/1").status_code == 200
    assert viewer.post("/v1/savepoints/1/verify", json={}).json()["code"] == "REST-011"
    assert saved.be("operator").post("/v1/savepoints/1/verify", json={}).status_code == 202


def test_the_same_key_verifies_once(client):
    key = {"Idempotency-Key": "verify-once"}
    first, again = (client.post("/v1/savepoints/1/verify", json={}, headers=key).json() for _ in range(2))
    assert first == again


def test_without_a_node(saved, client):
    with acting(saved.metadata) as act:
        before = act.connection.execute(node.select()).one()
        act.connection.execute(update(node).values(address="http://127.0.0.1:9"))
    try:
        answer = client.get("/v1/savepoints/1/record")
        assert (answer.status_code, answer.json()["code"]) == (502, "CTL-057")
    finally:
        with acting(saved.metadata) as act:
            act.connection.execute(update(node).values(address=before.address))
