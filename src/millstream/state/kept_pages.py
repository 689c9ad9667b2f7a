"""Backend `memory`: pages stay in the worker between epochs, as long as what is stored proves them current.

Workers are not bound to subtasks: another one may serve a subtask in each epoch, and an epoch may be rolled back and run
again. So every epoch writes beside its pages a stamp of its own and the names of the pages it changed, behind those of the
epochs before it: a journal. A worker whose copy bears one of these stamps forgets the pages that were changed since, and
keeps the rest; a copy with any other stamp is of an epoch that never counted, or too old, and is forgotten whole.

Pages stay as bytes. To keep them decoded was tried and is slower, because a page that is decoded anew lies together in memory,
and one that was changed entry by entry does not (docs/decisions/0014).
"""

from __future__ import annotations

import uuid
from collections import OrderedDict

import msgspec

from millstream.contract.pages import PageStore

JOURNAL = "journal"
"""Under which name the journal is stored."""
_EPOCHS, _NAMES = 16, 4096
"""The journal reaches back so many epochs, and names so many pages at most."""


class _Stamped(msgspec.Struct, frozen=True, array_like=True):
    """An epoch in the journal."""

    stamp: bytes
    changed: list[str]


_journal = msgspec.msgpack.Decoder(list[_Stamped])


class _Copy:
    """What this worker knows of one subtask's pages, the longest unused first."""

    def __init__(self) -> None:
        self.stamp = b""
        self.pages: OrderedDict[str, bytes] = OrderedDict()
        self.size = 0

    def find(self, name: str) -> bytes | None:
        held = self.pages.get(name)
        if held is not None:
            self.pages.move_to_end(name)
        return held

    def hold(self, name: str, content: bytes) -> None:
        self.forget(name)
        self.pages[name] = content
        self.size += len(content)

    def forget(self, name: str) -> None:
        held = self.pages.pop(name, None)
        if held is not None:
            self.size -= len(held)

    def shrink(self, limit: int) -> None:
        while self.size > limit and self.pages:
            self.forget(next(iter(self.pages)))


_copies: OrderedDict[tuple[str, int, int, int], _Copy] = OrderedDict()
"""Per lineage, token, level and subtask, the longest unused first."""


class KeptPages:
    """The pages of one subtask in one epoch, in front of the store that keeps them."""

    def __init__(self, store: PageStore, level: int, subtask: int, *, lineage: str, token: int, limit: int) -> None:
        self._store, self._limit = store, limit
        self._owner = (lineage, token, level, subtask)
        stored = store.get(JOURNAL)
        self._journal = [] if stored is None else _journal.decode(stored)
        self._changed: set[str] = set()
        # A task that fails on the way leaves no copy behind: it is taken out here and put back at the end.
        self._copy = _current(_copies.pop(self._owner, None), self._journal)
        for other in [other for other in _copies if other[0] == lineage and other[1] != token]:
            del _copies[other]

    def get(self, key: str) -> bytes | None:
        """A page, from memory if it is there."""
        held = self._copy.find(key)
        if held is None:
            held = self._store.get(key)
            if held is not None:
                self._hold(key, held)
        return held

    def put(self, key: str, content: bytes) -> None:
        """Write a page through."""
        self._store.put(key, content)
        self._changed.add(key)
        self._hold(key, content)

    def delete(self, key: str) -> None:
        """Remove a page."""
        self._store.delete(key)
        self._changed.add(key)
        self._copy.forget(key)

    def _hold(self, key: str, content: bytes) -> None:
        self._copy.hold(key, content)
        self._copy.shrink(self._limit)

    def close(self) -> None:
        """End the epoch: it gets its stamp, under which the pages stay here."""
        if self._changed or not self._journal:
            self._journal.append(_Stamped(uuid.uuid4().bytes, sorted(self._changed)))
            self._store.put(JOURNAL, msgspec.msgpack.encode(_recent(self._journal)))
        self._copy.stamp = self._journal[-1].stamp
        _copies[self._owner] = self._copy
        _shrink_all(self._limit)


def _current(copy: _Copy | None, journal: list[_Stamped]) -> _Copy:
    """What of a copy still holds."""
    stamps = [epoch.stamp for epoch in journal]
    if copy is None or copy.stamp not in stamps:
        return _Copy()
    for epoch in journal[stamps.index(copy.stamp) + 1 :]:
        for name in epoch.changed:
            copy.forget(name)
    return copy


def _recent(journal: list[_Stamped]) -> list[_Stamped]:
    """The newest epochs. The oldest of them only lends its stamp: what it changed is in every copy that bears it."""
    kept = journal[-_EPOCHS:]
    while len(kept) > 1 and sum(len(epoch.changed) for epoch in kept[1:]) > _NAMES:
        kept = kept[1:]
    return [_Stamped(kept[0].stamp, []), *kept[1:]]


def _shrink_all(limit: int) -> None:
    """All copies of the worker share the budget; those of the subtask that was served longest ago give way first."""
    over = sum(copy.size for copy in _copies.values()) - limit
    for owner, copy in list(_copies.items()):
        if over <= 0:
            return
        before = copy.size
        copy.shrink(max(0, before - over))
        over -= before - copy.size
        if not copy.pages:
            del _copies[owner]
