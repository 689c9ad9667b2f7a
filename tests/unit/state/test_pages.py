import msgspec
import pytest

from millstream.errors import CheckpointRefused
from millstream.state.pages import NEVER, Due, PageId, StepPages


class CountingStore(dict):
    """A page store that remembers what was asked of it."""

    def __init__(self):
        super().__init__()
        self.reads, self.writes = [], []

    def get(self, key):
        self.reads.append(key)
        return super().get(key)

    def put(self, key, content):
        self.writes.append(key)
        self[key] = content

    def delete(self, key):
        self.writes.append(key)
        self.pop(key, None)


def test_pages_and_their_dues_come_back():
    store = CountingStore()
    pages = StepPages(store, "s")
    pages.write(PageId(3, 0), b"three", Due(event=7))
    pages.write(PageId(1, 0), b"one", Due(processing=5, expiry=9))
    assert pages.flush() == Due(7, 5, 9)
    again = StepPages(store, "s")
    assert list(again) == [(PageId(1, 0), Due(NEVER, 5, 9)), (PageId(3, 0), Due(7, NEVER, NEVER))]
    assert again.read(PageId(3, 0)) == b"three"
    assert store.reads == ["s/directory", "s/directory", "s/3/0"]


def test_the_store_is_asked_only_for_pages_that_exist():
    store = CountingStore()
    pages = StepPages(store, "s")
    assert pages.read(PageId(1, 0)) is None
    assert PageId(1, 0) not in pages
    assert store.reads == ["s/directory"]


def test_an_unchanged_directory_is_not_written():
    store = CountingStore()
    pages = StepPages(store, "s")
    pages.write(PageId(0, 0), b"x", Due(event=1))
    pages.flush()
    store.writes.clear()
    again = StepPages(store, "s")
    again.write(PageId(0, 0), b"y", Due(event=1))
    assert again.flush() == Due(event=1)
    assert store.writes == ["s/0/0"]
    assert StepPages(store, "s").flush() == Due(event=1)
    assert store.writes == ["s/0/0"]


def test_nothing_is_left_when_every_page_is_gone():
    store = CountingStore()
    pages = StepPages(store, "s")
    for page in range(4):
        pages.write(PageId(page, 0), b"x", Due())
    pages.divide(0, 4)
    pages.flush()
    again = StepPages(store, "s")
    for page, _ in list(again):
        again.write(page, None, Due())
    assert again.flush() == Due()
    again.write(PageId(0, 0), None, Due())
    again.flush()
    assert {name for name in store if name != "s/0/0"} == set()


def test_a_group_that_was_emptied_starts_with_one_page():
    store = CountingStore()
    pages = StepPages(store, "s")
    pages.divide(2, 8)
    pages.write(PageId(2, 7), b"x", Due())
    pages.flush()
    assert StepPages(store, "s").division(2) == 8
    again = StepPages(store, "s")
    again.write(PageId(2, 7), None, Due())
    again.flush()
    assert StepPages(store, "s").division(2) == 1
    assert dict(store) == {}


def test_steps_do_not_see_each_other():
    store = CountingStore()
    for step in ("a", "b"):
        pages = StepPages(store, step)
        pages.write(PageId(0, 0), step.encode(), Due())
        pages.flush()
    assert StepPages(store, "a").read(PageId(0, 0)) == b"a"
    assert StepPages(store, "b").read(PageId(0, 0)) == b"b"


def test_another_format_is_refused():
    store = CountingStore()
    store["s/directory"] = msgspec.msgpack.encode([2, {}])
    with pytest.raises(CheckpointRefused) as caught:
        StepPages(store, "s")
    assert (caught.value.code, caught.value.step, caught.value.found) == ("CKPT-010", "s", "2")


def test_a_page_that_the_directory_lists_and_the_store_lost_is_refused():
    """Taken for absent, its keys would begin anew."""
    store = CountingStore()
    pages = StepPages(store, "s")
    pages.write(PageId(3, 0), b"three", Due(event=7))
    pages.flush()
    del store["s/3/0"]
    with pytest.raises(CheckpointRefused, match=r"CKPT-009.*s/3/0"):
        StepPages(store, "s").read(PageId(3, 0))
