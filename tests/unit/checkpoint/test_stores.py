import multiprocessing
import os
from pathlib import Path

import pytest

from millstream.checkpoint.stores.local import LocalStore
from millstream.checkpoint.stores.memory import MemoryStore


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "deep" / "er")


def test_names_are_created_once(store):
    assert store.create("manifests/1", b"one")
    assert not store.create("manifests/1", b"two")
    assert store.read("manifests/1") == b"one"
    assert store.read("manifests/2") is None
    assert store.create("manifests/empty", b"")
    assert store.read("manifests/empty") == b""


def test_names_are_sorted_and_deletion_is_idempotent(store):
    for name in ("a/3", "a/1", "b/1", "a/2"):
        store.create(name, b"")
    assert store.names("a/") == ["a/1", "a/2", "a/3"]
    store.delete("a/2")
    store.delete("a/2")
    assert store.names("a/") == ["a/1", "a/3"]
    assert store.names("none/") == []
    assert store.create("a/2", b"again")


def files(root):
    return sorted(path.name for path in root.rglob("*") if path.is_file())


def test_no_temporary_file_stays(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    store.create("m/1", b"x")
    store.create("m/1", b"y")
    assert files(tmp_path) == ["1"]

    def full(_):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        store.create("m/2", b"x")
    assert files(tmp_path) == ["1"]
    assert store.names("m/") == ["m/1"]


def test_file_and_directory_reach_the_disk(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(str(Path(f"/proc/self/fd/{handle}").readlink())), fsync(handle))
    )
    LocalStore(tmp_path).create("m/1", b"x")
    assert synced[0] == str(tmp_path)
    assert synced[1].startswith(str(tmp_path / "m" / ".1."))
    assert synced[2] == str(tmp_path / "m")


def test_files_that_were_left_by_a_crash_are_not_listed(tmp_path):
    store = LocalStore(tmp_path)
    store.create("m/1", b"x")
    (tmp_path / "m" / ".2.abcd").write_bytes(b"half")
    assert store.names("m/") == ["m/1"]


def race(root, who, start, results):
    store = LocalStore(root)
    start.wait()
    results.put((who, [number for number in range(60) if store.create(f"m/{number}", bytes([who]) * 10_000)]))


def test_two_processes_never_both_create_a_name(tmp_path):
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    workers = [context.Process(target=race, args=(tmp_path, who, start, results)) for who in (1, 2)]
    for worker in workers:
        worker.start()
    start.set()
    won = dict(results.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join(60)
    assert sorted(won[1] + won[2]) == list(range(60))
    store = LocalStore(tmp_path)
    for who, numbers in won.items():
        assert all(store.read(f"m/{number}") == bytes([who]) * 10_000 for number in numbers)
    assert len(files(tmp_path)) == 60
