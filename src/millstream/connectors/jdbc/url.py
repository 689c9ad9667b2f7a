"""Database addresses: read once, checked against a list of known parameters, and never shown with their password."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

PARAMETERS = frozenset(
    {
        "channel_binding",
        "connect_timeout",
        "host",
        "port",
        "sslcert",
        "sslkey",
        "sslmode",
        "sslrootcert",
        "target_session_attrs",
    }
)
"""What may stand behind the `?`; anything that names code, commands or other files is left out."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a database is. `repr` leaves the password out."""

    kind: Literal["postgresql", "sqlite"]
    path: str = ""
    """The file of an SQLite database."""
    host: str = ""
    port: int = 0
    """0 when it is not given."""
    user: str = ""
    password: str = dataclasses.field(default="", repr=False)
    database: str = ""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    @property
    def label(self) -> str:
        """The address as it may be shown."""
        if self.kind == "sqlite":
            return f"SQLite database {self.path!r}"
        where = self.host or self.parameters.get("host", "localhost")
        return f"PostgreSQL database {self.database!r} on {where}:{self.port or 5432}"


def address_of(url: str) -> Address:
    """Read an address; `ValueError` says what was expected."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        return _sqlite(rest)
    if scheme in {"postgresql", "postgres"}:
        return _postgresql(url)
    msg = "postgresql://user@host:port/database or sqlite:///path"
    raise ValueError(msg)


def _sqlite(rest: str) -> Address:
    path = unquote(rest.removeprefix("/"))
    if not rest.startswith("/") or not path or "?" in rest or path == ":memory:":
        msg = "sqlite:///path of a file, without parameters"
        raise ValueError(msg)
    return Address(kind="sqlite", path=path)


def _postgresql(url: str) -> Address:
    parts = urlsplit(url)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(parameters.keys() - PARAMETERS):
        msg = f"no parameter {unknown[0]!r}; one of {', '.join(sorted(PARAMETERS))}"
        raise ValueError(msg)
    database = unquote(parts.path.removeprefix("/"))
    port = _port(parts)
    if not database or "/" in database or parts.fragment or port is None:
        msg = "postgresql://user@host:port/database, with %XX for characters such as '/', '#' and '@' in a password"
        raise ValueError(msg)
    return Address(
        kind="postgresql",
        host=parts.hostname or "",
        port=port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=database,
        parameters=MappingProxyType(parameters),
    )


def _port(parts: SplitResult) -> int | None:
    """The port, 0 without one. The message of a wrong one may hold a piece of a password, so it is not passed on."""
    try:
        return parts.port or 0
    except ValueError:
        return None
