"""Keyed entries over pages: one encoded entry per key, decoded when its key is touched.

A page holds encoded entries by encoded key, and beside them the due times of those keys that have any. An entry is a list of
slots chosen by the operator, followed by the key's event-time and processing-time timers.

What is decoded stays within a budget: operators go through keys and timers page after page, and between two shares of them
pages that are held beyond the budget are written and let go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.errors import StepFailed
from millstream.model.schema import Schema
from millstream.records.key_groups import Hashes, key_group, page_of, stable_hash
from millstream.records.value_types import row_type, tuple_of
from millstream.state.compat.float_keys import MergeSlots, rekey_entries
from millstream.state.entry_pages import decoded_size, division_of, length, parts_of
from millstream.state.pages import NEVER, STATE_BYTES, Due, EntryPage, PageId, StepPages

Key = tuple[Any, ...]
Numbers = npt.NDArray[np.int64]
_NEVER = Due()
_LIVE = 850
"""About how many bytes Python needs for a decoded entry beyond its content."""
_GROWTH = 6
"""How many times as large as its bytes a page of small entries is once it is decoded."""
_PAGE = np.int64(32)


class Entry:
    """What is kept for one key while an epoch runs."""

    __slots__ = ("event_timers", "expiry", "is_dirty", "key", "page", "processing_timers", "slots")

    def __init__(self, key: Key, page: PageId, slots: list[Any], event: set[int], processing: set[int]) -> None:
        self.key, self.page, self.slots = key, page, slots
        self.event_timers, self.processing_timers = event, processing
        self.expiry = NEVER
        self.is_dirty = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing needs to be kept."""
        return not self.event_timers and not self.processing_timers and all(slot is None for slot in self.slots)

    @property
    def due(self) -> Due:
        """The first time of each kind at which the entry needs attention."""
        return Due(min(self.event_timers, default=NEVER), min(self.processing_timers, default=NEVER), self.expiry)


class Entries:
    """The entries of one keyed step in one subtask, for the length of one epoch."""

    def __init__(
        self,
        pages: StepPages,
        keys: Schema,
        slots: list[Any],
        *,
        key_groups: int,
        page_bytes: int,
        state_bytes: int = STATE_BYTES,
        is_trusted: bool = False,
        merge: MergeSlots | None = None,
    ) -> None:
        self._is_trusted = is_trusted  # content that no user code made has its declared type
        self._pages, self._keys, self._groups, self._limit = pages, keys, key_groups, page_bytes
        self._budget, self._held, self._grown = state_bytes, 0, set[int]()
        self._width = len(slots)
        stored = tuple_of(*(slot | None for slot in slots), list[int], list[int], int)
        self._entry_decoder = msgspec.msgpack.Decoder(stored)
        rekey_entries(pages, keys, self._entry_decoder, merge)
        self._key_decoder = msgspec.msgpack.Decoder(row_type(keys))
        self._page_decoder = msgspec.msgpack.Decoder(EntryPage)
        self._encoder = msgspec.msgpack.Encoder()
        self.event_expiry: Callable[[list[Any]], int] | None = None
        """Gives the event time at which the first of an entry's slots expires; set where slots expire by event time."""
        self._loaded: dict[PageId, EntryPage] = {}
        self._live: dict[PageId, dict[bytes, Entry]] = {}

    @property
    def most_pages(self) -> int:
        """So many pages may be asked for between two calls of `settle`."""
        return max(1, self._budget // (_GROWTH * self._limit))

    def fits(self, numbers: Numbers) -> bool:
        """Whether the entries of keys on these pages, one of each, may be held all together."""
        return len(np.unique(numbers)) * _GROWTH * self._limit + len(numbers) * _LIVE <= self._budget

    def page_numbers(self, columns: list[pa.Array], *, rows: int | None = None) -> Numbers:
        """A number for each row: that of its key's page, in the order of pages; `rows` are counted where none has a key."""
        hashes = stable_hash(columns, rows=rows)
        groups = key_group(hashes, self._groups)
        return groups << _PAGE | page_of(hashes, self._pages.divisions(self._groups)[groups])

    def entry(self, key: Key, page: PageId) -> Entry:
        """The entry of a key, new and empty if there is none."""
        return self._entry(self._encoder.encode(key), page, key)

    def existing(self, key: Key, page: PageId) -> Entry | None:
        """The entry of a key, if there is one."""
        encoded = self._encoder.encode(key)
        entry = self._live[page].get(encoded) if page in self._live else None
        if entry is None and encoded in self._load(page).entries:
            entry = self._entry(encoded, page, key)
        return entry

    def _entry(self, encoded: bytes, page: PageId, key: Key | None = None) -> Entry:
        live = self._live.setdefault(page, {})
        entry = live.get(encoded)
        if entry is None:
            known = self._key_decoder.decode(encoded) if key is None else key
            raw = self._load(page).entries.get(encoded)
            entry = live[encoded] = self._decoded(known, page, raw)
            self._held += _LIVE if raw is None else _LIVE + 2 * length(raw)
        return entry

    def _decoded(self, key: Key, page: PageId, raw: msgspec.Raw | None) -> Entry:
        if raw is None:
            return Entry(key, page, [None] * self._width, set(), set())
        *slots, event, processing, expiry = self._entry_decoder.decode(raw)
        entry = Entry(key, page, list(slots), set(event), set(processing))
        entry.expiry = expiry
        return entry

    def _load(self, page: PageId) -> EntryPage:
        loaded = self._loaded.get(page)
        if loaded is None:
            content = self._pages.read(page)
            loaded = EntryPage({}, {}) if content is None else self._page_decoder.decode(content)
            self._loaded[page] = loaded
            self._held += decoded_size(loaded)
        return loaded

    def settle(self) -> None:
        """Write and let go what is held if that is beyond the budget; entries given out before are used no more."""
        if self._held > self._budget:
            self._write_changed()
            self._let_go()

    def due(self, *, event: int, processing: int) -> list[Entry]:
        """Entries with a timer due at these times, or with expired state; only pages that may hold one are read."""
        return [entry for page in self._due_pages(event, processing) for entry in self._due_on(page, event, processing)]

    def due_shares(self, *, event: int, processing: int) -> Iterator[list[Entry]]:
        """As `due`, as many at a time as fit the budget; those of a share are used no more when the next is asked for."""
        share: list[Entry] = []
        for page in self._due_pages(event, processing):
            if share and self._held > self._budget:
                yield share
                self.settle()
                share = []
            # A page that was let go since has its due times in the directory.
            if page in self._live or _is_due(self._pages.due(page), event, processing):
                share += self._due_on(page, event, processing)
        if share:
            yield share

    def _due_pages(self, event: int, processing: int) -> list[PageId]:
        return sorted({page for page, due in self._pages if _is_due(due, event, processing)} | set(self._live))

    def _due_on(self, page: PageId, event: int, processing: int) -> list[Entry]:
        live = self._live.get(page, {})
        stored = [k for k, due in self._load(page).due.items() if k not in live and _is_due(due, event, processing)]
        fresh = [
            k for k, entry in live.items() if self._has_due(entry) and _is_due(self._due(entry), event, processing)
        ]
        return [self._entry(encoded, page) for encoded in stored + fresh]

    def _has_due(self, entry: Entry) -> bool:
        """Most keys wait for nothing, which is quickly seen."""
        has_timer = bool(entry.event_timers or entry.processing_timers) or entry.expiry < NEVER
        return has_timer or self.event_expiry is not None

    def everything(self) -> list[Entry]:
        """Every entry there is; all pages are read."""
        entries = []
        for page in sorted({page for page, _ in self._pages} | set(self._live)):
            keys = dict.fromkeys([*self._load(page).entries, *self._live.get(page, {})])
            entries += [self._entry(encoded, page) for encoded in keys]
        return entries

    def _due(self, entry: Entry) -> Due:
        due = entry.due
        if self.event_expiry is None:
            return due
        return Due(min(due.event, self.event_expiry(entry.slots)), due.processing, due.expiry)

    def flush(self) -> Due:
        """Write the pages with changed entries and divide those that grew too large; returns the first due times."""
        self._write_changed()
        for group in sorted(self._grown):
            self._divide(group)
        self._grown = set()
        self._let_go()
        return self._pages.flush()

    def _let_go(self) -> None:
        self._loaded, self._live, self._held = {}, {}, 0

    def _write_changed(self) -> None:
        """Key groups are divided behind the last page of the epoch: until then every key stays where it is."""
        for page, live in self._live.items():
            changed = {encoded: entry for encoded, entry in live.items() if entry.is_dirty}
            if changed:
                content = self._load(page)
                self._merge(content, changed)
                if self._is_grown(content, self._write(page, content)):
                    self._grown.add(page.group)

    def _merge(self, content: EntryPage, changed: dict[bytes, Entry]) -> None:
        for encoded, entry in changed.items():
            content.due.pop(encoded, None)
            if entry.is_empty:
                content.entries.pop(encoded, None)
                continue
            content.entries[encoded] = self._encoded(entry)
            due = self._due(entry)
            if due != _NEVER:
                content.due[encoded] = due

    def _encoded(self, entry: Entry) -> msgspec.Raw:
        """An entry as bytes; content of another type than declared would poison every later epoch, so it ends this one."""
        timers = sorted(entry.event_timers), sorted(entry.processing_timers), entry.expiry
        try:
            raw = msgspec.Raw(self._encoder.encode((*entry.slots, *timers)))
            if not self._is_trusted:
                self._entry_decoder.decode(raw)
        except (msgspec.ValidationError, TypeError, OverflowError) as problem:
            raise not_as_declared(self._pages.step, entry.key, entry.slots, problem) from problem
        return raw

    def _write(self, page: PageId, content: EntryPage) -> int:
        if not content.entries:
            self._pages.write(page, None, _NEVER)
            return 0
        encoded = self._encoder.encode(content)
        self._pages.write(page, encoded, content.first_due())
        return len(encoded)

    def _is_grown(self, content: EntryPage, size: int) -> bool:
        """Whether dividing the page helps: a large entry stays as large as it is on a page of its own."""
        return size > self._limit and size - max(map(length, content.entries.values())) > self._limit // 2

    def _divide(self, group: int) -> None:
        """Double the pages of a key group until the largest fits or there are as many pages as entries."""
        whole = EntryPage({}, {})
        old = [PageId(group, number) for number in range(self._pages.division(group))]
        for part in map(self._load, old):
            whole.entries.update(part.entries)
            whole.due.update(part.due)
        numbers, pages = division_of(whole, self._hashes_of(list(whole.entries)), len(old), self._limit)
        if pages == len(old):
            return
        for page in old:
            self._pages.write(page, None, _NEVER)
            self._loaded.pop(page, None)
        self._pages.divide(group, pages)
        for number, part in sorted(parts_of(whole, numbers).items()):
            self._write(PageId(group, number), part)

    def _hashes_of(self, keys: list[bytes]) -> Hashes:
        columns = zip(*(self._key_decoder.decode(key) for key in keys), strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self._keys, strict=True)]
        return stable_hash(arrays, rows=len(keys))


def not_as_declared(step: str, key: Key, content: Any, problem: Exception) -> StepFailed:
    """Content of a key that is not of its declared type."""
    msg = f"state of key {key!r} is not of its declared type: {problem}"
    return StepFailed(msg, code="STATE-002", step=step, found=repr(content)[:200], hint="store what the state declares")


def pages_of(numbers: Numbers) -> list[PageId]:
    """Numbers of pages as pages."""
    return list(map(PageId, (numbers >> _PAGE).tolist(), (numbers & np.int64(0xFFFFFFFF)).tolist()))


def _is_due(due: Due, event: int, processing: int) -> bool:
    return due.event <= event or due.processing <= processing or due.expiry <= processing
