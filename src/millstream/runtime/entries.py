"""Keyed entries over pages: one encoded entry per key, decoded when its key is touched.

A page holds encoded entries by encoded key, and beside them the due times of those keys that have any. An entry is a list of
slots chosen by the operator, followed by the key's event-time and processing-time timers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.errors import StepFailed
from millstream.model.schema import Schema
from millstream.runtime.keygroups import Hashes, key_group, page_of, stable_hash
from millstream.runtime.pages import NEVER, Due, EntryPage, PageId, StepPages
from millstream.runtime.python_types import row_type, tuple_of

Key = tuple[Any, ...]
_NEVER = Due()


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
        is_trusted: bool = False,
    ) -> None:
        self._is_trusted = is_trusted  # content that no user code made has its declared type
        self._pages, self._keys, self._groups, self._limit = pages, keys, key_groups, page_bytes
        self._width = len(slots)
        stored = tuple_of(*(slot | None for slot in slots), list[int], list[int], int)
        self._entry_decoder = msgspec.msgpack.Decoder(stored)
        self._key_decoder = msgspec.msgpack.Decoder(row_type(keys))
        self._page_decoder = msgspec.msgpack.Decoder(EntryPage)
        self._encoder = msgspec.msgpack.Encoder()
        self.event_expiry: Callable[[list[Any]], int] | None = None
        """Gives the event time at which the first of an entry's slots expires; set where slots expire by event time."""
        self._loaded: dict[PageId, EntryPage] = {}
        self._live: dict[PageId, dict[bytes, Entry]] = {}

    def places(self, columns: list[pa.Array]) -> list[PageId]:
        """The page of each row's key."""
        hashes = stable_hash(columns)
        groups = key_group(hashes, self._groups)
        division: npt.NDArray[np.int64] = np.ones(self._groups, np.int64)
        for group in np.flatnonzero(np.bincount(groups)).tolist():
            division[group] = self._pages.division(group)
        pages = page_of(hashes, division[groups])
        return list(map(PageId, groups.tolist(), pages.tolist()))

    def entry(self, key: Key, page: PageId) -> Entry:
        """The entry of a key, new and empty if there is none."""
        return self._entry(self._encoder.encode(key), page, key)

    def existing(self, key: Key, page: PageId) -> Entry | None:
        """The entry of a key, if there is one."""
        encoded = self._encoder.encode(key)
        found = self._live[page].get(encoded) if page in self._live else None
        if found is None and encoded in self._load(page).entries:
            found = self._entry(encoded, page, key)
        return found

    def _entry(self, encoded: bytes, page: PageId, key: Key | None = None) -> Entry:
        live = self._live.setdefault(page, {})
        found = live.get(encoded)
        if found is None:
            known = self._key_decoder.decode(encoded) if key is None else key
            found = live[encoded] = self._decoded(known, page, self._load(page).entries.get(encoded))
        return found

    def _decoded(self, key: Key, page: PageId, raw: msgspec.Raw | None) -> Entry:
        if raw is None:
            return Entry(key, page, [None] * self._width, set(), set())
        *slots, event, processing, expiry = self._entry_decoder.decode(raw)
        entry = Entry(key, page, list(slots), set(event), set(processing))
        entry.expiry = expiry
        return entry

    def _load(self, page: PageId) -> EntryPage:
        if page not in self._loaded:
            content = self._pages.read(page)
            self._loaded[page] = EntryPage({}, {}) if content is None else self._page_decoder.decode(content)
        return self._loaded[page]

    def due(self, *, event: int, processing: int) -> list[Entry]:
        """Entries with a timer due at these times, or with expired state; only pages that may hold one are read."""
        known = {page for page, due in self._pages if _is_due(due, event, processing)}
        found = []
        for page in sorted(known | set(self._live)):
            live = self._live.get(page, {})
            stored = [k for k, due in self._load(page).due.items() if k not in live and _is_due(due, event, processing)]
            fresh = [k for k, entry in live.items() if _is_due(self._due(entry), event, processing)]
            found += [self._entry(encoded, page) for encoded in stored + fresh]
        return found

    def everything(self) -> list[Entry]:
        """Every entry there is; all pages are read."""
        found = []
        for page in sorted({page for page, _ in self._pages} | set(self._live)):
            keys = dict.fromkeys([*self._load(page).entries, *self._live.get(page, {})])
            found += [self._entry(encoded, page) for encoded in keys]
        return found

    def _due(self, entry: Entry) -> Due:
        due = entry.due
        if self.event_expiry is None:
            return due
        return Due(min(due.event, self.event_expiry(entry.slots)), due.processing, due.expiry)

    def flush(self) -> Due:
        """Write the pages with changed entries and divide those that grew too large; returns the first due times."""
        grown: set[int] = set()
        for page, live in self._live.items():
            changed = {encoded: entry for encoded, entry in live.items() if entry.is_dirty}
            if changed:
                content = self._load(page)
                self._merge(content, changed)
                if self._is_grown(content, self._write(page, content)):
                    grown.add(page.group)
        for group in sorted(grown):
            self._divide(group)
        self._loaded, self._live = {}, {}
        return self._pages.flush()

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
            msg = f"state of key {entry.key!r} is not of its declared type: {problem}"
            raise StepFailed(
                msg,
                code="STATE-002",
                step=self._pages.step,
                found=repr(entry.slots)[:200],
                hint="store what the state declares",
            ) from problem
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
        return size > self._limit and size - max(map(_length, content.entries.values())) > self._limit // 2

    def _divide(self, group: int) -> None:
        """Double the pages of a key group until the largest fits or there are as many pages as entries."""
        whole = EntryPage({}, {})
        old = [PageId(group, number) for number in range(self._pages.division(group))]
        for part in map(self._load, old):
            whole.entries.update(part.entries)
            whole.due.update(part.due)
        if len(old) >= len(whole.entries):
            return
        for page in old:
            self._pages.write(page, None, _NEVER)
        pages = len(old) * 2
        self._pages.divide(group, pages)
        grown = False
        for number, part in sorted(self._parts(whole, pages).items()):
            self._loaded[PageId(group, number)] = part
            grown |= self._is_grown(part, self._write(PageId(group, number), part))
        if grown:
            self._divide(group)

    def _parts(self, whole: EntryPage, pages: int) -> dict[int, EntryPage]:
        hashes = self._hashes_of(list(whole.entries))
        numbers = page_of(hashes, np.full(len(hashes), pages, np.int64)).tolist()
        parts: dict[int, EntryPage] = {number: EntryPage({}, {}) for number in range(pages)}
        for (encoded, raw), number in zip(whole.entries.items(), numbers, strict=True):
            parts[number].entries[encoded] = raw
            if encoded in whole.due:
                parts[number].due[encoded] = whole.due[encoded]
        return parts

    def _hashes_of(self, keys: list[bytes]) -> Hashes:
        columns = zip(*(self._key_decoder.decode(key) for key in keys), strict=True)
        return stable_hash([pa.array(values, field.type) for values, field in zip(columns, self._keys, strict=True)])


def _length(raw: msgspec.Raw) -> int:
    return memoryview(raw).nbytes


def _is_due(due: Due, event: int, processing: int) -> bool:
    return due.event <= event or due.processing <= processing or due.expiry <= processing
