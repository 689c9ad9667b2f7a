"""Connections to NATS: one for each set of settings in a process, opened again after it broke, and errors in our words.

The client's own reconnecting is off: it would hide for how long nobody answers, and requests that were under way are lost all
the same. Whoever asks decides what may be asked again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from millstream.connectors.messaging.loop import LoopThread, loop_thread
from millstream.connectors.nats.client_options import connect_arguments
from millstream.connectors.nats.library import (
    APIError,
    AuthorizationError,
    Client,
    JetStreamContext,
    MaxPayloadError,
    NatsError,
    NotFoundError,
    ServiceUnavailableError,
)
from millstream.errors import ExternalFailure, InvalidStep, MillstreamError, StepFailed
from millstream.model.connector import Options

REFUSED = "NATS-005"
"""The code of errors that asking again does not mend."""
_ASK_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_AUTHORIZATION = ("authorization", "permission", "authentication")
T = TypeVar("T")


class MissingTls(NatsError):
    """TLS was asked for, and the server does not speak it."""

    def __str__(self) -> str:
        return "the server does not ask for TLS"


class GuardedClient(Client):
    """The library's own would send credentials in the clear to a server that does not ask for the TLS that is wanted here."""

    def _connect_command(self) -> bytes:
        is_secured = self.options.get("tls_handshake_first") or self._server_info.get("tls_required")
        if self.options.get("tls") is not None and not is_secured:
            raise MissingTls
        return super()._connect_command()


class NatsLink:
    """One connection. Coroutines that use it run on the loop of this process."""

    def __init__(self, thread: LoopThread, arguments: dict[str, Any], domain: str | None) -> None:
        self._thread, self._arguments, self._domain = thread, arguments, domain
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._opening = asyncio.Lock()
        self._lost: asyncio.Future[None]
        """Done when the connection is gone."""
        self._told: Exception | None = None

    def ask(
        self, work: Callable[[Client, JetStreamContext], Awaitable[T]], doing: str, *, step: str, seconds: float = 0.0
    ) -> T:
        """What some work with the client gives.

        Args:
            work: called with the client and its door to JetStream.
            doing: what fails if it fails, such as "the stream cannot be described".
            step: the step concerned.
            seconds: how long it may take; a few, if nothing is said.

        Raises:
            ExternalFailure: nobody answers (NATS-002), or the server refuses (NATS-005).
        """
        within = seconds or _ASK_SECONDS

        async def asked() -> T:
            client, stream = await self._opened()
            return await self._unless_lost(asyncio.ensure_future(_awaited(work(client, stream))), within)

        try:
            return self._thread.run(asked(), within + 2 * _CONNECT_SECONDS)
        except (NatsError, OSError, TimeoutError, ModuleNotFoundError) as problem:
            raise self._failure(doing, problem, step) from None

    async def _unless_lost(self, work: asyncio.Future[T], seconds: float) -> T:
        """The client itself leaves those waiting whose answer cannot come any more."""
        either: list[asyncio.Future[Any]] = [work, self._lost]
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        work.cancel()
        await asyncio.wait([work])
        if self._lost.done():
            msg = "the connection was lost"
            raise ConnectionError(msg)
        raise TimeoutError

    async def _opened(self) -> tuple[Client, JetStreamContext]:
        async with self._opening:
            if self._client is None or self._stream is None or not self._client.is_connected:
                await self.close()
                self._client = await self._connected()
                self._stream = self._client.jetstream(timeout=_ASK_SECONDS, domain=self._domain)
            return self._client, self._stream

    async def _connected(self) -> Client:
        client, self._told = GuardedClient(), None
        self._lost = lost = asyncio.get_running_loop().create_future()

        async def closed() -> None:
            if not lost.done():
                lost.set_result(None)

        own: dict[str, Any] = {"allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": 0.01}
        settings = {"connect_timeout": 2, **self._arguments, **own, "error_cb": self._note, "closed_cb": closed}
        try:
            await asyncio.wait_for(client.connect(**settings), _CONNECT_SECONDS)
        except BaseException:
            # It leaves the socket of a failed attempt open, and fails itself where there was none.
            with contextlib.suppress(AssertionError):
                await client.close()
            raise
        return client

    async def _note(self, problem: Exception) -> None:
        """What the client reports of its connection: a call that found no server does not say why."""
        self._told = problem

    async def close(self) -> None:
        """Disconnect."""
        client, self._client, self._stream = self._client, None, None
        if client is not None and not client.is_closed:
            await client.close()

    def _failure(self, doing: str, problem: Exception, step: str) -> MillstreamError:
        if isinstance(problem, ModuleNotFoundError):
            msg = f"credentials by keys need the library {problem.name!r}"
            return InvalidStep(msg, code="NATS-003", step=step, hint="pip install 'nats-py[nkeys]'")
        if isinstance(problem, MaxPayloadError):
            hint = "change the rows, or raise max_payload of the server"
            return StepFailed(f"{doing}: a message is too large", code="NATS-021", step=step, hint=hint)
        told = problem if isinstance(problem, APIError) or self._told is None else self._told
        found = _text(told)
        if isinstance(told, MissingTls):
            hint = "set TLS up on the server; leave tls:// and the TLS settings of client= out only where nobody can listen"
            return ExternalFailure(f"{doing}: no TLS", code=REFUSED, step=step, found=found, hint=hint)
        if isinstance(told, NotFoundError):
            hint = "create the stream, or correct its name"
            return InvalidStep(doing, code="NATS-004", step=step, found=found, hint=hint)
        if isinstance(told, AuthorizationError) or any(word in found.lower() for word in _AUTHORIZATION):
            hint = "correct the credentials in client=, or let their user do this on the server"
            return ExternalFailure(f"{doing}: the server refuses", code=REFUSED, step=step, found=found, hint=hint)
        if isinstance(told, APIError) and not isinstance(told, ServiceUnavailableError) and told.code != 503:
            hint = "see what the server says about its stream"
            return StepFailed(f"{doing}: the server refuses", code="NATS-006", step=step, found=found, hint=hint)
        hint = "see that the servers in servers= can be reached and have JetStream, and start again"
        return ExternalFailure(doing, code="NATS-002", step=step, found=found, hint=hint)


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def _text(problem: Exception) -> str:
    if isinstance(problem, APIError):
        return f"{problem.description} ({problem.err_code})"
    return "no answer" if isinstance(problem, TimeoutError) else f"{type(problem).__name__}: {problem}"


_links: dict[tuple[int, str], NatsLink] = {}
_lock = threading.Lock()


def link_to(options: Options, *, step: str) -> NatsLink:
    """The connection of this process for these settings."""
    arguments = connect_arguments(options, step=step)
    domain = options["client"].get("domain")
    told = {name: value for name, value in arguments.items() if name != "tls"} | {"client": options["client"]}
    identity = hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest()
    thread = loop_thread()
    with _lock:
        # Keys hold the loop: links of a loop that has ended, or of a parent process, are not found again.
        key = (id(thread), identity)
        if key not in _links:
            for other in [each for each in _links if each[0] != id(thread)]:
                del _links[other]
            _links[key] = NatsLink(thread, arguments, domain)
            thread.at_end(_links[key].close)
        return _links[key]
