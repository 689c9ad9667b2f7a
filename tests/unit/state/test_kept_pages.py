"""Pages that stay in the worker between epochs: current ones only, whatever became of the epochs and workers between."""

import random

import pytest
from tests.unit.runtime.epochs import Epochs
from tests.unit.state.test_pages import CountingStore

import millstream as ms
from millstream.plan.deployment import Deployment, MemoryBudget
from millstream.runtime.messages import RunIdentity
from millstream.state import kept_pages
from millstream.state.kept_pages import JOURNAL, KeptPages
from millstream.testing import ABORT, run_job

RUN = RunIdentity(lineage="l", token=1)


@pytest.fixture(autouse=True)
def worker(monkeypatch):
    """A worker that has just started."""
    monkeypatch.setattr(kept_pages, "_copies", type(kept_pages._copies)())


def opened(store, *, run=RUN, subtask=0, limit=1 << 20):
    return KeptPages(store, 1, subtask, lineage=run.lineage, token=run.token, limit=limit)


def epoch(store, *, run=RUN, subtask=0, limit=1 << 20, **writes):
    pages = opened(store, run=run, subtask=subtask, limit=limit)
    for key, content in writes.items():
        pages.put(key, content)
    pages.close()


def reads(store, key, **options):
    """A page, and whether the store had to be asked for it."""
    pages = opened(store, **options)
    store.reads.clear()
    found = pages.get(key)
    pages.close()
    return found, bool(store.reads)


def other_worker(work):
    """Do something in a worker that knows nothing of what this one keeps."""
    mine = dict(kept_pages._copies)
    kept_pages._copies.clear()
    work()
    kept_pages._copies.clear()
    kept_pages._copies.update(mine)


def test_pages_stay_in_the_worker_between_epochs():
    store = CountingStore()
    epoch(store, a=b"1", b=b"2")
    assert reads(store, "a") == (b"1", False)
    pages = opened(store)
    pages.delete("a")
    assert pages.get("a") is None
    pages.close()
    assert reads(store, "a") == (None, True)
    assert reads(store, "b") == (b"2", False)


def test_what_another_worker_changed_meanwhile_is_read_again_and_the_rest_is_not():
    store = CountingStore()
    epoch(store, a=b"old", b=b"quiet", c=b"gone")

    def elsewhere():
        epoch(store, a=b"new")
        pages = opened(store)
        pages.delete("c")
        pages.close()

    other_worker(elsewhere)
    assert reads(store, "b") == (b"quiet", False)
    assert reads(store, "a") == (b"new", True)
    assert reads(store, "c") == (None, True)


def test_an_epoch_that_was_rolled_back_is_not_remembered():
    store = CountingStore()
    epoch(store, a=b"1")
    committed = dict(store)
    epoch(store, a=b"2", c=b"3")
    store.clear(), store.update(committed)
    assert reads(store, "a") == (b"1", True)
    assert reads(store, "c") == (None, True)


def test_an_epoch_that_is_run_again_elsewhere_does_not_revive_the_first_try():
    store = CountingStore()
    epoch(store, a=b"1")
    committed = dict(store)
    epoch(store, a=b"first try")
    store.clear(), store.update(committed)
    other_worker(lambda: epoch(store, a=b"second try"))
    assert reads(store, "a") == (b"second try", True)


def test_a_task_that_failed_leaves_no_copy():
    store = CountingStore()
    epoch(store, a=b"1")
    committed = dict(store)
    opened(store).put("a", b"half")
    store.clear(), store.update(committed)
    assert reads(store, "a") == (b"1", True)


def test_an_empty_store_and_another_owner_trust_no_copy():
    store = CountingStore()
    epoch(store, a=b"1")
    assert reads(CountingStore(), "a") == (None, True)
    epoch(store, a=b"1")
    assert reads(store, "a", run=RunIdentity(lineage="l", token=2)) == (b"1", True)
    assert list(kept_pages._copies) == [("l", 2, 1, 0)]


def test_state_that_was_changed_under_the_other_backend_is_read_again():
    """Between two runs with pages in the worker there may be one without: it leaves the journal as it is."""
    store = CountingStore()
    epoch(store, a=b"1")
    store["a"] = b"2"
    assert reads(store, "a", run=RunIdentity(lineage="l", token=3)) == (b"2", True)


def test_an_epoch_without_changes_writes_nothing():
    store = CountingStore()
    epoch(store, a=b"1")
    store.writes.clear()
    assert reads(store, "a") == (b"1", False)
    assert store.writes == []


def test_the_journal_stays_small_and_old_copies_are_dropped():
    store = CountingStore()
    epoch(store, a=b"0", quiet=b"q")

    def elsewhere():
        for number in range(40):
            epoch(store, a=str(number).encode())

    other_worker(elsewhere)
    assert len(store[JOURNAL]) < 1000
    assert reads(store, "quiet") == (b"q", True)
    many = {f"p{number}": b"x" for number in range(5000)}
    epoch(store, **many)
    assert len(store[JOURNAL]) < 100
    assert reads(store, "p7") == (b"x", False)


def test_the_longest_unused_pages_give_way():
    store = CountingStore()
    epoch(store, limit=100, a=b"x" * 40, b=b"x" * 40)
    assert reads(store, "a", limit=100) == (b"x" * 40, False)
    epoch(store, limit=100, c=b"x" * 40)
    assert reads(store, "a", limit=100)[1] is False
    assert reads(store, "b", limit=100)[1] is True


def test_all_subtasks_of_a_worker_share_the_budget():
    stores = [CountingStore() for _ in range(4)]
    for subtask, store in enumerate(stores):
        epoch(store, subtask=subtask, limit=100, a=b"x" * 40)
    assert sum(copy.size for copy in kept_pages._copies.values()) <= 100
    assert [reads(stores[subtask], "a", subtask=subtask, limit=100)[1] for subtask in (3, 0)] == [False, True]


def test_random_histories_never_show_an_old_or_undone_page():
    """Three workers, tasks that fail, epochs that are rolled back, owners that change: what is read is what is stored."""
    chance = random.Random(11)
    for _ in range(60):
        store, workers, token = CountingStore(), [type(kept_pages._copies)() for _ in range(3)], 1
        for _ in range(60):
            kept_pages._copies = chance.choice(workers)
            token += chance.random() < 0.05
            committed = dict(store)
            pages = opened(store, run=RunIdentity(lineage="l", token=token), limit=chance.choice([5, 1000]))
            for _ in range(chance.randrange(5)):
                name = chance.choice("abcdef")
                assert pages.get(name) == store.get(name)
                chance.choice([lambda n=name: pages.put(n, chance.randbytes(2)), lambda n=name: pages.delete(n)])()
            outcome = chance.random()
            if outcome > 0.2:
                pages.close()
            if outcome < 0.4:
                store.clear(), store.update(committed)


class Counting(ms.ProcessFunction):
    seen = ms.ListState(int)

    def process(self, row, ctx):
        self.seen.add(row["v"])
        yield {"k": row["k"], "seen": len(self.seen.get())}


def counting_job():
    job = ms.Job("kept")
    rows = job.source("in", ms.memory([]), schema="k long, v long")
    rows.key_by("k").process(Counting(), schema="k long, seen long", id="p").sink("out", ms.collect("x"))
    rows.key_by("k").aggregate(n=ms.count(), id="n").sink("counts", ms.collect("y"))
    return job


def test_an_epoch_on_kept_pages_reads_nothing_but_the_journal():
    def page_reads(backend):
        epochs = Epochs(counting_job(), backend=backend)
        for number in range(3):
            for store in epochs.stores.values():
                store.reads.clear()
            made = epochs.run([{"k": key, "v": number} for key in range(50)])
            assert {row["seen"] for row in made["out"]} == {number + 1}
            assert {row["n"] for row in made["counts"]} == {number + 1}
        return {name for store in epochs.stores.values() for name in store.reads}

    assert len(page_reads("rocksdb")) > 20
    assert page_reads("memory") == {JOURNAL}


def test_a_crash_between_epochs_shows_no_newer_page(tmp_path):
    script = [{"k": number % 3, "v": number} for number in range(30)]
    script[10:10], script[20:20] = [dict(ABORT())], [dict(ABORT())]
    results = []
    for backend in ("rocksdb", "memory"):
        made = run_job(
            counting_job(), {"in": script}, rows_per_epoch=4, checkpoint=tmp_path / backend, state_backend=backend
        )
        assert made.restarts == 2
        results.append(made.sinks)
    assert results[0] == results[1]
    assert sorted(row["seen"] for row in results[1]["out"]) == sorted(list(range(1, 11)) * 3)


def test_the_budget_is_the_deployments():
    deployment = Deployment(memory=MemoryBudget(cache_bytes=7), state_backend="memory")
    assert counting_job().compile(deployment).deployment.memory.cache_bytes == 7
