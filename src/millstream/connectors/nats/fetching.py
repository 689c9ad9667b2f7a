"""Reads a range of sequences through a consumer that the server pushes messages to, in order: the fast way.

The consumer numbers what it delivers, so a message that got lost on the way shows as a gap; then the range is read on from the
message that is missing, through another consumer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from millstream.connectors.messaging import patience
from millstream.connectors.messaging.received import BrokerMessage
from millstream.connectors.nats.library import (
    AckPolicy,
    Client,
    ConsumerConfig,
    DeliverPolicy,
    JetStreamContext,
    Msg,
    NatsError,
    NotFoundError,
    Subscription,
)
from millstream.connectors.nats.links import REFUSED, NatsLink
from millstream.errors import ExternalFailure

_WAITING = 20_000
"""Messages that may wait to be taken; beyond them the server is let wait."""
_SILENCE_SECONDS = 5.0
_HEARTBEAT_SECONDS = 1.0
_UNUSED_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_FLOW = "Nats-Consumer-Stalled"


class DeliveryGap(NatsError):
    """The server delivered a message that did not arrive."""


class PushedRange:
    """One consumer and what it has delivered; all of it happens on the loop."""

    def __init__(self, stream: str, first: int, end: int, subjects: Sequence[str]) -> None:
        self._stream, self._first, self._end, self._subjects = stream, first, end, subjects
        self._delivered = 0
        self._messages: list[BrokerMessage] = []
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._is_done = False
        self._problem: Exception | None = None
        self._client: Client | None = None
        self._subscription: Subscription | None = None
        self._name = ""

    async def open(self, client: Client, stream: JetStreamContext) -> None:
        """Have the server push."""
        self._client = client
        inbox = client.new_inbox()
        self._subscription = await client.subscribe(inbox, cb=self._take_in)
        filtering: dict[str, Any] = {}
        if self._subjects:
            only = len(self._subjects) == 1
            filtering = {"filter_subject": self._subjects[0]} if only else {"filter_subjects": list(self._subjects)}
        config = ConsumerConfig(
            deliver_subject=inbox,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._first,
            ack_policy=AckPolicy.NONE,
            max_deliver=1,
            flow_control=True,
            idle_heartbeat=_HEARTBEAT_SECONDS,
            inactive_threshold=_UNUSED_SECONDS,
            mem_storage=True,
            num_replicas=1,
            **filtering,
        )
        made = await stream.add_consumer(self._stream, config)
        self._name = made.name
        # What is delivered before this answer came is no longer pending, and may not have been taken in yet.
        if not made.num_pending and (made.delivered is None or not made.delivered.consumer_seq):
            self._finish()

    async def _take_in(self, message: Msg) -> None:
        if not message.reply.startswith("$JS.ACK."):
            await self._answer(message)
            return
        parts = message.reply.split(".")
        # Servers that know domains and accounts write them before the name of the stream.
        sequence, delivered, nanoseconds, pending = map(int, parts[5:9] if len(parts) == 9 else parts[7:11])
        if self._is_done:
            return
        if delivered != self._delivered + 1:
            self._fail(DeliveryGap())
            return
        self._delivered = delivered
        if sequence < self._end:
            headers = list((message.headers or {}).items())
            facts = {
                "subject": message.subject,
                "timestamp": nanoseconds // 1000,
                "headers": [(key, value.encode()) for key, value in headers],
            }
            self._messages.append(BrokerMessage(message.data, sequence, facts))
        if sequence >= self._end - 1 or not pending:
            self._finish()
        self._arrived.set()
        if len(self._messages) >= _WAITING:
            self._room.clear()
            await self._room.wait()

    async def _answer(self, message: Msg) -> None:
        """Heartbeats tell how far the server is; where it waits for us, it says so."""
        headers = message.headers or {}
        if int(headers.get("Nats-Last-Consumer", 0)) > self._delivered and not self._is_done:
            self._fail(DeliveryGap())
        asks = headers.get(_FLOW) or message.reply
        if asks and self._client is not None:
            await self._client.publish(asks)

    def _fail(self, problem: Exception) -> None:
        self._problem, self._is_done = problem, True
        self._arrived.set()
        self._room.set()

    def _finish(self) -> None:
        self._is_done = True
        self._arrived.set()

    async def take(self, _: Client, __: JetStreamContext) -> tuple[list[BrokerMessage], bool]:
        """What has come, waited for, and whether it is the end; messages before a gap are good."""
        if not self._arrived.is_set() and (self._client is None or not self._client.is_connected):
            msg = "the connection of the consumer was lost"
            raise ConnectionError(msg)
        await asyncio.wait_for(self._arrived.wait(), _SILENCE_SECONDS)
        taken, self._messages = self._messages, []
        if not self._is_done:
            self._arrived.clear()
        self._room.set()
        if self._problem is not None and not taken:
            raise self._problem
        return taken, self._is_done and self._problem is None

    async def close(self, _: Client, stream: JetStreamContext) -> None:
        """Stop the server pushing."""
        self._is_done = True
        self._room.set()
        if self._subscription is not None and self._client is not None and self._client.is_connected:
            await self._subscription.unsubscribe()
            try:
                await stream.delete_consumer(self._stream, self._name)
            except NotFoundError:
                return


class FetchPlan(NamedTuple):
    """What is to be read."""

    stream: str
    first: int
    end: int
    subjects: Sequence[str]


def fetched(link: NatsLink, plan: FetchPlan, *, step: str) -> Iterator[list[BrokerMessage]]:
    """The messages of a range in order, in lists; while the server is away it is asked again.

    Raises:
        ExternalFailure: the range could not be read to its end.
    """
    following, heard, is_done = plan.first, time.monotonic(), False
    doing = f"messages of stream {plan.stream!r} cannot be read"
    while not is_done:
        pushed = PushedRange(plan.stream, following, plan.end, plan.subjects)
        try:
            link.ask(pushed.open, doing, step=step)
            while not is_done:
                part, is_done = link.ask(pushed.take, doing, step=step, seconds=2 * _SILENCE_SECONDS)
                heard = time.monotonic()
                if part:
                    following = part[-1].number + 1
                    yield part
        except ExternalFailure as problem:
            if time.monotonic() - heard > patience.PATIENCE or problem.code == REFUSED:
                raise
            time.sleep(_PAUSE_SECONDS)
        finally:
            _closed(link, pushed, step)


def _closed(link: NatsLink, pushed: PushedRange, step: str) -> None:
    """A consumer that cannot be removed is removed by the server, when nobody has listened for a while."""
    try:
        link.ask(pushed.close, "a consumer cannot be removed", step=step)
    except ExternalFailure:
        return
