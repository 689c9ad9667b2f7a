"""Questions about a stream: which one it is, where it begins and ends, and which message comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from millstream.connectors.messaging.beginnings import instant_of
from millstream.connectors.nats.library import (
    AckPolicy,
    Client,
    ConsumerConfig,
    DeliverPolicy,
    JetStreamContext,
    NotFoundError,
    RetentionPolicy,
    StreamInfo,
)
from millstream.connectors.nats.links import NatsLink
from millstream.errors import InvalidStep

_UNUSED_SECONDS = 5.0


class StreamFacts(NamedTuple):
    """A stream as it is now."""

    created: str
    """Another moment is another stream of the same name."""
    first: int
    end: int
    """The sequence behind the last message."""
    row_bytes: int
    """What a message takes on average, and never nothing."""


class StreamQuestions:
    """Asks about one stream."""

    def __init__(self, link: NatsLink, stream: str, subjects: Sequence[str], *, step: str) -> None:
        self._link, self._stream, self._subjects, self._step = link, stream, subjects, step

    def facts(self) -> StreamFacts:
        """Where it begins and ends.

        Raises:
            InvalidStep: it does not exist (NATS-004), or messages leave it when somebody else has read them (NATS-012).
        """
        info = self.described()
        if info.config.retention not in (None, RetentionPolicy.LIMITS):
            msg = f"the stream {self._stream!r} loses messages that somebody has read, so it cannot be read again"
            hint = "read a stream with retention 'limits', such as one that has this one as its source"
            found = f"retention {info.config.retention!s}"
            raise InvalidStep(msg, code="NATS-012", step=self._step, found=found, hint=hint)
        state = info.state
        # A stream that was never written to has no first message; its first will be number 1.
        first = max(1, state.first_seq)
        row_bytes = max(1, state.bytes // state.messages) if state.messages else 1
        return StreamFacts(str(info.created), first, max(first, state.last_seq + 1), row_bytes)

    def described(self) -> StreamInfo:
        """All that the server says of it."""

        async def ask(_: Client, stream: JetStreamContext) -> StreamInfo:
            return await stream.stream_info(self._stream)

        return self._link.ask(ask, f"the stream {self._stream!r} cannot be described", step=self._step)

    def since(self, milliseconds: int) -> int:
        """The first sequence that is not older than a time; the end where there is none."""

        async def ask(_: Client, stream: JetStreamContext) -> int:
            config = ConsumerConfig(
                deliver_policy=DeliverPolicy.BY_START_TIME,
                opt_start_time=instant_of(milliseconds),
                ack_policy=AckPolicy.NONE,
                mem_storage=True,
                num_replicas=1,
                inactive_threshold=_UNUSED_SECONDS,
            )
            made = await stream.add_consumer(self._stream, config)
            await stream.delete_consumer(self._stream, made.name)
            return made.delivered.stream_seq + 1 if made.delivered is not None else 1

        doing = f"the beginning in stream {self._stream!r} cannot be found"
        return self._link.ask(ask, doing, step=self._step)

    def next_wanted(self, sequence: int) -> int | None:
        """The first sequence from one on whose subject is wanted; `None` where there is none."""
        found = [self._next_of(subject, sequence) for subject in self._subjects]
        return min((each for each in found if each is not None), default=None)

    def _next_of(self, subject: str, sequence: int) -> int | None:
        async def ask(_: Client, stream: JetStreamContext) -> int | None:
            try:
                message = await stream.get_msg(self._stream, seq=sequence, subject=subject, next=True)
            except NotFoundError:
                return None
            return message.seq

        doing = f"the next message of stream {self._stream!r} cannot be found"
        return self._link.ask(ask, doing, step=self._step)
