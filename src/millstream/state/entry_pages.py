"""How large pages of entries are, and how the entries of a key group are spread over pages."""

from __future__ import annotations

import msgspec
import numpy as np

from millstream.records.key_groups import Hashes, page_of
from millstream.state.pages import EntryPage

_STORED = 150
"""About how many bytes Python needs for an entry on a decoded page beyond its content."""
_SAMPLE = 64
_DUE = 28
"""Bytes of encoded due times."""


def division_of(whole: EntryPage, hashes: Hashes, pages: int, limit: int) -> tuple[list[int], int]:
    """The page of each entry, and into how many pages the key group is divided, from so many on.

    Their number doubles until the largest page fits or there are as many pages as entries. A large entry stays as large as
    it is on a page of its own, so it does not count.
    """
    sizes = np.array([_stored_size(key, raw, key in whole.due) for key, raw in whole.entries.items()], np.int64)
    numbers = page_of(hashes, np.full(len(hashes), pages, np.int64))
    while pages < len(sizes):
        largest = np.zeros(pages, np.int64)
        np.maximum.at(largest, numbers, sizes)
        total = np.bincount(numbers, sizes, minlength=pages)
        if not ((total > limit) & (total - largest > limit // 2)).any():
            break
        pages *= 2
        numbers = page_of(hashes, np.full(len(hashes), pages, np.int64))
    return numbers.tolist(), pages


def parts_of(whole: EntryPage, numbers: list[int]) -> dict[int, EntryPage]:
    """The pages of a key group, from the page of each of its entries."""
    parts: dict[int, EntryPage] = {}
    for (encoded, raw), number in zip(whole.entries.items(), numbers, strict=True):
        part = parts.setdefault(number, EntryPage({}, {}))
        part.entries[encoded] = raw
        if encoded in whole.due:
            part.due[encoded] = whole.due[encoded]
    return parts


def _stored_size(key: bytes, raw: msgspec.Raw, has_due: bool) -> int:  # noqa: FBT001
    """The bytes an entry takes on its page; its due times stand there beside the key once more."""
    return length(raw) + (len(key) + 2) * (1 + has_due) + _DUE * has_due


def decoded_size(page: EntryPage) -> int:
    """About how large a decoded page is, from some of its entries."""
    some = list(page.entries.values())[:: max(1, len(page.entries) // _SAMPLE)]
    mean = sum(map(length, some)) // max(1, len(some))
    return (_STORED + mean) * len(page.entries)


def length(raw: msgspec.Raw) -> int:
    """The bytes of an encoded entry."""
    return memoryview(raw).nbytes
