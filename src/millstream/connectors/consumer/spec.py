"""Options of the `consumer` sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.connectors.user_functions import check_function, function_option, given_function
from millstream.errors import InvalidStep
from millstream.model.changelog import written_as_log
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Option, Options, SinkDeclaration
from millstream.model.guarantee import SinkCapability
from millstream.model.schema import Schema


def consumer(
    function: Callable[[Any, Any], Any] | str,
    *,
    idempotent: bool = False,
    transactional: bool = False,
    batch_rows: int = 10_000,
) -> ConnectorSpec:
    """Rows for a function of yours, which hands them to any library.

    Args:
        function: `def write(batch, ctx)`, called with each Arrow batch of an epoch that is durable. Or `module:function`.
        idempotent: you promise that a batch that comes again, with the same `ctx.key`, changes nothing.
        transactional: you promise that `def write(batches, ctx)` writes an epoch and `ctx.mark` in one transaction.
        batch_rows: how many rows a batch has at most.
    """
    options = {"idempotent": idempotent, "transactional": transactional, "batch_rows": batch_rows}
    return ConnectorSpec("consumer", {"function": given_function(function), **options})


def _above_zero(value: int) -> int:
    if value < 1:
        msg = "a whole number above zero"
        raise ValueError(msg)
    return value


def _check(options: Options, _: Schema, step: str) -> None:
    form = "write(batches, ctx)" if options["transactional"] else "write(batch, ctx)"
    check_function(options["function"], form, step=step, code="CONSUMER-001")
    if options["transactional"] and options["idempotent"]:
        msg = "a function is transactional or idempotent, not both"
        hint = "leave one out: transactional=True is the stronger promise"
        raise InvalidStep(msg, code="CONSUMER-002", step=step, hint=hint)


def _capability(options: Options) -> SinkCapability:
    if options["transactional"]:
        return SinkCapability.STAGED_ATOMIC_COMMIT
    return SinkCapability.IDEMPOTENT if options["idempotent"] else SinkCapability.AT_LEAST_ONCE


DECLARATION = ConnectorDeclaration(
    name="consumer",
    sink=SinkDeclaration(
        options={
            "function": function_option("`write(batch, ctx)`, called with each batch", is_needed=True),
            "idempotent": Option(kind=(bool,), default=False, doc="a batch that comes again changes nothing"),
            "transactional": Option(
                kind=(bool,), default=False, doc="`write(batches, ctx)` writes an epoch and its mark in one transaction"
            ),
            "batch_rows": Option(kind=(int,), default=10_000, check=_above_zero, doc="rows of a batch at most"),
        },
        capability=SinkCapability.STAGED_ATOMIC_COMMIT,
        writer="millstream.connectors.consumer.sink:ConsumerWriter",
        takes_changes=written_as_log,
        committer="millstream.connectors.consumer.sink:ConsumerCommitter",
        capability_of=_capability,
        batch_option=lambda _: ("batch_rows",),
        check=_check,
        variants=({}, {"idempotent": True}, {"transactional": True}),
    ),
)
