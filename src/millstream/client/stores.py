"""Calls about what jobs bring along: code, settings and secrets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from millstream.client.transport import Transport, decoded, escaped


class ArtifactInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Code of jobs, by its sha256."""

    sha256: str
    name: str
    size: int
    kind: str
    create_time: dt.datetime
    created_by: str


class SecretInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A secret, without its value."""

    name: str
    key_id: str
    create_time: dt.datetime
    update_time: dt.datetime


class SettingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a job, as people may see it."""

    key: str
    value: str
    type: str
    sensitive: bool


class CheckpointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint of a job, and what it takes."""

    job: str
    path: str
    bytes: int
    deleted: bool


class _Checkpoints(msgspec.Struct):
    items: list[CheckpointInfo]


class _Artifacts(msgspec.Struct):
    items: list[ArtifactInfo]


class _Secrets(msgspec.Struct):
    items: list[SecretInfo]


class _Settings(msgspec.Struct):
    items: list[SettingInfo]


class ArtifactCalls:
    """`client.artifacts`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def upload(self, path: str | Path) -> ArtifactInfo:
        """Upload a zip or a wheel; one that is known already is told."""
        with Path(path).open("rb") as file:
            return decoded(self._transport.upload("/artifacts", {"name": Path(path).name}, file), ArtifactInfo)

    def list(self) -> Sequence[ArtifactInfo]:
        """All artifacts, newest first."""
        return self._transport.get("/artifacts", _Artifacts).items

    def get(self, sha256: str) -> ArtifactInfo:
        """One artifact."""
        return self._transport.get(f"/artifacts/{escaped(sha256)}", ArtifactInfo)

    def delete(self, sha256: str) -> None:
        """Remove one that no job needs."""
        self._transport.send("DELETE", f"/artifacts/{escaped(sha256)}")


class SecretCalls:
    """`client.secrets`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Sequence[SecretInfo]:
        """All secrets, without values."""
        return self._transport.get("/secrets", _Secrets).items

    def set(self, name: str, value: str) -> None:
        """Keep a value; nobody can read it back."""
        self._transport.send("PUT", f"/secrets/{escaped(name)}", body={"value": value})

    def delete(self, name: str) -> None:
        """Forget one."""
        self._transport.send("DELETE", f"/secrets/{escaped(name)}")


class ConfigCalls:
    """`client.config`: settings of jobs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, job: str) -> Sequence[SettingInfo]:
        """The settings of a job, masked where they are sensitive."""
        return self._transport.get(f"/jobs/{escaped(job)}/config", _Settings).items

    def set(
        self,
        job: str,
        key: str,
        value: Any,
        *,
        type: Literal["STRING", "INT", "BOOLEAN", "JSON"] = "STRING",
        sensitive: bool = False,
    ) -> None:
        """Set one; it holds from the next run on."""
        body = {"value": value, "type": type, "sensitive": sensitive}
        self._transport.send("PUT", f"/jobs/{escaped(job)}/config/{escaped(key)}", body=body)

    def delete(self, job: str, key: str) -> None:
        """Forget one."""
        self._transport.send("DELETE", f"/jobs/{escaped(job)}/config/{escaped(key)}")


class CheckpointCalls:
    """`client.checkpoints`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Sequence[CheckpointInfo]:
        """By job; those of deleted jobs too."""
        return self._transport.get("/checkpoints", _Checkpoints).items

    def remove(self, job: str) -> None:
        """Of a job that does not run; savepoints stay."""
        self._transport.send("DELETE", f"/jobs/{escaped(job)}/checkpoint")
