"""From the options of a source to its connections: the driver's, which asks, and the workers', which read."""

from __future__ import annotations

from millstream.connectors.jdbc.database import Login
from millstream.connectors.jdbc.reading.probe import Probe
from millstream.connectors.jdbc.reading.rows import ArrowRows
from millstream.connectors.jdbc.reading.spec import READABLE
from millstream.database.url import Kind, address_of
from millstream.errors import InvalidStep
from millstream.model.connector import Options
from millstream.model.time import duration_ms

PATIENCE = 10.0
"""Seconds for which a database that is away, starting up or locked is asked again."""
_EXTRAS: dict[Kind, str] = {"postgresql": "sql", "mysql": "mysql"}


def login_of(options: Options, *, job: str, step: str) -> Login:
    """How to reach the database of a source."""
    return Login(
        address=address_of(options["url"], kinds=READABLE),
        password_env=options["password_env"],
        job=job,
        step=step,
        patience=PATIENCE,
        advice="correct the query, the table or its rights",
    )


def open_probe(options: Options, login: Login) -> Probe:
    """The driver's connection; it connects when it is first used."""
    match login.address.kind:
        case "postgresql":
            from millstream.connectors.jdbc.reading.postgres import PostgresProbe

            return PostgresProbe(options, login, timeout=timeout_of(options))
        case "sqlite":
            from millstream.connectors.jdbc.reading.sqlite import SqliteProbe

            return SqliteProbe(options, login)
        case "mysql":
            from millstream.connectors.jdbc.reading.mysql import MysqlProbe

            return MysqlProbe(options, login, timeout=timeout_of(options))


def open_rows(options: Options, login: Login, *, server: str) -> ArrowRows:
    """A worker's connection; it connects when it is first used."""
    match login.address.kind:
        case "postgresql":
            from millstream.connectors.jdbc.reading.postgres_rows import PostgresRows

            return PostgresRows(options, login, timeout=timeout_of(options))
        case "sqlite":
            from millstream.connectors.jdbc.reading.sqlite_rows import SqliteRows

            return SqliteRows(options, login)
        case "mysql":
            from millstream.connectors.jdbc.reading.mysql_rows import MysqlRows

            return MysqlRows(options, login, timeout=timeout_of(options), server=server)


def timeout_of(options: Options) -> int:
    """How long a statement may run, in milliseconds."""
    return duration_ms(options["timeout"])


def require_driver(options: Options, *, step: str) -> None:
    """Refuse to start where the libraries that read rows are not installed.

    Raises:
        InvalidStep: (JDBC-037) with the command that installs them.
    """
    kind = address_of(options["url"], kinds=READABLE).kind
    try:
        match kind:
            case "postgresql":
                import adbc_driver_postgresql as _driver  # noqa: F401
            case "mysql":
                import connectorx as _connectorx  # noqa: F401
                import pymysql as _pymysql  # noqa: F401
    except ModuleNotFoundError as missing:
        msg = f"reading from {kind} needs a library that is not installed"
        hint = f"pip install 'millstream[{_EXTRAS[kind]}]', on the workers too"
        raise InvalidStep(msg, code="JDBC-037", step=step, found=missing.name, hint=hint) from None
