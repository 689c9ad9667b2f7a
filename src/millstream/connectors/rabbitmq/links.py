"""Connections to RabbitMQ, opened again after they broke, and errors in our words.

A link is of one user alone, who closes it: what a consumer holds back must not hold up another.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from millstream.connectors.messaging.loop import loop_thread
from millstream.connectors.rabbitmq.library import (
    AbstractConnection,
    AMQPError,
    AuthenticationError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    Connection,
    ProbableAuthenticationError,
    PublishError,
    make_url,
)
from millstream.errors import ExternalFailure, InvalidStep, MillstreamError, StepFailed
from millstream.model.connector import Options
from millstream.model.secret import url_with_secrets
from millstream.redaction import shown_url

REFUSED = "RABBIT-005"
"""The code of errors that asking again does not mend."""
_ASK_SECONDS = 10.0
_CONNECT_SECONDS = 5.0
_HEARTBEAT = 10
"""Seconds after which a server that says nothing counts as gone, and so does an owner for the server."""
T = TypeVar("T")


def is_lost(connection: AbstractConnection) -> bool:
    """Whether a connection is gone; one that the server closed does not say so itself."""
    transport = connection.transport
    return connection.is_closed or transport is None or transport.connection.is_closed


class RabbitLink:
    """One connection. Coroutines that use it run on the loop of this process."""

    def __init__(self, options: Options, *, step: str) -> None:
        self._options, self._step = options, step
        self._thread = loop_thread()
        self._connection: AbstractConnection | None = None
        self._opening = asyncio.Lock()
        self._thread.at_end(self._disconnect)

    def ask(self, work: Callable[[AbstractConnection], Awaitable[T]], doing: str, *, seconds: float = 0.0) -> T:
        """What some work with the connection gives; `doing` says what fails if it fails.

        Raises:
            ExternalFailure: nobody answers (RABBIT-002), or the server refuses (RABBIT-005).
        """
        within = seconds or _ASK_SECONDS

        async def asked() -> T:
            connection = await self._opened()
            return await asyncio.wait_for(_awaited(work(connection)), within)

        try:
            return self._thread.run(asked(), within + 2 * _CONNECT_SECONDS)
        except (AMQPError, RuntimeError, OSError, TimeoutError) as problem:
            # The client raises `RuntimeError` for a channel or connection that is gone.
            raise self._failure(doing, problem) from None

    async def _opened(self) -> AbstractConnection:
        async with self._opening:
            if self._connection is None or is_lost(self._connection):
                await self._disconnect()
                self._connection = await self._connected()
            return self._connection

    async def _connected(self) -> AbstractConnection:
        settings: dict[str, Any] = self._options["client"]
        connection = Connection(
            make_url(url_with_secrets(str(self._options["url"]))),
            ssl_context=self._tls(settings),
            client_properties={"connection_name": settings.get("name", "millstream")},
            heartbeat=settings.get("heartbeat", _HEARTBEAT),
        )
        try:
            await connection.connect(timeout=_CONNECT_SECONDS)
        except BaseException:
            await _closed(connection)
            raise
        return connection

    def _tls(self, settings: dict[str, Any]) -> ssl.SSLContext | None:
        if not str(self._options["url"]).startswith("amqps:"):
            return None
        try:
            context = ssl.create_default_context(cafile=settings.get("ca_file"))
            if "cert_file" in settings:
                context.load_cert_chain(settings["cert_file"], settings.get("key_file"))
        except OSError as problem:
            msg = "a certificate cannot be loaded"
            hint = "correct ca_file, cert_file and key_file of client="
            raise InvalidStep(msg, code="RABBIT-003", step=self._step, found=str(problem), hint=hint) from None
        return context

    def close(self) -> None:
        """Disconnect. A server that does not answer is not waited for: the job has ended, and its end is what counts."""
        self._thread.not_at_end(self._disconnect)
        if self._connection is not None and not self._thread.loop.is_closed():
            with contextlib.suppress(AMQPError, RuntimeError, OSError):
                self._thread.run(self._disconnect(), _ASK_SECONDS)

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await _closed(connection)

    def _failure(self, doing: str, problem: Exception) -> MillstreamError:
        found = "no answer" if isinstance(problem, TimeoutError) else shown_url(f"{type(problem).__name__}: {problem}")
        step = self._step
        if isinstance(problem, ChannelNotFoundEntity):
            hint = "create the queue or exchange, or correct its name"
            return InvalidStep(doing, code="RABBIT-004", step=step, found=found, hint=hint)
        if isinstance(problem, (AuthenticationError, ProbableAuthenticationError)) or "ACCESS_REFUSED" in found:
            hint = "correct the user and password of url=, or let the user do this on the server"
            return ExternalFailure(f"{doing}: the server refuses", code=REFUSED, step=step, found=found, hint=hint)
        if isinstance(problem, ChannelPreconditionFailed):
            hint = "see that kind= fits the queue"
            return InvalidStep(f"{doing}: the server refuses", code="RABBIT-006", step=step, found=found, hint=hint)
        if isinstance(problem, PublishError):
            hint = "bind a queue to that routing key, or change the rows"
            msg = f"{doing}: a message finds no queue"
            return StepFailed(msg, code="RABBIT-021", step=step, found=found, hint=hint)
        hint = "see that the server in url= can be reached, and start again"
        return ExternalFailure(doing, code="RABBIT-002", step=step, found=found, hint=hint)


async def _closed(connection: AbstractConnection) -> None:
    """A connection that fails while it is closed is closed by the second attempt; else it would complain later."""
    with contextlib.suppress(AMQPError, RuntimeError, OSError):
        await connection.close()
    if not connection.is_closed:
        await connection.close()


async def _awaited(work: Awaitable[T]) -> T:
    return await work
