"""Where the mark of a sink is kept: beside the rows, by whoever can do so in one step; else in the checkpoint, behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from millstream.checkpoint.stores.local import LocalStore
from millstream.connectors.marked.batch import ConsumerContext
from millstream.connectors.marked.marks import SinkMark, read_mark
from millstream.contract.sink import SinkContext

Decision = Callable[[SinkMark], SinkMark | None]
Batches = Callable[[], Iterable[tuple[ConsumerContext, pa.RecordBatch]]]
_FILE = "mark.json"


class MarkKeeper(Protocol):
    """Hands rows on and keeps the mark."""

    def change(self, decide: Decision, epoch: int | None = None, batches: Batches = tuple) -> None:
        """Hand batches on and keep a new mark, if the decision from the mark that is there gives one."""
        ...


class CheckpointKeeper:
    """The checkpoint keeps the mark, once all batches are handed on: a crash in between hands them on again."""

    def __init__(self, context: SinkContext, hand_on: Callable[[Batches, int | None], None]) -> None:
        """`hand_on` returns when whoever takes the batches of an epoch has all of them."""
        self._context, self._hand_on = context, hand_on
        self._store = LocalStore(Path(context.staging).parent)

    def change(self, decide: Decision, epoch: int | None = None, batches: Batches = tuple) -> None:
        """Hand batches on, then write the mark."""
        stored = self._store.read(_FILE)
        new = decide(read_mark(stored, step=self._context.step))
        if new is None:
            return
        self._hand_on(batches, epoch)
        while not self._store.swap(_FILE, stored, new.text().encode()):
            # Another lineage changed it meanwhile, or a later owner has taken over.
            stored = self._store.read(_FILE)
            new = decide(read_mark(stored, step=self._context.step))
            if new is None:
                return
