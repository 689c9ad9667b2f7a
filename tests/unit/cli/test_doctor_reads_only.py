"""`doctor CHECKPOINT` without --repair leaves everything as it was, to the moment it was last changed; whatever is damaged."""

import json
import os
import sqlite3

import pytest
from tests.safety.crafted import resealed
from tests.servers.stores import KINDS, empty_store_url, shared_postgres
from tests.unit.spark.spark_files import write_checkpoint

from millstream.checkpoint.stores.memory import MemoryStore
from millstream.checkpoint.stores.open import open_store
from millstream.checkpoint.stores.read_only import ReadOnlyStore
from millstream.errors import CheckpointRefused
from millstream.inspect.checkpoint import open_view

WHAT = ("head", "lease", "manifest", "older manifest", "state", "source")
HOW = ("missing", "empty", "cut", "changed")
REQUESTS = {
    "unreadable request": ("requests/one.json", b"{"),
    "crafted request": ("requests/two.json", b'{"id": "../x", "action": "savepoint"}'),
    "waiting request": ("requests/three.json", b'{"id": "three", "action": "drain"}'),
    "damaged answer": ("answers/one.json", b"{"),
    "stray manifest": ("manifests/x/notes.txt", b"?"),
}


@pytest.fixture
def checkpoint(cli, job_file, tmp_path):
    """A checkpoint of a job that is complete, with several epochs."""
    text = job_file.read_text().replace('"orders", parallelism', '"orders", rows_per_epoch=1, parallelism')
    job_file.write_text(text)
    assert cli("run", job_file, "--local", "--checkpoint", tmp_path / "c").exit_code == 0
    return tmp_path / "c"


def stamped(folder):
    """Every file and folder with its content, size and the times of its last change."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        stat = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path)] = (content, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_mode)
    return found


def damaged(checkpoint, what, how):
    head = json.loads((checkpoint / "millstream" / "head.json").read_bytes())["content"]
    names = sorted((checkpoint / "millstream" / "manifests").rglob("*.json"))
    file = {
        "head": checkpoint / "millstream" / "head.json",
        "lease": checkpoint / "millstream" / "lease.json",
        "manifest": checkpoint / "millstream" / head["manifest"],
        "older manifest": names[0],
        "state": max((checkpoint / "local").rglob("state-*")),
        "source": checkpoint / "sources" / head["lineage"] / "in",
    }[what]
    if what == "source":
        file.rename(file.with_name("elsewhere"))
        return
    content = file.read_bytes()
    match how:
        case "missing":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "cut":
            file.write_bytes(content[: len(content) // 2])
        case "changed":
            file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])


def looks(cli, folder, *arguments):
    """Run the doctor and see that nothing is other than before."""
    before = stamped(folder)
    results = [cli("doctor", *arguments), cli("doctor", *arguments, "-o", "json")]
    for result in results:
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert stamped(folder) == before
    return results


def test_a_whole_checkpoint_is_left_as_it_is(cli, checkpoint):
    text, as_json = looks(cli, checkpoint, checkpoint)
    assert (text.exit_code, json.loads(as_json.stdout)["ok"]) == (0, True)


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("how", HOW)
def test_damage_is_left_as_it_is(cli, checkpoint, what, how):
    damaged(checkpoint, what, how)
    _, as_json = looks(cli, checkpoint, checkpoint)
    assert json.loads(as_json.stdout)["remarks"]


@pytest.mark.parametrize("what", REQUESTS)
def test_requests_are_not_answered(cli, checkpoint, what):
    name, content = REQUESTS[what]
    if what == "stray manifest":
        name = name.replace("/x/", f"/{open_view(checkpoint).head().lineage}/")
    open_store(checkpoint / "millstream").create(name, content)
    _, as_json = looks(cli, checkpoint, checkpoint)
    remarks = json.loads(as_json.stdout)["remarks"]
    shown = {
        "unreadable request": ("request", "note", "STEP-094"),
        "crafted request": ("request", "note", "STEP-094"),
        "waiting request": ("request", "note", None),
        "stray manifest": ("manifests", "problem", "CKPT-062"),
    }
    if what in shown:
        assert shown[what] in [(each["part"], each["status"], each["code"]) for each in remarks]


def test_a_damaged_head_without_manifests_is_explained(cli, checkpoint):
    damaged(checkpoint, "head", "cut")
    for path in (checkpoint / "millstream" / "manifests").rglob("*.json"):
        path.unlink()
    _, as_json = looks(cli, checkpoint, checkpoint)
    assert json.loads(as_json.stdout)["verdict"].startswith("refused because of the head")


@pytest.mark.parametrize("entry", ["metadata", "offsets/3", "commits/3", "state/0/_metadata/v2/0"])
def test_damage_of_sparks_files_is_left_as_it_is(cli, checkpoint, entry):
    view = open_view(checkpoint)
    manifest = view.manifest()
    stored = checkpoint / "millstream" / view.head().manifest
    resealed(stored, lambda content: content.update(engine="spark"))
    folder = write_checkpoint(checkpoint / "spark" / manifest.lineage, committed=3)
    (folder / entry).write_bytes(b"")
    _, as_json = looks(cli, checkpoint, checkpoint)
    assert "spark" in [each["part"] for each in json.loads(as_json.stdout)["remarks"]]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "local"])
def test_other_stores_are_left_as_they_are(cli, job_file, tmp_path, monkeypatch, kind):
    url = empty_store_url(kind, tmp_path / "stores", monkeypatch)
    if kind == "sqlite":
        (tmp_path / "stores").mkdir()
    checkpoint, store = tmp_path / "c", open_store(url)
    store.create("first", b"")  # the S3 server of the tests makes a bucket with its first object
    assert cli("run", job_file, "--local", "--checkpoint", checkpoint, "--manifests", url).exit_code == 0
    store.create("requests/one.json", b"{")
    store.close()
    before = rows_of(kind, url)
    _, as_json = looks(cli, tmp_path, checkpoint, "--manifests", url)
    assert "STEP-094" in as_json.stdout
    assert rows_of(kind, url) == before


def rows_of(kind, url):
    """What the store holds, and, in PostgreSQL, which transaction wrote it."""
    if kind == "postgres":
        return sorted(shared_postgres().execute("SELECT store, name, content, xmin::text FROM millstream_objects"))
    store = open_store(url) if kind == "s3" else None
    return [] if store is None else [(name, store.read(name)) for name in store.names("")]


def test_a_log_that_sqlite_has_not_merged_is_read_and_left(cli, job_file, tmp_path):
    """After a crash the newest objects stand in the log beside the database alone."""
    url, checkpoint = f"sqlite:///{tmp_path}/store.db", tmp_path / "c"
    assert cli("run", job_file, "--local", "--checkpoint", checkpoint, "--manifests", url).exit_code == 0
    held = sqlite3.connect(tmp_path / "store.db")
    held.execute("PRAGMA wal_autocheckpoint = 0")
    held.execute(
        "INSERT INTO millstream_objects (store, name, content, writer) VALUES ('default', 'requests/one.json', x'7b', '')"
    )
    held.commit()
    for name in ("store.db", "store.db-wal"):
        (tmp_path / f"kept-{name}").write_bytes((tmp_path / name).read_bytes())
    held.close()
    for name in ("store.db", "store.db-wal"):
        os.replace(tmp_path / f"kept-{name}", tmp_path / name)
    _, as_json = looks(cli, tmp_path, checkpoint, "--manifests", url)
    assert "STEP-094" in as_json.stdout


def test_a_read_only_store_refuses_every_write():
    inner = MemoryStore()
    inner.create("a", b"one")
    store = ReadOnlyStore(inner)
    for attempt in (
        lambda: store.create("b", b"x"),
        lambda: store.swap("a", b"one", b"two"),
        lambda: store.swap("b", None, b"x"),
        lambda: store.delete("a"),
    ):
        with pytest.raises(CheckpointRefused, match="CKPT-064"):
            attempt()
    assert (store.read("a"), store.names(""), inner.names("")) == (b"one", ["a"], ["a"])


def test_a_state_that_is_read_is_left_as_it_is(cli, checkpoint):
    before = stamped(checkpoint)
    assert cli("state", "ls", checkpoint).exit_code == 0
    assert stamped(checkpoint) == before
