import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.unit.state.test_pages import CountingStore

from millstream.errors import StepFailed
from millstream.model.schema import schema_of
from millstream.state.entries import Entries, pages_of
from millstream.state.pages import NEVER, Due, PageId, StepPages


class Epochs:
    """Entries of one step over many epochs on one store."""

    def __init__(self, keys="k long", slots=(list[int],), *, groups=4, limit=1 << 16):
        self.store = CountingStore()
        self._keys, self._slots, self._groups, self._limit = schema_of(keys), list(slots), groups, limit

    def open(self):
        pages = StepPages(self.store, "s")
        return Entries(pages, self._keys, self._slots, key_groups=self._groups, page_bytes=self._limit)

    def entry(self, entries, *key):
        columns = [pa.array([value], field.type) for value, field in zip(key, self._keys, strict=True)]
        return entries.entry(key, pages_of(entries.page_numbers(columns))[0])

    def all(self):
        """Every stored entry."""
        entries = self.open()
        for page, _ in StepPages(self.store, "s"):
            for encoded in list(entries._load(page).entries):
                yield entries._entry(encoded, page)

    def pages(self):
        return {name for name in self.store if not name.endswith("directory")}


def test_many_keys_survive_many_divisions():
    epochs, expected = Epochs(limit=300), {}
    chance = random.Random(5)
    for _ in range(30):
        entries = epochs.open()
        for key in chance.sample(range(400), 25):
            entry = epochs.entry(entries, key)
            assert entry.slots[0] == expected.get(key, (None, set()))[0]
            assert entry.event_timers == expected.get(key, (None, set()))[1]
            entry.slots[0] = [*(entry.slots[0] or []), chance.randrange(100)]
            entry.event_timers.add(chance.randrange(1000))
            entry.is_dirty = True
            expected[key] = (entry.slots[0], set(entry.event_timers))
        due = entries.flush()
        assert due.event == min(at for _, timers in expected.values() for at in timers)
    everything = {entry.key[0]: (entry.slots[0], entry.event_timers) for entry in epochs.all()}
    assert everything == expected
    assert len(epochs.pages()) > 16
    assert max(len(epochs.store[name]) for name in epochs.pages()) < 600
    at = sorted(at for _, timers in expected.values() for at in timers)[len(expected) // 2]
    found = {entry.key[0] for entry in epochs.open().due(event=at, processing=-1)}
    assert found == {key for key, (_, timers) in expected.items() if min(timers) <= at}


def test_an_entry_above_the_limit_does_not_divide_for_ever():
    epochs = Epochs(groups=1, limit=200)
    entries = epochs.open()
    for key in range(2):
        entry = epochs.entry(entries, key)
        entry.slots[0], entry.is_dirty = list(range(500 if key else 1)), True
    entries.flush()
    assert {entry.key: len(entry.slots[0]) for entry in epochs.all()} == {(0,): 1, (1,): 500}


def test_a_large_entry_among_small_ones_keeps_the_number_of_pages_in_bounds():
    epochs = Epochs(groups=1, limit=500)
    for epoch in range(20):
        entries = epochs.open()
        for key in range(10 * epoch, 10 * epoch + 10):
            entry = epochs.entry(entries, key)
            entry.slots[0], entry.is_dirty = [1], True
        entry = epochs.entry(entries, -1)
        entry.slots[0], entry.is_dirty = list(range(1000)), True
        entries.flush()
    assert len(list(epochs.all())) == 201
    assert len(epochs.pages()) <= 32


def test_entries_of_about_the_limit_get_no_more_than_a_page_each():
    epochs = Epochs(groups=1, limit=300)
    for _ in range(3):
        entries = epochs.open()
        for key in range(60):
            entry = epochs.entry(entries, key)
            entry.slots[0], entry.is_dirty = [1] * 250, True
        entries.flush()
    assert len(list(epochs.all())) == 60
    assert StepPages(epochs.store, "s").division(0) == 64


def test_only_touched_and_due_pages_are_read():
    epochs = Epochs(groups=64)
    entries = epochs.open()
    for key in range(200):
        entry = epochs.entry(entries, key)
        entry.slots[0], entry.is_dirty = [key], True
        if key == 7:
            entry.event_timers = {50}
        if key == 8:
            entry.processing_timers = {60}
        if key == 9:
            entry.expiry = 70
    entries.flush()
    for event, processing, wanted in [(49, 59, 0), (50, 0, 1), (0, 60, 1), (0, 70, 2), (50, 70, 3)]:
        epochs.store.reads.clear()
        entries = epochs.open()
        assert len(entries.due(event=event, processing=processing)) == wanted
        assert len(epochs.store.reads) == wanted + 1
    epochs.store.reads.clear(), epochs.store.writes.clear()
    entries = epochs.open()
    for _ in range(3):
        epochs.entry(entries, 3)
    entries.flush()
    assert len(epochs.store.reads) == 2
    assert epochs.store.writes == []


def test_state_that_is_cleared_leaves_nothing_behind():
    epochs = Epochs(limit=100)
    entries = epochs.open()
    for key in range(50):
        entry = epochs.entry(entries, key)
        entry.slots[0], entry.event_timers, entry.is_dirty = [key], {key}, True
    entries.flush()
    entries = epochs.open()
    for entry in entries.due(event=100, processing=-1):
        entry.slots[0], entry.event_timers, entry.is_dirty = None, set(), True
    assert entries.flush() == Due()
    assert dict(epochs.store) == {}


def test_a_new_entry_that_stays_empty_is_not_stored():
    epochs = Epochs()
    entries = epochs.open()
    epochs.entry(entries, 1).is_dirty = True
    entries.flush()
    assert dict(epochs.store) == {}


def test_due_sees_changes_of_this_epoch():
    epochs = Epochs()
    entries = epochs.open()
    entry = epochs.entry(entries, 1)
    entry.event_timers, entry.is_dirty = {5}, True
    entries.flush()
    entries = epochs.open()
    epochs.entry(entries, 1).event_timers = {99}
    epochs.entry(entries, 2).event_timers = {3}
    assert [entry.key for entry in entries.due(event=10, processing=-1)] == [(2,)]


KEYS = {
    "boolean": [True, False, None],
    "byte": [-128, 127, None],
    "long": [-(2**63), 2**63 - 1, 0, None],
    "float": [1.5, float("inf"), None],
    "double": [0.1, -1e300, None],
    "string": ["", "grüße", "\x00", None],
    "binary": [b"", b"\xff\x00", None],
    "decimal(38,18)": [Decimal("12345678901234567890.123456789012345678"), Decimal("0E-18"), None],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
    "timestamp": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC), dt.datetime(9999, 1, 1, tzinfo=dt.UTC), None],
    "timestamp_ntz": [dt.datetime(1900, 1, 1, 0, 0, 0, 1), None],
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type_are_found_again_after_a_division(kind):
    epochs = Epochs(f"a {kind}, b long", groups=1, limit=40)
    values = pa.array(KEYS[kind], schema_of(f"a {kind}")["a"].type).to_pylist()
    keys = [(value, number) for value in values for number in range(20)]
    for _ in range(2):
        entries = epochs.open()
        for number, key in enumerate(keys):
            entry = epochs.entry(entries, *key)
            entry.slots[0], entry.is_dirty = [*(entry.slots[0] or []), number], True
        entries.flush()
    assert len(epochs.pages()) > 4
    found = {entry.key: entry.slots[0] for entry in epochs.all()}
    assert found == {key: [number, number] for number, key in enumerate(keys)}


def test_timers_of_both_kinds_and_expiry_come_back():
    epochs = Epochs()
    entries = epochs.open()
    entry = epochs.entry(entries, 1)
    entry.event_timers, entry.processing_timers, entry.expiry, entry.is_dirty = {3, 1}, {9, 8}, 77, True
    entry.slots[0] = []
    assert entries.flush() == Due(1, 8, 77)
    (entry,) = epochs.all()
    assert (entry.event_timers, entry.processing_timers, entry.expiry) == ({1, 3}, {8, 9}, 77)
    assert entry.slots == [[]]
    assert NEVER > 2**62
    assert entry.page == PageId(entry.page.group, 0)


def test_content_of_another_type_is_refused_before_it_is_stored():
    epochs = Epochs()
    entries = epochs.open()
    entry = epochs.entry(entries, 1)
    entry.slots[0], entry.is_dirty = ["text"], True
    with pytest.raises(StepFailed) as caught:
        entries.flush()
    assert (caught.value.step, caught.value.code) == ("s", "STATE-002")
    assert not epochs.store


def test_what_is_due_comes_in_shares_within_the_budget():
    epochs = Epochs(groups=16, limit=500)
    entries = epochs.open()
    for key in range(300):
        entry = epochs.entry(entries, key)
        entry.slots[0], entry.event_timers, entry.is_dirty = [key], {key}, True
    entries.flush()
    entries = epochs.open()
    entries._budget = 8000
    shares = []
    for share in entries.due_shares(event=199, processing=-1):
        shares.append([entry.key[0] for entry in share])
        assert len({entry.page for entry in share}) <= 3
        for entry in share:
            entry.event_timers, entry.is_dirty = {1000}, True
    assert len(shares) > 10
    assert sorted(key for share in shares for key in share) == list(range(200))
    assert entries.flush().event == 200
    assert list(epochs.open().due_shares(event=199, processing=-1)) == []
    assert sum(len(share) for share in epochs.open().due_shares(event=1000, processing=-1)) == 300


def test_pages_that_were_let_go_are_not_read_again_to_see_that_nothing_is_due():
    epochs = Epochs(groups=16, limit=500)
    entries = epochs.open()
    entries._budget = 1
    for key in range(100):
        entry = epochs.entry(entries, key)
        entry.slots[0], entry.is_dirty = [key], True
    due = entries.due_shares(event=50, processing=-1)
    live = len(entries._live)
    epochs.entry(entries, 7).event_timers = {3}
    assert [entry.key for entry in next(due)] == [(7,)]
    assert live == 16
    entries.settle()
    epochs.store.reads.clear()
    assert list(due) == []
    assert epochs.store.reads == []
