"""Columnar state over pages: the partial results of built-in aggregates as Arrow tables, one per page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.records.key_groups import Hashes, key_group, page_of, stable_hash, stable_order
from millstream.state.pages import NEVER, Due, PageId, StepPages

Dues = Callable[[pa.Table], npt.NDArray[np.int64]]
"""Gives the event time, or the time of the clock, at which each stored row next needs attention."""


class _RowPlaces(NamedTuple):
    """Where rows live: pages are counted through all key groups, so that few bits are sorted."""

    hashes: Hashes
    pages: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    """The number of each key group's first page, and behind them the number of all pages."""

    def page(self, number: int) -> PageId:
        """The page with a number."""
        group = int(np.searchsorted(self.firsts, number, "right")) - 1
        return PageId(group, number - int(self.firsts[group]))

    def counts(self) -> npt.NDArray[np.int64]:
        """How many rows each page has."""
        return np.bincount(self.pages, minlength=int(self.firsts[-1])).astype(np.int64)

    def sizes(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """How much each page holds, from the weights of its rows."""
        return np.bincount(self.pages, weights, minlength=int(self.firsts[-1])).astype(np.float64)


class ColumnPages:
    """The stored rows of one step in one subtask, for the length of one epoch."""

    def __init__(
        self,
        pages: StepPages,
        schema: pa.Schema,
        keys: tuple[str, ...],
        *,
        key_groups: int,
        page_bytes: int,
        by_clock: bool = False,
    ) -> None:
        self._pages, self._schema, self._keys, self._by_clock = pages, schema, keys, by_clock
        self._key_groups, self._limit = key_groups, page_bytes
        self._held: set[PageId] = set()

    @property
    def page_bytes(self) -> int:
        """The size at which a page is divided."""
        return self._limit

    def __len__(self) -> int:
        """How many pages hold something."""
        return len(self._pages)

    def division(self, group: int) -> int:
        """Into how many pages a key group is divided."""
        return self._pages.division(group)

    def groups(self, table: pa.Table) -> npt.NDArray[np.int64]:
        """The key group of each row."""
        return key_group(self._hashes(table), self._key_groups)

    def load(self, pages: Iterable[PageId]) -> pa.Table:
        """The rows of these pages, apart from pages that were loaded before."""
        wanted = sorted(set(pages) - self._held)
        self._held.update(wanted)
        batches = []
        for page in wanted:
            content = self._pages.read(page)
            if content is not None:
                batches.append(pa.ipc.read_record_batch(pa.py_buffer(content), self._schema))
        return pa.Table.from_batches(batches, self._schema)

    def touched(self, table: pa.Table) -> set[PageId]:
        """The pages where the keys of a table live."""
        places = self._places(table)
        return {places.page(number) for number in np.flatnonzero(places.counts()).tolist()}

    def due(self, time: int) -> set[PageId]:
        """Pages with a row that needs attention at this event time, or at this time of the clock."""
        return {page for page, due in self._pages if (due.processing if self._by_clock else due.event) <= time}

    @property
    def first_due(self) -> int:
        """When the first page needs attention."""
        return min((due.processing if self._by_clock else due.event for _, due in self._pages), default=NEVER)

    def everything(self) -> set[PageId]:
        """All pages."""
        return {page for page, _ in self._pages}

    def store(self, table: pa.Table, dues: Dues | None = None) -> Due:
        """Replace the rows of every page loaded so far."""
        table, places = self._divided(table)
        counts = places.counts()
        order = stable_order(places.pages, len(counts))
        batch = _one_batch(table.take(pa.array(order)), self._schema)
        times = None if dues is None or not batch.num_rows else dues(pa.Table.from_batches([batch]))
        numbers, ends = np.flatnonzero(counts), np.cumsum(counts)
        written = set()
        for number in numbers.tolist():
            page, end, start = places.page(number), int(ends[number]), int(ends[number] - counts[number])
            first = NEVER if times is None else int(times[start:end].min())
            content = batch.slice(start, end - start).serialize().to_pybytes()
            self._pages.write(page, content, Due(processing=first) if self._by_clock else Due(event=first))
            written.add(page)
        for page in self._held - written:
            self._pages.write(page, None, Due())
        self.let_go()
        return self._pages.flush()

    def let_go(self) -> None:
        """What was loaded is used no more; it may be loaded again."""
        self._held = set()

    def _divided(self, table: pa.Table) -> tuple[pa.Table, _RowPlaces]:
        """Divide key groups whose pages outgrew the limit; a divided group is loaded whole."""
        places = self._places(table)
        grown = self._grown(table, places)
        for group, factor in sorted(grown.items()):
            whole = [PageId(group, page) for page in range(self._pages.division(group))]
            table = pa.concat_tables([table, self.load(whole)])
            division = self._pages.division(group) * factor
            for page in whole:
                self._pages.write(page, None, Due())
            self._pages.divide(group, division)
            self._held.update(PageId(group, page) for page in range(division))
        return table, self._places(table) if grown else places

    def _grown(self, table: pa.Table, places: _RowPlaces) -> dict[int, int]:
        """Key groups to divide, and into how many times as many pages.

        Rows of one key stay together, so the largest key of a page does not count: dividing would not make it smaller.
        """
        weights = _row_bytes(table)
        sizes = places.sizes(weights)
        if sizes.max(initial=0) <= self._limit:
            return {}
        _, firsts, key = np.unique(places.hashes, return_index=True, return_inverse=True)
        page_of_key = places.pages[firsts]
        largest = np.zeros(len(sizes))
        np.maximum.at(largest, page_of_key, np.bincount(key, weights))
        # Beside the largest key there must be two: one alone would not become smaller either.
        has_many_keys = np.bincount(page_of_key, minlength=len(sizes)) > 2
        grown: dict[int, int] = {}
        rest = sizes - largest
        for place in np.flatnonzero(has_many_keys & (sizes > self._limit) & (rest > self._limit / 2)).tolist():
            # By the least power of two that brings the rest below the limit: pages are chosen by bits of the hash.
            group, times = places.page(place).group, int(rest[place]) // (2 * self._limit)
            grown[group] = max(grown.get(group, 0), 2 << times.bit_length())
        return grown

    def _places(self, table: pa.Table) -> _RowPlaces:
        hashes = self._hashes(table)
        groups = key_group(hashes, self._key_groups)
        division = self._pages.divisions(self._key_groups)
        firsts = np.r_[0, np.cumsum(division)]
        return _RowPlaces(hashes, firsts[groups] + page_of(hashes, division[groups]), firsts)

    def _hashes(self, table: pa.Table) -> Hashes:
        return stable_hash([table.column(key) for key in self._keys])


def _row_bytes(table: pa.Table) -> npt.NDArray[np.float64]:
    """About how large each row is: lists by their length, other columns by their mean."""
    lists = [column for column in table.columns if pa.types.is_list(column.type)]
    held = sum(column.nbytes for column in lists)
    sizes = np.full(table.num_rows, (table.nbytes - held) / max(1, table.num_rows))
    for column in lists:
        lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0).combine_chunks())
        sizes += lengths * (column.nbytes / max(1, int(lengths.sum())))
    return sizes


def _one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    batches = table.select(schema.names).cast(schema).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
