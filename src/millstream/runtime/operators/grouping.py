"""Rows by key: numbered, put side by side, and handed out with the entries of their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.records.batch import Batch, from_table
from millstream.records.key_groups import stable_order
from millstream.runtime.operators.contract import CHUNK
from millstream.state.entries import Entries, Entry, pages_of

Numbers = npt.NDArray[np.int64]
_WIDEST = 1 << 62
"""Combined key codes stay below this."""


class KeyRun(NamedTuple):
    """Consecutive places of one key in a table that was sorted by key."""

    start: int
    end: int


def group_by_key(table: pa.Table, keys: tuple[str, ...]) -> tuple[Numbers, list[KeyRun]]:
    """An order that puts rows of one key side by side (keeping their order), and where each key's rows lie."""
    codes, bound = key_codes(table, keys)
    order = stable_order(codes, bound)
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.int64)
    ends = np.r_[starts[1:], len(ordered)]
    return order, list(map(KeyRun, starts.tolist(), ends.tolist()))


def key_codes(table: pa.Table, keys: tuple[str, ...]) -> tuple[Numbers, int]:
    """A number for each row, equal for rows of one key and only for those, and a bound above all of them."""
    codes, bound = np.zeros(table.num_rows, np.int64), 1
    for key in keys:
        encoded = pc.dictionary_encode(table.column(key).combine_chunks(), null_encoding="encode")
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        if bound * len(encoded.dictionary) > _WIDEST:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
            bound = table.num_rows
        codes = codes * len(encoded.dictionary) + indices
        bound *= len(encoded.dictionary)
    return codes, bound


class KeyRows(NamedTuple):
    """Some rows of one key inside a batch, and the key's entry."""

    start: int
    end: int
    entry: Entry


def key_rows(tables: list[pa.Table], keys: tuple[str, ...], entries: Entries) -> Iterator[tuple[Batch, list[KeyRows]]]:
    """All rows key by key, in their order within a key, a bounded number at a time.

    Keys come in the order in which they first occur; where they are too many to hold all of them, in the order of their pages,
    so that a page is done with before the next ones are read.
    """
    if not tables:
        return
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    sorted_rows = _by_key(table, keys, entries)
    for begin, end in _cuts(sorted_rows, entries.most_pages):
        entries.settle()
        first, last = np.searchsorted(sorted_rows.starts, begin, "right") - 1, np.searchsorted(sorted_rows.starts, end)
        starts = np.maximum(sorted_rows.starts[first:last], begin) - begin
        chunk = table.take(pa.array(sorted_rows.order[begin:end]))
        values = [chunk.column(key).combine_chunks().take(pa.array(starts)).to_pylist() for key in keys]
        places = pages_of(sorted_rows.pages[first:last])
        key_entries = [
            entries.entry(name, place) for name, place in zip(zip(*values, strict=True), places, strict=True)
        ]
        ends = [*starts[1:].tolist(), end - begin]
        yield from_table(chunk), list(map(KeyRows, starts.tolist(), ends, key_entries))


class _SortedRows(NamedTuple):
    """An order that puts rows of one key side by side."""

    order: Numbers
    starts: Numbers
    """Where each key begins in it."""
    pages: Numbers
    """The page of each key."""
    page_starts: Numbers
    """Where each page begins; nowhere if all of them are held together."""


def _by_key(table: pa.Table, keys: tuple[str, ...], entries: Entries) -> _SortedRows:
    codes, bound = key_codes(table, keys)
    order = stable_order(codes, bound)
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.int64)
    firsts = pa.array(order[starts])
    pages = entries.page_numbers([table.column(key).combine_chunks().take(firsts) for key in keys])
    if entries.fits(pages):
        return _SortedRows(order, starts, pages, np.empty(0, np.int64))
    places, moved, pages = in_order_of_pages(starts, len(ordered), pages)
    page_starts = moved[np.flatnonzero(np.r_[True, pages[1:] != pages[:-1]])]
    return _SortedRows(order[places], moved, pages, page_starts)


def in_order_of_pages(starts: Numbers, count: int, pages: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Keys in the order of their pages: the place of each row until now, where each key begins then, and its page."""
    by_page = np.argsort(pages, kind="stable")
    lengths = np.diff(np.r_[starts, count])[by_page]
    moved = np.cumsum(lengths) - lengths
    return np.repeat(starts[by_page] - moved, lengths) + np.arange(count), moved, pages[by_page]


def end_of_pages(page_starts: Numbers, begin: int, count: int, total: int) -> int:
    """Where so many pages end, counted from the page of a place on."""
    beyond = int(np.searchsorted(page_starts, begin, "right")) - 1 + count
    return int(page_starts[beyond]) if beyond < len(page_starts) else total


def _cuts(rows: _SortedRows, most_pages: int) -> Iterator[tuple[int, int]]:
    """Where to cut, so that a piece has a bounded number of rows and of pages; rows of one key may be cut."""
    begin, total = 0, len(rows.order)
    while begin < total:
        end = min(begin + CHUNK, end_of_pages(rows.page_starts, begin, most_pages, total))
        yield begin, end
        begin = end
