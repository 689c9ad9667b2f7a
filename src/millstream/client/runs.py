"""Calls about runs, and about what they left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from millstream.client.pages import paged
from millstream.client.sights import AttemptInfo, VertexInfo, VerticesInfo
from millstream.client.transport import Query, Transport, escaped
from millstream.client.values import EpochInfo, EventInfo, FailureInfo, LogText, RunInfo

Stopping = Literal["drain", "suspend", "cancel", "export_savepoint"]


class Opened(msgspec.Struct):
    """The operation that was begun."""

    operation: str


class _LogNameList(msgspec.Struct):
    items: list[str]


class _TriedList(msgspec.Struct):
    items: list[AttemptInfo]


class RunCalls:
    """`client.runs`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, status: str | None = None, job: str | None = None) -> Iterator[RunInfo]:
        """Runs, newest first."""
        return paged(self._transport, "/runs", RunInfo, {"status": status, "job": job})

    def get(self, run: str) -> RunInfo:
        """One run, by its id or how that begins."""
        return self._transport.get(f"/runs/{escaped(run)}", RunInfo)

    def stop(
        self, run: str, mode: Stopping, *, to: str = "", form: Literal["canonical", "native"] = "canonical"
    ) -> str:
        """Ask for an end or a savepoint; gives the operation to wait for."""
        body = {"mode": mode, "to": to, "form": form}
        return self._transport.post(f"/runs/{escaped(run)}/stop", body, Opened).operation

    def rescale(self, run: str, parallelism: int) -> str:
        """Let it go on at another parallelism; gives the operation, which names the new run."""
        return self._transport.post(f"/runs/{escaped(run)}/rescale", {"parallelism": parallelism}, Opened).operation

    def events(self, run: str) -> Iterator[EventInfo]:
        """What happened to it, oldest first."""
        return paged(self._transport, f"/runs/{escaped(run)}/events", EventInfo, {})

    def epochs(self, run: str) -> Iterator[EpochInfo]:
        """Its epochs, newest first."""
        return paged(self._transport, f"/runs/{escaped(run)}/epochs", EpochInfo, {})

    def epoch(self, run: str, number: int) -> EpochInfo:
        """One epoch."""
        return self._transport.get(f"/runs/{escaped(run)}/epochs/{number}", EpochInfo)

    def exceptions(self, run: str) -> Iterator[FailureInfo]:
        """Its failures, newest first."""
        return paged(self._transport, f"/runs/{escaped(run)}/exceptions", FailureInfo, {})

    def progress(self, run: str) -> dict[str, Any]:
        """How far it is: rates, lag by partition, the watermark, and what holds it back."""
        return self._transport.get(f"/runs/{escaped(run)}/progress", dict[str, Any])

    def graph(self, run: str) -> dict[str, Any]:
        """Its vertices, subtasks and attempts."""
        return self._transport.get(f"/runs/{escaped(run)}/graph", dict[str, Any])

    def vertices(self, run: str) -> VerticesInfo:
        """Its vertices, from sources to sinks, and what holds the job back."""
        return self._transport.get(f"/runs/{escaped(run)}/vertices", VerticesInfo)

    def vertex(self, run: str, uid: str) -> VertexInfo:
        """One vertex, with its subtasks."""
        return self._transport.get(f"/runs/{escaped(run)}/vertices/{escaped(uid)}", VertexInfo)

    def attempts(self, run: str, uid: str, subtask: int) -> Sequence[AttemptInfo]:
        """The attempts at a subtask in the last epochs, oldest first."""
        path = f"/runs/{escaped(run)}/vertices/{escaped(uid)}/subtasks/{subtask}/attempts"
        return self._transport.get(path, _TriedList).items

    def backpressure(self, run: str, uid: str) -> dict[str, Any]:
        """How much of its time what runs behind a vertex keeps it from its next rows."""
        return self._transport.get(f"/runs/{escaped(run)}/vertices/{escaped(uid)}/backpressure", dict[str, Any])

    def watermarks(self, run: str, uid: str) -> dict[str, Any]:
        """The watermark that a vertex follows, by partition."""
        return self._transport.get(f"/runs/{escaped(run)}/vertices/{escaped(uid)}/watermarks", dict[str, Any])

    def metrics(
        self, run: str, get: Sequence[str] = (), *, agg: Sequence[Literal["min", "max", "avg", "sum"]] = ()
    ) -> Sequence[dict[str, Any]]:
        """Its figures, or some of them; with `agg` one value for all samples of a name."""
        query: Query = {"get": ",".join(get) or None, "agg": ",".join(agg) or None}
        return self._transport.get(f"/runs/{escaped(run)}/metrics", list[dict[str, Any]], query)

    def log(self, run: str, *, stream: str = "driver", start: int = 0, limit: int = 65536) -> LogText:
        """Part of a log, from a byte on."""
        query: Query = {"stream": stream, "from": start, "limit": limit}
        return self._transport.get(f"/runs/{escaped(run)}/logs", LogText, query)

    def logs(self, run: str) -> Sequence[str]:
        """The names of its logs."""
        return self._transport.get(f"/runs/{escaped(run)}/logs/names", _LogNameList).items

    def dump(self, run: str) -> dict[str, Any]:
        """The stacks of its driver."""
        return self._transport.post(f"/runs/{escaped(run)}/dump", None, dict[str, Any])
