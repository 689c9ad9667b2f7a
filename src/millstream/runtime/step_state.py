"""Opens what a step keeps, for one epoch of one subtask."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import Schema
from millstream.runtime.columns import ColumnPages
from millstream.runtime.entries import Entries
from millstream.runtime.keyed import Turn
from millstream.runtime.pages import StepPages


class Paging(NamedTuple):
    """How the state of a step is cut into pages."""

    key_groups: int
    page_bytes: int

    def entries(self, turn: Turn, uid: str, keys: Schema, slots: list[Any], *, is_trusted: bool = False) -> Entries:
        """State as entries per key; `is_trusted` where no user code makes their content."""
        return Entries(
            StepPages(turn.store, uid),
            keys,
            slots,
            key_groups=self.key_groups,
            page_bytes=self.page_bytes,
            state_bytes=turn.state_bytes,
            is_trusted=is_trusted,
        )

    def columns(self, turn: Turn, node: StreamNode, stored: pa.Schema, *, by_clock: bool = False) -> ColumnPages:
        """State as rows in columns, due by the watermark or by the clock."""
        return ColumnPages(
            StepPages(turn.store, node.uid),
            stored,
            node.keys,
            key_groups=self.key_groups,
            page_bytes=self.page_bytes,
            by_clock=by_clock,
        )
