"""`Client`: the service from afar."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from millstream.client.administration import AccessCalls, NodeAdministration, OperationCalls
from millstream.client.jobs import JobCalls
from millstream.client.letters import DeadLetterCalls
from millstream.client.runs import RunCalls
from millstream.client.savepoints import ConnectorCalls, SavepointCalls
from millstream.client.schedules import ScheduleCalls
from millstream.client.state import StateCalls
from millstream.client.stores import ArtifactCalls, CheckpointCalls, ConfigCalls, SecretCalls
from millstream.client.stream import events
from millstream.client.transport import TRIES, Transport
from millstream.client.values import Account, Fleet, OperationInfo, StreamedEvent
from millstream.errors import ExternalFailure

_FIRST_LOOK = 0.05
_SLOWEST_LOOK = 1.0


class Client:
    """Calls of a service. Errors are raised as the service raised them.

    Args:
        url: such as `https://millstream.example.org` or `http://127.0.0.1:8080`.
        token: `ms_…`.
        timeout: seconds until an answer must be there; compiling a job takes some.
        ca_file: certificates to trust, for a service with one of its own.
        plain_http: send the token without TLS to another machine.
        tries: how often a request is sent that nobody answers.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 60.0,
        ca_file: str | None = None,
        plain_http: bool = False,
        tries: int = TRIES,
    ) -> None:
        self._transport = Transport(url, token, timeout=timeout, ca_file=ca_file, plain_http=plain_http, tries=tries)
        self.jobs = JobCalls(self._transport)
        self.runs = RunCalls(self._transport)
        self.operations = OperationCalls(self._transport)
        self.nodes = NodeAdministration(self._transport)
        self.savepoints = SavepointCalls(self._transport)
        self.connectors = ConnectorCalls(self._transport)
        self.state = StateCalls(self._transport)
        self.dead_letters = DeadLetterCalls(self._transport)
        self.schedules = ScheduleCalls(self._transport)
        self.artifacts = ArtifactCalls(self._transport)
        self.checkpoints = CheckpointCalls(self._transport)
        self.secrets = SecretCalls(self._transport)
        self.config = ConfigCalls(self._transport)
        self.access = AccessCalls(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._transport.close()

    def info(self) -> Account:
        """What answers, and who it takes you for."""
        return self._transport.get("/info", Account)

    def overview(self) -> Fleet:
        """Everything in numbers."""
        return self._transport.get("/overview", Fleet)

    def openapi(self) -> dict[str, Any]:
        """The interface, described."""
        return self._transport.get("/openapi.json", dict[str, Any])

    def events(self, *topics: str, last: int | None = None) -> Iterator[StreamedEvent]:
        """What happens, as it happens: topics `jobs`, `nodes`, `run:ID`. A stream that is cut goes on where it was."""
        wanted: Sequence[str] = topics or ("jobs",)
        return events(self._transport, wanted, last=last)

    def wait(
        self, operation: str, *, timeout: float = 600.0, look: Callable[[OperationInfo], None] | None = None
    ) -> OperationInfo:
        """Wait until an operation has ended, well or not; `look` is told how it is whenever that is asked.

        Raises:
            ExternalFailure: (REST-062) it takes longer.
        """
        end, pause = time.monotonic() + timeout, _FIRST_LOOK
        while True:
            seen = self.operations.get(operation)
            if look is not None:
                look(seen)
            if seen.has_ended:
                return seen
            if time.monotonic() >= end:
                msg = "the operation has not ended in time"
                found = f"{seen.kind} of {seen.target} is {seen.status} after {timeout:g} s"
                raise ExternalFailure(msg, code="REST-062", found=found, hint="wait longer, or look at the run")
            time.sleep(pause)
            pause = min(_SLOWEST_LOOK, pause * 1.5)
