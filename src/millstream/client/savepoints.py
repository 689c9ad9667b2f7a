"""Calls about savepoints and connectors."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from millstream.client.pages import paged
from millstream.client.runs import Opened
from millstream.client.transport import Transport, decoded, escaped


class SavepointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A savepoint, and where it is."""

    id: int
    job: str
    trigger_id: str
    format: str
    path: str
    status: str
    create_time: dt.datetime
    job_version: int | None = None
    run: str | None = None
    epoch: int | None = None
    lineage: str | None = None
    fingerprint: str | None = None
    size: int | None = None
    complete_time: dt.datetime | None = None
    age: float | None = None


class SavepointCalls:
    """`client.savepoints`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, job: str | None = None) -> Iterator[SavepointInfo]:
        """Savepoints, newest first."""
        return paged(self._transport, "/savepoints", SavepointInfo, {"job": job})

    def get(self, savepoint: int) -> SavepointInfo:
        """One savepoint."""
        return self._transport.get(f"/savepoints/{savepoint}", SavepointInfo)

    def record(self, savepoint: int) -> dict[str, Any]:
        """Everything that its record says, read by a node."""
        return self._transport.get(f"/savepoints/{savepoint}/record", dict[str, Any])

    def diff(self, a: int, b: int) -> dict[str, Any]:
        """What differs between two, from their records."""
        return self._transport.get("/savepoints/diff", dict[str, Any], {"a": a, "b": b})

    def verify(
        self,
        savepoint: int,
        *,
        job: str | None = None,
        version: int | None = None,
        parallelism: int | None = None,
        allow_dropped_state: bool = False,
    ) -> str:
        """Read every file, and judge whether a job could start from it; gives the operation, whose result says so."""
        body: dict[str, Any] = {"job": job, "version": version, "parallelism": parallelism}
        body = {name: value for name, value in body.items() if value is not None}
        body["allow_dropped_state"] = allow_dropped_state
        return self._transport.post(f"/savepoints/{savepoint}/verify", body, Opened).operation

    def dispose(self, savepoint: int) -> str:
        """Remove one; gives the operation to wait for."""
        return decoded(self._transport.send("DELETE", f"/savepoints/{savepoint}"), Opened).operation


class _Connectors(msgspec.Struct):
    items: list[dict[str, Any]]


class ConnectorCalls:
    """`client.connectors`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[dict[str, Any]]:
        """Those that jobs of the service may name."""
        return self._transport.get("/connectors", _Connectors).items

    def get(self, name: str) -> dict[str, Any]:
        """One, with its options and promises."""
        return self._transport.get(f"/connectors/{escaped(name)}", dict[str, Any])

    def test(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        role: Literal["source", "sink"] = "source",
        schema: Any = None,
        rows: int = 5,
        seconds: float = 10.0,
    ) -> dict[str, Any]:
        """The first rows of a source, or whether a sink could write."""
        body = {"role": role, "options": options, "schema": schema, "rows": rows, "seconds": seconds}
        return self._transport.post(f"/connectors/{escaped(name)}/test", body, dict[str, Any])
