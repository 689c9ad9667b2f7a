"""`Metadata`: the service's database, opened; every act is one transaction of it."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from millstream.control.metadata.postgres import connected
from millstream.database.url import DatabaseUrl, address_of
from millstream.errors import ExternalFailure, InvalidStep
from millstream.redaction import shown_url

Clock = Callable[[], dt.datetime]
_BUSY_MS = 5000
_PRAGMAS = ("journal_mode=wal", "synchronous=full", "foreign_keys=on", f"busy_timeout={_BUSY_MS}")
"""Per connection: SQLite takes orphan rows otherwise, and gives up at once where another writes."""
_AWAY = (OperationalError, InterfaceError, PoolTimeoutError)
"""It does not answer, or every connection of this process waits for it already."""
_FULL = "disk is full"
"""What SQLite says then; PostgreSQL, which goes on without writing, says `No space left on device` in an error of its own."""
_DAMAGED = ("file is not a database", "malformed")
_READS: dict[str, Any] = {"reads": True}
PATIENCE = 30.0
"""Seconds that PostgreSQL has for an answer; then the connection is given up, and a new one made."""


def utc_now() -> dt.datetime:
    """This machine's clock."""
    return dt.datetime.now(dt.UTC)


class Metadata:
    """Tables of the service in SQLite or PostgreSQL.

    Args:
        url: `sqlite:///path` or `postgresql://user@host/database`.
        clock: what time it is, for tests; without one, SQLite goes by this machine, PostgreSQL by the server's clock.
        patience: seconds that PostgreSQL has for an answer; `None` for as long as it takes.
    """

    def __init__(self, url: str, *, clock: Clock | None = None, patience: float | None = PATIENCE) -> None:
        self.url = _checked(url)
        self._given, self._clock = url, clock
        self.engine = _sqlite(self.url) if self.is_sqlite else _postgres(self.url, patience)

    def apart(self, patience: float | None) -> Metadata:
        """The same database over connections of its own."""
        return Metadata(self._given, clock=self._clock, patience=patience)

    @property
    def is_sqlite(self) -> bool:
        """Whether one machine only may use it."""
        return self.url.kind == "sqlite"

    @contextlib.contextmanager
    def begin(self) -> Iterator[Connection]:
        """One transaction: committed at the end of the body, undone where the body raises.

        Raises:
            ExternalFailure: (CTL-002) the database does not answer.
        """
        try:
            with self.engine.begin() as connection:
                yield connection
        except _AWAY as problem:
            raise _unreachable(self.url, problem) from problem
        except DBAPIError as problem:
            if problem.connection_invalidated or any(sign in str(problem) for sign in _DAMAGED):
                raise _unreachable(self.url, problem) from problem
            raise

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """One transaction that writes nothing: in SQLite it waits for no writer, and none waits for it."""
        try:
            with self.engine.connect().execution_options(**_READS) as connection:
                yield connection
        except _AWAY as problem:
            raise _unreachable(self.url, problem) from problem
        except DBAPIError as problem:
            if any(sign in str(problem) for sign in _DAMAGED):
                raise _unreachable(self.url, problem) from problem
            raise

    def now(self, connection: Connection) -> dt.datetime:
        """The time by which leases are judged: no two machines' clocks are compared."""
        if self._clock is not None:
            return self._clock()
        if self.is_sqlite:
            return utc_now()
        told: dt.datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return told.astimezone(dt.UTC)

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()


def _checked(url: str) -> DatabaseUrl:
    try:
        return address_of(url)
    except ValueError as problem:
        msg = "metadata cannot be kept there"
        hint = "pass for example --database sqlite:///metadata.db"
        raise InvalidStep(msg, code="CTL-001", found=shown_url(url), known=str(problem), hint=hint) from None


def _sqlite(url: DatabaseUrl) -> Engine:
    Path(url.path).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        f"sqlite:///{url.path}", connect_args={"check_same_thread": False, "timeout": _BUSY_MS / 1000}
    )

    @event.listens_for(engine, "connect")
    def _prepared(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver's own BEGIN would come too late
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # A transaction that reads first and writes then would find the database busy, without waiting.
        reads = connection.get_execution_options().get("reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _postgres(url: DatabaseUrl, patience: float | None) -> Engine:
    def connect() -> Any:
        return connected(url.driver, patience)

    return create_engine("postgresql+psycopg://", creator=connect, pool_pre_ping=True, pool_size=5, max_overflow=15)


def _unreachable(url: DatabaseUrl, problem: Exception) -> ExternalFailure:
    why = str(problem.__cause__ or problem)
    if any(sign in why for sign in _DAMAGED):
        msg = "the service's database is damaged"
        hint = "put a copy in its place that was made before; keep the damaged file, from which sqlite3's .recover may save rows"
        return ExternalFailure(msg, code="CTL-006", found=f"{url.shown}: {why}", hint=hint)
    is_full = _FULL in why
    msg = "the disk of the service's database is full" if is_full else "the service's database does not answer"
    hint = f"{'make room' if is_full else 'start it'}; what was under way is done again then"
    return ExternalFailure(msg, code="CTL-002", found=f"{url.shown}: {why}", hint=hint)
