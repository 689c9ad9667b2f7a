"""Urls of databases: taken apart once, checked against a list of known parameters, never shown with their passwords."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal
from urllib.parse import unquote, unquote_plus, urlsplit

from millstream.redaction import HIDDEN, shown_url

Kind = Literal["postgresql", "sqlite", "mysql"]
SCHEMES: Mapping[str, Kind] = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "sqlite": "sqlite",
    "mysql": "mysql",
    "mariadb": "mysql",
}
WRITABLE: frozenset[Kind] = frozenset({"postgresql", "sqlite"})
"""Databases that hold manifests and tables of sinks."""
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
"""What may stand behind the `?` of a checked url; anything that names code, commands or other files is left out."""
_SECRET_PARAMETERS = ("password", "sslpassword")
_KNOWN = "postgresql://user@host:port/database or sqlite:///path"
_A_FILE = "sqlite:///path of a file, without parameters"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrl:
    """Where a database is; `repr`, `shown` and `label` leave its passwords out."""

    kind: Kind
    driver: str = dataclasses.field(repr=False)
    """The url for the driver: as it is written, without parameters of our own."""
    shown: str
    """The url for people: without password and parameters."""
    path: str = ""
    """The file of an SQLite database."""
    host: str = ""
    port: int | None = 0
    """0 when it is not given, `None` when what is written is not one host with one port."""
    user: str = ""
    password: str = dataclasses.field(default="", repr=False)
    database: str = dataclasses.field(default="", repr=False)
    parameters: Mapping[str, str] = dataclasses.field(repr=False)
    """What the driver is told besides."""
    own: Mapping[str, str]
    """Parameters that are ours and not the driver's."""
    secrets: tuple[str, ...] = dataclasses.field(repr=False)
    """The passwords in every form in which a driver may repeat them, the longest first."""

    @property
    def label(self) -> str:
        """The database in words."""
        if self.kind == "sqlite":
            return f"SQLite database {self.path!r}"
        where = self.host or self.parameters.get("host", "localhost")
        name, port = ("MySQL", 3306) if self.kind == "mysql" else ("PostgreSQL", 5432)
        return f"{name} database {self.database!r} on {where}:{self.port or port}"

    def hidden(self, text: str) -> str:
        """A text of the driver without the passwords of the url."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text


def address_of(url: str, *, kinds: Collection[Kind] = WRITABLE) -> DatabaseUrl:
    """A url of which every part is known; `ValueError` says what was expected."""
    parsed = database_url(url)
    if parsed.kind not in kinds:
        raise ValueError(_KNOWN)
    if parsed.kind != "sqlite":
        _check_server(url, parsed)
    elif parsed.parameters:
        raise ValueError(_A_FILE)
    return parsed


def database_url(url: str, *, own: Collection[str] = ()) -> DatabaseUrl:
    """Take a url apart and leave its parameters to the driver, except those that are our `own`.

    Raises:
        ValueError: an unknown scheme, or a url of SQLite that names no file.
    """
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme not in SCHEMES:
        raise ValueError(_KNOWN)
    login, has_login, place = _split_login(rest)
    place, _, query = place.partition("?")
    options = [option.partition("=")[::2] for option in query.split("&") if option]
    # What is the driver's stays as it is written: drivers differ in what they decode.
    left = "&".join(f"{name}={value}" for name, value in options if name not in own)
    user, _, password = login.partition(":")
    written = [password, *(value for name, value in options if name in _SECRET_PARAMETERS)]
    where = _sqlite_parts(rest, place) if SCHEMES[scheme] == "sqlite" else _server_parts(user, password, place)
    return DatabaseUrl(
        kind=SCHEMES[scheme],
        driver=f"{scheme}://{login}{has_login}{place}" + (f"?{left}" if left else ""),
        shown=shown_url(f"{scheme}://{user}{has_login}{place}"),
        parameters={unquote_plus(name): unquote_plus(value) for name, value in options if name not in own},
        own={name: unquote_plus(value) for name, value in options if name in own},
        secrets=_forms(written),
        **where,
    )


def _split_login(rest: str) -> tuple[str, str, str]:
    """Like libpq, which looks for the `@` up to the first `/`: a `?` or `#` before it belongs to the password."""
    authority, slash, path = rest.partition("/")
    login, has_login, server = authority.rpartition("@")
    return login, has_login, f"{server}{slash}{path}"


def _sqlite_parts(rest: str, place: str) -> dict[str, Any]:
    path = unquote(place.removeprefix("/"))
    if not rest.startswith("/") or path in {"", ":memory:"}:
        raise ValueError(_A_FILE)
    return {"path": path}


def _server_parts(user: str, password: str, place: str) -> dict[str, Any]:
    server, _, database = place.partition("/")
    host, port = _host_and_port(server)
    login = {"user": unquote(user), "password": unquote(password)}
    return {**login, "host": host, "port": port, "database": unquote(database)}


def _host_and_port(server: str) -> tuple[str, int | None]:
    """The message of a wrong port may hold a piece of a password, so it is not passed on."""
    try:
        parts = urlsplit(f"//{server}")
        port = parts.port or 0
    except ValueError:
        return "", None
    return parts.hostname or "", port


def _forms(written: Iterable[str]) -> tuple[str, ...]:
    forms = {form(secret) for secret in written for form in (str, unquote, unquote_plus)}
    # The longest first: a secret may contain another.
    return tuple(sorted(filter(None, forms), key=len, reverse=True))


def _check_server(url: str, parsed: DatabaseUrl) -> None:
    """Refuse what a reader of urls and the driver could understand differently, and parameters that nobody knows."""
    login, _, _ = _split_login(url.partition("://")[2])
    is_ambiguous = "#" in url or "?" in login
    if is_ambiguous or parsed.port is None or not parsed.database or "/" in parsed.database:
        form = f"{parsed.kind}://user@host:port/database"
        msg = f"{form}, with %XX for characters such as '/', '#' and '@' in a password"
        raise ValueError(msg)
    known = PARAMETERS if parsed.kind == "postgresql" else frozenset()
    if unknown := sorted(parsed.parameters.keys() - known):
        msg = f"no parameter {unknown[0]!r}; one of {', '.join(sorted(known)) or 'none'}"
        raise ValueError(msg)
