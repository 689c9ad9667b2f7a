"""What a function that takes rows is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from millstream.connectors.marked.batch import ConsumerContext
from millstream.connectors.marked.marks import SinkMark, read_mark
from millstream.errors import StepFailed

__all__ = ["ConsumerContext", "EpochBatches", "TransactionContext"]


class TransactionContext:
    """What belongs to a transaction: whether there is anything to write, and the mark to keep beside the rows.

    The function is also called without batches, to leave a mark that keeps an earlier run of the job out.
    """

    def __init__(
        self,
        *,
        job: str,
        step: str,
        schema: pa.Schema,
        epoch: int | None,
        decide: Callable[[SinkMark], SinkMark | None],
    ) -> None:
        self.sink = f"{job}/{step}"
        """Names the mark: one for each sink of a job."""
        self.step, self.schema = step, schema
        self.epoch = epoch
        """The epoch of the rows; `None` where there are none, and only the mark is to be kept."""
        self._decide = decide
        self._new: SinkMark | None = None
        self._is_asked = self._is_kept = self._is_read = False

    def is_due(self, stored: str | bytes | None) -> bool:
        """Whether to write the batches and the mark; `False` where they are written already.

        Args:
            stored: the mark that is kept under the name `sink`, read in the transaction that writes; `None` where there is none.
        """
        # A transaction that failed may be tried again: then everything is to be written again.
        self._is_asked, self._is_read, self._is_kept = True, False, False
        self._new = self._decide(read_mark(stored, step=self.step))
        return self._new is not None

    @property
    def mark(self) -> str:
        """What to keep under the name `sink`, in the same transaction as the batches."""
        if self._new is None or not self._is_read:
            what = "asked for ctx.mark before ctx.is_due(...) was true and it had taken all batches"
            raise self._broken(what)
        self._is_kept = True
        return self._new.text()

    def taking(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, watched: the mark is given only behind the last."""
        yield from batches
        self._is_read = True

    def settle(self) -> None:
        """The function has returned: see whether it did what it promised."""
        if not self._is_asked or (self._new is not None and not self._is_kept):
            what = "returned without asking ctx.is_due(...), or without keeping ctx.mark"
            raise self._broken(what)

    def _broken(self, what: str) -> StepFailed:
        msg = f"the function promised transactional=True and {what}"
        hint = "in one transaction: if ctx.is_due(stored): write all batches, keep ctx.mark under the name ctx.sink"
        return StepFailed(msg, code="CONSUMER-004", step=self.step, hint=hint)


class EpochBatches:
    """The batches of one transaction, from the first on whenever they are asked for."""

    def __init__(self, told: TransactionContext, batches: Callable[[], Iterable[pa.RecordBatch]]) -> None:
        self._told, self._batches = told, batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._told.taking(self._batches())
