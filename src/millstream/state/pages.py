"""Paged state of one step in one subtask: pages of encoded entries per key group, and a directory of them.

An epoch reads the pages it touches and writes those it changed, once each while they fit its budget. The directory says
which pages exist, how a key group is divided, and when the first timer of a page is due, so quiet pages are never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from millstream.contract.pages import PageStore
from millstream.errors import CheckpointRefused
from millstream.plan.deployment import MemoryBudget

FORMAT = 1
STATE_BYTES = MemoryBudget().state_bytes
"""How much decoded state a step holds at once, unless the deployment says otherwise."""
NEVER = 2**63 - 1
"""Later than the end of time: what is due then never happens."""


class PageId(NamedTuple):
    """A page of a key group."""

    group: int
    page: int


class Due(msgspec.Struct, frozen=True, array_like=True):
    """When a page next needs attention: event time, processing time, and expiry of state."""

    event: int = NEVER
    processing: int = NEVER
    expiry: int = NEVER


_NEVER = Due()


class EntryPage(msgspec.Struct, array_like=True):
    """The content of a page of entries: encoded entries by encoded key, and the due times of those keys that have any."""

    entries: dict[bytes, msgspec.Raw]
    due: dict[bytes, Due]

    def first_due(self) -> Due:
        """When the first of its keys is due."""
        dues = self.due.values()
        return Due(
            min((due.event for due in dues), default=NEVER),
            min((due.processing for due in dues), default=NEVER),
            min((due.expiry for due in dues), default=NEVER),
        )


def entry_count(content: bytes) -> int:
    """How many entries a page of entries holds, from the header of its map: nothing is decoded."""
    kind = content[1]
    if kind & 0xF0 == 0x80:
        return kind & 0x0F
    return int.from_bytes(content[2 : 4 if kind == 0xDE else 6], "big")


class Group(msgspec.Struct, array_like=True):
    """A key group: its number of pages (a power of two) and those that hold something."""

    pages: int = 1
    due: dict[int, Due] = {}


class _Directory(msgspec.Struct, array_like=True):
    format: int
    groups: dict[int, Group]
    has_canonical_keys: bool = False
    """Whether floating-point keys are stored in their one form; steps without such keys do not write it."""


class StepPages:
    """The pages of one step in one subtask, for the length of one epoch."""

    def __init__(self, store: PageStore, step: str) -> None:
        self._store, self.step = store, step
        stored = store.get(f"{step}/directory")
        self._groups, self.has_canonical_keys = self._read_directory(stored)
        self._is_changed = False

    def _read_directory(self, stored: bytes | None) -> tuple[dict[int, Group], bool]:
        if stored is None:
            return {}, False
        directory = msgspec.msgpack.decode(stored, type=_Directory)
        if directory.format != FORMAT:
            msg = "state was written in another format"
            raise CheckpointRefused(
                msg,
                code="CKPT-010",
                step=self.step,
                found=directory.format,
                known=FORMAT,
                hint="use the version that wrote it",
            )
        return directory.groups, directory.has_canonical_keys

    def division(self, group: int) -> int:
        """Into how many pages a key group is divided."""
        divided = self._groups.get(group)
        return 1 if divided is None else divided.pages

    def divisions(self, groups: int) -> npt.NDArray[np.int64]:
        """Into how many pages each of so many key groups is divided."""
        counts: npt.NDArray[np.int64] = np.ones(groups, np.int64)
        for number, group in self._groups.items():
            counts[number] = group.pages
        return counts

    def __iter__(self) -> Iterator[tuple[PageId, Due]]:
        """All pages that hold something."""
        for group, content in sorted(self._groups.items()):
            for page, due in sorted(content.due.items()):
                yield PageId(group, page), due

    def __contains__(self, page: PageId) -> bool:
        group = self._groups.get(page.group)
        return group is not None and page.page in group.due

    def read(self, page: PageId) -> bytes | None:
        """A page's content; the store is asked only for pages the directory knows, and has them."""
        return self.stored(page) if page in self else None

    def stored(self, page: PageId) -> bytes:
        """A page that the directory knows; without it, keys would be taken for new ones."""
        content = self._store.get(self._key(page))
        if content is None:
            msg = f"a page of stored state is missing: {self._key(page)}"
            hint = "restore the state from a copy, or start from a savepoint"
            raise CheckpointRefused(msg, code="CKPT-009", step=self.step, hint=hint)
        return content

    def due(self, page: PageId) -> Due:
        """When a page is due; never, if it holds nothing."""
        group = self._groups.get(page.group)
        return _NEVER if group is None else group.due.get(page.page, _NEVER)

    def __len__(self) -> int:
        """How many pages hold something."""
        return sum(len(group.due) for group in self._groups.values())

    def write(self, page: PageId, content: bytes | None, due: Due) -> None:
        """Replace a page; `None` removes it."""
        group = self._groups.get(page.group)
        if content is None:
            if group is not None and page.page in group.due:
                del group.due[page.page]
                self._store.delete(self._key(page))
                self._is_changed = True
            return
        if group is None:
            group = self._groups[page.group] = Group(due={})
        self._store.put(self._key(page), content)
        if group.due.get(page.page) != due:
            group.due[page.page] = due
            self._is_changed = True

    def divide(self, group: int, pages: int) -> None:
        """Divide a key group anew; the caller has removed its pages and writes them again."""
        self._groups[group] = Group(pages=pages, due={})
        self._is_changed = True

    def restore(self, page: PageId, content: bytes, due: Due, *, division: int) -> None:
        """Write a page that was taken from a key group divided into so many pages."""
        if self.division(page.group) != division:
            self.divide(page.group, division)
        self.write(page, content, due)

    def clear(self) -> None:
        """Remove every page."""
        for page, _ in list(self):
            self.write(page, None, Due())
        self.has_canonical_keys = False

    def mark_canonical(self) -> None:
        """Say that all keys are stored in their one form, from now on."""
        self.has_canonical_keys = True
        self._is_changed = self._is_changed or bool(self._groups)

    def flush(self) -> Due:
        """Write the directory if it changed; returns when the first page is due."""
        if self._is_changed:
            self._groups = {number: group for number, group in self._groups.items() if group.due}
            self._write_directory()
            self._is_changed = False
        dues = [due for _, due in self]
        return Due(
            event=min((due.event for due in dues), default=NEVER),
            processing=min((due.processing for due in dues), default=NEVER),
            expiry=min((due.expiry for due in dues), default=NEVER),
        )

    def _write_directory(self) -> None:
        name = f"{self.step}/directory"
        if self._groups:
            mark = (True,) if self.has_canonical_keys else ()
            self._store.put(name, msgspec.msgpack.encode((FORMAT, self._groups, *mark)))
        else:
            self._store.delete(name)

    def _key(self, page: PageId) -> str:
        return f"{self.step}/{page.group}/{page.page}"
