"""Where the mark of a sink is kept: by the user's function beside the rows, or in the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn, Protocol

import pyarrow as pa

from millstream.checkpoint.stores.local import LocalStore
from millstream.connectors.consumer.context import ConsumerContext, EpochBatches, TransactionContext
from millstream.connectors.consumer.marks import SinkMark, read_mark
from millstream.connectors.user_calls import raise_failed
from millstream.contract.sink import SinkContext
from millstream.graph.function import FunctionRef
from millstream.runtime.bad_records import USER_PROBLEMS, UserProblem

Decision = Callable[[SinkMark], SinkMark | None]
Batches = Callable[[], Iterable[tuple[ConsumerContext, pa.RecordBatch]]]
_FILE = "mark.json"


class MarkKeeper(Protocol):
    """Hands rows to the function and keeps the mark."""

    def change(self, decide: Decision, epoch: int | None = None, batches: Batches = tuple) -> None:
        """Write batches and a new mark, if the decision from the mark that is there gives one."""
        ...


class FunctionKeeper:
    """The function keeps the mark: rows and mark are one transaction of its own."""

    def __init__(self, function: FunctionRef, context: SinkContext) -> None:
        self._function, self._context = function, context

    def change(self, decide: Decision, epoch: int | None = None, batches: Batches = tuple) -> None:
        """One call of the function, which asks the decision itself."""
        who = self._context
        told = TransactionContext(job=who.job, step=who.step, schema=who.schema.arrow, epoch=epoch, decide=decide)
        try:
            self._function.target(EpochBatches(told, lambda: self._watched(batches)), told)
        except USER_PROBLEMS as problem:
            _fail(self._function, problem, who.step)
        told.settle()

    def _watched(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for _, batch in batches():
            self._context.heartbeat()
            yield batch


class CheckpointKeeper:
    """The checkpoint keeps the mark, once the function has taken all batches: a crash in between repeats them."""

    def __init__(self, function: FunctionRef, context: SinkContext) -> None:
        self._function, self._context = function, context
        self._store = LocalStore(Path(context.staging).parent)

    def change(self, decide: Decision, epoch: int | None = None, batches: Batches = tuple) -> None:
        """One call of the function for each batch, then the mark."""
        stored = self._store.read(_FILE)
        new = decide(read_mark(stored, step=self._context.step))
        if new is None:
            return
        for told, batch in batches():
            self._context.heartbeat()
            self._call(batch, told)
        while not self._store.swap(_FILE, stored, new.text().encode()):
            # Another lineage changed it meanwhile, or a later owner has taken over.
            stored = self._store.read(_FILE)
            new = decide(read_mark(stored, step=self._context.step))
            if new is None:
                return

    def _call(self, batch: pa.RecordBatch, told: ConsumerContext) -> None:
        try:
            self._function.target(batch, told)
        except USER_PROBLEMS as problem:
            _fail(self._function, problem, self._context.step)


def _fail(function: FunctionRef, problem: UserProblem, step: str) -> NoReturn:
    """The rows stay staged: the next start of the job calls again."""
    hint = "mend the function and start the job again; the epoch waits in the checkpoint"
    raise_failed(function, problem, step=step, code="CONSUMER-003", hint=hint)
