"""What only a store in a directory promises: the order of syncs, what a crash leaves, locks between processes."""

import errno
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from millstream.checkpoint.stores.local import LOCK_FILE, LocalStore, locked, make_directory
from millstream.errors import ExternalFailure


def files(root):
    return sorted(path.name for path in root.rglob("*") if path.is_file() and path.name != LOCK_FILE)


@pytest.fixture
def synced(monkeypatch):
    """What was synced, in order: the path behind each handle and the names that its directory showed then."""
    seen, fsync = [], os.fsync

    def watch(handle):
        seen.append(Path(f"/proc/self/fd/{handle}").readlink())
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watch)
    return seen


def failing_sync(monkeypatch, fails):
    """Let `fsync` fail with an input/output error where `fails(path)`."""
    fsync = os.fsync

    def broken(handle):
        if fails(Path(f"/proc/self/fd/{handle}").readlink()):
            raise OSError(errno.EIO, "input/output error")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", broken)


def test_create_syncs_new_folders_then_the_file_then_its_directory(tmp_path, synced):
    store = LocalStore(tmp_path / "new" / "root")
    assert synced == [tmp_path, tmp_path / "new"]
    synced.clear()
    store.create("a/b/1", b"x")
    root = tmp_path / "new" / "root"
    assert synced[:2] == [root, root / "a"]
    assert synced[2].parent == root / "a" / "b"
    assert synced[2].name.startswith(".")
    assert synced[3:] == [root / "a" / "b"]


def test_swap_and_delete_sync_what_they_changed(tmp_path, synced):
    store = LocalStore(tmp_path)
    store.create("m/1", b"one")
    synced.clear()
    assert store.swap("m/1", b"one", b"two")
    assert synced[0].parent == tmp_path / "m"
    assert synced[0].name.startswith(".")
    assert synced[1:] == [tmp_path / "m"]
    synced.clear()
    store.delete("m/1")
    assert synced == [tmp_path / "m"]


def test_no_temporary_file_stays(tmp_path):
    store = LocalStore(tmp_path)
    store.create("m/1", b"x")
    store.create("m/1", b"y")
    store.swap("m/1", b"x", b"z")
    store.swap("m/1", b"x", b"z")
    assert files(tmp_path) == ["1"]


def test_a_file_that_does_not_reach_the_disk_is_never_visible(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    store.create("m/1", b"one")
    failing_sync(monkeypatch, lambda path: path.is_file())
    with pytest.raises(OSError, match="input/output"):
        store.create("m/2", b"x")
    with pytest.raises(OSError, match="input/output"):
        store.swap("m/1", b"one", b"two")
    assert files(tmp_path) == ["1"]
    assert store.read("m/1") == b"one"


def test_a_name_that_does_not_reach_the_disk_is_taken_back(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    store.create("m/1", b"one")
    failing_sync(monkeypatch, lambda path: path.is_dir())
    with pytest.raises(OSError, match="input/output"):
        store.create("m/2", b"x")
    assert store.names("") == ["m/1"]
    assert files(tmp_path) == ["1"]


def test_a_swap_that_may_not_last_is_an_error(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    store.create("m/1", b"one")
    failing_sync(monkeypatch, lambda path: path.is_dir())
    with pytest.raises(OSError, match="input/output"):
        store.swap("m/1", b"one", b"two")


def test_what_a_crash_left_is_no_object(tmp_path):
    store = LocalStore(tmp_path)
    store.create("m/1", b"x")
    (tmp_path / "m" / ".0123abcd").write_bytes(b"half")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "1").write_bytes(b"other")
    assert LocalStore(tmp_path).names("") == ["m/1"]
    assert store.create("m/2", b"y")


def race(root, who, start, results):
    store = LocalStore(root)
    start.wait()
    made = [number for number in range(40) if store.create(f"m/{number}", bytes([who]) * 10_000)]
    for _ in range(40):
        while True:
            seen = store.read("counter")
            if store.swap("counter", seen, str(int(seen) + 1).encode()):
                break
    results.put((who, made))


def test_processes_never_both_win(tmp_path):
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    LocalStore(tmp_path).create("counter", b"0")
    workers = [context.Process(target=race, args=(tmp_path, who, start, results)) for who in (1, 2)]
    for worker in workers:
        worker.start()
    start.set()
    won = dict(results.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join(60)
    store = LocalStore(tmp_path)
    assert sorted(won[1] + won[2]) == list(range(40))
    for who, numbers in won.items():
        assert all(store.read(f"m/{number}") == bytes([who]) * 10_000 for number in numbers)
    assert store.read("counter") == b"80"


def test_a_lock_that_stays_taken_is_a_typed_error_that_names_its_process(tmp_path):
    holds = f"""
import pathlib, sys
from millstream.checkpoint.stores.local import locked
with locked(pathlib.Path({str(tmp_path)!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ExternalFailure, match=f"process {holder.pid}") as failure, locked(tmp_path, seconds=0.1):
            pytest.fail("two hold one lock")
        assert failure.value.code == "CKPT-031"
        assert str(tmp_path) in failure.value.message
        holder.kill()
    with locked(tmp_path, seconds=5):
        pass


def test_a_lock_excludes_threads_and_is_free_after_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="inside"), locked(tmp_path):
        msg = "inside"
        raise RuntimeError(msg)
    inside, most, now = threading.Lock(), [], [0]

    def work():
        for _ in range(20):
            with locked(tmp_path):
                with inside:
                    now[0] += 1
                most.append(now[0])
                with inside:
                    now[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 80


def test_a_swap_waits_for_the_lock(tmp_path):
    store = LocalStore(tmp_path)
    store.create("lease", b"one")
    done = threading.Event()
    with locked(tmp_path):
        thread = threading.Thread(target=lambda: (store.swap("lease", b"one", b"two"), done.set()))
        thread.start()
        assert not done.wait(0.1)
        assert store.read("lease") == b"one"
    assert done.wait(10)
    thread.join()
    assert store.read("lease") == b"two"


def test_directories_are_made_once(tmp_path, synced, monkeypatch):
    make_directory(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    make_directory(tmp_path / "a" / "b")
    assert len(synced) == 2
    monkeypatch.chdir(tmp_path)
    make_directory(Path("relative/deep"))
    assert (tmp_path / "relative" / "deep").is_dir()
