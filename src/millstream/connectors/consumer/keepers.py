"""Hands rows to the user's function: with the mark, which it keeps beside them, or batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

import pyarrow as pa

from millstream.connectors.consumer.context import EpochBatches, TransactionContext
from millstream.connectors.marked.keeping import Batches, Decision
from millstream.connectors.user_calls import raise_failed
from millstream.contract.sink import SinkContext
from millstream.graph.function import FunctionRef
from millstream.runtime.bad_records import USER_PROBLEMS, UserProblem


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


def function_caller(function: FunctionRef, context: SinkContext) -> Callable[[Batches, int | None], None]:
    """Calls the function once for each batch."""

    def hand_on(batches: Batches, _: int | None) -> None:
        for told, batch in batches():
            context.heartbeat()
            try:
                function.target(batch, told)
            except USER_PROBLEMS as problem:
                _fail(function, problem, context.step)

    return hand_on


def _fail(function: FunctionRef, problem: UserProblem, step: str) -> NoReturn:
    """The rows stay staged: the next start of the job calls again."""
    hint = "mend the function and start the job again; the epoch waits in the checkpoint"
    raise_failed(function, problem, step=step, code="CONSUMER-003", hint=hint)
