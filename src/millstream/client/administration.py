"""Calls about operations, nodes, tokens, the audit and the settings of the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from millstream.client.pages import paged
from millstream.client.transport import Transport, decoded, escaped
from millstream.client.values import AuditInfo, NodeInfo, OperationInfo, TokenInfo

TokenRole = Literal["viewer", "operator", "editor", "author", "admin"]


class OperationCalls:
    """`client.operations`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, target: str | None = None) -> Iterator[OperationInfo]:
        """Operations, newest first."""
        return paged(self._transport, "/operations", OperationInfo, {"target": target})

    def get(self, operation: str) -> OperationInfo:
        """One operation."""
        return self._transport.get(f"/operations/{escaped(operation)}", OperationInfo)

    def withdraw(self, operation: str) -> None:
        """Take back what no node has begun."""
        self._transport.send("DELETE", f"/operations/{escaped(operation)}")


class _Nodes(msgspec.Struct):
    items: list[NodeInfo]


class NodeAdministration:
    """`client.nodes`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[NodeInfo]:
        """All nodes."""
        return self._transport.get("/nodes", _Nodes).items

    def get(self, node: str) -> NodeInfo:
        """One node."""
        return self._transport.get(f"/nodes/{escaped(node)}", NodeInfo)

    def cordon(self, node: str) -> NodeInfo:
        """It takes no new runs."""
        return self._transport.post(f"/nodes/{escaped(node)}/cordon", None, NodeInfo)

    def uncordon(self, node: str) -> NodeInfo:
        """It takes runs again."""
        return self._transport.post(f"/nodes/{escaped(node)}/uncordon", None, NodeInfo)

    def drain(self, node: str) -> NodeInfo:
        """Its runs move elsewhere."""
        return self._transport.post(f"/nodes/{escaped(node)}/drain", None, NodeInfo)


class SettingValue(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a server, and where it comes from."""

    name: str
    value: Any
    source: str


class _ServiceSettings(msgspec.Struct):
    items: list[SettingValue]


class AccessCalls:
    """`client.access`: tokens, and the audit."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def tokens(self) -> Iterator[TokenInfo]:
        """Tokens, newest first."""
        return paged(self._transport, "/tokens", TokenInfo, {})

    def create_token(self, name: str, role: TokenRole, *, days: int = 90) -> TokenInfo:
        """A new token; it is sent once, and never shown again."""
        body = {"name": name, "role": role, "days": days}
        return decoded(self._transport.send("POST", "/tokens", body=body), TokenInfo)

    def revoke_token(self, token: str) -> TokenInfo:
        """It works no more."""
        return decoded(self._transport.send("DELETE", f"/tokens/{escaped(token)}"), TokenInfo)

    def audit(self, *, actor: str | None = None, target: str | None = None) -> Iterator[AuditInfo]:
        """What was done and refused, newest first."""
        return paged(self._transport, "/audit", AuditInfo, {"actor": actor, "target": target})

    def settings(self) -> list[SettingValue]:
        """What the server that answers goes by, masked."""
        return self._transport.get("/settings", _ServiceSettings).items
