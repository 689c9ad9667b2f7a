"""Opens what a step keeps, for one epoch of one subtask."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import Schema
from millstream.runtime.operators.contract import EpochWork
from millstream.state.columns import ColumnPages
from millstream.state.compat.float_keys import MergeRows, MergeSlots, rekey_columns
from millstream.state.entries import Entries
from millstream.state.pages import StepPages


class Paging(NamedTuple):
    """How the state of a step is cut into pages."""

    key_groups: int
    page_bytes: int

    def entries(
        self,
        work: EpochWork,
        uid: str,
        keys: Schema,
        slots: list[Any],
        *,
        is_trusted: bool = False,
        merge: MergeSlots | None = None,
    ) -> Entries:
        """State as entries per key; `is_trusted` where no user code makes their content, `merge` where two can be made one."""
        return Entries(
            StepPages(work.store, uid),
            keys,
            slots,
            key_groups=self.key_groups,
            page_bytes=self.page_bytes,
            state_bytes=work.state_bytes,
            is_trusted=is_trusted,
            merge=merge,
        )

    def columns(
        self,
        work: EpochWork,
        node: StreamNode,
        stored: pa.Schema,
        merge: MergeRows,
        *,
        is_merged: bool = True,
        by_clock: bool = False,
    ) -> ColumnPages:
        """State as rows in columns, due by the watermark or by the clock.

        `merge` makes rows of one key one; not `is_merged` where the order decides in which they came.
        """
        pages = StepPages(work.store, node.uid)
        rekey_columns(pages, stored, node.keys, merge, is_merged=is_merged)
        return ColumnPages(
            pages,
            stored,
            node.keys,
            key_groups=self.key_groups,
            page_bytes=self.page_bytes,
            by_clock=by_clock,
        )
