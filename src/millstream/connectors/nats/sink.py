"""The `nats` sink: messages are made in the workers and wait in the checkpoint; the driver publishes an epoch that is durable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.connectors.marked.batch import ConsumerContext
from millstream.connectors.marked.committer import MarkedCommitter
from millstream.connectors.marked.keeping import CheckpointKeeper, MarkKeeper
from millstream.connectors.messaging.outgoing import MessageRoles, RowEncoder, StagingWriter
from millstream.connectors.messaging.sending import BATCH_ROWS, sent_by
from millstream.connectors.nats.atomic import MOST_ROWS, AtomicKeeper, batch_headers
from millstream.connectors.nats.fitting import StreamLimits, header_bytes, limits_of
from millstream.connectors.nats.links import link_to
from millstream.connectors.nats.publishing import NamedPublisher, name_header
from millstream.connectors.nats.target import mark_subject, prepared_stream, subject_of
from millstream.contract.sink import SinkContext, SinkTask
from millstream.errors import StepFailed
from millstream.model.connector import Options
from millstream.model.ids import Epoch
from millstream.model.schema import Schema

_NO_SUBJECT = r"^$|[\s*>]|^\.|\.$|\.\."
_LONGEST = 1024


class NatsWriter(StagingWriter):
    """Stages the messages of one task."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        roles = MessageRoles(options["subject_field"], options["headers"], unfit=_NO_SUBJECT, longest=_LONGEST)
        rows = RowEncoder(options, schema, roles, format=options["format"], step=task.step, code="NATS-021")
        super().__init__(rows, task)


class NatsCommitter(MarkedCommitter):
    """Publishes each epoch: message by message under names that a repeated one bears too, or in one atomic batch."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._link = link_to(options, step=context.step)
        self._limits: StreamLimits | None = None
        super().__init__(context, self._opened_keeper(context), batch_rows=BATCH_ROWS)

    def _opened_keeper(self, context: SinkContext) -> MarkKeeper:
        """Who takes the batches and keeps the mark."""
        given = self._options
        if not given["atomic"]:
            publisher = NamedPublisher(self._link, given["stream"], subject_of(given), context)
            return CheckpointKeeper(context, sent_by(publisher, context))
        subjects = (subject_of(given), mark_subject(given, context.job, context.step))
        return AtomicKeeper(self._link, given["stream"], subjects, context)

    def fence(self) -> None:
        """See that the stream is there, and leave the token of this run in the mark."""
        found = prepared_stream(self._link, self._options, step=self._context.step)
        self._limits = limits_of(self._link, found, self._options, step=self._context.step)
        if not isinstance(self._keeper, AtomicKeeper):
            super().fence()
            return
        self._keeper.refuse_lost_marks(str(found.created))
        super().fence()
        self._keeper.remember_marks(str(found.created))

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """The files of the epoch; what could never be published is refused before the epoch is durable."""
        prepared = super().prepare(epoch, messages)
        step, staging = self._context.step, self._context.staging
        if self._limits is not None:
            added = header_bytes(self._added_headers(epoch, prepared["files"]))
            self._limits.check(staging, prepared["files"], subject_of(self._options), added=added, step=step)
        if self._options["atomic"] and prepared["rows"] > MOST_ROWS:
            msg = f"epoch {epoch} has more rows than an atomic batch"
            hint = "pass a smaller rows_per_epoch=, or leave atomic=True out and ask for effectively_once"
            found = f"{prepared['rows']} rows"
            raise StepFailed(msg, code="NATS-022", step=step, found=found, known=MOST_ROWS, hint=hint)
        return prepared

    def _added_headers(self, epoch: Epoch, files: Sequence[Any]) -> dict[str, str]:
        """The longest headers that messages of the epoch get beside their own: a name, or their place in a batch."""
        if self._options["atomic"]:
            return batch_headers("0" * 32, MOST_ROWS)
        here = self._context
        task = max((file["task"] for file in files), key=len, default="")
        batches = max((file["rows"] for file in files), default=0) // BATCH_ROWS
        told = ConsumerContext(
            job=here.job, lineage=here.lineage, step=here.step, epoch=epoch, task=task, sequence=batches
        )
        # The client adds the second, since it is told the stream.
        return {**name_header(f"{told.key}/{BATCH_ROWS - 1}"), "Nats-Expected-Stream": self._options["stream"]}
