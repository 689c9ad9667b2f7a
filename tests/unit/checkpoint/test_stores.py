"""The contract of manifest stores, checked over every store."""

import contextlib
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.servers.stores import KINDS, empty_store_url

from millstream.checkpoint.stores.memory import MemoryStore
from millstream.checkpoint.stores.open import open_store
from millstream.errors import CheckpointRefused

THREADS = 8
UNUSUAL = [
    "m/a b",
    "m/ü-日本",
    "m/a+b=c",
    "m/a#b",
    "m/a%20b",
    "m/a%2Fb",
    "m/a?b&c",
    "m/[x]'q'",
    "m/a:b@c",
    "m/~x",
    "m/" + "l" * 200,
]


@pytest.fixture(params=["memory", *KINDS])
def reopen(request, tmp_path, monkeypatch):
    """A function that opens the same store again."""
    with contextlib.ExitStack() as opened:
        if request.param == "memory":
            memory = MemoryStore()
            yield lambda: memory
            return
        url = empty_store_url(request.param, tmp_path, monkeypatch)

        def opening():
            store = open_store(url)
            opened.callback(getattr(store, "close", lambda: None))
            return store

        yield opening


@pytest.fixture
def store(reopen):
    return reopen()


def in_threads(work):
    """Run `work(number)` in several threads that start together; the results, in order."""
    start = threading.Barrier(THREADS)

    def begin(number):
        start.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def test_names_are_created_once(store):
    assert store.create("manifests/1", b"one")
    assert not store.create("manifests/1", b"two")
    assert not store.create("manifests/1", b"one")
    assert store.read("manifests/1") == b"one"


def test_what_is_absent_reads_as_none(store):
    assert store.read("manifests/1") is None
    assert store.read("one") is None
    store.create("manifests/1", b"one")
    assert store.read("manifests/2") is None
    assert store.read("manifests/11") is None


def test_names_are_sorted(store):
    assert store.names("") == []
    for name in ("a/3", "a/1", "a-b", "b/1", "a/2", "a/10", "B"):
        assert store.create(name, b"x")
    assert store.names("a/") == ["a/1", "a/10", "a/2", "a/3"]
    assert store.names("") == ["B", "a-b", "a/1", "a/10", "a/2", "a/3", "b/1"]
    assert store.names("none/") == []


def test_prefixes_may_end_anywhere_and_reach_into_folders(store):
    for name in ("m/1", "m/12", "m/x/1", "m/x/y/2", "mm/1", "m_"):
        assert store.create(name, b"x")
    assert store.names("m/") == ["m/1", "m/12", "m/x/1", "m/x/y/2"]
    assert store.names("m/1") == ["m/1", "m/12"]
    assert store.names("m") == ["m/1", "m/12", "m/x/1", "m/x/y/2", "m_", "mm/1"]
    assert store.names("m/x/y") == ["m/x/y/2"]
    assert store.names("m/x/y/2") == ["m/x/y/2"]
    assert store.names("M/") == []


def test_deletion_is_idempotent(store):
    store.delete("a/none")
    store.create("a/1", b"one")
    store.create("a/2", b"two")
    store.delete("a/1")
    store.delete("a/1")
    assert store.read("a/1") is None
    assert store.names("a/") == ["a/2"]
    assert store.create("a/1", b"again")
    assert store.read("a/1") == b"again"


def test_swap_replaces_exactly_what_is_expected(store):
    assert not store.swap("lease", b"old", b"new")
    assert store.read("lease") is None
    assert store.swap("lease", None, b"one")
    assert not store.swap("lease", None, b"two")
    assert not store.swap("lease", b"other", b"two")
    assert store.read("lease") == b"one"
    assert store.swap("lease", b"one", b"two")
    assert not store.swap("lease", b"one", b"three")
    assert store.read("lease") == b"two"
    assert store.swap("lease", b"two", b"two")
    store.delete("lease")
    assert not store.swap("lease", b"two", b"three")
    assert store.names("") == []


def test_content_may_be_empty_large_or_any_bytes(store):
    large = bytes(range(256)) * 20_000
    assert store.create("c/empty", b"")
    assert not store.create("c/empty", b"x")
    assert store.create("c/large", large)
    assert store.create("c/zero", b"\0")
    assert (store.read("c/empty"), store.read("c/large"), store.read("c/zero")) == (b"", large, b"\0")
    assert store.swap("c/empty", b"", large)
    assert store.swap("c/large", large, large[1:])
    assert store.swap("c/zero", b"\0", b"")
    assert (store.read("c/empty"), store.read("c/large"), store.read("c/zero")) == (large, large[1:], b"")


def test_unusual_names_are_kept(store):
    for number, name in enumerate(UNUSUAL):
        assert store.create(name, str(number).encode())
    assert store.names("m/") == sorted(UNUSUAL)
    assert [store.read(name) for name in UNUSUAL] == [str(number).encode() for number in range(len(UNUSUAL))]
    for name in UNUSUAL:
        assert store.swap(name, store.read(name), b"new")
        store.delete(name)
    assert store.names("m/") == []


@pytest.mark.parametrize("name", ["", "/etc/x", "../x", "a/../x", "a//b", "a/", "./a", ".hidden", "a/.b", "a\0b"])
def test_names_that_leave_the_store_are_refused(store, name):
    for attempt in (
        lambda: store.create(name, b"x"),
        lambda: store.read(name),
        lambda: store.swap(name, b"a", b"x"),
        lambda: store.swap(name, None, b"x"),
        lambda: store.delete(name),
    ):
        with pytest.raises(CheckpointRefused, match="CKPT-061"):
            attempt()
    with pytest.raises(CheckpointRefused, match="CKPT-061"):
        store.names("../")


def test_a_store_that_is_opened_again_has_everything(reopen):
    first = reopen()
    first.create("m/1", b"one")
    first.create("m/2", b"two")
    first.swap("lease", None, b"a")
    second = reopen()
    assert second.names("") == ["lease", "m/1", "m/2"]
    assert not second.create("m/1", b"other")
    assert second.swap("lease", b"a", b"b")
    second.delete("m/2")
    assert (first.read("lease"), first.read("m/1"), first.read("m/2")) == (b"b", b"one", None)


def test_a_race_to_create_has_one_winner(reopen):
    stores = [reopen() for _ in range(THREADS)]
    for turn in range(3):
        won = in_threads(lambda number, name=f"m/{turn}": stores[number].create(name, bytes([number]) * 5_000))
        assert won.count(True) == 1
        assert stores[0].read(f"m/{turn}") == bytes([won.index(True)]) * 5_000


def test_a_race_of_equal_contents_has_one_winner(reopen):
    stores = [reopen() for _ in range(THREADS)]
    assert in_threads(lambda number: stores[number].create("m/1", b"same")).count(True) == 1


def test_swaps_that_race_lose_no_update(reopen):
    stores, rounds = [reopen() for _ in range(THREADS)], 6
    stores[0].swap("counter", None, b"0")

    def count(number):
        done = 0
        while done < rounds:
            seen = stores[number].read("counter")
            done += stores[number].swap("counter", seen, str(int(seen) + 1).encode())

    in_threads(count)
    assert stores[0].read("counter") == str(THREADS * rounds).encode()


def test_threads_may_share_one_store(store):
    store.swap("counter", None, b"0")

    def count(_):
        while True:
            seen = store.read("counter")
            if store.swap("counter", seen, str(int(seen) + 1).encode()):
                return store.create("m/1", b"x")

    assert in_threads(count).count(True) == 1
    assert store.read("counter") == str(THREADS).encode()


def test_readers_see_whole_objects_only(reopen):
    writer, reader, ended = reopen(), reopen(), threading.Event()
    contents = [bytes([number]) * 200_000 for number in range(12)]
    writer.swap("big", None, contents[0])
    seen = set()

    def watch():
        while not ended.is_set():
            seen.add(reader.read("big"))

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            swapped = [writer.swap("big", old, new) for old, new in itertools.pairwise(contents)]
        finally:
            ended.set()
        watching.result()
    assert all(swapped)
    assert seen <= set(contents)
    assert reader.read("big") == contents[-1]
