"""An epoch in one atomic batch, with its mark: all of it appears, or nothing, and the mark says which epochs have appeared.

The mark is the last message of the batch. It names the sequence of the mark before it, which the server compares: whoever wrote
a mark in between, a later owner or another lineage, makes the whole batch fail. A lost reply is decided by reading the mark.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from millstream.checkpoint.failpoint import failpoint
from millstream.connectors.decided import decided_once
from millstream.connectors.marked.keeping import Batches, Decision
from millstream.connectors.marked.marks import read_mark
from millstream.connectors.messaging import patience
from millstream.connectors.messaging.outgoing import OutgoingMessage, messages_of
from millstream.connectors.nats.library import APIError, Client, JetStreamContext, NotFoundError
from millstream.connectors.nats.links import REFUSED, NatsLink
from millstream.contract.sink import SinkContext
from millstream.errors import CheckpointRefused, ExternalFailure

MOST_ROWS = 999
"""Of the thousand messages that a server takes in one batch, one is the mark."""
_WRONG_SEQUENCE = 10071
_REMEMBERED = "nats-marks"
_PAUSE_SECONDS = 0.1
_KEPT_MARKS = 100


def batch_headers(batch: str, number: int) -> dict[str, str]:
    """What says that a message is one of a batch, and which."""
    return {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}


class AtomicKeeper:
    """Keeps the mark in the stream, beside the rows."""

    def __init__(self, link: NatsLink, stream: str, subjects: tuple[str, str], context: SinkContext) -> None:
        """`subjects` are that of rows, and that of marks."""
        self._link, self._stream, self._context = link, stream, context
        self._rows_subject, self._marks_subject = subjects
        self._written = 0

    def change(self, decide: Decision, epoch: int | None = None, batches: Batches = tuple) -> None:
        """Write batches and a new mark in one step, if the decision from the mark that is there gives one."""
        until = time.monotonic() + patience.PATIENCE
        while True:
            try:
                if self._changed(decide, batches):
                    break
            except ExternalFailure as problem:
                if problem.code == REFUSED or time.monotonic() > until:
                    raise
                self._context.heartbeat()
                time.sleep(_PAUSE_SECONDS)
        if epoch is not None:
            failpoint("sink_sent")

    def _changed(self, decide: Decision, batches: Batches) -> bool:
        """Whether nothing is left to do; else another mark came first, and it is decided again."""
        stored, sequence = self.last_mark()
        new = decide(read_mark(stored, step=self._context.step))
        if new is None:
            return True
        messages = [message for _, batch in batches() for message in messages_of(batch)]
        if not self._write(messages, new.text().encode(), sequence):
            return False
        self._forget_old_marks()
        return True

    def last_mark(self) -> tuple[bytes | None, int]:
        """The newest mark and its sequence; nothing and 0 where there is none."""

        async def ask(_: Client, stream: JetStreamContext) -> tuple[bytes | None, int]:
            try:
                found = await stream.get_last_msg(self._stream, self._marks_subject)
            except NotFoundError:
                return None, 0
            return found.data, found.seq or 0

        return self._link.ask(ask, "the mark cannot be read", step=self._context.step)

    def _write(self, messages: Sequence[OutgoingMessage], mark: bytes, expected: int) -> bool:
        """One batch; `False` when the mark before it is not the newest any more."""
        batch = uuid.uuid4().hex

        async def publish(client: Client, _: JetStreamContext) -> Any:
            for number, message in enumerate(messages, 1):
                headers = {**message.headers, **batch_headers(batch, number)}
                await client.publish(message.address or self._rows_subject, message.body, headers=headers)
            headers = {
                **batch_headers(batch, len(messages) + 1),
                "Nats-Batch-Commit": "1",
                "Nats-Expected-Stream": self._stream,
                "Nats-Expected-Last-Subject-Sequence": str(expected),
            }
            reply = await client.request(self._marks_subject, mark, timeout=4.0, headers=headers)
            answer = json.loads(reply.data)
            if "error" in answer and answer["error"].get("err_code") != _WRONG_SEQUENCE:
                APIError.from_error(answer["error"])
            return answer

        return "error" not in self._link.ask(publish, "an epoch cannot be published", step=self._context.step)

    def _forget_old_marks(self) -> None:
        """Marks are read back only to the newest; what stands before it goes now and then."""
        self._written += 1
        if self._written % _KEPT_MARKS:
            return

        async def purge(_: Client, stream: JetStreamContext) -> bool:
            return await stream.purge_stream(self._stream, subject=self._marks_subject, keep=1)

        self._link.ask(purge, "old marks cannot be removed", step=self._context.step)

    def refuse_lost_marks(self, created: str) -> None:
        """Without its marks a sink does not know what it has published: it would send the last epoch again.

        Raises:
            CheckpointRefused: (SINK-005) the stream is another one, or has lost the marks of the last run.
        """
        if not self._remembered.exists():
            return
        known, now = self.remember_marks(created), self._described(created)
        if known != now or self.last_mark()[0] is None:
            msg = "the marks of this sink are not those of its last run; nothing shows what is published"
            hint = (
                f"restore the stream; or see that all of the last epoch is in it, and remove {str(self._remembered)!r}"
            )
            found = f"stream {self._stream!r}, created at {created}"
            raise CheckpointRefused(
                msg, code="SINK-005", step=self._context.step, found=found, known=str(known), hint=hint
            )

    def remember_marks(self, created: str) -> Any:
        """Note which stream holds the marks; called once one is there, so that its absence tells of a loss."""
        return decided_once(self._remembered.parent, self._remembered.stem, lambda: self._described(created))

    def _described(self, created: str) -> dict[str, str]:
        return {"stream": self._stream, "created": created}

    @property
    def _remembered(self) -> Path:
        return Path(self._context.staging).parent / f"{_REMEMBERED}.json"
