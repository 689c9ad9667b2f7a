"""An epoch of a columnar step in shares: some key groups after the others, so that their pages fit the budget together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.runtime.operators.contract import EpochWork
from millstream.state.columns import ColumnPages
from millstream.state.pages import PageId

Groups = npt.NDArray[np.int64]
_COPIES = 4
"""How many times the rows of a page are held while they are merged."""


class Share(NamedTuple):
    """The part of an epoch that some key groups have in it."""

    before: list[pa.Table]
    after: list[pa.Table]
    groups: frozenset[int] | None
    """`None`: all of them."""

    def of(self, pages: set[PageId]) -> set[PageId]:
        """Those pages that belong to the share."""
        return pages if self.groups is None else {page for page in pages if page.group in self.groups}


def shares_of(work: EpochWork, pages: ColumnPages, due: set[PageId]) -> Iterator[Share]:
    """The epoch in shares: each with the rows of its key groups. `due` are pages that are needed besides those of the rows.

    A key group is never cut: one that is larger than the budget is a share of its own.
    """
    most = max(1, work.state_bytes // (_COPIES * pages.page_bytes))
    if len(pages) <= most:
        yield Share(work.before, work.after, None)
        return
    placed = [[(table, pages.groups(table)) for table in tables] for tables in (work.before, work.after)]
    touched = [np.unique(groups) for tables in placed for _, groups in tables]
    wanted = np.unique(np.concatenate([*touched, np.array([page.group for page in due], np.int64)]))
    cuts = list(_cuts(wanted.tolist(), pages, most))
    if len(cuts) < 2:
        yield Share(work.before, work.after, None)
        return
    for groups in cuts:
        before, after = (_of_groups(tables, groups) for tables in placed)
        yield Share(before, after, frozenset(groups))


def _cuts(groups: list[int], pages: ColumnPages, most: int) -> Iterator[list[int]]:
    held, some = 0, list[int]()
    for group in groups:
        count = pages.division(group)
        if some and held + count > most:
            yield some
            held, some = 0, []
        some.append(group)
        held += count
    if some:
        yield some


def _of_groups(tables: list[tuple[pa.Table, Groups]], wanted: list[int]) -> list[pa.Table]:
    """The rows of a run of key groups."""
    parts = [table.filter(pa.array((groups >= wanted[0]) & (groups <= wanted[-1]))) for table, groups in tables]
    return [part for part in parts if part.num_rows]
