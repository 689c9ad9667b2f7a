"""State over REST: read by the node that sees it, bounded, audited, and never by a path."""

import json
import shutil
import threading
from urllib.parse import quote

import httpx2
import pytest
import yaml
from sqlalchemy import delete, insert, select, update
from tests.unit.server.stored_world import StoredWorld
from tests.unit.server.test_client import Served
from typer.testing import CliRunner

from millstream.cli.main import app
from millstream.client import Client
from millstream.control.act import acting
from millstream.control.metadata.tables.access import audit
from millstream.control.metadata.tables.nodes import node
from millstream.control.metadata.tables.runs import run_event
from millstream.control.nodes.channel import ChannelServer
from millstream.control.nodes.placing import Places
from millstream.control.nodes.views import RunViews
from millstream.control.stored.readers import StoredReaders
from millstream.control.stored.views import StoredViews
from millstream.errors import CheckpointRefused

KEYS = ["", "a\x00b", "grüße/ü", "x@7", "../../etc/passwd", "ann, bob", "%2e%2e", "tab\there", "😀", "a" * 70_000]


@pytest.fixture(scope="module")
def world(tmp_path_factory, sqlite_template):
    folder = tmp_path_factory.mktemp("stored")
    shutil.copy(sqlite_template, folder / "metadata.db")
    made = StoredWorld(folder, f"sqlite:///{folder}/metadata.db")
    yield made
    made.close()


def odd_document(folder, name="odd"):
    """Keys that no path could hold, each with a value that is too large to be shown whole."""
    place = folder / name
    place.mkdir()
    rows = [{"k": key, "doc": key * 3 if len(key) < 100 else key * 2, "n": number} for number, key in enumerate(KEYS)]
    (place / "in.json").write_text("\n".join(map(json.dumps, rows)) + "\n")
    source = {
        "source": "rows",
        "from": {"files": {"path": str(place), "format": "json"}},
        "schema": "k string, doc string, n long",
    }
    count = {"aggregate": {"n": "count()", "doc": "max(doc)"}, "key_by": "k", "id": "newest"}
    return {
        "job": name,
        "steps": [source, count, {"sink": "o", "to": {"files": {"path": str(folder / f"{name}-out")}}}],
    }


def endless(folder, name="endless"):
    count = {"aggregate": {"n": "count()"}, "key_by": "k", "id": "n"}
    steps = [{"source": "s", "from": {"rate": {"rows_per_second": 200}}}, {"with_columns": {"k": "value % 7"}}, count]
    steps.append({"sink": "o", "to": {"files": {"path": str(folder / f"{name}-out")}}})
    return {"job": name, "epoch_interval": "30ms", "steps": steps}


@pytest.fixture(scope="module")
def odd(world):
    run = world.submit(odd_document(world.folder))
    world.until(run, lambda row: row.processed_records >= len(KEYS))
    return run


def test_steps_and_what_they_keep(world, odd):
    status, told = world.get(f"/state/{odd}")
    assert status == 200, told
    assert (told["job"], told["engine"]) == ("odd", "local")
    assert [(each["step"], each["key"], each["keys"]) for each in told["steps"]] == [("newest", "k string", len(KEYS))]


def test_odd_keys_are_found_and_shown(world, odd):
    _, told = world.get(f"/state/{odd}/newest")
    labels = {each["label"] for each in told["items"]}
    assert {key for key in KEYS if len(key) < 100} <= labels
    for key in KEYS:
        if len(key) < 100:
            query = {"key_json": json.dumps([key])} if "\0" in key else {"key": key}
            status, found = world.get(f"/state/{odd}/newest", **query)
            assert status == 200, found
            assert [each["key"] for each in found["items"]] == [{"k": key}], key
            assert found["items"][0]["values"]["n"] == 1
    status, found = world.get(f"/state/{odd}/newest", key="nobody")
    assert (status, found["items"]) == (200, [])


def test_what_is_huge_is_cut_and_said_so(world, odd):
    _, told = world.get(f"/state/{odd}/newest", prefix="aaaa")
    (entry,) = told["items"]
    assert entry["cut"] == {"key.k": 70_000, "doc": 140_000}
    assert entry["values"]["doc"] == "a" * 65_536
    assert len(entry["key"]["k"]) == 65_536
    assert len(entry["label"]) == 1024


def test_pages_follow_each_other_at_one_epoch(world, odd):
    seen, cursor = [], None
    for _ in range(len(KEYS) + 1):
        status, told = world.get(f"/state/{odd}/newest", limit=3, **({"cursor": cursor} if cursor else {}))
        assert status == 200
        assert len(told["items"]) <= 3
        seen += [each["label"] for each in told["items"]]
        cursor = told["next"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(key[:1024] for key in KEYS)
    _, first = world.get(f"/state/{odd}/newest", limit=3)
    status, told = world.get(f"/state/{odd}/newest", limit=3, prefix="x", cursor=first["next"])
    assert (status, told["code"]) == (422, "REST-024")


def test_a_prefix_and_one_state(world, odd):
    _, told = world.get(f"/state/{odd}/newest/n", prefix="x@")
    assert [(each["label"], each["values"]) for each in told["items"]] == [("x@7", {"n": 1})]
    status, told = world.get(f"/state/{odd}/newest/nothing")
    assert (status, told["code"]) == (404, "SAVE-013")
    assert told["details"]["known"] == "doc, n"


@pytest.mark.parametrize("step", ["nobody", "..", "../newest", "%2e%2e%2fnewest", "new\x00est"])
def test_an_unknown_step_names_the_known(world, odd, step):
    status, told = world.get(f"/state/{odd}/{quote(step, safe='')}")
    assert status in (404, 422), told
    if told["code"] == "SAVE-010":
        assert told["details"]["known"] == "newest"


@pytest.mark.parametrize(
    "where", ["..", "%2e%2e%2f", "/etc", "..%2f..%2fetc@1", "ZZ", "1@1@1", "a@-1", "x/../y", "7%00"]
)
def test_paths_are_no_names(world, odd, where):
    status, told = world.get(f"/state/{where}")
    assert status in (404, 422), told


def test_an_epoch_that_is_not_there(world, odd):
    newest = world.get(f"/state/{odd}")[1]["epoch"]
    status, told = world.get(f"/state/{odd}@{newest + 1_000_000}")
    assert (status, told["code"]) == (404, "CTL-143")
    assert told["details"]["known"] == f"epochs up to {newest}"
    status, told = world.get("/state/99999")
    assert (status, told["code"]) == (404, "REST-034")


def test_who_reads_stands_in_the_audit_and_viewers_do_not_read(world, odd):
    for role in ("viewer", "operator"):
        status, told = world.get(f"/state/{odd}/newest", role=role, key="x@7")
        assert (status, told["code"]) == (403, "REST-011")
        assert world.get(f"/state/{odd}", role=role)[0] == 403
        assert world.get("/state/diff", role=role, a=odd, b=odd)[0] == 403
    assert world.get(f"/state/{odd}/newest", role="editor", key_json='["a\\u0000b"]')[0] == 200
    with acting(world.metadata) as act:
        rows = act.connection.execute(select(audit).where(audit.c.action == "state.read").order_by(audit.c.id)).all()
    assert (rows[-1].actor, rows[-1].target) == ("editor", odd)
    assert rows[-1].after == {"what": "entries", "step": "newest", "key": ["a\ufffdb"]}


def test_a_running_job_is_read_while_its_epochs_are_pruned(world):
    run = world.submit(endless(world.folder), retained=2)
    world.until(run, lambda row: row.processed_records > 100)
    problems, counts = [], []

    def read():
        for _ in range(12):
            status, told = world.get(f"/state/{run}/n")
            if status == 503:
                continue  # the node reads for others
            (problems if status != 200 else counts).append(told)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(counts) > 10
    sums = [sum(each["values"]["n"] for each in told["items"]) for told in counts]
    epochs = [told["epoch"] for told in counts]
    assert [total for _, total in sorted(zip(epochs, sums, strict=True))] == sorted(sums)
    oldest = min(epochs)
    status, told = world.get(f"/state/{run}@{oldest}/n")
    assert (status, told["code"]) == (404, "CKPT-017")
    assert world.stopped(run, "cancel")["status"] == "done"
    status, told = world.get(f"/state/{run}")
    assert status == 200
    assert told["epoch"] == world.row(run).progress["epoch"]


def test_savepoints_and_differences(world):
    run = world.submit(endless(world.folder, "saved"), retained=100)
    world.until(run, lambda row: row.processed_records > 100)
    assert world.stopped(run, "export_savepoint")["status"] == "done"
    (saved,) = world.get("/savepoints", job="saved")[1]["items"]
    epoch = world.get(f"/state/{saved['id']}")[1]["epoch"]
    world.until(run, lambda row: row.progress["epoch"] > epoch + 3)
    _, told = world.get("/state/diff", a=str(saved["id"]), b=run)
    assert told["steps"][0]["a"] == told["steps"][0]["b"] > 0
    assert told["b"]["epoch"] > told["a"]["epoch"] == epoch
    _, told = world.get("/state/diff", a=str(saved["id"]), b=run, step="n", limit=3)
    assert {each["side"] for each in told["items"]} <= {"a", "b"}
    assert len(told["items"]) == 3 < told["more"] + 3
    newer = world.get(f"/state/{run}")[1]["epoch"]
    same = f"{run}@{newer}"
    assert world.get("/state/diff", a=same, b=same)[1]["steps"] == [{"step": "n", "a": 0, "b": 0}]
    world.stopped(run, "cancel")
    operation = world.app.delete(f"/v1/savepoints/{saved['id']}").json()["operation"]
    assert world.operation(operation)["status"] == "done"
    status, told = world.get(f"/state/{saved['id']}")
    assert (status, told["code"]) == (409, "REST-033")


def test_a_run_that_began_afresh_does_not_show_its_state_as_that_of_an_earlier_one(world):
    run = world.submit(endless(world.folder, "afresh"))
    world.until(run, lambda row: row.processed_records > 100)
    world.stopped(run, "cancel")
    assert world.get(f"/state/{run}")[0] == 200
    later = world.start("afresh", ignore_state_once=True, on_newer_output="truncate")
    world.until(later, lambda row: row.processed_records > 100)
    status, told = world.get(f"/state/{run}")
    assert (status, told["code"]) == (404, "CKPT-017"), told
    assert world.get(f"/state/{later}")[0] == 200
    world.stopped(later, "cancel")


def test_servers_find_the_node_that_sees_it(world, odd):
    """Two servers and a node that is neither; the node that had the run last is gone, another sees nothing."""
    readers = StoredReaders()
    places = Places(world.folder / "elsewhere")
    blind = ChannelServer(RunViews(lambda *_: None), StoredViews(world.metadata, places, lambda *_: {}, readers))
    with acting(world.metadata) as act:
        real = act.connection.execute(select(node)).one()
        for name, address in (("aa-silent", "http://127.0.0.1:1"), ("ab-blind", blind.address)):
            values = {**real._mapping, "id": name, "address": address, "channel_key": blind.key}
            act.connection.execute(insert(node).values(**values))
        last = {"execution_id": odd, "seq": 999, "time": act.now, "kind": "state", "to_status": "INITIALIZING"}
        last |= {"cause": "claimed", "actor": "node:aa-silent", "token": 9}
        act.connection.execute(insert(run_event).values(**last))
    try:
        for server in (world.app, world.server()):
            told = server.get(f"/v1/state/{odd}").json()
            assert told["steps"][0]["keys"] == len(KEYS)
        with acting(world.metadata) as act:
            act.connection.execute(update(node).where(node.c.id == real.id).values(address="http://127.0.0.1:1"))
        status, told = world.get(f"/state/{odd}")
        assert (status, told["code"]) == (404, "CKPT-016")
    finally:
        with acting(world.metadata) as act:
            act.connection.execute(update(node).where(node.c.id == real.id).values(address=real.address))
            act.connection.execute(delete(node).where(node.c.id != real.id))
        blind.close()
        readers.close()


def test_the_channel_answers_nobody_without_its_key(world):
    with acting(world.metadata) as act:
        address = act.connection.execute(select(node.c.address)).scalar_one()
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        assert httpx2.post(f"{address}/stored", content=b"{}", headers=headers, trust_env=False).status_code == 401


def test_the_client_reads(world, odd):
    with Served(world.service) as served, Client(served.url, world.tokens["editor"]) as client:
        assert [each.step for each in client.state.steps(odd, count=True).steps] == ["newest"]
        assert client.state.page(odd, "newest", key=["a\x00b"]).items[0].values["n"] == 1
        assert client.state.page(odd, "newest", state="n", key=["x@7"]).items[0].values == {"n": 1}
        assert {each.label for each in client.state.entries(odd, "newest")} == {key[:1024] for key in KEYS}
        assert client.state.diff(odd, odd).steps[0].a == 0
        with pytest.raises(CheckpointRefused) as refusal:
            client.state.page(odd, "nobody")
        assert (refusal.value.code, refusal.value.known) == ("SAVE-010", "newest")


def test_the_command_line_takes_a_name_where_it_takes_a_path(world, odd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with Served(world.service) as served:
        monkeypatch.setenv("MILLSTREAM_URL", served.url)
        monkeypatch.setenv("MILLSTREAM_TOKEN", world.tokens["editor"])

        def cli(*words, code=0):
            result = CliRunner().invoke(app, ["state", *words])
            assert result.exit_code == code, (result.stdout, result.stderr)
            return result.stdout

        assert cli("ls", "odd").startswith("odd, epoch ")
        assert json.loads(cli("ls", "odd", "-o", "json"))["keys"] == len(KEYS)
        assert yaml.safe_load(cli("ls", f"{odd}@0", "-o", "yaml"))[0]["step"] == "newest"
        (found,) = [json.loads(line) for line in cli("get", "odd", "newest", "x@7", "--json").splitlines()]
        assert (found["key"], found["values"]["n"]) == ({"k": "x@7"}, 1)
        assert "(140,000 bytes)" in cli("get", "odd", "newest", "--prefix", "aaaa", "--state", "doc")
        assert len(cli("get", "odd", "newest", "-o", "json", "--limit", "4").splitlines()) == 4
        assert cli("get", "odd", "newest", "nobody", code=1) is not None
        assert "newest" in cli("diff", "odd", "odd@0", code=0)
        assert cli("get", "nobody", "newest", code=3) == ""
